import type { ExitInfo } from './exit-info.js';

/**
 * `not_found`, `not_executable`, `bad_cwd`, `invalid`: the configuration is wrong. `resources`: the machine has no
 * processes, files or memory left. `exited`: the process ended while its session was being opened. `timeout`: the
 * session was not open in time. `failed`: the command failed repeatedly and is not restarted for a while. `busy`: the
 * process does not read its input. `closed`: the process ended or is being stopped.
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

/** The message is for operators, because it names commands and paths. Clients get `summary`, or a text for `reason`. */
export class StdioError extends Error {
  override readonly name = 'StdioError';
  readonly reason: StdioReason;
  readonly exit: ExitInfo | undefined;
  readonly retryAfterMs: number | undefined;
  /** The message without commands, paths and output. */
  readonly summary: string | undefined;
  /** Whether the program could not run at all, independent of the messages it got. */
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
