import type { Socket } from 'node:net';
import type { Pool, PoolClient, PoolConfig } from 'pg';
import { backoff, sleep, within } from '../../core/timing.js';
import { followEngine } from '../clock.js';
import type { Db, Row, Statement, Value } from '../db.js';
import { engineClock } from '../dialect.js';
import { StateError } from '../errors.js';
import { postgresError, repeatable } from './errors.js';

export interface PostgresOptions {
  max?: number;
  connectTimeoutMs?: number;
  queryTimeoutMs?: number;
  /** Operations waiting for a connection at most; further ones are refused at once. */
  maxWaiting?: number;
  /** The address is one of a pooler that gives a connection of the server to each transaction, such as PgBouncer. */
  pooled?: boolean;
  /** Whether this process goes by the clock that these connections read; true where not given. */
  clock?: boolean;
}

const BIGINT = 20;
const NUMERIC = 1700;
const ATTEMPTS = 4;
/** Clocks drift apart slowly; a machine that slept falls behind at once. */
const CLOCK_EVERY = 10_000;
/** The first answer comes with a new connection, and takes longer. */
const CLOCK_LOOKS = 3;
/**
 * A transaction reaches the server in one piece, so one that stands open belongs to a process that is dead or frozen. It
 * is ended before a replica's lease is over: by then nothing may hold the rows that the others need (case 25).
 */
const OPEN_MS = 2_000;

/** Every wait has an end: the driver's defaults wait for ever on a frozen server. */
export function connectionConfig(url: string, options: PostgresOptions, pg: typeof import('pg')): PoolConfig {
  const queryTimeoutMs = options.queryTimeoutMs ?? 5_000;
  return {
    connectionString: url,
    application_name: 'parley',
    connectionTimeoutMillis: options.connectTimeoutMs ?? 2_000,
    query_timeout: queryTimeoutMs,
    // A pooler refuses settings of a session: it has none to keep them in.
    ...(options.pooled !== true && {
      statement_timeout: queryTimeoutMs,
      idle_in_transaction_session_timeout: Math.min(OPEN_MS, queryTimeoutMs),
    }),
    keepAlive: true,
    // One round trip for a whole transaction's statements, and a timed-out connection is destroyed by the driver.
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
    // An idle connection that breaks is replaced on the next use; without a listener it would end the process.
    pool.on('error', () => {});
    const db = new PostgresDb(pool, options);
    for (let i = 0; i < CLOCK_LOOKS && db.#clock; i++) await db.#readClock();
    return db;
  }

  /** A server that is away has no time to tell; what it said last holds. */
  async #readClock(): Promise<void> {
    const asked = performance.now();
    try {
      const [row] = await this.q<{ now: number }>(`SELECT ${engineClock('postgres')} AS now`);
      const took = performance.now() - asked;
      if (row) followEngine(row.now, took);
    } catch {
      // The next time.
    }
  }

  /** Whether the address leads to a pooler: the server that answers is not the one this connection was opened to. */
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

  /** Deadlocks and serialization failures: the engine rolled back, and a list can be run again. */
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
    // The pool listens only while a connection is idle; a server that dies in mid-query must not end the process.
    const ignore = (): void => {};
    client.on('error', ignore);
    let broken: Error | undefined;
    try {
      return await use(client);
    } catch (error) {
      // An SQL error leaves the connection sound; anything else may leave an answer on its way to the next user.
      if (!(error instanceof StateError) && !(error as { severity?: string }).severity) broken = error as Error;
      throw error;
    } finally {
      client.removeListener('error', ignore);
      client.release(broken);
    }
  }
}

/**
 * Everything is sent at once, the COMMIT included: after a failed statement the server answers it with a ROLLBACK. That
 * rests on nothing being dropped on our side of the wire, so what the driver could stumble over is refused first. At
 * once means in one write: a process that is stopped between two of them would leave its locks behind (case 25).
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
  // The first failure is the reason; what follows only says that the transaction is aborted.
  const failed = settled.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  return settled.slice(1, -1).map((result) => (result.status === 'fulfilled' ? (result.value.rows as Row[]) : []));
}
