import { createHash } from 'node:crypto';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import { type MirroredParam, mirroredParams } from '../../protocol/mcp/headers.js';
import { isObject, LIST_MEMBER, type ListMethod } from '../../protocol/mcp/model.js';
import { refusalIn } from '../../protocol/mcp/upstream-error.js';
import { type Caller, Cancellation } from '../caller.js';
import { within } from '../timing.js';
import type { ListNews, Upstream } from '../upstream.js';
import type { ToolRules } from './tool-rules.js';

/** One thing a server offers, as the server wrote it. */
export interface Item {
  /** The name or URI it is offered under, before any prefix. */
  readonly key: string;
  /** Its own name or URI: what identifies it at its server. */
  readonly own: string;
  readonly value: JsonObject;
  /** Arguments to be repeated in headers, for tools. */
  readonly mirrored: readonly MirroredParam[];
}

/** A list as the server gave it. Equal lists share `items` and `byKey`, so what is made from them is made once. */
export interface Snapshot {
  readonly items: readonly Item[];
  readonly byKey: ReadonlyMap<string, Item>;
  /** Equal for equal lists. */
  readonly digest: string;
  readonly at: number;
  /** How long the server says the list is fresh, in milliseconds; undefined where its revision has no word for that. */
  readonly ttl: number | undefined;
  readonly scope: 'public' | 'private';
}

export interface ListingOptions {
  readonly upstream: Upstream;
  readonly method: ListMethod;
  /** On whose behalf the list is asked for. */
  readonly caller: Caller;
  /** How a change of the list becomes known. */
  news(): ListNews;
  /** The list for clients without capabilities, where this one is for others. */
  readonly plain?: Listing;
  /** Which tools are offered, and under which names. */
  readonly rules?: ToolRules;
  /** Called when callers hold an older list than the one that came in, and no announcement was made. */
  changed(): void;
  warn(message: string): void;
}

const NO_MIRRORS: readonly MirroredParam[] = [];

/** Bounds on what one server may put into the catalog. */
const MOST_PAGES = 1_000;
const MOST_ITEMS = 50_000;
const MOST_WARNINGS = 1_000;

/** How long a list is used where the server gives no time itself, by how its changes become known. */
const INTERVAL: Readonly<Record<ListNews, number>> = {
  // The server announces changes; asking again now and then heals an announcement that was lost.
  pushed: 10 * 60_000,
  polled: 60_000,
  // The server is not running, so its list does not change; a new version of it may be installed meanwhile.
  paused: 60 * 60_000,
};

/** A server that wants no caching at all (`ttlMs: 0`) is asked once in this time, however many callers list. */
const LEAST_INTERVAL = 1_000;

/** The longest time a server may ask for. */
const MOST_TTL = 24 * 60 * 60_000;

/** What callers are told of lists whose server gives no time. */
const OWN_TTL = 60_000;

/** For so long after a failure nobody waits for the next attempt. */
const FAILURE_PAUSE = 5_000;

/** How long an outdated list is held back in the hope of a newer one. */
const STALE_PATIENCE = 1_000;

const KEY: Readonly<Record<ListMethod, string>> = {
  'tools/list': 'name',
  'prompts/list': 'name',
  'resources/list': 'uri',
  'resources/templates/list': 'uriTemplate',
};

type Failure = ProtocolError | UpstreamRpcError;

/**
 * One list of one server: fetched once for all callers that want it, used while it is fresh, and used beyond that while
 * nothing newer is to be had.
 */
export class Listing {
  snapshot: Snapshot | undefined;
  private fetching: { readonly promise: Promise<Snapshot>; readonly since: number } | undefined;
  /** The fetch that follows the one under way, which began before the list changed. */
  private next: Promise<Snapshot> | undefined;
  /** Why the last attempt failed, and when; cleared by the next that works. */
  failure: { readonly error: Failure; readonly at: number } | undefined;
  private outdated = false;
  /** The server announced the change, and so did the gateway. */
  private announced = false;
  /** Callers were answered without the list. */
  private owed = false;
  /** A caller waited in vain. Nobody waits again until the server answers. */
  private slow = false;
  private readonly warned = new Set<string>();
  /** When it was fetched last, the list was that for clients without capabilities. */
  private asPlain = false;

  constructor(private readonly options: ListingOptions) {}

  get method(): ListMethod {
    return this.options.method;
  }

  /** The server announced a change, and callers were told. */
  invalidate(): void {
    this.outdated = true;
    this.announced = true;
  }

  /** A change may have gone unnoticed. A list that is being fetched is newer than that. */
  lapse(): void {
    if (!this.fetching) this.outdated = true;
  }

  /** Callers were answered without this list: they are told when it is there. */
  owe(): void {
    this.owed = true;
  }

  /** Whether the list can be used as it is. The further pages of a list come from where its first page came from. */
  isFresh(continuing = false): boolean {
    const { snapshot } = this;
    if (!snapshot || this.outdated || this.fetching) return false;
    const interval = this.interval(snapshot);
    return performance.now() - snapshot.at < (continuing ? Math.max(interval, INTERVAL.polled) : interval);
  }

  private interval({ ttl }: Snapshot): number {
    const news = this.options.news();
    if (news === 'paused') return Math.max(ttl ?? 0, INTERVAL.paused);
    if (ttl === undefined) return INTERVAL[news];
    if (ttl > 0) return ttl;
    return news === 'pushed' ? INTERVAL.pushed : LEAST_INTERVAL;
  }

  /** How long callers may use the list, in milliseconds. */
  get ttl(): number {
    const { snapshot } = this;
    if (!snapshot || this.outdated || this.fetching) return 0;
    const remaining = snapshot.at + this.interval(snapshot) - performance.now();
    if (snapshot.ttl !== undefined && snapshot.ttl > 0) return Math.max(0, Math.floor(remaining));
    if (snapshot.ttl === 0 && this.options.news() === 'polled') return 0;
    return Math.max(0, Math.floor(Math.min(remaining, OWN_TTL)));
  }

  /** The newest list, fetched now unless it is fresh. */
  load(continuing = false): Promise<Snapshot> {
    if (this.isFresh(continuing)) return Promise.resolve(this.snapshot!);
    if (!this.fetching) return this.followed(continuing) ?? this.begin();
    // What is under way was asked for before the change.
    if (!this.outdated) return this.fetching.promise;
    this.next ??= this.fetching.promise
      .catch(() => {})
      .then(() => {
        this.next = undefined;
        return this.load();
      });
    return this.next;
  }

  /** A program that shows all clients the same is not started to be asked for each kind of client. */
  private followed(continuing: boolean): Promise<Snapshot> | undefined {
    const { plain, news } = this.options;
    if (!plain || !this.asPlain || news() !== 'paused') return undefined;
    return plain.load(continuing).then((snapshot) => {
      this.snapshot = snapshot;
      this.outdated = false;
      return snapshot;
    });
  }

  private begin(): Promise<Snapshot> {
    const promise = this.fetch();
    this.fetching = { promise, since: performance.now() };
    const over = (): void => {
      this.fetching = undefined;
    };
    promise.then(over, over);
    return promise;
  }

  /**
   * The list as far as it can be had without waiting longer than `patience` in all: callers share one wait, and a server
   * that was waited for in vain keeps nobody waiting again until it answers.
   */
  async within(patience: number, continuing = false): Promise<Snapshot | undefined> {
    if (this.isFresh(continuing)) return this.snapshot;
    const failedLately = this.failure && performance.now() - this.failure.at < FAILURE_PAUSE;
    const loading = this.load(continuing);
    loading.catch(() => {});
    const waited = this.fetching ? performance.now() - this.fetching.since : 0;
    const left = (this.snapshot ? Math.min(patience, STALE_PATIENCE) : patience) - waited;
    if (failedLately || this.slow || left <= 0) {
      this.slow ||= left <= 0;
      return this.withoutWaiting();
    }
    const late = (): void => {
      this.slow = true;
    };
    try {
      return (await within(loading, left, { late })) ?? this.withoutWaiting();
    } catch {
      return this.withoutWaiting();
    }
  }

  /** The newest list, or the one at hand where the newest takes long. Rejects where the server fails. */
  async atHand(continuing = false): Promise<Snapshot> {
    const loading = this.load(continuing);
    if (!this.snapshot) return loading;
    return (await within(loading, STALE_PATIENCE)) ?? this.withoutWaiting() ?? loading;
  }

  /** What a caller gets that does not wait any longer; it is told if something else comes in. */
  private withoutWaiting(): Snapshot | undefined {
    if (this.snapshot) this.announced = false;
    else this.owe();
    return this.snapshot;
  }

  private async fetch(): Promise<Snapshot> {
    this.outdated = false;
    try {
      const fetched = await this.readAll();
      const before = this.snapshot;
      const same = before?.digest === fetched.digest;
      const plain = this.options.plain?.snapshot;
      this.asPlain = plain?.digest === fetched.digest;
      const twin = this.asPlain ? plain : same ? before : undefined;
      const snapshot = twin ? { ...fetched, items: twin.items, byKey: twin.byKey } : fetched;
      this.snapshot = snapshot;
      this.failure = undefined;
      this.slow = false;
      const unknown = this.owed || (before !== undefined && !same && !this.announced);
      this.owed = false;
      this.announced = false;
      if (unknown) this.options.changed();
      return snapshot;
    } catch (error) {
      this.outdated = true;
      const known =
        error instanceof ProtocolError || error instanceof UpstreamRpcError
          ? error
          : new ProtocolError('internal', 'The list could not be read');
      this.failure = { error: known, at: performance.now() };
      throw known;
    }
  }

  private async readAll(): Promise<Snapshot> {
    const items: Item[] = [];
    const byKey = new Map<string, Item>();
    const names: string[] = [];
    // Page by page, so that a long list does not hold up everything else at its end.
    const digest = createHash('sha256');
    let cursor: string | undefined;
    let ttl: number | undefined = Number.POSITIVE_INFINITY;
    let scope: 'public' | 'private' = 'public';
    reading: for (let page = 0; page < MOST_PAGES; page++) {
      const result = await this.page(cursor);
      ttl = typeof result['ttlMs'] === 'number' && ttl !== undefined ? Math.min(ttl, result['ttlMs']) : undefined;
      if (result['cacheScope'] !== 'public') scope = 'private';
      const members = result[LIST_MEMBER[this.method]];
      for (const value of Array.isArray(members) ? members : []) {
        const item = isObject(value) ? this.item(value, names) : undefined;
        if (!item || this.isTaken(item, items, byKey)) continue;
        if (items.length >= MOST_ITEMS) {
          this.options.warn(`${this.method} of server "${this.options.upstream.name}" is cut at ${MOST_ITEMS} entries`);
          break reading;
        }
        items.push(item);
        byKey.set(item.key, item);
        digest.update(JSON.stringify(value)).update('\n');
      }
      const next = result['nextCursor'];
      // The same cursor twice would never end.
      if (typeof next !== 'string' || next === cursor) break;
      cursor = next;
    }
    this.check(names);
    return {
      items,
      byKey,
      digest: digest.digest('base64url'),
      at: performance.now(),
      // CACHE-04: a negative time is none.
      ttl: ttl === undefined ? undefined : Math.min(Math.max(0, ttl), MOST_TTL),
      scope,
    };
  }

  /** The first of a name keeps it, but a tool that was given its name goes before one that merely has it. */
  private isTaken(item: Item, items: Item[], byKey: Map<string, Item>): boolean {
    const other = byKey.get(item.key);
    if (!other) return false;
    if (item.own === item.key || other.own !== other.key) return true;
    items.splice(items.indexOf(other), 1);
    return false;
  }

  /** Says once what in the rules does not fit the tools that are there. */
  private check(names: readonly string[]): void {
    const { rules, plain, upstream } = this.options;
    if (!rules || plain) return;
    for (const problem of rules.problems(names)) this.warnOnce(`servers.${upstream.name}.${problem}`);
  }

  private warnOnce(message: string): void {
    if (this.warned.has(message) || this.warned.size >= MOST_WARNINGS) return;
    this.warned.add(message);
    this.options.warn(message);
  }

  private async page(cursor: string | undefined): Promise<JsonObject> {
    const { upstream, method, caller } = this.options;
    const outcome = await upstream.request(caller, {
      method,
      params: RawObject.from(cursor === undefined ? {} : { cursor }),
      wantsProgress: false,
      logLevel: undefined,
      cancellation: new Cancellation(),
      mirrored: NO_MIRRORS,
      tasks: 'none',
      notify: () => {},
    });
    if (outcome.kind === 'complete') return outcome.result.value();
    // A server without the method has nothing of the kind.
    if (outcome.kind === 'error' && refusalIn(outcome.error)?.reason === 'method_not_found') return {};
    throw outcome.kind === 'error'
      ? outcome.error
      : new ProtocolError('upstream_invalid', `Server "${upstream.name}" asked something in the middle of a list`);
  }

  private item(value: JsonObject, names: string[]): Item | undefined {
    const own = value[KEY[this.method]];
    if (typeof own !== 'string' || own === '') return undefined;
    if (this.method !== 'tools/list') return { key: own, own, value, mirrored: NO_MIRRORS };
    const { rules, upstream } = this.options;
    if (names.length < MOST_ITEMS) names.push(own);
    const key = rules ? rules.nameOf(own) : own;
    if (key === undefined) return undefined;
    const mirrored = mirroredParams(value['inputSchema']);
    if ('invalid' in mirrored) {
      // XMH-04: such a tool cannot be called over HTTP, so it is not offered.
      this.warnOnce(`tool "${own}" of server "${upstream.name}" is left out: ${mirrored.invalid}`);
      return undefined;
    }
    return {
      key,
      own,
      value: isObject(value['inputSchema']) ? value : { ...value, inputSchema: { type: 'object' } },
      mirrored: mirrored.params,
    };
  }
}
