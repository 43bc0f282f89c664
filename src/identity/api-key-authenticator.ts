import { BoundedCache } from '../core/bounded-cache.js';
import { type Principal, principalOf } from '../core/caller.js';
import { ProtocolError } from '../protocol/errors.js';
import type { Keyring, StoredApiKey } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { apiKeyDigest, apiKeyId, isApiKey, sameDigest } from './api-key.js';
import { type Authenticated, type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';
import { bearerOf, tokenDigest } from './bearer-token.js';

/** The stored API keys, shared by all replicas. */
export interface ApiKeyRecords {
  /** Changes with every key that is created or revoked. */
  version(): Promise<number>;
  find(id: string): Promise<StoredApiKey | undefined>;
  used(id: string, at: number): Promise<void>;
  rekey(id: string, digest: string, keyedBy: string): Promise<void>;
}

export interface ApiKeyAuthenticatorOptions {
  readonly records: ApiKeyRecords;
  readonly keyring: Keyring;
  readonly log: Log;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** A revocation takes effect on every replica within this time and the time of one query (S17). */
const VERSION_AGE = 400;
/**
 * Time limit for one query. The age of an answer counts from the beginning of its query, so a slow answer is not used
 * for longer.
 */
const QUERY_TIME = 5_000;
/** The last use of a key is stored at most once in this time. */
const USE_NOTED_EVERY = 60_000;
const MOST_CACHED = 10_000;
const MOST_PENDING = 1_000;

/** A key that was looked up. If the key does not exist or is revoked, `principal` is the refusal. */
interface Known {
  readonly principal: Principal | Challenge;
  readonly expiresAt: number;
  readonly id: string;
  notedAt: number;
}

/** The keys that were looked up since the stored keys changed, and the queries under way. */
class LookedUpKeys {
  readonly known = new BoundedCache<string, Known>(MOST_CACHED);
  readonly pending = new Map<string, Promise<Known>>();
}

const NOT_OURS = new Challenge('Unauthorized: Invalid or missing API key', {
  'WWW-Authenticate': 'Bearer realm="parley"',
});

const invalid = (why: string, genuine = false): Challenge =>
  new Challenge(
    `Unauthorized: ${why}`,
    { 'WWW-Authenticate': 'Bearer realm="parley", error="invalid_token"' },
    'unauthorized',
    { error: 'invalid_token', description: why, ...(genuine && { genuine }) },
  );
// One answer for unknown, revoked and mistyped keys: a caller does not learn which keys existed.
const UNKNOWN = invalid('The API key is not valid');
const REVOKED = invalid('The API key is not valid', true);
const EXPIRED = invalid('The API key has expired', true);

/**
 * Authenticates callers by their API keys. The result of a lookup is used until the stored keys change. One query from
 * time to time asks for all keys together whether they changed, so the cost does not grow with the number of callers.
 */
export class ApiKeyAuthenticator implements Authenticator {
  readonly enabled = true;
  private lookups = new LookedUpKeys();
  private version: number | undefined;
  private checkedAt = Number.NEGATIVE_INFINITY;
  private checking: { readonly began: number; readonly done: Promise<void> } | undefined;

  constructor(private readonly options: ApiKeyAuthenticatorOptions) {}

  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated> {
    const token = bearerOf(request);
    if (token === undefined || !token.startsWith('parley_')) return NOT_OURS;
    const digest = tokenDigest(token);
    if (performance.now() - this.checkedAt < VERSION_AGE) {
      const known = this.lookups.known.get(digest);
      if (known) return this.admit(known);
    }
    if (!isApiKey(token)) return UNKNOWN;
    return this.current()
      .then(() => this.lookups.known.get(digest) ?? this.lookUp(token, digest))
      .then((known) => this.admit(known));
  }

  private admit(known: Known): Authenticated {
    const { principal } = known;
    if (principal instanceof Challenge) return principal;
    const now = this.options.now();
    if (known.expiresAt <= now) return EXPIRED;
    if (now - known.notedAt > USE_NOTED_EVERY) {
      known.notedAt = now;
      this.background(this.options.records.used(known.id, now));
    }
    return principal;
  }

  /**
   * Drops the looked-up keys if the stored keys changed. One query serves all requests that arrive within a short time.
   */
  private current(): Promise<void> {
    const now = performance.now();
    if (now - this.checkedAt < VERSION_AGE) return Promise.resolve();
    if (!this.checking || now - this.checking.began >= VERSION_AGE)
      this.checking = { began: now, done: this.check(now) };
    return this.checking.done;
  }

  private async check(began: number): Promise<void> {
    const version = await this.asked(this.options.records.version());
    if (began < this.checkedAt) return;
    if (version !== this.version) this.lookups = new LookedUpKeys();
    this.version = version;
    // Set the time at which the query began, because its answer may not contain a change that happened during the
    // query.
    this.checkedAt = began;
  }

  private lookUp(token: string, digest: string): Promise<Known> {
    const { known, pending } = this.lookups;
    const waiting = pending.get(digest);
    if (waiting) return waiting;
    if (pending.size >= MOST_PENDING)
      throw new ProtocolError('overloaded', 'Too many keys are being looked up', { headers: { 'Retry-After': '1' } });
    const looking = this.find(token)
      .then((found) => {
        known.set(digest, found);
        return found;
      })
      .finally(() => pending.delete(digest));
    pending.set(digest, looking);
    return looking;
  }

  private async find(token: string): Promise<Known> {
    const id = apiKeyId(token);
    const stored = await this.asked(this.options.records.find(id));
    const known = { id, notedAt: stored?.lastUsedAt ?? 0, expiresAt: stored?.expiresAt ?? Number.POSITIVE_INFINITY };
    if (!stored || !this.matches(token, stored)) return { ...known, principal: UNKNOWN };
    if (stored.revokedAt !== undefined) return { ...known, principal: REVOKED };
    const { name, tenant, roles, servers, tools } = stored;
    const restriction = servers.length > 0 || tools.length > 0 ? { servers, tools } : undefined;
    const principal = principalOf({ subject: name, tenant, roles, restriction, credential: { kind: 'key', id } });
    return { ...known, principal };
  }

  private matches(token: string, { id, digest, keyedBy }: StoredApiKey): boolean {
    const { keyring, records, log } = this.options;
    const secret = keyring.find(keyedBy);
    if (!secret) {
      log.warn({ key: id }, 'an API key cannot be checked: the key of state.keys that it was stored with is missing');
      return false;
    }
    if (!sameDigest(apiKeyDigest(token, secret), Buffer.from(digest, 'base64url'))) return false;
    const { active } = keyring;
    if (active.id !== keyedBy) {
      this.background(records.rekey(id, apiKeyDigest(token, active.key).toString('base64url'), active.id));
    }
    return true;
  }

  /**
   * If the database does not answer, the gateway does not know which keys were revoked, so the caller has to try again.
   */
  private async asked<T>(question: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer in time')), QUERY_TIME);
    });
    try {
      return await Promise.race([question, late]);
    } catch {
      throw new ProtocolError('overloaded', 'API keys cannot be checked now: the database does not answer', {
        headers: { 'Retry-After': '1' },
      });
    } finally {
      clearTimeout(timer);
    }
  }

  private background(work: Promise<void>): void {
    work.catch((err: unknown) => this.options.log.debug({ err }, 'the use of an API key could not be noted'));
  }
}
