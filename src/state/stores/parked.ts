import { wallMs } from '../clock.js';
import type { Db } from '../db.js';
import { Documents } from './documents.js';

/** Calls that wait for an answer of their client. `owner` is set where only that replica can go on with the call. */
export class ParkedCalls<T = unknown> extends Documents<T> {
  constructor(db: Db) {
    super(db, 'parked_calls');
  }

  /** Takes a parked call out so that exactly one replica resumes it: undefined for everybody but the first. */
  async take(id: string): Promise<{ principal: string; owner: string; value: T } | undefined> {
    const [row] = await this.db.q<{ principal: string; owner: string; json: string }>(
      'DELETE FROM parked_calls WHERE id = $1 AND (expires_at IS NULL OR expires_at > $2) RETURNING principal, owner, json',
      [id, wallMs()],
    );
    return row && { principal: row.principal, owner: row.owner, value: JSON.parse(row.json) as T };
  }
}
