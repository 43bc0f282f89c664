import { wallMs } from '../clock.js';
import type { Db, Value } from '../db.js';
import type { Expiring } from '../sweeper.js';

/** A record of the authorization server. `id` is a digest of the value that a client or a browser holds. */
export interface OAuthRecord {
  readonly model: string;
  readonly id: string;
  /** The content, encrypted. */
  readonly sealed: string;
  readonly grantId: string | undefined;
  /** A second unique id, by which a session can be looked up. */
  readonly uid: string | undefined;
  /** The user to whom the record belongs. */
  readonly account: string | undefined;
  readonly expiresAt: number;
}

export type SealedOAuthRecord = Pick<OAuthRecord, 'model' | 'id' | 'sealed'>;

export interface StoredOAuthRecord {
  readonly id: string;
  readonly sealed: string;
  readonly consumedAt: number | undefined;
  readonly expiresAt: number;
}

type Found = { id: string; sealed: string; consumed_at: number | null; expires_at: number };

const FOUND = 'id, sealed, consumed_at, expires_at';

/** The records of the built-in authorization server, shared by all replicas. */
export class OAuthRecords implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  async put({ model, id, sealed, grantId, uid, account, expiresAt }: OAuthRecord): Promise<void> {
    await this.#db.q(
      `INSERT INTO oauth_records (model, id, sealed, grant_id, uid, account, created_at, expires_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
       ON CONFLICT (model, id) DO UPDATE SET sealed = excluded.sealed, grant_id = excluded.grant_id, uid = excluded.uid,
         account = excluded.account, expires_at = excluded.expires_at`,
      [model, id, sealed, grantId ?? null, uid ?? null, account ?? null, wallMs(), expiresAt],
    );
  }

  async get(model: string, id: string): Promise<StoredOAuthRecord | undefined> {
    const sql = `SELECT ${FOUND} FROM oauth_records WHERE model = $1 AND id = $2 AND expires_at > $3`;
    return stored(await this.#db.q<Found>(sql, [model, id, wallMs()]));
  }

  async getByUid(model: string, uid: string): Promise<StoredOAuthRecord | undefined> {
    const sql = `SELECT ${FOUND} FROM oauth_records WHERE model = $1 AND uid = $2 AND expires_at > $3`;
    return stored(await this.#db.q<Found>(sql, [model, uid, wallMs()]));
  }

  /**
   * Marks a single-use record as used and keeps it for at most `keepMs`, so that a second use is noticed. Returns true
   * for the first caller only, over all replicas. With `mostUsed`, it returns false and changes nothing if the grant of
   * the record has that many used records of this kind.
   */
  async consume(model: string, id: string, keepMs: number, mostUsed?: number): Promise<boolean> {
    const now = wallMs();
    const params: Value[] = [model, id, now, now + keepMs];
    const bounded =
      mostUsed === undefined
        ? ''
        : `AND (SELECT COUNT(*) FROM oauth_records used WHERE used.grant_id = oauth_records.grant_id AND used.model = $1
             AND used.consumed_at IS NOT NULL AND used.expires_at > $3) < $${params.push(mostUsed)}`;
    const rows = await this.#db.q(
      `UPDATE oauth_records SET consumed_at = $3,
         expires_at = CASE WHEN expires_at > $4 THEN CAST($4 AS BIGINT) ELSE expires_at END
       WHERE model = $1 AND id = $2 AND consumed_at IS NULL AND expires_at > $3 ${bounded} RETURNING id`,
      params,
    );
    return rows.length > 0;
  }

  /** Extends the expiry of a record. A record that was removed stays removed. */
  async extend(model: string, id: string, expiresAt: number): Promise<void> {
    const sql = 'UPDATE oauth_records SET expires_at = $3 WHERE model = $1 AND id = $2 AND expires_at < $3';
    await this.#db.q(sql, [model, id, expiresAt]);
  }

  async remove(model: string, id: string): Promise<void> {
    await this.#db.q('DELETE FROM oauth_records WHERE model = $1 AND id = $2', [model, id]);
  }

  async removeByUid(model: string, uid: string): Promise<void> {
    await this.#db.q('DELETE FROM oauth_records WHERE model = $1 AND uid = $2', [model, uid]);
  }

  async removeGrant(grantId: string): Promise<void> {
    await this.#db.q('DELETE FROM oauth_records WHERE grant_id = $1', [grantId]);
  }

  /** Removes sessions, grants and tokens of a user. */
  async removeAccount(account: string): Promise<void> {
    await this.#db.q('DELETE FROM oauth_records WHERE account = $1', [account]);
  }

  /** The user to whom a record belongs; undefined if there is no such record. */
  async accountOf(model: string, id: string): Promise<string | undefined> {
    const sql = 'SELECT account FROM oauth_records WHERE model = $1 AND id = $2';
    const [row] = await this.#db.q<{ account: string | null }>(sql, [model, id]);
    return row && (row.account ?? '');
  }

  /** The ids of a user's records of one kind, without the `most` that end last and without the newest. */
  async beyond(
    model: string,
    account: string,
    { most, newest }: { readonly most: number; readonly newest: string },
  ): Promise<string[]> {
    const rows = await this.#db.q<{ id: string }>(
      `SELECT id FROM oauth_records WHERE account = $1 AND model = $2 AND id <> $4
       ORDER BY expires_at DESC, id LIMIT 100 OFFSET CAST($3 AS INTEGER)`,
      [account, model, most, newest],
    );
    return rows.map(({ id }) => id);
  }

  /** Removes the unused records of one kind of a grant, without the `most` newest. */
  async removeUnused(model: string, grantId: string, most: number): Promise<void> {
    await this.#db.q(
      `DELETE FROM oauth_records WHERE model = $1 AND id IN
         (SELECT id FROM oauth_records WHERE grant_id = $2 AND model = $1 AND consumed_at IS NULL
          ORDER BY created_at DESC, id LIMIT 100 OFFSET CAST($3 AS INTEGER))`,
      [model, grantId, most],
    );
  }

  /** Removes the records of one kind that expire first. */
  async removeFirstToEnd(model: string, count: number): Promise<void> {
    await this.#db.q(
      `DELETE FROM oauth_records WHERE model = $1 AND id IN
         (SELECT id FROM oauth_records WHERE model = $1 ORDER BY expires_at LIMIT CAST($2 AS INTEGER))`,
      [model, count],
    );
  }

  /** Records of all kinds that have not expired, in the order of their kinds and ids, after the given one. */
  async page(after: Pick<OAuthRecord, 'model' | 'id'>, limit: number): Promise<SealedOAuthRecord[]> {
    const sql = `SELECT model, id, sealed FROM oauth_records
      WHERE expires_at > $3 AND (model > $1 OR (model = $1 AND id > $2)) ORDER BY model, id LIMIT $4`;
    return this.#db.q<SealedOAuthRecord>(sql, [after.model, after.id, wallMs(), limit]);
  }

  /** Replaces the encrypted content of a record that nobody changed since. Returns false otherwise. */
  async reseal({ model, id, sealed }: SealedOAuthRecord, next: string): Promise<boolean> {
    const sql = 'UPDATE oauth_records SET sealed = $4 WHERE model = $1 AND id = $2 AND sealed = $3 RETURNING id';
    return (await this.#db.q(sql, [model, id, sealed, next])).length > 0;
  }

  async count(model: string): Promise<number> {
    const [row] = await this.#db.q<{ n: number }>('SELECT COUNT(*) AS n FROM oauth_records WHERE model = $1', [model]);
    return Number(row?.n ?? 0);
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM oauth_records WHERE (model, id) IN
      (SELECT model, id FROM oauth_records WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) RETURNING id`;
    return (await this.#db.q(sql, [wallMs(), this.batch])).length;
  }
}

const stored = ([row]: readonly Found[]): StoredOAuthRecord | undefined =>
  row && { id: row.id, sealed: row.sealed, consumedAt: row.consumed_at ?? undefined, expiresAt: row.expires_at };
