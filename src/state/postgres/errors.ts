import { type Outcome, StateError } from '../errors.js';

/** serialization_failure, deadlock_detected */
const REPEATABLE = new Set(['40001', '40P01']);

/**
 * Classes and codes by which the server says "not now": connection lost or refused, out of disk, memory or connections,
 * shutting down, statement timed out or cancelled, lock not available, read-only (a standby), a transaction that stood open
 * while this process was frozen, or a fault of its own (XX).
 */
const UNAVAILABLE = /^(?:08|53|57|58|25006|25P03|55P03|XX)/;

function sqlState(error: unknown): string | undefined {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return typeof code === 'string' && typeof severity === 'string' ? code : undefined;
}

export function repeatable(error: unknown): boolean {
  return REPEATABLE.has(sqlState(error) ?? '');
}

/** Without it everything would seem to work, and messages between replicas would be late. */
export function poolerError(cause?: unknown): StateError {
  const message =
    'state db leads to a connection pooler such as PgBouncer, through which notifications and leases do not work: set ' +
    'state directDb to the address of PostgreSQL itself (or to the same address, where the pooler keeps a connection ' +
    'for each client: session mode)';
  return new StateError('config', message, { cause });
}

/** An answer of the server is certain; silence is not, unless nothing had been sent yet. */
export function postgresError(error: unknown, silence: Outcome = 'unknown'): StateError {
  if (error instanceof StateError) return error;
  const state = sqlState(error);
  const message = error instanceof Error ? error.message || error.name : String(error);
  if (/unsupported startup parameter/.test(message)) return poolerError(error);
  if (!state) return new StateError('unavailable', `PostgreSQL: ${message}`, { cause: error, outcome: silence });
  if (state.startsWith('23')) return new StateError('constraint', message, { cause: error });
  // The connection ended by the administrator or by a crash of the server: a COMMIT may have been on its way.
  const outcome = /^(?:08|57P)/.test(state) ? silence : 'not_executed';
  const code = UNAVAILABLE.test(state) || repeatable(error) ? 'unavailable' : 'internal';
  return new StateError(code, `PostgreSQL: ${message}`, { cause: error, outcome });
}
