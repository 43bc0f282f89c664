import type { Dialect } from './db.js';

/** Lets several workers claim rows side by side. SQLite has one writer at a time and needs nothing. */
export function skipLocked(dialect: Dialect): string {
  return dialect === 'postgres' ? 'FOR UPDATE SKIP LOCKED' : '';
}

/**
 * Holds a lease still to the end of the transaction. Appends under its fence share the lock, and whoever takes the lease
 * waits for them: between a look at the fence and the append that rests on it nobody can take over. The lock is not the
 * lease's row, so appends neither wait for each other nor for renewals. SQLite has one writer at a time and needs none.
 */
export function leaseLock(dialect: Dialect, mode: 'shared' | 'exclusive'): string | undefined {
  if (dialect !== 'postgres') return undefined;
  const lock = mode === 'shared' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock';
  return `SELECT ${lock}(hashtextextended($1, ${LEASE_LOCKS}))`;
}
/** Keeps these locks apart from others that hash a name. */
const LEASE_LOCKS = 7_265_828;

/** Held to the end of the transaction; SQLite's write lock is already exclusive. */
const MIGRATION_LOCK = 7_265_827;
export function migrationLock(dialect: Dialect): string | undefined {
  return dialect === 'postgres' ? `SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})` : undefined;
}

/**
 * The clock that leases, streams and counters end by (case 30: a wall clock that jumps must neither lose nor prolong
 * them), read where and when the statement runs: a process that was frozen between asking and running must not act on
 * the time it fell asleep. On PostgreSQL it is the server's, so that replicas agree whatever their own clocks say; on
 * SQLite the machine's monotonic clock, a function that our connections define.
 */
export function engineClock(dialect: Dialect): string {
  return dialect === 'postgres'
    ? 'CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)'
    : `${SQLITE_CLOCK}()`;
}

export const SQLITE_CLOCK = 'parley_clock';
