import { type Outcome, StateError } from '../errors.js';

/** serialization_failure, deadlock_detected */
const REPEATABLE = new Set(['40001', '40P01']);

/**
 * Classes and codes of temporary failures: connection lost or refused, out of disk, memory or connections, shutting
 * down, statement timed out or cancelled, lock not available, read-only (a standby), a transaction that stayed open
 * while this process was frozen, or an internal error of the server (XX).
 */
const UNAVAILABLE = /^(?:08|53|57|58|25006|25P03|55P03|XX)/;

function sqlState(error: unknown): string | undefined {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return typeof code === 'string' && typeof severity === 'string' ? code : undefined;
}

export function repeatable(error: unknown): boolean {
  return REPEATABLE.has(sqlState(error) ?? '');
}

/** The error for a URL that leads to a pooler. Without this error, messages between replicas would silently be late. */
export function poolerError(cause?: unknown): StateError {
  const message =
    'state.db leads to a connection pooler such as PgBouncer, through which notifications and leases do not work: set ' +
    'state.directDb to the address of PostgreSQL itself (or to the same address, where the pooler keeps a connection ' +
    'for each client: session mode)';
  return new StateError('config', message, { cause });
}

/**
 * Converts an error of the driver. After an SQL error the outcome is certain. `silence` is the outcome of a request
 * without an answer: unknown, unless nothing was sent.
 */
export function postgresError(error: unknown, silence: Outcome = 'unknown'): StateError {
  if (error instanceof StateError) return error;
  const state = sqlState(error);
  const message = error instanceof Error ? error.message || error.name : String(error);
  if (/unsupported startup parameter/.test(message)) return poolerError(error);
  if (!state) return new StateError('unavailable', `PostgreSQL: ${message}`, { cause: error, outcome: silence });
  if (state.startsWith('23')) return new StateError('constraint', message, { cause: error });
  // The administrator or a crash of the server ended the connection. A COMMIT may have been sent before.
  const outcome = /^(?:08|57P)/.test(state) ? silence : 'not_executed';
  const code = UNAVAILABLE.test(state) || repeatable(error) ? 'unavailable' : 'internal';
  return new StateError(code, `PostgreSQL: ${message}`, { cause: error, outcome });
}
