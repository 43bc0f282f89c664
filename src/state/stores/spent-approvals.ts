import { wallMs } from '../clock.js';
import type { Db } from '../db.js';
import type { Expiring } from '../sweeper.js';

/**
 * Extra lifetime of a row after its approval expires: a clock that is set back must not make the approval valid again.
 */
const CLOCK_JUMP = 24 * 60 * 60 * 1000;

/**
 * The most stored approvals of an owner. They need no person: a program may answer for itself. A row cannot be removed
 * early, because its approval would be valid again.
 */
const MOST_OF_OWNER = 50_000;

/** Single-use approvals that a call has used. A row is kept long after its approval has expired. */
export class SpentApprovals implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;
  readonly #most: number;

  constructor(db: Db, most = MOST_OF_OWNER) {
    this.#db = db;
    this.#most = most;
  }

  /**
   * Marks the approval as used for `ttlMs`. Returns `first` for the first caller only, over all replicas. An expired
   * row that was not removed yet still counts: an approval is never valid a second time. Returns `full`, and marks
   * nothing, if the owner has too many stored ones.
   */
  async spend(id: string, owner: string, ttlMs: number): Promise<'first' | 'used' | 'full'> {
    const rows = await this.#db.q(
      `INSERT INTO spent_approvals (id, owner, expires_at)
       SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT)
       WHERE (SELECT COUNT(*) FROM spent_approvals WHERE owner = $2) < $4
       ON CONFLICT (id) DO NOTHING RETURNING id`,
      [id, owner, wallMs() + ttlMs + CLOCK_JUMP, this.#most],
    );
    if (rows.length > 0) return 'first';
    return (await this.#db.q('SELECT id FROM spent_approvals WHERE id = $1', [id])).length > 0 ? 'used' : 'full';
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM spent_approvals WHERE id IN
      (SELECT id FROM spent_approvals WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) RETURNING id`;
    return (await this.#db.q(sql, [wallMs(), this.batch])).length;
  }
}
