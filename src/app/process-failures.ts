import { FAILURE_EVENT as EVENT, type Log } from '../telemetry/log.js';
import { ThrottledLog } from '../telemetry/throttled-log.js';

/**
 * Logs unhandled rejections and uncaught exceptions with their stack, and ends the process if its state may be
 * inconsistent (docs/decisions/unhandled-failures.md). Returns a function that removes the handlers.
 */
export function watchFailures(log: Log, end: (code: number) => void = (code) => process.exit(code)): () => void {
  const throttledLog = new ThrottledLog(log);
  const rejected = (reason: unknown): void => {
    const err = asError(reason);
    if (leavesStateWrong(reason)) {
      last(err, 'unhandled rejection caused by a defect; the process ends');
      return;
    }
    throttledLog.error(placeOf(err), { event: EVENT, err }, 'unhandled rejection; the gateway keeps running');
  };
  const thrown = (error: unknown): void => last(asError(error), 'uncaught exception; the process ends');
  const last = (err: Error, message: string): void => {
    // The reason for the end of the process is written whatever the log level is.
    if (log.isLevelEnabled('error')) log.error({ event: EVENT, err }, message);
    else process.stderr.write(`parley: ${message}\n${err.stack}\n`);
    end(1);
  };
  process.on('unhandledRejection', rejected);
  process.on('uncaughtException', thrown);
  return () => {
    process.off('unhandledRejection', rejected);
    process.off('uncaughtException', thrown);
  };
}

/**
 * An error that the language itself raises, or a failed assertion, is a defect: the interrupted work may be half done.
 * Every other error comes from code that expects the failure, such as a refused connection, an unavailable database, or
 * an API that rejects a value (such an error has a `code`).
 */
export function leavesStateWrong(reason: unknown): boolean {
  if (!(reason instanceof Error)) return false;
  const { code } = reason as NodeJS.ErrnoException;
  if (code !== undefined) return code === 'ERR_ASSERTION';
  return reason instanceof TypeError || reason instanceof ReferenceError || reason instanceof RangeError;
}

const asError = (reason: unknown): Error =>
  reason instanceof Error ? reason : new Error(`rejected with ${typeof reason}: ${String(reason).slice(0, 200)}`);

/** The top stack frame. It is the key for throttling, because messages vary without bound and stack frames do not. */
const placeOf = ({ name, stack = '' }: Error): string => /^ {4}at .*/m.exec(stack)?.[0] ?? name;
