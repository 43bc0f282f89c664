import { createHash } from 'node:crypto';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import { type MirroredParam, mirroredParams } from '../../protocol/mcp/mirrored-headers.js';
import { isObject, LIST_MEMBER, type ListMethod } from '../../protocol/mcp/model.js';
import { refusalIn } from '../../protocol/mcp/recognised-upstream-errors.js';
import { type Caller, Cancellation } from '../caller.js';
import type { DefinitionCheck } from '../pinning/definition-check.js';
import { within } from '../timing.js';
import type { ListNews, Upstream } from '../upstream.js';
import type { ToolRules } from './tool-rules.js';

/** One item of a server's list, as the server wrote it. */
export interface Item {
  /** The configured name, or the URI, before any prefix. */
  readonly key: string;
  /** The server's own name or URI of the item. */
  readonly own: string;
  readonly value: JsonObject;
  /** For tools: the arguments that are repeated in headers. */
  readonly mirrored: readonly MirroredParam[];
}

/**
 * A list as the server returned it. Equal lists share `items` and `byKey`, so values derived from them are computed
 * once.
 */
export interface Snapshot {
  readonly items: readonly Item[];
  readonly byKey: ReadonlyMap<string, Item>;
  /** A hash of the list, equal for equal lists. */
  readonly digest: string;
  readonly at: number;
  /** The server's TTL of the list, in milliseconds; undefined if its revision has none. */
  readonly ttl: number | undefined;
  readonly scope: 'public' | 'private';
}

export interface ListingOptions {
  readonly upstream: Upstream;
  readonly method: ListMethod;
  /** The caller for whom the gateway reads the list. */
  readonly caller: Caller;
  /** How the gateway learns of changes of the list. */
  news(): ListNews;
  /** The list for clients without capabilities, if this list is for clients with capabilities. */
  readonly plain?: Listing;
  /** The rules for which tools are offered, and under which names. */
  readonly rules?: ToolRules;
  /** Compares definitions with the pinned ones, and withholds items that wait for an approval. */
  readonly pins?: Pick<DefinitionCheck, 'check' | 'withheld'> | undefined;
  /** Called when a new list differs from the one that callers have, and no notification was sent for it. */
  changed(): void;
  warn(message: string): void;
}

/** The list without the items of these own names. */
function without(list: Snapshot, withheld: ReadonlySet<string>): Snapshot {
  if (withheld.size === 0) return list;
  const items = list.items.filter(({ own }) => !withheld.has(own));
  const names = JSON.stringify([...withheld].sort());
  const digest = createHash('sha256').update(`${list.digest} ${names}`).digest('base64url');
  return { ...list, items, byKey: new Map(items.map((item) => [item.key, item])), digest };
}

const NO_MIRRORS: readonly MirroredParam[] = [];

/** Limits for the lists of one server. */
const MOST_PAGES = 1_000;
const MOST_ITEMS = 50_000;
const MOST_WARNINGS = 1_000;

/** How long a list without a TTL stays fresh. The time depends on how the gateway learns of changes of the list. */
const INTERVAL: Readonly<Record<ListNews, number>> = {
  // The server announces changes. The gateway still reads the list from time to time, in case a notification was lost.
  pushed: 10 * 60_000,
  polled: 60_000,
  // The server is not running, so its list changes only if a new version is installed.
  paused: 60 * 60_000,
};

/** The shortest time between two reads. It bounds the reads of a server that allows no caching (`ttlMs: 0`). */
const LEAST_INTERVAL = 1_000;

/** The longest TTL that is accepted from a server. */
const MOST_TTL = 24 * 60 * 60_000;

/** The TTL for callers if the server gives none. */
const OWN_TTL = 60_000;

/** No caller waits for a new attempt during this time after a failure. */
const FAILURE_PAUSE = 5_000;

/** How long callers wait for a newer list while an outdated one exists. */
const STALE_PATIENCE = 1_000;

const KEY: Readonly<Record<ListMethod, string>> = {
  'tools/list': 'name',
  'prompts/list': 'name',
  'resources/list': 'uri',
  'resources/templates/list': 'uriTemplate',
};

type Failure = ProtocolError | UpstreamRpcError;

/**
 * One list of one server. One read serves all callers. The list is used while it is fresh, and then until a newer list
 * arrives.
 */
export class Listing {
  snapshot: Snapshot | undefined;
  /** The list, including the withheld items. */
  private complete: Snapshot | undefined;
  private fetching: { readonly promise: Promise<Snapshot>; readonly since: number } | undefined;
  /** The read that starts after the current one, because the list changed after the current read began. */
  private next: Promise<Snapshot> | undefined;
  /** The error and the time of the last failed read; a successful read clears it. */
  failure: { readonly error: Failure; readonly at: number } | undefined;
  private outdated = false;
  /** Whether the server announced the change, so that callers have been notified. */
  private announced = false;
  /** Whether callers got an answer without this list and need a notification. */
  private missed = false;
  /** Whether a caller waited the full time. If so, no caller waits again until the server answers. */
  private slow = false;
  private readonly warned = new Set<string>();
  /** Whether the last read equalled the list for clients without capabilities. */
  private asPlain = false;

  constructor(private readonly options: ListingOptions) {}

  get method(): ListMethod {
    return this.options.method;
  }

  /** Called when the server announced a change. The callers have been notified. */
  invalidate(): void {
    this.outdated = true;
    this.announced = true;
  }

  /**
   * Called when a change may have gone unnoticed. A read that is under way sees the change, so the read is not
   * repeated.
   */
  lapse(): void {
    if (!this.fetching) this.outdated = true;
  }

  /** Called when callers got an answer without this list. They are notified when the list arrives. */
  announceOnArrival(): void {
    this.missed = true;
  }

  /**
   * Whether the list can be used without a read. With `continuing` the list stays fresh longer, so that further pages
   * match the first page.
   */
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

  /** How long callers may cache the list, in milliseconds. */
  get ttl(): number {
    const { snapshot } = this;
    if (!snapshot || this.outdated || this.fetching) return 0;
    const remaining = snapshot.at + this.interval(snapshot) - performance.now();
    if (snapshot.ttl !== undefined && snapshot.ttl > 0) return Math.max(0, Math.floor(remaining));
    if (snapshot.ttl === 0 && this.options.news() === 'polled') return 0;
    return Math.max(0, Math.floor(Math.min(remaining, OWN_TTL)));
  }

  /** The newest list. Reads the list unless the cached list is fresh. */
  load(continuing = false): Promise<Snapshot> {
    if (this.isFresh(continuing)) return Promise.resolve(this.snapshot!);
    if (!this.fetching) return this.followed(continuing) ?? this.begin();
    // The current read serves unless the list changed after the read began.
    if (!this.outdated) return this.fetching.promise;
    this.next ??= this.fetching.promise
      .catch(() => {})
      .then(() => {
        this.next = undefined;
        return this.load();
      });
    return this.next;
  }

  /**
   * If a stopped server shows all clients the same list, uses the list for clients without capabilities instead of
   * starting the server.
   */
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
   * The list, after waiting at most `patience` milliseconds. Callers share one wait. After a wait without an answer, no
   * caller waits again until the server answers.
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

  /** The newest list, or the cached list if the read takes long. Rejects if the server fails. */
  async atHand(continuing = false): Promise<Snapshot> {
    const loading = this.load(continuing);
    if (!this.snapshot) return loading;
    return (await within(loading, STALE_PATIENCE)) ?? this.withoutWaiting() ?? loading;
  }

  /** The cached list for a caller that stops waiting. The caller is notified if a different list arrives. */
  private withoutWaiting(): Snapshot | undefined {
    if (this.snapshot) this.announced = false;
    else this.announceOnArrival();
    return this.snapshot;
  }

  /** Withholds the items that wait for an approval. A list that the server repeats is not compared again. */
  private async allowed(read: Snapshot): Promise<Snapshot> {
    const { pins } = this.options;
    if (!pins) return read;
    const { complete } = this;
    const same = complete?.digest === read.digest;
    this.complete = same ? { ...read, items: complete.items, byKey: complete.byKey } : read;
    const { items } = this.complete;
    return without(this.complete, same ? pins.withheld(this.method, items) : await pins.check(this.method, items));
  }

  /** Called when the withheld items may have changed. Sends no request. */
  withhold(): void {
    const { snapshot, complete } = this;
    const { pins } = this.options;
    if (!snapshot || !complete || !pins) return;
    const next = without(complete, pins.withheld(this.method, complete.items));
    if (next.digest === snapshot.digest) return;
    this.snapshot = { ...next, at: snapshot.at };
    this.options.changed();
  }

  private async fetch(): Promise<Snapshot> {
    this.outdated = false;
    try {
      const fetched = await this.allowed(await this.readAll());
      const before = this.snapshot;
      const same = before?.digest === fetched.digest;
      const plain = this.options.plain?.snapshot;
      this.asPlain = plain?.digest === fetched.digest;
      const twin = this.asPlain ? plain : same ? before : undefined;
      const snapshot = twin ? { ...fetched, items: twin.items, byKey: twin.byKey } : fetched;
      this.snapshot = snapshot;
      this.failure = undefined;
      this.slow = false;
      const unknown = this.missed || (before !== undefined && !same && !this.announced);
      this.missed = false;
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
    // Each page is hashed when it arrives, so that hashing a long list does not block the event loop.
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
          this.options.warn(
            `${this.method} of server "${this.options.upstream.name}" exceeds ${MOST_ITEMS} entries; the rest is ignored`,
          );
          break reading;
        }
        items.push(item);
        byKey.set(item.key, item);
        digest.update(JSON.stringify(value)).update('\n');
      }
      const next = result['nextCursor'];
      // A repeated cursor would cause an endless loop.
      if (typeof next !== 'string' || next === cursor) break;
      cursor = next;
    }
    this.check(names);
    return {
      items,
      byKey,
      digest: digest.digest('base64url'),
      at: performance.now(),
      // CACHE-04: a negative TTL means 0.
      ttl: ttl === undefined ? undefined : Math.min(Math.max(0, ttl), MOST_TTL),
      scope,
    };
  }

  /**
   * Whether an earlier item keeps the name. The first item of a name keeps the name, with one exception: a tool that
   * the configuration renames replaces a tool whose own name is the new name.
   */
  private isTaken(item: Item, items: Item[], byKey: Map<string, Item>): boolean {
    const other = byKey.get(item.key);
    if (!other) return false;
    if (item.own === item.key || other.own !== other.key) return true;
    items.splice(items.indexOf(other), 1);
    return false;
  }

  /** Warns once about rules that match none of the server's tools. */
  private check(names: readonly string[]): void {
    const { rules, plain, upstream } = this.options;
    if (!rules || plain) return;
    for (const problem of rules.problems(names)) this.warnOnce(`servers.${upstream.name}.${problem}`);
    const hard = rules.lint.done();
    if (hard !== undefined) this.warnOnce(`server "${upstream.name}": ${hard}`);
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
    // A server without the method has no items of this kind.
    if (outcome.kind === 'error' && refusalIn(outcome.error)?.reason === 'method_not_found') return {};
    throw outcome.kind === 'error'
      ? outcome.error
      : new ProtocolError(
          'upstream_invalid',
          `Server "${upstream.name}" answered ${this.method} with a question instead of a list`,
        );
  }

  private item(value: JsonObject, names: string[]): Item | undefined {
    const own = value[KEY[this.method]];
    if (typeof own !== 'string' || own === '') return undefined;
    if (this.method !== 'tools/list') return { key: own, own, value, mirrored: NO_MIRRORS };
    const { rules, upstream } = this.options;
    if (names.length < MOST_ITEMS) names.push(own);
    const key = rules ? rules.nameOf(own) : own;
    if (key === undefined) return undefined;
    const reason = rules?.lint.check(value, key);
    if (reason !== undefined) {
      // S4-17: strict mode does not offer such a tool.
      this.warnOnce(`tool "${own}" of server "${upstream.name}" is not offered: ${reason}`);
      return undefined;
    }
    const mirrored = mirroredParams(value['inputSchema']);
    if ('invalid' in mirrored) {
      // XMH-04: a tool with invalid header annotations cannot be called over HTTP, so it is not offered.
      this.warnOnce(`tool "${own}" of server "${upstream.name}" is not offered: ${mirrored.invalid}`);
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
