/**
 * Why a storage operation failed, in the words a caller decides by:
 *
 * - `unavailable` the engine is down, frozen, full or read-only; `outcome` says whether the write may have happened
 * - `overloaded`  too many operations are waiting already; nothing was sent
 * - `constraint`  the rows refuse it (unique, not null); nothing was written
 * - `fenced`      the lease behind this append belongs to somebody else now, or has lapsed
 * - `gap`         the cursor lies outside what the stream still holds
 * - `newer`       the database was written by a newer Parley
 * - `config`      the settings cannot work; the message says what to change
 * - `closed`      the state was closed
 * - `internal`    anything else: a fault of ours
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

/** `unknown` when the request left us and no answer came back: the engine may have done it. */
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

  /** True where the same call may succeed later: the reasons that become 503 with Retry-After. */
  get retryable(): boolean {
    return this.code === 'unavailable' || this.code === 'overloaded';
  }
}

export function isStateError(error: unknown, code?: StateErrorCode): error is StateError {
  return error instanceof StateError && (code === undefined || error.code === code);
}
