import type { Socket } from 'node:net';
import type { Pool, PoolClient, PoolConfig } from 'pg';
import { backoff, sleep, within } from '../../core/timing.js';
import { followEngine } from '../clock.js';
import type { Db, Row, Statement, Value } from '../db.js';
import { StateError } from '../errors.js';
import { engineClock } from '../sql-dialect.js';
import { postgresError, repeatable } from './errors.js';

export interface PostgresOptions {
  max?: number;
  connectTimeoutMs?: number;
  queryTimeoutMs?: number;
  /** Maximum number of operations that wait for a connection. Further operations are refused immediately. */
  maxWaiting?: number;
  /** The URL leads to a pooler that assigns a server connection per transaction, such as PgBouncer. */
  pooled?: boolean;
  /** Whether this process takes its time of day from this server; true by default. */
  clock?: boolean;
}

const BIGINT = 20;
const NUMERIC = 1700;
const ATTEMPTS = 4;
/** Interval of clock reads: clocks drift slowly, but the clock of a machine that slept is suddenly late. */
const CLOCK_EVERY = 10_000;
/**
 * Number of clock reads at the start. One is not enough, because the first read opens a connection and is therefore
 * slow and inexact.
 */
const CLOCK_LOOKS = 3;
/**
 * Time limit for an idle open transaction. A transaction reaches the server in one piece, so an idle one belongs to a
 * dead or frozen process. The limit is shorter than the lease of a replica, because after the lease no transaction of a
 * dead replica may lock rows that other replicas need (case 25).
 */
const OPEN_MS = 2_000;

/** Sets a time limit for every wait, because the driver by default waits forever for a frozen server. */
export function connectionConfig(url: string, options: PostgresOptions, pg: typeof import('pg')): PoolConfig {
  const queryTimeoutMs = options.queryTimeoutMs ?? 5_000;
  return {
    connectionString: url,
    application_name: 'parley',
    connectionTimeoutMillis: options.connectTimeoutMs ?? 2_000,
    query_timeout: queryTimeoutMs,
    // A pooler refuses settings of a session, because its clients have no sessions of their own.
    ...(options.pooled !== true && {
      statement_timeout: queryTimeoutMs,
      idle_in_transaction_session_timeout: Math.min(OPEN_MS, queryTimeoutMs),
    }),
    keepAlive: true,
    // All statements of a transaction take one round trip, and the driver destroys a connection that timed out.
    pipeline: true,
    types: {
      getTypeParser: (oid, format) =>
        oid === BIGINT || oid === NUMERIC ? Number : pg.default.types.getTypeParser(oid, format),
    },
  };
}

export class PostgresDb implements Db {
  readonly dialect = 'postgres';
  readonly #pool: Pool;
  readonly #maxWaiting: number;
  readonly #clock: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  private constructor(pool: Pool, { maxWaiting = 5_000, clock = true }: PostgresOptions) {
    this.#pool = pool;
    this.#maxWaiting = maxWaiting;
    if (clock) this.#clock = setInterval(() => void this.#readClock(), CLOCK_EVERY).unref();
  }

  static async open(url: string, options: PostgresOptions = {}): Promise<PostgresDb> {
    const pg = await import('pg');
    const pool = new pg.default.Pool({ ...connectionConfig(url, options, pg), max: options.max ?? 10 });
    // The pool replaces a broken idle connection on the next use. Without a listener the error would end the process.
    pool.on('error', () => {});
    const db = new PostgresDb(pool, options);
    for (let i = 0; i < CLOCK_LOOKS && db.#clock; i++) await db.#readClock();
    return db;
  }

  /** Reads the clock of the server. If the server is away, the last reading stays in use. */
  async #readClock(): Promise<void> {
    const asked = performance.now();
    try {
      const [row] = await this.q<{ now: number }>(`SELECT ${engineClock('postgres')} AS now`);
      const took = performance.now() - asked;
      if (row) followEngine(row.now, took);
    } catch {
      // The next interval tries again.
    }
  }

  /** Whether the URL leads to a pooler: the answering backend is not the backend that accepted this connection. */
  async leadsToPooler(): Promise<boolean> {
    return this.#with(async (client) => {
      const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      return rows[0]?.pid !== (client as unknown as { processID: number }).processID;
    });
  }

  async q<R extends Row = Row>(sql: string, params: readonly Value[] = []): Promise<R[]> {
    return this.#repeat(async () => {
      const result = await this.#with((client) => client.query<R>(sql, [...params]));
      return result.rows;
    });
  }

  async tx(statements: readonly Statement[]): Promise<Row[][]> {
    const [only, ...more] = statements;
    if (!only) return [];
    if (more.length === 0) return [await this.q(...only)];
    return this.#repeat(() => this.#with((client) => transaction(client, statements)));
  }

  close(): Promise<void> {
    clearInterval(this.#clock);
    this.#closed ??= within(this.#pool.end(), 5_000);
    return this.#closed;
  }

  /** Repeats after deadlocks and serialization failures, because the engine has rolled the statements back. */
  async #repeat<T>(once: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await once();
      } catch (error) {
        if (attempt === ATTEMPTS || !repeatable(error)) throw postgresError(error);
        await sleep(backoff(attempt, { first: 10, longest: 50, jitter: 1 }));
      }
    }
  }

  async #with<T>(use: (client: PoolClient) => Promise<T>): Promise<T> {
    if (this.#closed) throw new StateError('closed', 'the database is closed');
    if (this.#pool.waitingCount >= this.#maxWaiting) {
      throw new StateError('overloaded', `${this.#pool.waitingCount} database operations are waiting`);
    }
    let client: PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      throw postgresError(error, 'not_executed');
    }
    // The pool handles errors only of idle connections. A server that dies during a query must not end the process.
    const ignore = (): void => {};
    client.on('error', ignore);
    let broken: Error | undefined;
    try {
      return await use(client);
    } catch (error) {
      // After an SQL error the connection is usable. After other errors, the next user could get a late answer.
      if (!(error instanceof StateError) && !(error as { severity?: string }).severity) broken = error as Error;
      throw error;
    } finally {
      client.removeListener('error', ignore);
      client.release(broken);
    }
  }
}

/**
 * Sends all statements at once, including COMMIT. After a failed statement the server treats COMMIT as ROLLBACK. This
 * is correct only if the driver sends every statement, so parameters that the driver could reject are refused first.
 * All statements go out in one write, because a process that stops between two writes would leave its locks behind
 * (case 25).
 */
async function transaction(client: PoolClient, statements: readonly Statement[]): Promise<Row[][]> {
  for (const [, params] of statements) {
    if (params.some((value) => value !== null && typeof value !== 'string' && typeof value !== 'number')) {
      throw new StateError('internal', 'a parameter is neither text, nor number, nor null');
    }
  }
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.cork();
  const begin = client.query('BEGIN');
  const sent = statements.map(([sql, params]) => client.query<Row>(sql, [...params]));
  const commit = client.query('COMMIT');
  stream.uncork();
  const settled = await Promise.allSettled([begin, ...sent, commit]);
  // The first failure is the cause. Later failures only report that the transaction is aborted.
  const failed = settled.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  return settled.slice(1, -1).map((result) => (result.status === 'fulfilled' ? (result.value.rows as Row[]) : []));
}
