import type { ExitInfo } from './exit-info.js';

/**
 * `not_found`, `not_executable`, `bad_cwd`, `invalid`: the configuration is wrong; `resources`: the machine is out of
 * processes, files or memory; `exited`: it went away while it was being opened; `timeout`: it was not opened in time;
 * `failed`: it was given up on for a while; `busy`: too much is queued for it; `closed`: it is gone or going.
 */
export type StdioReason =
  | 'not_found'
  | 'not_executable'
  | 'bad_cwd'
  | 'invalid'
  | 'resources'
  | 'exited'
  | 'timeout'
  | 'failed'
  | 'busy'
  | 'closed';

/** The message is for the operator (it names commands and paths); what a client may see is `summary`, or made from `reason`. */
export class StdioError extends Error {
  override readonly name = 'StdioError';
  readonly reason: StdioReason;
  readonly exit: ExitInfo | undefined;
  readonly retryAfterMs: number | undefined;
  /** The same in words that quote nothing. */
  readonly summary: string | undefined;
  /** The program could not run at all, whatever it would have been asked. */
  readonly unrunnable: boolean;

  constructor(
    reason: StdioReason,
    message: string,
    more: {
      exit?: ExitInfo | undefined;
      retryAfterMs?: number | undefined;
      summary?: string | undefined;
      unrunnable?: boolean;
      cause?: unknown;
    } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.reason = reason;
    this.exit = more.exit;
    this.retryAfterMs = more.retryAfterMs;
    this.summary = more.summary;
    this.unrunnable = more.unrunnable ?? false;
  }
}
