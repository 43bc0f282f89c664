import { FAILURE_EVENT as EVENT, type Log } from '../telemetry/log.js';
import { ThrottledLog } from '../telemetry/throttled-log.js';

/**
 * Logs failures that no code takes, with their stack, and ends the process where its state could be wrong
 * (docs/decisions/unhandled-failures.md). Returns how to stop.
 */
export function watchFailures(log: Log, end: (code: number) => void = (code) => process.exit(code)): () => void {
  const throttledLog = new ThrottledLog(log);
  const rejected = (reason: unknown): void => {
    const err = asError(reason);
    if (leavesStateWrong(reason)) {
      last(err, 'a defect was found in work that nobody waits for; the process ends');
      return;
    }
    throttledLog.error(placeOf(err), { event: EVENT, err }, 'work that nobody waits for failed; the gateway goes on');
  };
  const thrown = (error: unknown): void => last(asError(error), 'an exception was not caught; the process ends');
  const last = (err: Error, message: string): void => {
    // A process that ends says why, whatever the level of its log.
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
 * An error that the language itself raises, or a failed assertion, shows that the code assumed something that is not so:
 * the work that it interrupted may have been left half done. Every other error was made by code that knows the failure, such
 * as a refused connection, a database that is away, or an API that refuses a value and then has a `code`.
 */
export function leavesStateWrong(reason: unknown): boolean {
  if (!(reason instanceof Error)) return false;
  const { code } = reason as NodeJS.ErrnoException;
  if (code !== undefined) return code === 'ERR_ASSERTION';
  return reason instanceof TypeError || reason instanceof ReferenceError || reason instanceof RangeError;
}

const asError = (reason: unknown): Error =>
  reason instanceof Error ? reason : new Error(`rejected with ${typeof reason}: ${String(reason).slice(0, 200)}`);

/** Where an error was made: there are as many places as lines in the code, whatever the message says. */
const placeOf = ({ name, stack = '' }: Error): string => /^ {4}at .*/m.exec(stack)?.[0] ?? name;
