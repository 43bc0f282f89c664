import type { Dialect } from './db.js';

/** Lets several workers claim rows concurrently. SQLite has one writer at a time and needs no clause. */
export function skipLocked(dialect: Dialect): string {
  return dialect === 'postgres' ? 'FOR UPDATE SKIP LOCKED' : '';
}

/**
 * Prevents a takeover of the lease until the end of the transaction. Appends with its fence share the lock, and a
 * takeover waits for them, so the lease cannot change hands between the check of the fence and the append. The lock is
 * separate from the lease's row, so appends wait neither for each other nor for renewals. SQLite has one writer at a
 * time and needs no lock.
 */
export function leaseLock(dialect: Dialect, mode: 'shared' | 'exclusive'): string | undefined {
  if (dialect !== 'postgres') return undefined;
  const lock = mode === 'shared' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock';
  return `SELECT ${lock}(hashtextextended($1, ${LEASE_LOCKS}))`;
}
/** Separates these locks from other advisory locks with hashed names. */
const LEASE_LOCKS = 7_265_828;

/** The migration lock, held until the end of the transaction; SQLite's write lock is already exclusive. */
const MIGRATION_LOCK = 7_265_827;
export function migrationLock(dialect: Dialect): string | undefined {
  return dialect === 'postgres' ? `SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})` : undefined;
}

/**
 * The clock for the expiry of leases, streams and counters (case 30: a wall clock that jumps must neither shorten nor
 * extend them). The engine reads it when the statement runs, because a process may be frozen between sending and
 * running. On PostgreSQL it is the server's clock, so that replicas agree; on SQLite it is the machine's monotonic
 * clock, as a function that the connection defines.
 */
export function engineClock(dialect: Dialect): string {
  return dialect === 'postgres'
    ? 'CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)'
    : `${SQLITE_CLOCK}()`;
}

export const SQLITE_CLOCK = 'parley_clock';
