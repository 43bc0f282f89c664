import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import { type MirroredParam, mirroredParams } from '../../protocol/mcp/headers.js';
import { isObject, LIST_MEMBER, type ListMethod } from '../../protocol/mcp/model.js';
import { Cancellation, GATEWAY } from '../caller.js';
import type { Upstream } from '../upstream.js';

/** One thing a server offers, as the server wrote it. */
export interface Item {
  /** Its own name or URI: what identifies it at its server. */
  readonly key: string;
  readonly value: JsonObject;
  /** Arguments to be repeated in headers, for tools. */
  readonly mirrored: readonly MirroredParam[];
}

export interface Snapshot {
  readonly items: readonly Item[];
  readonly byKey: ReadonlyMap<string, Item>;
  readonly at: number;
  /** Until when it may be used without asking again; undefined where the server's revision has no word for that. */
  readonly freshUntil: number | undefined;
  readonly scope: 'public' | 'private';
}

const NO_MIRRORS: readonly MirroredParam[] = [];

/** Bounds on what one server may put into the catalogue. */
const MOST_PAGES = 1_000;
const MOST_ITEMS = 50_000;

const KEY: Readonly<Record<ListMethod, string>> = {
  'tools/list': 'name',
  'prompts/list': 'name',
  'resources/list': 'uri',
  'resources/templates/list': 'uriTemplate',
};

/** One list of one server: fetched when asked for, kept while it is fresh, and kept beyond that while nothing newer is to be had. */
export class Listing {
  snapshot: Snapshot | undefined;
  private fetching: { readonly promise: Promise<Snapshot>; readonly since: number } | undefined;
  /** Why the last attempt failed, and when; cleared by the next that works. */
  failure: { readonly error: ProtocolError | UpstreamRpcError; readonly at: number } | undefined;
  private dirty = true;
  private announced = false;
  private readonly warned = new Set<string>();

  constructor(
    private readonly upstream: Upstream,
    readonly method: ListMethod,
    /** Whether changes are announced, so that a list stays good until one is. */
    private readonly watched: () => boolean,
    private readonly changed: () => void,
    private readonly warn: (message: string) => void,
  ) {}

  /** The server said that it changed; whoever listens has been told. */
  invalidate(): void {
    this.dirty = true;
    this.announced = true;
  }

  get fresh(): boolean {
    if (!this.snapshot || this.dirty) return false;
    return this.watched() || (this.snapshot.freshUntil ?? 0) > performance.now();
  }

  /** The newest list, fetched now unless it is fresh. */
  load(): Promise<Snapshot> {
    if (this.fresh) return Promise.resolve(this.snapshot!);
    if (!this.fetching) {
      const promise = this.fetch();
      this.fetching = { promise, since: performance.now() };
      promise
        .catch(() => {})
        .finally(() => {
          this.fetching = undefined;
        });
    }
    return this.fetching.promise;
  }

  /**
   * The list as far as it can be had without waiting longer than `bound`. A server that has already kept others waiting
   * that long keeps nobody waiting again until it answers.
   */
  async within(bound: number): Promise<Snapshot | undefined> {
    if (this.fresh) return this.snapshot;
    const failedLately = this.failure && performance.now() - this.failure.at < FAILURE_PAUSE;
    const loading = this.load();
    if (failedLately) {
      loading.catch(() => {});
      return this.snapshot;
    }
    const waited = this.fetching ? performance.now() - this.fetching.since : 0;
    const patience = this.snapshot ? Math.min(bound, STALE_PATIENCE) : bound;
    if (waited >= patience) return this.snapshot;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), patience - waited);
    });
    try {
      return (await Promise.race([loading, late])) ?? this.snapshot;
    } catch {
      return this.snapshot;
    } finally {
      clearTimeout(timer);
    }
  }

  private async fetch(): Promise<Snapshot> {
    this.dirty = false;
    try {
      const snapshot = await this.readAll();
      const before = this.snapshot;
      this.snapshot = snapshot;
      this.failure = undefined;
      const { announced } = this;
      this.announced = false;
      if (!announced && !(before && sameItems(before, snapshot))) this.changed();
      return snapshot;
    } catch (error) {
      this.dirty = true;
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
    let cursor: string | undefined;
    let ttl: number | undefined = Number.POSITIVE_INFINITY;
    let scope: 'public' | 'private' = 'public';
    for (let page = 0; page < MOST_PAGES; page++) {
      const result = await this.page(cursor);
      ttl =
        typeof result['ttlMs'] === 'number' && ttl !== undefined
          ? Math.min(ttl, Math.max(0, result['ttlMs']))
          : undefined;
      if (result['cacheScope'] !== 'public') scope = 'private';
      const members = result[LIST_MEMBER[this.method]];
      for (const value of Array.isArray(members) ? members : []) {
        const item = isObject(value) ? this.item(value) : undefined;
        if (!item || byKey.has(item.key)) continue;
        if (items.length >= MOST_ITEMS) {
          this.warn(`${this.method} of server "${this.upstream.name}" is cut at ${MOST_ITEMS} entries`);
          return this.made(items, byKey, ttl, scope);
        }
        items.push(item);
        byKey.set(item.key, item);
      }
      const next = result['nextCursor'];
      // The same cursor twice would never end.
      if (typeof next !== 'string' || next === cursor) break;
      cursor = next;
    }
    return this.made(items, byKey, ttl, scope);
  }

  private made(
    items: Item[],
    byKey: Map<string, Item>,
    ttl: number | undefined,
    scope: 'public' | 'private',
  ): Snapshot {
    const at = performance.now();
    return { items, byKey, at, freshUntil: ttl === undefined ? undefined : at + ttl, scope };
  }

  private async page(cursor: string | undefined): Promise<JsonObject> {
    const outcome = await this.upstream.request(GATEWAY, {
      method: this.method,
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
    if (outcome.kind === 'error' && outcome.error instanceof UpstreamRpcError && outcome.error.code === -32601)
      return {};
    throw outcome.kind === 'error'
      ? outcome.error
      : new ProtocolError('upstream_invalid', `Server "${this.upstream.name}" asked something in the middle of a list`);
  }

  private item(value: JsonObject): Item | undefined {
    const key = value[KEY[this.method]];
    if (typeof key !== 'string' || key === '') return undefined;
    if (this.method !== 'tools/list') return { key, value, mirrored: NO_MIRRORS };
    const mirrored = mirroredParams(value['inputSchema']);
    if ('invalid' in mirrored) {
      // XMH-04: such a tool cannot be called over HTTP, so it is not offered.
      if (!this.warned.has(key))
        this.warn(`tool "${key}" of server "${this.upstream.name}" is left out: ${mirrored.invalid}`);
      this.warned.add(key);
      return undefined;
    }
    return {
      key,
      value: isObject(value['inputSchema']) ? value : { ...value, inputSchema: { type: 'object' } },
      mirrored: mirrored.params,
    };
  }
}

/** For so long after a failure nobody waits for the next attempt. */
const FAILURE_PAUSE = 5_000;

/** How long an old list is held back in the hope of a newer one. */
const STALE_PATIENCE = 1_000;

function sameItems(a: Snapshot, b: Snapshot): boolean {
  if (a.items.length !== b.items.length) return false;
  return JSON.stringify(a.items.map((item) => item.value)) === JSON.stringify(b.items.map((item) => item.value));
}
