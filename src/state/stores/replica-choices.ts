import { wallMs } from '../clock.js';
import type { Db, Statement } from '../db.js';
import { newId } from '../ids.js';
import type { Expiring } from '../sweeper.js';

/** Maximum number of rows over all pools; the oldest rows are removed. */
const MOST_ROWS = 100_000;

/** Choices among equivalent upstreams, by pool and in the order of their ids, which is the order of time. */
export class ReplicaChoices<T = unknown> implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;
  readonly #most: number;

  constructor(db: Db, most = MOST_ROWS) {
    this.#db = db;
    this.#most = most;
  }

  async add(choices: readonly { readonly pool: string; readonly value: T }[], ttlMs: number): Promise<void> {
    const expiresAt = wallMs() + ttlMs;
    const sql = 'INSERT INTO replica_choices (id, pool, json, expires_at) VALUES ($1, $2, $3, $4)';
    const statements = choices.map(
      ({ pool, value }): Statement => [sql, [newId(), pool, JSON.stringify(value), expiresAt]],
    );
    if (statements.length > 0) await this.#db.tx(statements);
  }

  /** The latest choices of a pool, the oldest first. */
  async latest(pool: string, most: number): Promise<T[]> {
    const sql = 'SELECT json FROM replica_choices WHERE pool = $1 AND expires_at > $2 ORDER BY id DESC LIMIT $3';
    const rows = await this.#db.q<{ json: string }>(sql, [pool, wallMs(), most]);
    return rows.reverse().map(({ json }) => JSON.parse(json) as T);
  }

  /** Each pool that has choices, with the number of its choices. */
  async pools(): Promise<{ readonly pool: string; readonly count: number }[]> {
    const sql = `SELECT pool, COUNT(*) AS count FROM replica_choices WHERE expires_at > $1 GROUP BY pool ORDER BY pool`;
    const rows = await this.#db.q<{ pool: string; count: number }>(sql, [wallMs()]);
    return rows.map(({ pool, count }) => ({ pool, count: Number(count) }));
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM replica_choices WHERE id IN
      (SELECT id FROM replica_choices WHERE expires_at <= $1
        OR id <= COALESCE((SELECT id FROM replica_choices ORDER BY id DESC LIMIT 1 OFFSET $2), '')
        ORDER BY id LIMIT $3) RETURNING id`;
    return (await this.#db.q(sql, [wallMs(), this.#most, this.batch])).length;
  }
}
