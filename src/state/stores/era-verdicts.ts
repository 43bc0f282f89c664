import { wallMs } from '../clock.js';
import type { Db } from '../db.js';
import type { Expiring } from '../sweeper.js';

export interface Verdict<T> {
  value: T;
  /** The time of the probe. */
  datedAt: number;
  expiresAt: number;
}

/** The era of each probed server, so that no replica probes it again before the verdict expires. */
export class Verdicts<T = unknown> implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  async get(target: string): Promise<Verdict<T> | undefined> {
    const [row] = await this.#db.q<{ json: string; dated_at: number; expires_at: number }>(
      'SELECT json, dated_at, expires_at FROM era_verdicts WHERE target = $1 AND expires_at > $2',
      [target, wallMs()],
    );
    return row && { value: JSON.parse(row.json) as T, datedAt: row.dated_at, expiresAt: row.expires_at };
  }

  /** All valid verdicts, for the start of a process. */
  async all(): Promise<(Verdict<T> & { target: string })[]> {
    const rows = await this.#db.q<{ target: string; json: string; dated_at: number; expires_at: number }>(
      'SELECT target, json, dated_at, expires_at FROM era_verdicts WHERE expires_at > $1',
      [wallMs()],
    );
    return rows.map((row) => ({
      target: row.target,
      value: JSON.parse(row.json) as T,
      datedAt: row.dated_at,
      expiresAt: row.expires_at,
    }));
  }

  /** Stores a verdict, unless a newer one exists. */
  async put(target: string, { value, datedAt, expiresAt }: Verdict<T>): Promise<void> {
    await this.#db.q(
      `INSERT INTO era_verdicts (target, json, dated_at, expires_at) VALUES ($1, $2, $3, $4)
       ON CONFLICT (target) DO UPDATE SET json = excluded.json, dated_at = excluded.dated_at,
         expires_at = excluded.expires_at WHERE era_verdicts.dated_at <= excluded.dated_at`,
      [target, JSON.stringify(value), datedAt, expiresAt],
    );
  }

  async remove(target: string): Promise<void> {
    await this.#db.q('DELETE FROM era_verdicts WHERE target = $1', [target]);
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM era_verdicts WHERE target IN
      (SELECT target FROM era_verdicts WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) RETURNING target`;
    return (await this.#db.q(sql, [wallMs(), this.batch])).length;
  }
}
