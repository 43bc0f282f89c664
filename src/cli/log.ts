import pino, { type DestinationStream, type Logger } from 'pino';
import type { Config } from '../config/schema.js';

export type { Logger } from 'pino';

/** The log of a process, on stderr: stdout belongs to the protocol (`parley stdio`) or to what was asked for. */
export function createLog(settings: Config['log'], terminal = process.stderr.isTTY === true): Logger {
  const asText = settings.format === 'text' || (settings.format === 'auto' && terminal);
  const destination = asText ? textDestination((line) => process.stderr.write(line)) : jsonDestination();
  return pino({ level: settings.level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}

/** So much may wait for a reader of stderr that does not read; further lines are dropped. */
const MAX_UNREAD = 8 * 1024 * 1024;

function jsonDestination(): DestinationStream {
  const destination = pino.destination({ fd: 2, sync: false, maxLength: MAX_UNREAD });
  destination.on('error', (error: NodeJS.ErrnoException) => {
    // The terminal was closed and does not come back. The lines that wait for it must not end the process, or keep it.
    if (error.code === 'EIO')
      Object.assign(destination, { write: () => true, flush: () => {}, flushSync: () => {}, end: () => {} });
  });
  return destination;
}

/** Turns pino's JSON lines into lines for people: time, level, message, then the rest as `key=value`. */
export function textDestination(write: (line: string) => void): DestinationStream {
  return {
    write(line) {
      const { level, time, msg, err, ...rest } = JSON.parse(line) as Record<string, unknown>;
      const label = (pino.levels.labels[Number(level)] ?? String(level)).toUpperCase().padEnd(5);
      const clock = String(time).slice(11, 23);
      const fields = Object.entries(rest).map(([key, value]) => ` ${key}=${plain(value)}`);
      const failure = (err as { message?: string } | undefined)?.message;
      const cause = failure === undefined || failure === msg ? '' : `: ${oneLine(failure)}`;
      write(`${clock} ${label} ${oneLine(String(msg ?? ''))}${cause}${fields.join('')}\n`);
    },
  };
}

function plain(value: unknown): string {
  return typeof value === 'string' && /^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value);
}

/** A message may quote what a stranger sent; control characters must not reach a terminal or forge a line. */
function oneLine(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]/g, (char) => JSON.stringify(char).slice(1, -1));
}
