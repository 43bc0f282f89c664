import { wallMs } from '../clock.js';
import type { Db } from '../db.js';
import { Documents } from './documents.js';

/** Calls that wait for an answer of their client. `owner` is set if only that replica can resume the call. */
export class ParkedCallRows<T = unknown> extends Documents<T> {
  constructor(db: Db) {
    super(db, 'parked_calls');
  }

  /** Removes a parked call and returns it, so that exactly one replica resumes it; undefined for all later takers. */
  async take(id: string): Promise<{ principal: string; owner: string; value: T } | undefined> {
    const [row] = await this.db.q<{ principal: string; owner: string; json: string }>(
      'DELETE FROM parked_calls WHERE id = $1 AND (expires_at IS NULL OR expires_at > $2) RETURNING principal, owner, json',
      [id, wallMs()],
    );
    return row && { principal: row.principal, owner: row.owner, value: JSON.parse(row.json) as T };
  }
}
