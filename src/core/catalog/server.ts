import { ProtocolError } from '../../protocol/errors.js';
import {
  LIST_METHODS,
  type ListKind,
  type ListMethod,
  type ServerCapabilities,
  type ServerDescription,
} from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import type { Missing } from '../gateway.js';
import { Backoff } from '../timing.js';
import type { Upstream } from '../upstream.js';
import { answeredWithin } from './answered-within.js';
import { type CapabilitySet, NO_CAPABILITIES, namesOf } from './capability-set.js';
import type { Item, Listing, Snapshot } from './listing.js';
import { ServerLists } from './server-lists.js';
import type { ToolRules } from './tool-rules.js';

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

export interface CatalogServerOptions {
  readonly upstream: Upstream;
  /** Which of its tools are offered, and under which names. */
  readonly rules: ToolRules;
  /** The groups it is in, by which views choose. */
  readonly groups?: readonly string[];
  /** How long callers wait for a server that has not answered yet, all of them together. */
  readonly patience: number;
  /** Tells of a changed list: that for clients with these capabilities, or those for all. */
  announce(kind: ListKind, set: CapabilitySet | undefined): void;
  readonly log: Log;
}

/** What a server says of itself is asked again after this time, where the server is in use. */
const DESCRIPTION_INTERVAL = 60_000;

/** How long the lists wait for the watch that tells of their changes; one that comes later dates them. */
const WATCH_PATIENCE = 500;

/** How long a list waits to see what the capabilities of its caller earn, of a server that has answered before. */
const EARNED_PATIENCE = 3_000;

/** What is left of the patience for a server that did not answer, or failed, before. */
const RETRY_PATIENCE = 100;

/** Pauses between attempts to reach a server for the first time. */
const PAUSES = { first: 1_000, longest: 60_000, jitter: 0.5 };

const NO_GROUPS: readonly string[] = [];

/** One server in the catalog: what it says of itself, and its lists. */
export class CatalogServer {
  readonly name: string;
  description: ServerDescription | undefined;
  private describedAt = 0;
  private asking: Promise<ServerDescription> | undefined;
  private askedAt = 0;
  private attempts = 0;
  private failure: string | undefined;
  private readonly pauses = new Backoff(PAUSES);
  private warming: Promise<void> | undefined;
  private retry: NodeJS.Timeout | undefined;
  private watching = false;
  private closed = false;
  private readonly lists: ServerLists;

  constructor(private readonly options: CatalogServerOptions) {
    this.name = options.upstream.name;
    this.lists = new ServerLists({ ...options, description: () => this.description });
  }

  get groups(): readonly string[] {
    return this.options.groups ?? NO_GROUPS;
  }

  get upstream(): Upstream {
    return this.options.upstream;
  }

  private offers(method: ListMethod): boolean {
    return this.lists.offers(method);
  }

  /** What is known of the server's tools at the moment; asks nobody. */
  offer(): KnownOffer {
    if (!this.description) return { known: false };
    if (!this.offers('tools/list')) return { known: true, count: 0 };
    const { snapshot, failure } = this.lists.plain['tools/list'];
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
      await Promise.all(LIST_METHODS.map((method) => this.fill(this.lists.plain[method])));
      this.pauses.reset();
      this.failure = undefined;
    } catch (error) {
      const why = (error as Error).message;
      if (this.closed) return;
      if (why !== this.failure) this.options.log.debug({ server: this.name, why }, 'a server is not available yet');
      this.failure = why;
      this.retry = setTimeout(() => void this.warm(), this.pauses.next()).unref();
    }
  }

  /** Callers were answered without this server: they are told when its lists are there. */
  owe(): void {
    for (const method of LIST_METHODS) this.lists.plain[method].owe();
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
    const description = left > 0 ? await answeredWithin(asking, left) : undefined;
    if (!description) this.owe();
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
    if (!this.watching) await answeredWithin(this.watch(description.capabilities), WATCH_PATIENCE);
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
    await this.upstream.keepWatching(filter, (event) => this.lists.heard(event));
    // Lists that did not wait for the watch may have changed before it was there.
    if (performance.now() - began < WATCH_PATIENCE) return;
    this.lists.lapse();
  }

  /** The server's part of a list, for a caller that sees this server alone: it waits, and is told of a failure. */
  async partAlone(method: ListMethod, set: CapabilitySet, continuing: boolean): Promise<Answer> {
    await this.describe();
    if (!this.offers(method)) return {};
    const plain = this.lists.plain[method];
    if (set === NO_CAPABILITIES) return this.answer(plain, await plain.atHand(continuing));
    return this.earnedPart(method, set, continuing, () => plain.atHand(continuing));
  }

  /** The server's part of a list, for a caller that sees others too and does not wait for this one. */
  async part(method: ListMethod, set: CapabilitySet, continuing: boolean): Promise<Answer> {
    if (!(await this.described())) return { missing: this.missing() };
    if (!this.offers(method)) return {};
    const plain = this.lists.plain[method];
    const inTime = (): Promise<Snapshot | undefined> => plain.within(this.options.patience, continuing);
    return set === NO_CAPABILITIES
      ? this.answer(plain, await inTime())
      : this.earnedPart(method, set, continuing, inTime);
  }

  /** The part that the caller's capabilities earn; until it is known, what everybody is shown. */
  private async earnedPart(
    method: ListMethod,
    set: CapabilitySet,
    continuing: boolean,
    plain: () => Promise<Snapshot | undefined>,
  ): Promise<Answer> {
    const earned = this.lists.for(set)[method];
    const snapshot = await earned.within(EARNED_PATIENCE, continuing);
    if (snapshot) return this.answer(earned, snapshot);
    const reason =
      earned.failure?.error.message ?? `it has not listed yet what clients with ${namesOf(set).join(', ')} see`;
    return { ...this.answer(this.lists.plain[method], await plain()), missing: this.missing(reason) };
  }

  private answer(listing: Listing, snapshot: Snapshot | undefined): Answer {
    if (!snapshot) return { missing: this.missing(listing.failure?.error.message) };
    return { part: { server: this.name, snapshot, ttl: listing.ttl, varies: this.lists.vary(listing.method) } };
  }

  missing(reason = this.failure ?? this.upstream.health().detail ?? 'it has not answered yet'): Missing {
    return { server: this.name, reason };
  }

  /** See `ServerLists.knownTool`. */
  knownTool(name: string, set: CapabilitySet): Item | undefined {
    return this.lists.knownTool(name, set);
  }

  /** Reads the tools again, whatever is known of them. */
  async refreshTools(set: CapabilitySet): Promise<void> {
    const listing = this.lists.for(set)['tools/list'];
    listing.lapse();
    await listing.load().catch(() => {});
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
    throw this.lists.unknownTool(name, set);
  }

  /** The tools as far as they can be had without waiting for long. */
  async tools(set: CapabilitySet): Promise<Snapshot | undefined> {
    const patience = set === NO_CAPABILITIES ? this.options.patience : EARNED_PATIENCE;
    return this.lists.for(set)['tools/list'].within(patience);
  }
}
