import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import {
  LIST_METHODS,
  type ListKind,
  type ListMethod,
  type ServerCapabilities,
  type ServerDescription,
} from '../../protocol/mcp/model.js';
import { GATEWAY } from '../caller.js';
import type { Upstream, WatchEvent } from '../upstream.js';
import { Listing, type Snapshot } from './listing.js';

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
}

/** The number of a server's tools, or why there is none. */
export interface KnownOffer {
  readonly known: boolean;
  readonly count?: number;
  readonly problem?: string;
}

export interface CatalogServerOptions {
  readonly upstream: Upstream;
  /** How long callers wait for a server that has not answered yet, all of them together. */
  readonly patience: number;
  announce(kind: ListKind): void;
  readonly log: { debug(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** What a server says of itself is asked again after this time, where the server is in use. */
const DESCRIPTION_INTERVAL = 60_000;

/** How long the lists wait for the watch that tells of their changes; one that comes later dates them. */
const WATCH_PATIENCE = 500;

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
  readonly lists: Readonly<Record<ListMethod, Listing>>;

  constructor(private readonly options: CatalogServerOptions) {
    const { upstream } = options;
    this.name = upstream.name;
    this.lists = Object.fromEntries(
      LIST_METHODS.map((method) => [
        method,
        new Listing({
          upstream,
          method,
          caller: GATEWAY,
          news: () => this.newsOf(method),
          changed: () => this.options.announce(KIND_OF[method]),
          warn: (message) => this.options.log.warn({ server: this.name }, message),
        }),
      ]),
    ) as Record<ListMethod, Listing>;
  }

  get upstream(): Upstream {
    return this.options.upstream;
  }

  private newsOf(method: ListMethod) {
    const news = this.upstream.listNews(KIND_OF[method]);
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
    if (old && this.upstream.listNews('toolsListChanged') !== 'paused') this.ask().catch(() => {});
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
    for (const method of LIST_METHODS) {
      if (KIND_OF[method] !== event.kind) continue;
      if (event.lapsed) this.lists[method].lapse();
      else this.lists[method].invalidate();
    }
    if (!event.lapsed) this.options.announce(event.kind);
  }

  /** The server's part of a list, for a caller that sees this server alone: it waits, and is told of a failure. */
  async partAlone(method: ListMethod, continuing: boolean): Promise<Part | undefined> {
    await this.describe();
    if (!this.offers(method)) return undefined;
    return this.partOf(this.lists[method], await this.lists[method].load(continuing));
  }

  /** The server's part of a list, for a caller that sees others too and does not wait for this one. */
  async part(method: ListMethod, continuing: boolean): Promise<Part | Missing | undefined> {
    const listing = this.lists[method];
    if (!(await this.described())) return this.missing();
    if (!this.offers(method)) return undefined;
    const snapshot = await listing.within(this.options.patience, continuing);
    return snapshot ? this.partOf(listing, snapshot) : this.missing(listing.failure?.error.message);
  }

  private partOf(listing: Listing, snapshot: Snapshot): Part {
    return { server: this.name, snapshot, ttl: listing.ttl };
  }

  missing(reason = this.failure ?? this.upstream.health().detail ?? 'it has not answered yet'): Missing {
    return { server: this.name, reason };
  }
}

/** What a promise comes to within a time; undefined where that is a failure, or takes longer. */
export async function within<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await Promise.race([
      promise,
      new Promise<undefined>((resolve) => {
        timer = setTimeout(() => resolve(undefined), milliseconds);
      }),
    ]);
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
