import { wallMs } from '../clock.js';
import type { Db } from '../db.js';
import type { Expiring } from '../sweeper.js';

/** A revoked grant, token or user: access tokens that were issued until `at` are refused. */
export interface Revocation {
  readonly id: string;
  /** Epoch milliseconds. */
  readonly at: number;
}

export interface NewRevocations {
  /** The highest number that was read; the next read starts after it. */
  readonly seq: number;
  readonly revocations: readonly Revocation[];
}

const COUNTER = 'oauth_revocations';
/** Maximum number of rows per read. */
const PAGE = 1_000;

/**
 * Revoked access tokens that have not expired yet. A counter in `meta` orders the revocations: its row is locked until
 * the commit, so a reader that has seen number n has seen every revocation up to n.
 */
export class OAuthRevocations implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Durable and visible to every replica's next read when the promise resolves. The row is kept for `keepMs`. */
  async add(id: string, keepMs: number): Promise<void> {
    const now = wallMs();
    await this.#db.tx([
      [
        `INSERT INTO meta (key, value) VALUES ('${COUNTER}', 1)
         ON CONFLICT (key) DO UPDATE SET value = meta.value + 1`,
        [],
      ],
      [
        `INSERT INTO oauth_revocations (id, seq, revoked_at, expires_at)
         SELECT CAST($1 AS TEXT), value, CAST($2 AS BIGINT), CAST($3 AS BIGINT) FROM meta WHERE key = '${COUNTER}'
         ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, revoked_at = excluded.revoked_at,
           expires_at = excluded.expires_at`,
        [id, now, now + keepMs],
      ],
    ]);
  }

  /** The revocations after number `seq`; -1 for all. */
  async after(seq: number): Promise<NewRevocations> {
    const [counter] = await this.#db.q<{ value: number }>(`SELECT value FROM meta WHERE key = '${COUNTER}'`);
    const newest = counter?.value ?? 0;
    if (newest === seq) return { seq, revocations: [] };
    const revocations: Revocation[] = [];
    // A lower number means that the database was restored from a copy: everything is read again.
    for (let last = newest < seq ? -1 : seq; last < newest; ) {
      const rows = await this.#db.q<{ id: string; seq: number; revoked_at: number }>(
        'SELECT id, seq, revoked_at FROM oauth_revocations WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3',
        [last, newest, PAGE],
      );
      for (const row of rows) revocations.push({ id: row.id, at: row.revoked_at });
      last = rows.length < PAGE ? newest : rows.at(-1)!.seq;
    }
    return { seq: newest, revocations };
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM oauth_revocations WHERE id IN
      (SELECT id FROM oauth_revocations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) RETURNING id`;
    return (await this.#db.q(sql, [wallMs(), this.batch])).length;
  }
}
