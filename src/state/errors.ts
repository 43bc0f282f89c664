/**
 * The reasons of a failed storage operation that callers distinguish:
 *
 * - `unavailable` the engine is down, frozen, full or read-only; `outcome` says whether the write may have executed
 * - `overloaded`  too many operations are already waiting; nothing was sent
 * - `constraint`  the write violates a constraint (unique, not null); nothing was written
 * - `fenced`      the lease for this append has expired or belongs to another owner
 * - `gap`         the cursor is outside the events that the stream still has
 * - `newer`       the database was written by a newer Parley
 * - `config`      the settings are invalid; the message says what to change
 * - `closed`      the state was closed
 * - `internal`    any other failure: a defect of the gateway
 */
export type StateErrorCode =
  | 'unavailable'
  | 'overloaded'
  | 'constraint'
  | 'fenced'
  | 'gap'
  | 'newer'
  | 'config'
  | 'closed'
  | 'internal';

/** `unknown` if the request was sent and no answer arrived: the engine may have executed it. */
export type Outcome = 'not_executed' | 'unknown';

export class StateError extends Error {
  readonly code: StateErrorCode;
  readonly outcome: Outcome;

  constructor(code: StateErrorCode, message: string, options: { cause?: unknown; outcome?: Outcome } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'StateError';
    this.code = code;
    this.outcome = options.outcome ?? 'not_executed';
  }

  /** True if the same call may succeed later; such errors become 503 with Retry-After. */
  get retryable(): boolean {
    return this.code === 'unavailable' || this.code === 'overloaded';
  }
}

export function isStateError(error: unknown, code?: StateErrorCode): error is StateError {
  return error instanceof StateError && (code === undefined || error.code === code);
}
