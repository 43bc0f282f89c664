import pino, { type DestinationStream, type Logger } from 'pino';
import { FAILURE_EVENT } from './log.js';
import { sentenceOf } from './log-sentences.js';
import { oneLine, PLAIN, paint, type Style, styleOf } from './terminal-style.js';

export type { Logger } from 'pino';

/** The section `log` of the configuration. */
export interface LogOptions {
  readonly level: string;
  readonly format: 'auto' | 'json' | 'text';
}

/** Whether the log is text for people instead of JSON for programs. */
export function writesText({ format }: LogOptions, terminal: boolean): boolean {
  return format === 'text' || (format === 'auto' && terminal);
}

/**
 * The log of a process. It goes to stderr, because stdout carries the protocol (`parley stdio`) or the output of the
 * command.
 */
export function createLog(settings: LogOptions, terminal = process.stderr.isTTY === true): Logger {
  const destination = writesText(settings, terminal)
    ? textDestination((line) => process.stderr.write(line), styleOf(process.stderr))
    : buffered(jsonDestination());
  const log = pino({ level: settings.level, base: null, timestamp: isoTime }, destination);
  destinations.set(log, destination);
  return log;
}

const destinations = new WeakMap<Logger, DestinationStream>();

/** Lines are buffered for this many milliseconds, because one write per line would dominate the cost of the log. */
const FLUSH_INTERVAL = 20;
/**
 * The buffer is written earlier if it holds this many characters. The number is large, because each write wakes another
 * thread.
 */
const FLUSH_LENGTH = 65_536;

type SonicBoom = ReturnType<typeof pino.destination>;

/**
 * Gathers lines before the destination gets them, because the destination measures its whole buffer again at every
 * write.
 */
function buffered(destination: SonicBoom): DestinationStream {
  let lines = '';
  let waiting = false;
  const pass = (): void => {
    const gathered = lines;
    lines = '';
    if (gathered !== '') destination.write(gathered);
  };
  const atInterval = (): void => {
    waiting = false;
    pass();
  };
  // pino calls these two functions when the process ends.
  const { flush, flushSync } = destination;
  destination.flush = (...done) => {
    pass();
    flush.apply(destination, done);
  };
  destination.flushSync = () => {
    pass();
    flushSync.call(destination);
  };
  return {
    write(line) {
      lines += line;
      if (lines.length >= FLUSH_LENGTH) pass();
      if (waiting) return;
      waiting = true;
      setTimeout(atInterval, FLUSH_INTERVAL).unref();
    },
  };
}

let moment = { at: 0, text: '' };

/** The timestamp text is cached for all lines of the same millisecond. */
function isoTime(): string {
  const now = Date.now();
  if (now !== moment.at) moment = { at: now, text: `,"time":"${new Date(now).toISOString()}"` };
  return moment.text;
}

/** The log of calls: at info in JSON, at debug in text, because one line per call is too much for a person. */
export function callLog(log: Logger, settings: LogOptions, terminal = process.stderr.isTTY === true) {
  const text = writesText(settings, terminal);
  const level = text ? 'debug' : 'info';
  const destination = text ? undefined : destinations.get(log);
  const head = `{"level":${pino.levels.values[level]}`;
  return {
    enabled: (): boolean => log.isLevelEnabled(level),
    write: (fields: object): void => {
      // Builds the line that pino would write, at half the cost, because every call writes one line.
      if (destination) destination.write(`${head}${isoTime()},${JSON.stringify(fields).slice(1, -1)},"msg":"call"}\n`);
      else log[level](fields, 'call');
    },
  };
}

/** Limit on bytes that wait for a slow reader of stderr; further lines are dropped. */
const MAX_UNREAD = 8 * 1024 * 1024;

function jsonDestination(): SonicBoom {
  const destination = pino.destination({ fd: 2, sync: false, maxLength: MAX_UNREAD });
  destination.on('error', (error: NodeJS.ErrnoException) => {
    // The terminal was closed for good. Waiting lines must neither make the process fail nor keep it alive.
    if (error.code === 'EIO')
      Object.assign(destination, { write: () => true, flush: () => {}, flushSync: () => {}, end: () => {} });
  });
  return destination;
}

const COLORS: Readonly<Record<string, 'dim' | 'yellow' | 'red'>> = {
  trace: 'dim',
  debug: 'dim',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
};

/** Turns pino's JSON lines into text: time, level, message, then the other fields as `key=value`. */
export function textDestination(write: (line: string) => void, style: Style = PLAIN): DestinationStream {
  return {
    write(line) {
      const { level, time, ...said } = JSON.parse(line) as Record<string, unknown>;
      const label = pino.levels.labels[Number(level)] ?? String(level);
      const shown = label.toUpperCase().padEnd(5);
      const color = COLORS[label];
      write(
        `${String(time).slice(11, 23)} ${color ? paint(style, color, shown) : shown} ${textOf(said)}\n${stackOf(said)}`,
      );
    },
  };
}

function textOf(said: Record<string, unknown>): string {
  const sentence = sentenceOf(said);
  if (sentence !== undefined) return oneLine(sentence);
  const { msg, err, ...rest } = said;
  const fields = Object.entries(rest).map(([key, value]) => ` ${key}=${plain(value)}`);
  const failure = (err as { message?: string } | undefined)?.message;
  const cause = failure === undefined || failure === msg ? '' : `: ${failure}`;
  return oneLine(`${String(msg ?? '')}${cause}${fields.join('')}`);
}

/** The stack of an unexpected failure, which is needed to find its cause; empty for other lines. */
function stackOf({ event, err }: Record<string, unknown>): string {
  const { stack } = (err ?? {}) as { stack?: unknown };
  if (event !== FAILURE_EVENT || typeof stack !== 'string') return '';
  const frames = stack.split('\n').filter((line) => /^ {4}at /.test(line));
  return frames.map((frame) => `  ${oneLine(frame)}\n`).join('');
}

function plain(value: unknown): string {
  return typeof value === 'string' && /^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value);
}
