/**
 * Secrets for upstreams: tokens of users and of the gateway itself. `src/state/stores/vault.ts` encrypts them and
 * stores them in the database.
 */
import { BoundedCache } from '../../core/bounded-cache.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { NewStatus, VaultEntry, VaultKey, VaultRow, VaultRows, VaultState } from '../../state/index.js';

export type { VaultEntry, VaultKey, VaultRow, VaultState };

/** Tokens as the vault keeps them. Sources may add members of their own. */
export interface Tokens {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  /** The scope of the access token, as the issuer named it. */
  readonly scope?: string | undefined;
}

/** The owner of secrets that the gateway obtained for itself. Keys of callers with `#` start with their issuer. */
export const GATEWAY_OWNER = '#gateway';

const MAX_ROWS_PER_CALLER = 200;
const MAX_GATEWAY_ROWS = 10_000;

/**
 * How long a replica uses an entry before it reads the row again, so that no replica uses a removed secret for longer
 * than a second.
 */
const FRESH_MS = 500;
/** How long an entry that was read before may be used while the database does not answer. */
const OUTAGE_MS = 30_000;
const MOST_CACHED = 5_000;

export interface VaultOptions {
  readonly rows: VaultRows;
  readonly now: () => number;
}

interface Known {
  readonly entry: VaultEntry<object> | undefined;
  readonly readAt: number;
}

export class Vault {
  private readonly rows: VaultRows;
  private readonly known = new BoundedCache<string, Known>(MOST_CACHED);
  private readonly reading = new Map<string, Promise<VaultEntry<object> | undefined>>();

  constructor(private readonly options: VaultOptions) {
    this.rows = options.rows;
  }

  get now(): number {
    return this.options.now();
  }

  idOf(key: VaultKey): string {
    return this.rows.idOf(key);
  }

  /** The entry, without a promise if this replica has read it less than half a second ago. */
  get<T extends object>(key: VaultKey): VaultEntry<T> | undefined | Promise<VaultEntry<T> | undefined> {
    const id = this.idOf(key);
    const known = this.known.get(id);
    if (known && performance.now() - known.readAt < FRESH_MS) return known.entry as VaultEntry<T> | undefined;
    let reading = this.reading.get(id);
    if (!reading) {
      reading = this.readOrReuse(key, id).finally(() => this.reading.delete(id));
      this.reading.set(id, reading);
    }
    return reading as Promise<VaultEntry<T> | undefined>;
  }

  /** Reads the entry from the database. */
  async read<T extends object>(key: VaultKey): Promise<VaultEntry<T> | undefined> {
    const entry = await this.rows.get<T>(key);
    this.remember(this.idOf(key), entry);
    return entry;
  }

  /** Stores a secret, and replaces an earlier secret. Throws if the caller has too many secrets. */
  async put<T extends object>(
    key: VaultKey,
    secret: T,
    status: NewStatus = { state: 'active' },
  ): Promise<VaultEntry<T>> {
    const most = key.caller === GATEWAY_OWNER ? MAX_GATEWAY_ROWS : MAX_ROWS_PER_CALLER;
    const row = await this.rows.put(key, secret, status, most);
    if (!row)
      throw new ProtocolError(
        'rate_limited',
        `The caller has ${most} credentials for upstreams, which is the limit; remove some with: parley vault forget`,
        { outcome: 'not_executed' },
      );
    return this.remember(row.id, { ...row, secret });
  }

  /**
   * Replaces a secret that nobody changed since `entry` was read. Returns undefined if somebody changed the secret.
   */
  async update<T extends object>(
    entry: VaultEntry<T>,
    secret: T,
    status: NewStatus,
  ): Promise<VaultEntry<T> | undefined> {
    const row = await this.rows.update(entry, entry.rev, secret, status);
    if (row) return this.remember(row.id, { ...row, secret });
    this.remember(entry.id, undefined, 0);
    return undefined;
  }

  async forget(id: string): Promise<boolean> {
    const removed = await this.rows.remove(id);
    this.remember(id, undefined, 0);
    return removed;
  }

  list(filter: { caller?: string; upstream?: string } = {}): Promise<VaultRow[]> {
    return this.rows.list(filter);
  }

  /** While the database does not answer, an entry that was read shortly before stays in use. */
  private async readOrReuse(key: VaultKey, id: string): Promise<VaultEntry<object> | undefined> {
    try {
      return await this.read(key);
    } catch (error) {
      const known = this.known.get(id);
      if (known?.entry && performance.now() - known.readAt < OUTAGE_MS) return known.entry;
      throw error;
    }
  }

  private remember<E extends VaultEntry<object> | undefined>(id: string, entry: E, readAt = performance.now()): E {
    this.known.set(id, { entry, readAt });
    return entry;
  }
}
