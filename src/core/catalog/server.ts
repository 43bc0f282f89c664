import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import {
  type ClientCapabilities,
  LIST_METHODS,
  type ListKind,
  type ListMethod,
  type ServerCapabilities,
  type ServerDescription,
} from '../../protocol/mcp/model.js';
import { GATEWAY } from '../caller.js';
import type { ListNews, Upstream, WatchEvent } from '../upstream.js';
import {
  type CapabilitySet,
  capabilitySet,
  declarationOf,
  lacking,
  NO_CAPABILITIES,
  namesOf,
  sizeOf,
} from './capability-set.js';
import { type Item, Listing, type Snapshot } from './listing.js';
import type { ToolRules } from './tool-rules.js';

export const KIND_OF: Readonly<Record<ListMethod, ListKind>> = {
  'tools/list': 'toolsListChanged',
  'prompts/list': 'promptsListChanged',
  'resources/list': 'resourcesListChanged',
  'resources/templates/list': 'resourcesListChanged',
};

type Offer = 'tools' | 'prompts' | 'resources';

const OFFER_OF: Readonly<Record<ListMethod, Offer>> = {
  'tools/list': 'tools',
  'prompts/list': 'prompts',
  'resources/list': 'resources',
  'resources/templates/list': 'resources',
};

/** Why a server's part of a list is not there. */
export interface Missing {
  readonly server: string;
  readonly reason: string;
}

/** One server's part of a list. */
export interface Part {
  readonly server: string;
  readonly snapshot: Snapshot;
  /** How long callers may use it, in milliseconds. */
  readonly ttl: number;
  /** Clients with other capabilities are shown something else. */
  readonly varies: boolean;
}

/** The number of a server's tools, or why there is none. */
export interface KnownOffer {
  readonly known: boolean;
  readonly count?: number;
  readonly problem?: string;
}

/** What a server has for a list: its part, why that is not there or not whole, or neither where it has no such list. */
export interface Answer {
  readonly part?: Part;
  readonly missing?: Missing;
}

type Lists = Readonly<Record<ListMethod, Listing>>;

export interface CatalogServerOptions {
  readonly upstream: Upstream;
  /** Which of its tools are offered, and under which names. */
  readonly rules: ToolRules;
  /** How long callers wait for a server that has not answered yet, all of them together. */
  readonly patience: number;
  /** Tells of a changed list: that for clients with these capabilities, or those for all. */
  announce(kind: ListKind, set: CapabilitySet | undefined): void;
  readonly log: { debug(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** What a server says of itself is asked again after this time, where the server is in use. */
const DESCRIPTION_INTERVAL = 60_000;

/** How long the lists wait for the watch that tells of their changes; one that comes later dates them. */
const WATCH_PATIENCE = 500;

/** How long a list waits to see what the capabilities of its caller earn, of a server that has answered before. */
const EARNED_PATIENCE = 3_000;

/** How long an outdated list is held back in the hope of a newer one. */
const STALE_PATIENCE = 1_000;

/** What is left of the patience for a server that did not answer, or failed, before. */
const RETRY_PATIENCE = 100;

/** Pauses between attempts to reach a server for the first time. */
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 60_000;

/** One server in the catalogue: what it says of itself, and its lists. */
export class CatalogServer {
  readonly name: string;
  description: ServerDescription | undefined;
  private describedAt = 0;
  private asking: Promise<ServerDescription> | undefined;
  private askedAt = 0;
  private attempts = 0;
  private failure: string | undefined;
  private failures = 0;
  private warming: Promise<void> | undefined;
  private retry: NodeJS.Timeout | undefined;
  private watching = false;
  private closed = false;
  /** The lists for clients without capabilities. */
  readonly lists: Lists;
  /** The lists for clients with capabilities, for each set that some client has. */
  private readonly earned = new Map<CapabilitySet, Lists>();

  constructor(private readonly options: CatalogServerOptions) {
    this.name = options.upstream.name;
    this.lists = this.listsOf(NO_CAPABILITIES);
  }

  private listsOf(set: CapabilitySet): Lists {
    const { upstream, rules, announce, log } = this.options;
    const capabilities = declarationOf(set);
    const listing = (method: ListMethod): Listing =>
      new Listing({
        upstream,
        method,
        rules,
        caller: { ...GATEWAY, capabilities },
        news: () => this.newsOf(method, capabilities),
        changed: () => announce(KIND_OF[method], set === NO_CAPABILITIES ? undefined : set),
        warn: (message) => log.warn({ server: this.name }, message),
        ...(set !== NO_CAPABILITIES && { plain: this.lists[method] }),
      });
    return Object.fromEntries(LIST_METHODS.map((method) => [method, listing(method)])) as unknown as Lists;
  }

  /** The lists that clients with these capabilities are shown. */
  listsFor(set: CapabilitySet): Lists {
    if (set === NO_CAPABILITIES) return this.lists;
    let lists = this.earned.get(set);
    if (!lists) {
      lists = this.listsOf(set);
      this.earned.set(set, lists);
    }
    return lists;
  }

  get upstream(): Upstream {
    return this.options.upstream;
  }

  private newsOf(method: ListMethod, capabilities: ClientCapabilities): ListNews {
    const news = this.upstream.listNews(KIND_OF[method], capabilities);
    return news === 'pushed' && !this.announces(OFFER_OF[method]) ? 'polled' : news;
  }

  private announces(offer: Offer): boolean {
    return this.description?.capabilities[offer]?.['listChanged'] === true;
  }

  offers(method: ListMethod): boolean {
    return this.description?.capabilities[OFFER_OF[method]] !== undefined;
  }

  /** What is known of the server's tools at the moment; asks nobody. */
  offer(): KnownOffer {
    if (!this.description) return { known: false };
    if (!this.offers('tools/list')) return { known: true, count: 0 };
    const { snapshot, failure } = this.lists['tools/list'];
    const problem = failure?.error.message;
    return {
      known: snapshot !== undefined || problem !== undefined,
      ...(snapshot && { count: snapshot.items.length }),
      ...(problem !== undefined && { problem }),
    };
  }

  /** Connects and reads the lists. Never fails; what does not work is tried again in the background. */
  warm(): Promise<void> {
    this.warming ??= this.connect().finally(() => {
      this.warming = undefined;
    });
    return this.warming;
  }

  private async connect(): Promise<void> {
    clearTimeout(this.retry);
    try {
      if (!this.description) await this.ask();
      await Promise.all(LIST_METHODS.map((method) => this.fill(this.lists[method])));
      this.failures = 0;
      this.failure = undefined;
    } catch (error) {
      const why = (error as Error).message;
      if (this.closed) return;
      if (why !== this.failure) this.options.log.debug({ server: this.name, why }, 'a server is not available yet');
      this.failure = why;
      const pause = Math.min(FIRST_PAUSE * 2 ** this.failures++, LONGEST_PAUSE) * (0.5 + Math.random());
      this.retry = setTimeout(() => void this.warm(), pause).unref();
    }
  }

  private async fill(listing: Listing): Promise<void> {
    if (this.offers(listing.method) && !listing.snapshot) await listing.load();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
  }

  /** What the server says of itself. A caller that has nothing else to show waits, and is told of a failure. */
  async describe(): Promise<ServerDescription> {
    if (!this.description) return this.first();
    // A program that nobody uses is not started for this.
    const old = performance.now() - this.describedAt > DESCRIPTION_INTERVAL;
    if (old && this.upstream.listNews('toolsListChanged', {}) !== 'paused') this.ask().catch(() => {});
    return this.description;
  }

  /**
   * What the server says of itself, as far as that can be had now. A server that has not answered yet is waited for once,
   * by all callers together; after that they are told when it comes.
   */
  async described(): Promise<ServerDescription | undefined> {
    if (this.description) return this.describe();
    const asking = this.first();
    const patience = this.attempts > 1 ? RETRY_PATIENCE : this.options.patience;
    const left = this.askedAt + patience - performance.now();
    const description = left > 0 ? await within(asking, left) : undefined;
    if (!description) for (const method of LIST_METHODS) this.lists[method].owe();
    return description;
  }

  /** The lists follow, so that callers that were answered without this server are told. */
  private first(): Promise<ServerDescription> {
    void this.warm();
    return this.ask();
  }

  /** Asked once for all who want to know. */
  private ask(): Promise<ServerDescription> {
    if (!this.asking) {
      this.attempts++;
      this.askedAt = performance.now();
      const over = (): void => {
        this.asking = undefined;
      };
      this.asking = this.learn();
      this.asking.then(over, over);
    }
    return this.asking;
  }

  private async learn(): Promise<ServerDescription> {
    const description = await this.upstream.describe();
    this.describedAt = performance.now();
    this.description = description;
    if (!this.watching) await within(this.watch(description.capabilities), WATCH_PATIENCE);
    return description;
  }

  private async watch({ tools, prompts, resources }: ServerCapabilities): Promise<void> {
    this.watching = true;
    const filter = {
      ...(tools?.['listChanged'] === true && { toolsListChanged: true }),
      ...(prompts?.['listChanged'] === true && { promptsListChanged: true }),
      ...(resources?.['listChanged'] === true && { resourcesListChanged: true }),
    };
    if (Object.keys(filter).length === 0) return;
    const began = performance.now();
    await this.upstream.keepWatching(filter, (event) => this.heard(event));
    // Lists that did not wait for the watch may have changed before it was there.
    if (performance.now() - began < WATCH_PATIENCE) return;
    for (const method of LIST_METHODS) this.lists[method].lapse();
  }

  private heard(event: WatchEvent): void {
    if (event.kind === 'resourceUpdated' || event.kind === 'task') return;
    const { kind, lapsed } = event;
    const concerned = event.for && capabilitySet(event.for);
    for (const [set, lists] of [[NO_CAPABILITIES, this.lists] as const, ...this.earned]) {
      if (!this.concerns(set, kind, concerned)) continue;
      for (const method of LIST_METHODS) {
        if (KIND_OF[method] !== kind) continue;
        if (lapsed) lists[method].lapse();
        else lists[method].invalidate();
      }
    }
    if (!lapsed) this.options.announce(kind, concerned || undefined);
  }

  /** Lists that nothing is heard of change with those for clients without capabilities, for all that is known. */
  private concerns(set: CapabilitySet, kind: ListKind, concerned: CapabilitySet | undefined): boolean {
    if (concerned === undefined || set === concerned) return true;
    return concerned === NO_CAPABILITIES && this.upstream.listNews(kind, declarationOf(set)) !== 'pushed';
  }

  /** The server's part of a list, for a caller that sees this server alone: it waits, and is told of a failure. */
  async partAlone(method: ListMethod, set: CapabilitySet, continuing: boolean): Promise<Answer> {
    await this.describe();
    if (!this.offers(method)) return {};
    if (set === NO_CAPABILITIES) return this.answer(method, this.lists[method], await this.loaded(method, continuing));
    return this.earnedPart(method, set, continuing, () => this.loaded(method, continuing));
  }

  /** A list that is at hand is not held back for long. */
  private async loaded(method: ListMethod, continuing: boolean): Promise<Snapshot> {
    const listing = this.lists[method];
    const loading = listing.load(continuing);
    if (!listing.snapshot) return loading;
    return (await inTime(loading, STALE_PATIENCE)) ?? listing.snapshot;
  }

  /** The server's part of a list, for a caller that sees others too and does not wait for this one. */
  async part(method: ListMethod, set: CapabilitySet, continuing: boolean): Promise<Answer> {
    if (!(await this.described())) return { missing: this.missing() };
    if (!this.offers(method)) return {};
    const plain = (): Promise<Snapshot | undefined> => this.lists[method].within(this.options.patience, continuing);
    if (set === NO_CAPABILITIES) return this.answer(method, this.lists[method], await plain());
    return this.earnedPart(method, set, continuing, plain);
  }

  /** The part that the caller's capabilities earn; until it is known, what everybody is shown. */
  private async earnedPart(
    method: ListMethod,
    set: CapabilitySet,
    continuing: boolean,
    plain: () => Promise<Snapshot | undefined>,
  ): Promise<Answer> {
    const earned = this.listsFor(set)[method];
    const snapshot = await earned.within(EARNED_PATIENCE, continuing);
    if (snapshot) return this.answer(method, earned, snapshot);
    const reason =
      earned.failure?.error.message ?? `it has not listed yet what clients with ${namesOf(set).join(', ')} see`;
    return { ...this.answer(method, this.lists[method], await plain()), missing: this.missing(reason) };
  }

  private answer(method: ListMethod, listing: Listing, snapshot: Snapshot | undefined): Answer {
    if (!snapshot) return { missing: this.missing(listing.failure?.error.message) };
    return { part: { server: this.name, snapshot, ttl: listing.ttl, varies: this.varies(method) } };
  }

  /** Whether clients are shown different things, by their capabilities. */
  private varies(method: ListMethod): boolean {
    const items = this.lists[method].snapshot?.items;
    for (const lists of this.earned.values()) {
      const { snapshot } = lists[method];
      if (snapshot && snapshot.items !== items) return true;
    }
    return false;
  }

  missing(reason = this.failure ?? this.upstream.health().detail ?? 'it has not answered yet'): Missing {
    return { server: this.name, reason };
  }

  /** A tool as it is known at the moment to clients with these capabilities, by the name it is offered under; asks nobody. */
  knownTool(name: string, set: CapabilitySet): Item | undefined {
    const earned = set === NO_CAPABILITIES ? undefined : this.earned.get(set)?.['tools/list'].snapshot;
    return (earned ?? this.lists['tools/list'].snapshot)?.byKey.get(name);
  }

  /** The own name of a tool whose list cannot be had. Throws where the tool is not offered. */
  ownTool(name: string): string {
    const own = this.options.rules.ownerOf(name);
    if (own !== undefined) return own;
    throw new ProtocolError('tool_not_found', `Unknown tool: ${name}`, { data: { name, server: this.name } });
  }

  /**
   * A tool that is not known yet: the list is read, or read again if it may be old. Throws where the list is there and the
   * tool is not in it; undefined where the list cannot be had, and the server itself has to say.
   */
  async tool(name: string, set: CapabilitySet): Promise<Item | undefined> {
    const snapshot = await this.tools(set);
    if (!snapshot) return undefined;
    const item = snapshot.byKey.get(name);
    if (item) return item;
    throw this.unknownTool(name, set);
  }

  /** The tools as far as they can be had without waiting for long. */
  async tools(set: CapabilitySet): Promise<Snapshot | undefined> {
    const patience = set === NO_CAPABILITIES ? this.options.patience : EARNED_PATIENCE;
    return this.listsFor(set)['tools/list'].within(patience);
  }

  /** A tool may be there for clients that can do more: who may know the server is told what is lacking. */
  private unknownTool(name: string, set: CapabilitySet): ProtocolError {
    let least: CapabilitySet | undefined;
    for (const [other, lists] of this.earned) {
      const more = lacking(set, other);
      if (more === NO_CAPABILITIES || !lists['tools/list'].snapshot?.byKey.has(name)) continue;
      if (least === undefined || sizeOf(more) < sizeOf(least)) least = more;
    }
    const data = { name, server: this.name };
    if (least === undefined) return new ProtocolError('tool_not_found', `Unknown tool: ${name}`, { data });
    return new ProtocolError(
      'missing_capability',
      `Server "${this.name}" offers tool "${name}" to clients that declare ${namesOf(least).join(' and ')}`,
      { outcome: 'not_executed', data: { ...data, requiredCapabilities: declarationOf(least) } },
    );
  }
}

/** What a promise comes to within a time; undefined where that takes longer. */
async function inTime<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The same; undefined where it fails, too. */
export async function within<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  try {
    return await inTime(promise, milliseconds);
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return undefined;
    throw error;
  }
}
