import {
  type AppendOptions,
  type Bus,
  checkShard,
  fenced,
  formatId,
  gap,
  parseId,
  START,
  type StreamEvent,
} from './bus.js';
import { Wakeups } from './bus-listeners.js';
import { wallMs } from './clock.js';
import type { Counters } from './counters.js';
import type { Db, Row, Statement, Value } from './db.js';
import { newId } from './ids.js';
import { engineClock, leaseLock } from './sql-dialect.js';
import type { Expiring } from './sweeper.js';

/** Sends hints about changed streams to the processes with listeners for these streams. */
export interface Hints {
  send(name: string): void;
  listen(wakeups: Wakeups): void;
  /** Called when a further channel is needed. */
  update(): void;
  close(): Promise<void>;
}

export interface SqlBusOptions {
  pollMs?: number;
  /** Connections for leases only, because a renewal must not wait for other queries. */
  leases?: Db;
  hints?: Hints;
  /** The counters to use in place of the table. */
  counters?: Counters;
  /** See `Wakeups`. */
  changed?: () => Promise<boolean>;
}

interface ReadRow extends Row {
  epoch: number;
  last: number;
  trimmed: number;
  seq: number | null;
  data: string;
}

interface StreamRow extends Row {
  stream: string;
  epoch: number;
  last: number;
  trimmed: number;
  mark: string;
}

/**
 * How long the row of an expired lease is kept. The first fence of a new row is the current time, so a lease whose row
 * was removed never gets an old fence again.
 */
const LEASE_KEPT_MS = 24 * 3_600_000;

/** Maximum number of streams that one statement removes: small, because a stream may have a thousand events. */
const SWEPT_STREAMS = 100;
const SWEPT_ROWS = 2_000;

/** The Bus on SQL: with SQLite the embedded Bus, with PostgreSQL the Bus of a cluster without Redis. */
export class SqlBus implements Bus {
  readonly #db: Db;
  readonly #leases: Db;
  readonly #hints: Hints | undefined;
  readonly #counters: Counters | undefined;
  readonly #wakeups: Wakeups;
  readonly #sql: ReturnType<typeof statements>;

  constructor(db: Db, options: SqlBusOptions = {}) {
    this.#db = db;
    this.#leases = options.leases ?? db;
    this.#hints = options.hints;
    this.#counters = options.counters;
    this.#sql = statements(db.dialect);
    this.#wakeups = new Wakeups({
      pollMs: options.pollMs ?? 5_000,
      tails: (streams) => this.#tails(streams),
      needed: () => this.#hints?.update(),
      ...(options.changed ? { changed: options.changed } : {}),
    });
    this.#hints?.listen(this.#wakeups);
  }

  async append(stream: string, data: string, options: AppendOptions): Promise<string> {
    const { maxLen, ttlMs, fence } = options;
    const mark = options.mark ?? newId();
    const bytes = Buffer.byteLength(data);
    const maxBytes = options.maxBytes ?? Number.MAX_SAFE_INTEGER;
    const key = fence?.key ?? null;
    if (key !== null) checkShard(stream, key);
    const list: Statement[] = [
      [this.#sql.advance, [stream, wallMs(), bytes, mark, ttlMs, key, fence?.fence ?? null]],
      [INSERT_EVENT, [stream, data, mark]],
      [BOUND, [stream, maxLen, maxBytes]],
      [TRIM, [stream]],
      [FIND, [stream]],
    ];
    if (fence && this.#sql.holdLease) list.unshift([this.#sql.holdLease, [fence.key]]);
    try {
      const row = (await this.#db.tx(list)).at(-1)?.[0] as StreamRow | undefined;
      // The newest mark of the stream is not that of this append, so the fence check refused the append.
      if (row?.mark !== mark) throw fenced(stream, key ?? '');
      return formatId({ epoch: row.epoch, seq: row.last });
    } finally {
      // Listeners are notified even after an error, because an append without an answer may have succeeded.
      this.#wakeups.fire(stream);
      this.#hints?.send(stream);
    }
  }

  async read(stream: string, after: string, limit: number): Promise<StreamEvent[]> {
    const cursor = after === START ? { epoch: null, seq: 0 } : parseId(after);
    if (!cursor) throw gap(stream, after);
    const rows = await this.#db.q<ReadRow>(this.#sql.read, [stream, cursor.seq, limit]);
    const head = rows[0];
    if (!head) {
      if (after === START) return [];
      throw gap(stream, after);
    }
    const known = cursor.epoch === null || cursor.epoch === head.epoch;
    if (!known || cursor.seq < head.trimmed || cursor.seq > head.last) throw gap(stream, after);
    return rows.flatMap(({ epoch, seq, data }) => (seq === null ? [] : [[formatId({ epoch, seq }), data] as const]));
  }

  async tail(stream: string): Promise<string> {
    return (await this.#tails([stream])).get(stream) ?? START;
  }

  async drop(stream: string): Promise<void> {
    await this.#db.tx([
      ['DELETE FROM stream_events WHERE stream = $1', [stream]],
      ['DELETE FROM streams WHERE stream = $1', [stream]],
    ]);
  }

  wake(stream: string, fn: () => void): () => void {
    return this.#wakeups.add(stream, fn);
  }

  hint(topic: string): void {
    this.#wakeups.fire(topic);
    this.#hints?.send(topic);
  }

  onHint(topic: string, fn: () => void): () => void {
    return this.#wakeups.addHinted(topic, fn);
  }

  async lease(key: string, owner: string, ttlMs: number): Promise<number | undefined> {
    const list: Statement[] = [[this.#sql.lease, [key, owner, wallMs(), ttlMs]]];
    if (this.#sql.takeLease) list.unshift([this.#sql.takeLease, [key]]);
    const [row] = (await this.#leases.tx(list)).at(-1) as { fence: number }[];
    return row?.fence;
  }

  async renew(key: string, owner: string, ttlMs: number): Promise<boolean> {
    const rows = await this.#leases.q(this.#sql.renew, [key, owner, ttlMs]);
    return rows.length > 0;
  }

  async release(key: string, owner: string): Promise<boolean> {
    const rows = await this.#leases.q(this.#sql.release, [key, owner]);
    return rows.length > 0;
  }

  async holder(key: string): Promise<{ owner: string; fence: number } | undefined> {
    const [row] = await this.#leases.q<{ owner: string; fence: number }>(this.#sql.holder, [key]);
    return row && { owner: row.owner, fence: row.fence };
  }

  async members(group: string, _self: string, _ttlMs: number): Promise<Map<string, number>> {
    const rows = await this.#leases.q<{ owner: string; rest: number }>(this.#sql.members, [`${group}:%`, `${group}:`]);
    return new Map(rows.map(({ owner, rest }) => [owner, rest]));
  }

  async incr(key: string, n: number, ttlMs: number): Promise<number> {
    if (this.#counters) return this.#counters.incr(key, n, ttlMs);
    const [row] = await this.#db.q<{ value: number }>(this.#sql.incr, [key, n, ttlMs]);
    return row?.value ?? n;
  }

  async ping(): Promise<void> {
    await Promise.all([...new Set([this.#db, this.#leases])].map((db) => db.q('SELECT 1 AS one')));
  }

  /** The expiring rows of the bus, for the sweeper. */
  get expiring(): Expiring[] {
    const count = async (sql: string, params: readonly Value[]): Promise<number> =>
      (await this.#db.q(sql, params)).length;
    return [
      { batch: 1, sweep: () => this.#sweepStreams() },
      { batch: SWEPT_ROWS, sweep: () => count(this.#sql.sweepLeases, [LEASE_KEPT_MS]) },
      { batch: SWEPT_ROWS, sweep: () => count(this.#sql.sweepCounters, []) },
    ];
  }

  /** Returns 1 if more expired rows may be left, otherwise 0. */
  async #sweepStreams(): Promise<number> {
    const [events, streams] = await this.#db.tx([
      [this.#sql.sweepEvents, []],
      [this.#sql.sweepStreams, []],
    ]);
    return events!.length >= SWEPT_ROWS || streams!.length >= SWEPT_STREAMS ? 1 : 0;
  }

  async close(): Promise<void> {
    this.#wakeups.close();
    await this.#hints?.close();
    if (this.#leases !== this.#db) await this.#leases.close();
  }

  async #tails(streams: readonly string[]): Promise<Map<string, string>> {
    const holes = streams.map((_, i) => `$${i + 1}`).join(', ');
    const sql = `SELECT stream, epoch, last FROM streams WHERE ${alive(this.#db.dialect, 'streams')} AND stream IN (${holes})`;
    const rows = await this.#db.q<StreamRow>(sql, streams);
    return new Map(rows.map(({ stream, epoch, last }) => [stream, formatId({ epoch, seq: last })]));
  }
}

// Inserts the event only if the newest mark of the stream is that of this append. A refused append inserts nothing, and
// a repeated append inserts nothing a second time.
const INSERT_EVENT = `INSERT INTO stream_events (stream, epoch, seq, bytes, data)
  SELECT stream, epoch, last, bytes, CAST($2 AS TEXT) FROM streams WHERE stream = $1 AND mark = $3
  ON CONFLICT (stream, epoch, seq) DO NOTHING`;

// The last event to trim: the events after it are within both bounds. `bytes` counts from the start of the stream. The
// newest event stays.
const cut = (column: string): string => `COALESCE((SELECT e.${column} FROM stream_events e
  WHERE e.stream = streams.stream AND e.epoch = streams.epoch AND e.seq > streams.trimmed AND e.seq < streams.last
    AND ((e.seq >= streams.last - CAST($2 AS BIGINT) AND e.bytes >= streams.bytes - CAST($3 AS BIGINT))
      OR e.seq = streams.last - 1)
  ORDER BY e.seq LIMIT 1), streams.trimmed`;

const BOUND = `UPDATE streams SET trimmed = ${cut('seq')}), trimmed_bytes = ${cut('bytes')}_bytes)
  WHERE stream = $1 AND (last - trimmed > CAST($2 AS BIGINT) OR bytes - trimmed_bytes > CAST($3 AS BIGINT))`;

const TRIM = `DELETE FROM stream_events WHERE stream = $1 AND (epoch, seq) <=
  ((SELECT epoch FROM streams WHERE stream = $1), (SELECT trimmed FROM streams WHERE stream = $1))`;

const FIND = 'SELECT epoch, last, mark FROM streams WHERE stream = $1';

/**
 * The condition that a row has not expired. Its lifetime started at `expires_at - ttl`. A start in the future means
 * that the machine has restarted its monotonic clock since, so the row has expired.
 */
function alive(dialect: Db['dialect'], table: 'leases' | 'streams' | 'counters'): string {
  const now = engineClock(dialect);
  return `(${table}.expires_at > ${now} AND ${table}.expires_at - ${table}.ttl <= ${now})`;
}

function statements(dialect: Db['dialect']) {
  const clock = engineClock(dialect);
  const live = alive(dialect, 'leases');
  const fresh = alive(dialect, 'counters');
  const open = alive(dialect, 'streams');
  // Reads the clock once per statement. With a clock that is read for each row, the engine cannot use an index.
  const now = `(SELECT ${clock})`;
  const over = `(expires_at <= ${now}${dialect === 'sqlite' ? ` OR expires_at - ttl > ${now}` : ''})`;
  const ended = `SELECT stream FROM streams WHERE ${over} ORDER BY expires_at LIMIT ${SWEPT_STREAMS}`;

  return {
    holdLease: leaseLock(dialect, 'shared'),
    takeLease: leaseLock(dialect, 'exclusive'),

    advance: `INSERT INTO streams (stream, epoch, last, trimmed, bytes, trimmed_bytes, mark, ttl, expires_at)
      SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), 1, 0, CAST($3 AS BIGINT), 0, CAST($4 AS TEXT), CAST($5 AS BIGINT),
        ${clock} + CAST($5 AS BIGINT)
      WHERE CAST($6 AS TEXT) IS NULL
        OR EXISTS (SELECT 1 FROM leases WHERE key = CAST($6 AS TEXT) AND fence = CAST($7 AS BIGINT) AND ${live})
      ON CONFLICT (stream) DO UPDATE SET
        epoch = CASE WHEN ${open} THEN streams.epoch
                     WHEN excluded.epoch > streams.epoch THEN excluded.epoch ELSE streams.epoch + 1 END,
        last = CASE WHEN ${open} THEN streams.last + 1 ELSE 1 END,
        bytes = CASE WHEN ${open} THEN streams.bytes + excluded.bytes ELSE excluded.bytes END,
        trimmed = CASE WHEN ${open} THEN streams.trimmed ELSE 0 END,
        trimmed_bytes = CASE WHEN ${open} THEN streams.trimmed_bytes ELSE 0 END,
        mark = excluded.mark, ttl = excluded.ttl, expires_at = excluded.expires_at
      WHERE streams.mark <> excluded.mark OR NOT ${open}`,

    // One statement, so that the bounds and the events are from the same snapshot.
    read: `SELECT streams.epoch, streams.last, streams.trimmed, e.seq, e.data FROM streams
      LEFT JOIN stream_events e ON e.stream = streams.stream AND e.epoch = streams.epoch
        AND e.seq > CAST($2 AS BIGINT) AND e.seq > streams.trimmed
      WHERE streams.stream = $1 AND ${open} ORDER BY e.seq LIMIT $3`,

    sweepEvents: `DELETE FROM stream_events WHERE (stream, epoch, seq) IN (SELECT e.stream, e.epoch, e.seq
      FROM stream_events e WHERE e.stream IN (${ended}) LIMIT ${SWEPT_ROWS}) RETURNING seq`,
    // Skips a stream that an append has started again meanwhile.
    sweepStreams: `DELETE FROM streams WHERE NOT ${open} AND stream IN (${ended})
      AND NOT EXISTS (SELECT 1 FROM stream_events e WHERE e.stream = streams.stream) RETURNING stream`,

    lease: `INSERT INTO leases (key, owner, fence, ttl, expires_at)
      VALUES ($1, $2, CAST($3 AS BIGINT), CAST($4 AS BIGINT), ${clock} + CAST($4 AS BIGINT))
      ON CONFLICT (key) DO UPDATE SET
        fence = CASE WHEN leases.owner = excluded.owner AND ${live} THEN leases.fence ELSE leases.fence + 1 END,
        owner = excluded.owner, ttl = excluded.ttl, expires_at = excluded.expires_at
      WHERE leases.owner = excluded.owner OR NOT ${live}
      RETURNING fence`,

    renew: `UPDATE leases SET ttl = CAST($3 AS BIGINT), expires_at = ${clock} + CAST($3 AS BIGINT)
      WHERE key = $1 AND owner = $2 AND ${live} RETURNING fence`,

    release: `UPDATE leases SET ttl = 0, expires_at = ${clock} WHERE key = $1 AND owner = $2 AND ${live}
      RETURNING fence`,

    holder: `SELECT owner, fence FROM leases WHERE key = $1 AND ${live}`,

    // The table holds the leases of one day, including those of replicas. A scan is cheaper than a further index.
    members: `SELECT owner, expires_at - ${clock} AS rest FROM leases
      WHERE key LIKE $1 AND key = CAST($2 AS TEXT) || owner AND ${live}`,

    incr: `INSERT INTO counters (key, value, ttl, expires_at)
      VALUES ($1, CAST($2 AS BIGINT), CAST($3 AS BIGINT), ${clock} + CAST($3 AS BIGINT))
      ON CONFLICT (key) DO UPDATE SET
        value = CASE WHEN ${fresh} THEN counters.value + excluded.value ELSE excluded.value END,
        ttl = CASE WHEN ${fresh} THEN counters.ttl ELSE excluded.ttl END,
        expires_at = CASE WHEN ${fresh} THEN counters.expires_at ELSE excluded.expires_at END
      RETURNING value`,

    sweepLeases: `DELETE FROM leases WHERE expires_at < ${now} - CAST($1 AS BIGINT) AND key IN (SELECT key FROM leases
      WHERE expires_at < ${now} - CAST($1 AS BIGINT) ORDER BY expires_at LIMIT ${SWEPT_ROWS}) RETURNING key`,
    sweepCounters: `DELETE FROM counters WHERE NOT ${fresh} AND key IN (SELECT key FROM counters
      WHERE expires_at <= ${now} ORDER BY expires_at LIMIT ${SWEPT_ROWS}) RETURNING key`,
  };
}
