import { wallMs } from '../clock.js';
import type { Db, Statement } from '../db.js';
import type { Expiring } from '../sweeper.js';

/** The scores of one evaluator for one target in one hour, of all replicas. Scores are whole thousandths. */
export interface ScoreRow {
  readonly evaluator: string;
  readonly upstream: string;
  readonly target: string;
  /** The beginning of the hour. */
  readonly since: number;
  readonly count: number;
  readonly total: number;
  readonly lowest: number;
  readonly lowestRequest: string;
}

export interface ScoreFilter {
  /** Lists only hours that begin at this time or later. */
  readonly since: number;
  readonly evaluator?: string | undefined;
  readonly upstream?: string | undefined;
  readonly target?: string | undefined;
  /** The key of the row after which the list begins. */
  readonly after?: Pick<ScoreRow, 'evaluator' | 'upstream' | 'target' | 'since'> | undefined;
  readonly limit: number;
}

/** How long the scores of an hour are kept. */
const KEEP_MS = 7 * 24 * 3_600_000;
const MOST_ROWS = 50_000;

const COLUMNS = 'evaluator, upstream, target, since, count, total, lowest, lowest_request';

/** The sums of the scores of each hour. All replicas add to the same rows. */
export class Scores implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;
  readonly #most: number;

  constructor(db: Db, most = MOST_ROWS) {
    this.#db = db;
    this.#most = most;
  }

  async add(rows: readonly ScoreRow[]): Promise<void> {
    const sql = `INSERT INTO scores (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
      ON CONFLICT (evaluator, upstream, target, since) DO UPDATE SET count = scores.count + excluded.count,
        total = scores.total + excluded.total,
        lowest_request = CASE WHEN excluded.lowest < scores.lowest THEN excluded.lowest_request ELSE scores.lowest_request END,
        lowest = CASE WHEN excluded.lowest < scores.lowest THEN excluded.lowest ELSE scores.lowest END`;
    // In the same order at every replica, so that two of them cannot wait for each other.
    const sorted = [...rows].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
    await this.#db.tx(
      sorted.map((row): Statement => {
        const { evaluator, upstream, target, since, count, total, lowest, lowestRequest } = row;
        return [sql, [evaluator, upstream, target, since, count, total, lowest, lowestRequest]];
      }),
    );
  }

  async list({ since, evaluator, upstream, target, after, limit }: ScoreFilter): Promise<ScoreRow[]> {
    const params: (string | number)[] = [since];
    const conditions = ['since >= $1'];
    const equal = (column: string, value: string | undefined): void => {
      if (value !== undefined) conditions.push(`${column} = $${params.push(value)}`);
    };
    equal('evaluator', evaluator);
    equal('upstream', upstream);
    equal('target', target);
    if (after) {
      const place = [after.evaluator, after.upstream, after.target, after.since].map(
        (value) => `$${params.push(value)}`,
      );
      conditions.push(`(evaluator, upstream, target, since) > (${place.join(', ')})`);
    }
    const rows = await this.#db.q<Stored>(
      `SELECT ${COLUMNS} FROM scores WHERE ${conditions.join(' AND ')}
       ORDER BY evaluator, upstream, target, since LIMIT $${params.push(limit)}`,
      params,
    );
    return rows.map(({ lowest_request: lowestRequest, ...row }) => ({ ...row, lowestRequest }));
  }

  /** Removes old hours, and the oldest ones beyond the limit. */
  async sweep(): Promise<number> {
    const [edge] = await this.#db.q<{ since: number }>(
      'SELECT since FROM scores ORDER BY since DESC LIMIT 1 OFFSET $1',
      [this.#most],
    );
    const before = Math.max(wallMs() - KEEP_MS, edge === undefined ? 0 : edge.since + 1);
    const sql = `DELETE FROM scores WHERE (evaluator, upstream, target, since) IN
      (SELECT evaluator, upstream, target, since FROM scores WHERE since < $1 ORDER BY since LIMIT $2) RETURNING since`;
    return (await this.#db.q(sql, [before, this.batch])).length;
  }
}

type Stored = Omit<ScoreRow, 'lowestRequest'> & { lowest_request: string } & Record<string, string | number>;

const orderOf = ({ evaluator, upstream, target, since }: ScoreRow): string =>
  JSON.stringify([evaluator, upstream, target, since]);
