import { type CryptoKey, createLocalJWKSet, errors, type JSONWebKeySet, type JWSHeaderParameters } from 'jose';

/** The members of a token's header that choose its key. Keys that a token brings itself are never used (S13). */
export interface KeyQuery {
  readonly alg: string;
  readonly kid: string | undefined;
}

/** The keys that may have signed a token. Rejects with `KeysUnavailable` if the keys cannot be loaded. */
export type KeyResolver = (query: KeyQuery) => Promise<readonly CryptoKey[]>;

/** The keys of the issuer cannot be loaded. The token may be valid. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable';
}

/** Limits the work for a token without `kid` if an issuer has many keys. */
const MOST_CANDIDATES = 8;
const MOST_KEYS = 100;

/** A key set in memory, such as that of the built-in authorization server. */
export function localKeys(load: () => JSONWebKeySet | Promise<JSONWebKeySet>): KeyResolver {
  let known: { readonly set: JSONWebKeySet; readonly resolve: KeyResolver } | undefined;
  return async (query) => {
    const set = await load();
    if (known?.set !== set) known = { set, resolve: keysIn(set) };
    return known.resolve(query);
  };
}

/**
 * The public keys of a document that fit a query. Symmetric keys are dropped: everybody who reads the set could sign
 * with them.
 */
export function keysIn({ keys }: JSONWebKeySet): KeyResolver {
  const usable = keys.filter(({ kty, use }) => kty !== 'oct' && (use === undefined || use === 'sig'));
  const find = createLocalJWKSet({ keys: usable.slice(0, MOST_KEYS) });
  return async ({ alg, kid }) => {
    const header: JWSHeaderParameters = { alg, ...(kid !== undefined && { kid }) };
    try {
      return [await find(header as Parameters<typeof find>[0])];
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return [];
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      const candidates: CryptoKey[] = [];
      for await (const key of error) {
        candidates.push(key);
        if (candidates.length === MOST_CANDIDATES) break;
      }
      return candidates;
    }
  };
}

export interface RemoteKeysOptions {
  /** Fetches the key set. Limits its own time and size. */
  readonly fetch: () => Promise<JSONWebKeySet>;
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number;
  /** Called when the keys cannot be fetched. */
  readonly failed?: (error: unknown) => void;
}

/** Minimum time between two fetches: a flood of tokens with unknown keys causes no flood of fetches (S13). */
const FETCH_EVERY = 30_000;
/** Minimum time between two fetches while the gateway has no keys at all. */
const RETRY_EVERY = 5_000;
/** Age at which keys are fetched again, so that a removed key stops working. */
const FRESH_FOR = 10 * 60_000;
/** Age at which keys are no longer used if the issuer does not answer. */
const USABLE_FOR = 24 * 60 * 60_000;

/** The keys of another issuer: fetched on first use, when a token names an unknown key, and when they are old. */
export class RemoteKeys {
  private keys: { readonly resolve: KeyResolver; readonly at: number } | undefined;
  private fetching: Promise<void> | undefined;
  private lastFetch = Number.NEGATIVE_INFINITY;
  private readonly now: () => number;

  constructor(private readonly options: RemoteKeysOptions) {
    this.now = options.now ?? (() => performance.now());
  }

  readonly resolve: KeyResolver = async (query) => {
    const { keys } = this;
    if (!keys || this.now() - keys.at > USABLE_FOR) return (await this.fetched())(query);
    if (this.now() - keys.at > FRESH_FOR) void this.refresh();
    const found = await keys.resolve(query);
    if (found.length > 0) return found;
    await this.refresh();
    return this.keys!.resolve(query);
  };

  private async fetched(): Promise<KeyResolver> {
    await this.refresh();
    const { keys } = this;
    if (!keys || this.now() - keys.at > USABLE_FOR) throw new KeysUnavailable('the keys cannot be fetched');
    return keys.resolve;
  }

  /**
   * Fetches the keys, unless they were fetched shortly before. One fetch serves all callers that wait for it. Never
   * rejects.
   */
  private refresh(): Promise<void> {
    if (this.fetching) return this.fetching;
    const pause = this.keys ? FETCH_EVERY : RETRY_EVERY;
    if (this.now() - this.lastFetch < pause) return Promise.resolve();
    this.lastFetch = this.now();
    this.fetching = this.fetch().finally(() => {
      this.fetching = undefined;
    });
    return this.fetching;
  }

  private async fetch(): Promise<void> {
    try {
      const set = await this.options.fetch();
      this.keys = { resolve: keysIn(set), at: this.now() };
    } catch (error) {
      this.options.failed?.(error);
    }
  }
}
