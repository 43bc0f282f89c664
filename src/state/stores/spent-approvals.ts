import { wallMs } from '../clock.js';
import type { Db } from '../db.js';
import type { Expiring } from '../sweeper.js';

/**
 * Extra lifetime of a row after its approval expires: a clock that is set back must not make the approval valid again.
 */
const CLOCK_JUMP = 24 * 60 * 60 * 1000;

/** Single-use approvals that a call has used. A row is kept long after its approval has expired. */
export class SpentApprovals implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /**
   * Marks the approval as used for `ttlMs`. Returns true for the first caller only, over all replicas. An expired row
   * that was not removed yet still counts: an approval is never valid a second time.
   */
  async spend(id: string, ttlMs: number): Promise<boolean> {
    const rows = await this.#db.q(
      'INSERT INTO spent_approvals (id, expires_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING id',
      [id, wallMs() + ttlMs + CLOCK_JUMP],
    );
    return rows.length > 0;
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM spent_approvals WHERE id IN
      (SELECT id FROM spent_approvals WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) RETURNING id`;
    return (await this.#db.q(sql, [wallMs(), this.batch])).length;
  }
}
