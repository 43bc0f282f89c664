import { ProtocolError } from '../../protocol/errors.js';
import {
  type Implementation,
  LIST_METHODS,
  type ListKind,
  type ListMethod,
  type ServerCapabilities,
  type ServerDescription,
} from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import type { Missing } from '../gateway.js';
import type { ServerFinding } from '../hygiene/server-lint.js';
import type { DefinitionCheck } from '../pinning/definition-check.js';
import type { PinKind } from '../pinning/definition-hash.js';
import { Backoff } from '../timing.js';
import type { Upstream } from '../upstream.js';
import { answeredWithin } from './answered-within.js';
import { type CapabilitySet, NO_CAPABILITIES, namesOf } from './capability-set.js';
import { ServerLists } from './lists-by-capability-set.js';
import type { Item, Listing, Snapshot } from './server-list-cache.js';
import type { ToolRules } from './tool-rules.js';

/** One server's part of a list. */
export interface Part {
  readonly server: string;
  readonly snapshot: Snapshot;
  /** How long callers may cache the part, in milliseconds. */
  readonly ttl: number;
  /** Whether clients with other capabilities see a different list. */
  readonly varies: boolean;
  /** The name and the description that the server gives itself. */
  readonly info?: Implementation | undefined;
  /** How much the operator trusts the server's descriptions, from 0 to 1. */
  readonly trust: number;
}

/** The number of a server's tools, or why it is unknown. */
export interface KnownOffer {
  readonly known: boolean;
  readonly count?: number;
  readonly problem?: string;
}

/**
 * A server's answer for a list: its part, the reason why the part is missing or incomplete, or neither if the server
 * has no such list.
 */
export interface Answer {
  readonly part?: Part;
  readonly missing?: Missing;
}

export interface CatalogServerOptions {
  readonly upstream: Upstream;
  /** The rules for which tools are offered, and under which names. */
  readonly rules: ToolRules;
  /** Compares definitions with the pinned ones; undefined if they are not compared. */
  readonly pins?: DefinitionCheck | undefined;
  /** The groups of the server, by which views select. */
  readonly groups?: readonly string[];
  /** How long callers wait for a server that has not answered yet, in milliseconds. All callers share one wait. */
  readonly patience: number;
  /**
   * Reports a changed list: the list for clients with these capabilities, or for undefined the lists for all clients.
   */
  announce(kind: ListKind, set: CapabilitySet | undefined): void;
  readonly log: Log;
}

/** The description of a server is read again after this time, if a caller needs the description. */
const DESCRIPTION_INTERVAL = 60_000;

/** How long the first read of the lists waits for the watch. If the watch starts later, the lists count as outdated. */
const WATCH_PATIENCE = 500;

/** How long a caller waits for the list of its capability set, at a server that has answered before. */
const SET_PATIENCE = 3_000;

/** How long callers wait for a server whose earlier attempts failed or did not answer. */
const RETRY_PATIENCE = 100;

/** Pauses between attempts to reach a server for the first time. */
const PAUSES = { first: 1_000, longest: 60_000, jitter: 0.5 };

const NO_GROUPS: readonly string[] = [];

/** One server in the catalog: its description and its lists. */
export class CatalogServer {
  readonly name: string;
  description: ServerDescription | undefined;
  /** The description, including withheld instructions. */
  private complete: ServerDescription | undefined;
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
    options.pins?.onChange(() => this.withholdInstructions());
  }

  get groups(): readonly string[] {
    return this.options.groups ?? NO_GROUPS;
  }

  /** The problems of the tools' definitions, as of the last list. */
  get findings(): readonly ServerFinding[] {
    return this.options.rules.lint.findings;
  }

  get upstream(): Upstream {
    return this.options.upstream;
  }

  private offers(method: ListMethod): boolean {
    return this.lists.offers(method);
  }

  /** The known state of the server's tools. Sends no request. */
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

  /** The items of all lists of the server, if every list is known. Sends no request. */
  knownLists(): Partial<Record<ListMethod, readonly Item[]>> | undefined {
    if (!this.description) return undefined;
    const known: Partial<Record<ListMethod, readonly Item[]>> = {};
    for (const method of LIST_METHODS) {
      if (!this.offers(method)) continue;
      const { snapshot } = this.lists.plain[method];
      if (!snapshot) return undefined;
      known[method] = snapshot.items;
    }
    return known;
  }

  /** Connects and reads the lists. Never fails: failed attempts are repeated in the background. */
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
      if (why !== this.failure) this.options.log.debug({ server: this.name, why }, 'cannot reach the server yet');
      this.failure = why;
      this.retry = setTimeout(() => void this.warm(), this.pauses.next()).unref();
    }
  }

  /** Called when callers got an answer without this server. They are notified when the lists of the server arrive. */
  announceOnArrival(): void {
    for (const method of LIST_METHODS) this.lists.plain[method].announceOnArrival();
  }

  private async fill(listing: Listing): Promise<void> {
    if (this.offers(listing.method) && !listing.snapshot) await listing.load();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    this.options.pins?.close();
  }

  /** The server's description. Waits for the server, and rejects if it fails. */
  async describe(): Promise<ServerDescription> {
    if (!this.description) return this.first();
    // A stopped process is not started to refresh its description.
    const old = performance.now() - this.describedAt > DESCRIPTION_INTERVAL;
    if (old && this.upstream.listNews('toolsListChanged', {}) !== 'paused') this.ask().catch(() => {});
    return this.description;
  }

  /**
   * The server's description, if it arrives in time. All callers share one wait for a server that has not answered yet;
   * later callers are notified when it answers.
   */
  async described(): Promise<ServerDescription | undefined> {
    if (this.description) return this.describe();
    const asking = this.first();
    const patience = this.attempts > 1 ? RETRY_PATIENCE : this.options.patience;
    const left = this.askedAt + patience - performance.now();
    const description = left > 0 ? await answeredWithin(asking, left) : undefined;
    if (!description) this.announceOnArrival();
    return description;
  }

  /** Reads the lists too, so that callers that got an answer without this server are notified. */
  private first(): Promise<ServerDescription> {
    void this.warm();
    return this.ask();
  }

  /** One request serves all callers. */
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
    const complete = await this.upstream.describe();
    const description = await this.shown(complete);
    this.describedAt = performance.now();
    this.complete = complete;
    this.description = description;
    if (!this.watching) await answeredWithin(this.watch(description.capabilities), WATCH_PATIENCE);
    return description;
  }

  /** The description without instructions that wait for an approval. */
  private shown(complete: ServerDescription): ServerDescription | Promise<ServerDescription> {
    const { pins } = this.options;
    const { instructions } = complete;
    if (!pins || !instructions) return complete;
    if (instructions === this.complete?.instructions) return this.withInstructions(complete);
    return pins.instructions(instructions).then((text) => describedWith(complete, text));
  }

  private withInstructions(complete: ServerDescription): ServerDescription {
    const { instructions } = complete;
    const { pins } = this.options;
    return instructions && pins ? describedWith(complete, pins.shownInstructions(instructions)) : complete;
  }

  private withholdInstructions(): void {
    if (this.complete) this.description = this.withInstructions(this.complete);
  }

  /** Whether an item waits for an approval and must look like one that does not exist. */
  withholds(kind: PinKind, own: string): boolean {
    return this.options.pins?.withholds(kind, own) ?? false;
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
    // The lists were read before the watch started, and may have changed in between.
    if (performance.now() - began < WATCH_PATIENCE) return;
    this.lists.lapse();
  }

  /** The server's part of a list, for a view of this server alone. Waits for the server, and rejects if it fails. */
  async partAlone(method: ListMethod, set: CapabilitySet, continuing: boolean): Promise<Answer> {
    await this.describe();
    if (!this.offers(method)) return {};
    const plain = this.lists.plain[method];
    if (set === NO_CAPABILITIES) return this.answer(plain, await plain.atHand(continuing));
    return this.partForSet(method, set, continuing, () => plain.atHand(continuing));
  }

  /** The server's part of a list, for a view of several servers. Waits a limited time. */
  async part(method: ListMethod, set: CapabilitySet, continuing: boolean): Promise<Answer> {
    if (!(await this.described())) return { missing: this.missing() };
    if (!this.offers(method)) return {};
    const plain = this.lists.plain[method];
    const inTime = (): Promise<Snapshot | undefined> => plain.within(this.options.patience, continuing);
    return set === NO_CAPABILITIES
      ? this.answer(plain, await inTime())
      : this.partForSet(method, set, continuing, inTime);
  }

  /**
   * The part for the caller's capability set. While that part is not known, the part for clients without capabilities.
   */
  private async partForSet(
    method: ListMethod,
    set: CapabilitySet,
    continuing: boolean,
    plain: () => Promise<Snapshot | undefined>,
  ): Promise<Answer> {
    const listing = this.lists.for(set)[method];
    const snapshot = await listing.within(SET_PATIENCE, continuing);
    if (snapshot) return this.answer(listing, snapshot);
    const reason =
      listing.failure?.error.message ??
      `the server has not answered yet for clients that declare ${namesOf(set).join(', ')}`;
    return { ...this.answer(this.lists.plain[method], await plain()), missing: this.missing(reason) };
  }

  private answer(listing: Listing, snapshot: Snapshot | undefined): Answer {
    if (!snapshot) return { missing: this.missing(listing.failure?.error.message) };
    const { ttl, method } = listing;
    const info = this.description?.serverInfo;
    const { trust } = this.options.rules;
    return { part: { server: this.name, snapshot, ttl, varies: this.lists.vary(method), info, trust } };
  }

  missing(reason = this.failure ?? this.upstream.health().detail ?? 'the server has not answered yet'): Missing {
    return { server: this.name, reason };
  }

  /** See `ServerLists.knownTool`. */
  knownTool(name: string, set: CapabilitySet): Item | undefined {
    return this.lists.knownTool(name, set);
  }

  /** Reads the tools again, even if the list is fresh. */
  async refreshTools(set: CapabilitySet): Promise<void> {
    const listing = this.lists.for(set)['tools/list'];
    listing.lapse();
    await listing.load().catch(() => {});
  }

  /** The own name of a tool whose list is unavailable. Throws if the rules do not offer the tool. */
  ownTool(name: string): string {
    const own = this.options.rules.ownerOf(name);
    if (own !== undefined) return own;
    throw new ProtocolError('tool_not_found', `Unknown tool: ${name}`, { data: { name, server: this.name } });
  }

  /**
   * Finds a tool that is not known yet. Reads the list if the cached list is not fresh. Throws if the list does not
   * contain the tool. Returns undefined if the list is unavailable; the call then goes to the server.
   */
  async tool(name: string, set: CapabilitySet): Promise<Item | undefined> {
    const snapshot = await this.tools(set);
    if (!snapshot) {
      if (this.withholds('tool', this.ownTool(name))) throw this.lists.unknownTool(name, set);
      return undefined;
    }
    const item = snapshot.byKey.get(name);
    if (item) return item;
    throw this.lists.unknownTool(name, set);
  }

  /** The list of tools, after a limited wait. */
  async tools(set: CapabilitySet): Promise<Snapshot | undefined> {
    const patience = set === NO_CAPABILITIES ? this.options.patience : SET_PATIENCE;
    return this.lists.for(set)['tools/list'].within(patience);
  }
}

function describedWith(complete: ServerDescription, instructions: string | undefined): ServerDescription {
  if (instructions === complete.instructions) return complete;
  const { instructions: _, ...rest } = complete;
  return rest;
}
