import { FAILURE_EVENT as EVENT, type Log } from '../telemetry/log.js';
import { ThrottledLog } from '../telemetry/throttled-log.js';

/** Whether a part of the gateway handles this failure itself. */
type Claim = (error: Error) => boolean;
const claims = new Set<Claim>();

/**
 * Registers a part that handles the failures of foreign code, such as plugins. Returns the function that removes the
 * part.
 */
export function claimFailures(claim: Claim): () => void {
  claims.add(claim);
  return () => claims.delete(claim);
}

const isClaimed = (error: Error): boolean => [...claims].some((claim) => claim(error));

/**
 * Logs unhandled rejections and uncaught exceptions with their stack, and ends the process if its state may be
 * inconsistent (docs/decisions/unhandled-failures.md). Returns a function that removes the handlers.
 */
export function watchFailures(log: Log, end: (code: number) => void = (code) => process.exit(code)): () => void {
  const throttledLog = new ThrottledLog(log);
  const rejected = (reason: unknown): void => {
    const err = asError(reason);
    if (isClaimed(err)) return;
    if (leavesStateWrong(reason)) {
      last(err, 'unhandled rejection caused by a defect; the process ends');
      return;
    }
    throttledLog.error(placeOf(err), { event: EVENT, err }, 'unhandled rejection; the gateway keeps running');
  };
  const thrown = (error: unknown): void => {
    const err = asError(error);
    if (!isClaimed(err)) last(err, 'uncaught exception; the process ends');
  };
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
