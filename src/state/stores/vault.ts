import { createHash } from 'node:crypto';
import { wallMs } from '../clock.js';
import type { Db, Row } from '../db.js';
import { type Envelope, keyIdOf } from '../envelope-encryption.js';
import type { Expiring } from '../sweeper.js';

/** Identifies a secret: who uses it, who issued it, for which resource, at which upstream. */
export interface VaultKey {
  /** The key of the caller's principal, or a name that no principal has for secrets of the gateway itself. */
  readonly caller: string;
  /** The authorization server that issued the secret. */
  readonly issuer: string;
  /** The resource that the secret is valid for, usually the URL of the upstream. */
  readonly resource: string;
  /** The upstream, such as `server:github` or `agent:writer`. */
  readonly upstream: string;
  /** Distinguishes secrets that were obtained with other settings, such as another client or scope. */
  readonly variant?: string | undefined;
}

/**
 * - `active`       the secret can be used; `expired` says that its time is over and that nothing renewed it yet
 * - `needs_reauth` the user has to sign in at the issuer again
 * - `failed`       the last renewal failed; the gateway tries again after `retryAt`
 */
export type VaultState = 'active' | 'expired' | 'needs_reauth' | 'failed';

export interface VaultStatus {
  readonly state: VaultState;
  /** Why the secret cannot be used; never contains a secret. */
  readonly reason: string | undefined;
  /** When the state began. */
  readonly since: number;
  /** When the secret expires; undefined if it does not expire, or if the issuer did not say. */
  readonly expiresAt: number | undefined;
  /** When a renewal may be tried again after a failure. */
  readonly retryAt: number | undefined;
  /** Failed renewals in a row. */
  readonly attempts: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A row without its secret. */
export interface VaultRow extends VaultKey, VaultStatus {
  readonly id: string;
  /**
   * Increases with every write; `update` requires it. The first value is the current time, so that a row that was
   * removed and written again has a new value.
   */
  readonly rev: number;
  /** The id of the key that the secret is encrypted under. */
  readonly keyId: string;
}

export interface VaultEntry<T> extends VaultRow {
  readonly secret: T;
}

export interface NewStatus {
  readonly state: Exclude<VaultState, 'expired'>;
  readonly reason?: string | undefined;
  readonly expiresAt?: number | undefined;
  readonly retryAt?: number | undefined;
  readonly attempts?: number | undefined;
  /** When the row is removed. Default: `KEEP_MS` after this write. */
  readonly purgeAt?: number | undefined;
}

interface Stored extends Row {
  id: string;
  caller: string;
  issuer: string;
  resource: string;
  upstream: string;
  variant: string;
  secret: string;
  state: string;
  reason: string | null;
  since: number;
  expires_at: number | null;
  retry_at: number | null;
  attempts: number;
  rev: number;
  created_at: number;
  updated_at: number;
}

const COLUMNS =
  'id, caller, issuer, resource, upstream, variant, secret, state, reason, since, expires_at, retry_at, attempts, rev, created_at, updated_at';

/** How long an unused secret is kept. */
const KEEP_MS = 400 * 24 * 3_600_000;
const MOST_REASON = 500;

const variantOf = ({ variant }: VaultKey): readonly string[] => (variant ? [variant] : []);

/** The id of a row: a fixed length, whatever the length of the parts. */
const vaultId = (key: VaultKey): string =>
  createHash('sha256')
    .update(JSON.stringify([key.caller, key.issuer, key.resource, key.upstream, ...variantOf(key)]))
    .digest('hex');

const rowOf = (key: VaultKey): readonly string[] => [
  ...['vault', key.upstream, key.caller, key.issuer, key.resource],
  ...variantOf(key),
];

/** Secrets for upstreams, encrypted at rest (S18). */
export class VaultRows implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;
  readonly #envelope: Envelope;

  constructor(db: Db, envelope: Envelope) {
    this.#db = db;
    this.#envelope = envelope;
  }

  /** Reads and decrypts one row. A row under an old key is rewritten under the new one. */
  async get<T>(key: VaultKey): Promise<VaultEntry<T> | undefined> {
    const [row] = await this.#db.q<Stored>(`SELECT ${COLUMNS} FROM vault WHERE id = $1`, [vaultId(key)]);
    if (!row) return undefined;
    const { text, stale } = this.#envelope.open(rowOf(key), row.secret);
    // The value can be read in any case, so a failed write only postpones the rewriting.
    if (stale) void this.#rewrite(row).catch(() => {});
    return { ...described(row), secret: JSON.parse(text) as T };
  }

  idOf(key: VaultKey): string {
    return vaultId(key);
  }

  /** Writes a secret, whether or not there was one. Returns undefined if the caller already has `maxRows` others. */
  async put(key: VaultKey, secret: unknown, status: NewStatus, maxRows: number): Promise<VaultRow | undefined> {
    const written = await this.#insert(key, secret, status, maxRows);
    if (written) return written;
    // Removes unusable secrets to make room. A usable secret is never removed for another one.
    const gone = await this.#db.q(
      `DELETE FROM vault WHERE id IN (SELECT id FROM vault WHERE caller = $1 AND state <> 'active'
       ORDER BY updated_at LIMIT 1) RETURNING id`,
      [key.caller],
    );
    return gone.length > 0 ? this.#insert(key, secret, status, maxRows) : undefined;
  }

  /**
   * Replaces the secret and the state of a row that nobody else changed since. Returns undefined otherwise, for
   * example if the secret was forgotten in the meantime.
   */
  async update(key: VaultKey, rev: number, secret: unknown, status: NewStatus): Promise<VaultRow | undefined> {
    const now = wallMs();
    const [row] = await this.#db.q<Stored>(
      `UPDATE vault SET secret = $3, since = CASE WHEN state = $4 THEN since ELSE CAST($9 AS BIGINT) END, state = $4,
         reason = CAST($5 AS TEXT), expires_at = CAST($6 AS BIGINT), retry_at = CAST($7 AS BIGINT), attempts = $8,
         updated_at = CAST($9 AS BIGINT), purge_at = $10, rev = rev + 1
       WHERE id = $1 AND rev = $2 RETURNING ${COLUMNS}`,
      [vaultId(key), rev, this.#seal(key, secret), ...columns(status, now)],
    );
    return row && described(row);
  }

  /** The rows without their secrets, by caller and upstream. */
  async list(filter: { caller?: string; upstream?: string } = {}, limit = 10_000): Promise<VaultRow[]> {
    const rows = await this.#db.q<Stored>(
      `SELECT ${COLUMNS} FROM vault WHERE (CAST($1 AS TEXT) IS NULL OR caller = $1)
       AND (CAST($2 AS TEXT) IS NULL OR upstream = $2) ORDER BY caller, upstream, id LIMIT $3`,
      [filter.caller ?? null, filter.upstream ?? null, limit],
    );
    return rows.map(described);
  }

  async remove(id: string): Promise<boolean> {
    return (await this.#db.q('DELETE FROM vault WHERE id = $1 RETURNING id', [id])).length > 0;
  }

  /** Rewrites up to `limit` rows after `after` that are encrypted under an old key. */
  async rotate(after: string, limit: number): Promise<{ readonly last: string; rewritten: number; failed: number }> {
    const rows = await this.#db.q<Stored>(`SELECT ${COLUMNS} FROM vault WHERE id > $1 ORDER BY id LIMIT $2`, [
      after,
      limit,
    ]);
    const result = { last: rows.at(-1)?.id ?? '', rewritten: 0, failed: 0 };
    for (const row of rows) {
      if (keyIdOf(row.secret) === this.#envelope.keyId) continue;
      try {
        if (await this.#rewrite(row)) result.rewritten++;
      } catch {
        result.failed++;
      }
    }
    return result;
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM vault WHERE id IN
      (SELECT id FROM vault WHERE purge_at <= $1 ORDER BY purge_at LIMIT $2) RETURNING id`;
    return (await this.#db.q(sql, [wallMs(), this.batch])).length;
  }

  #seal(key: VaultKey, secret: unknown): string {
    return this.#envelope.seal(rowOf(key), JSON.stringify(secret));
  }

  async #insert(key: VaultKey, secret: unknown, status: NewStatus, maxRows: number): Promise<VaultRow | undefined> {
    const { caller, issuer, resource, upstream, variant = '' } = key;
    const now = wallMs();
    const [row] = await this.#db.q<Stored>(
      `INSERT INTO vault (id, caller, issuer, resource, upstream, secret, state, reason, expires_at, retry_at, attempts,
         since, created_at, updated_at, purge_at, rev, variant)
       SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT),
         CAST($6 AS TEXT), CAST($7 AS TEXT), CAST($8 AS TEXT), CAST($9 AS BIGINT), CAST($10 AS BIGINT),
         CAST($11 AS BIGINT), CAST($12 AS BIGINT), CAST($12 AS BIGINT), CAST($12 AS BIGINT), CAST($13 AS BIGINT), CAST($12 AS BIGINT),
         CAST($15 AS TEXT)
       WHERE EXISTS (SELECT 1 FROM vault WHERE id = CAST($1 AS TEXT))
         OR (SELECT COUNT(*) FROM vault WHERE caller = CAST($2 AS TEXT)) < CAST($14 AS BIGINT)
       ON CONFLICT (id) DO UPDATE SET secret = excluded.secret,
         since = CASE WHEN vault.state = excluded.state THEN vault.since ELSE excluded.since END,
         state = excluded.state, reason = excluded.reason, expires_at = excluded.expires_at,
         retry_at = excluded.retry_at, attempts = excluded.attempts, updated_at = excluded.updated_at,
         purge_at = excluded.purge_at, rev = vault.rev + 1
       RETURNING ${COLUMNS}`,
      [
        vaultId(key),
        caller,
        issuer,
        resource,
        upstream,
        this.#seal(key, secret),
        ...columns(status, now),
        maxRows,
        variant,
      ],
    );
    return row && described(row);
  }

  /** Encrypts a row under the sealing key. The revision stays: the value is the same, and writers need not repeat. */
  async #rewrite(row: Stored): Promise<boolean> {
    const key = rowOf(row);
    const sealed = this.#envelope.seal(key, this.#envelope.open(key, row.secret).text);
    const sql = 'UPDATE vault SET secret = $3 WHERE id = $1 AND secret = $2 RETURNING id';
    return (await this.#db.q(sql, [row.id, row.secret, sealed])).length > 0;
  }
}

/** state, reason, expires_at, retry_at, attempts, now, purge_at */
function columns(status: NewStatus, now: number): (string | number | null)[] {
  const { state, reason, expiresAt, retryAt, attempts, purgeAt } = status;
  const told = reason?.slice(0, MOST_REASON) ?? null;
  return [state, told, expiresAt ?? null, retryAt ?? null, attempts ?? 0, now, purgeAt ?? now + KEEP_MS];
}

function described(row: Stored): VaultRow {
  const { id, caller, issuer, resource, upstream, variant, state, reason, since, rev, attempts } = row;
  const over = state === 'active' && row.expires_at !== null && row.expires_at <= wallMs();
  return {
    id,
    caller,
    issuer,
    resource,
    upstream,
    variant,
    state: over ? 'expired' : (state as VaultState),
    reason: reason ?? undefined,
    since: over ? row.expires_at! : since,
    expiresAt: row.expires_at ?? undefined,
    retryAt: row.retry_at ?? undefined,
    attempts,
    rev,
    keyId: keyIdOf(row.secret),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
