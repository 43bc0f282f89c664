import type { Log } from './log.js';

/** Milliseconds between two lines of the same kind. */
const PAUSE = 10_000;

/**
 * A log for events that clients or servers can cause in any number: writes at most one line of each kind per `PAUSE`.
 */
export class ThrottledLog {
  private readonly last = new Map<string, { at: number; missed: number }>();

  constructor(private readonly log: Log) {}

  /** `kind` must come from a small fixed set, because the time of the last line is stored for each kind. */
  warn(kind: string, fields: object, message: string): void {
    this.write('warn', kind, fields, message);
  }

  /** The same as `warn`, for faults of the gateway. */
  error(kind: string, fields: object, message: string): void {
    this.write('error', kind, fields, message);
  }

  private write(level: 'warn' | 'error', kind: string, fields: object, message: string): void {
    const now = performance.now();
    const last = this.last.get(kind);
    if (last && now - last.at < PAUSE) {
      last.missed++;
      return;
    }
    this.last.set(kind, { at: now, missed: 0 });
    this.log[level]({ ...fields, ...(last && last.missed > 0 && { notLogged: last.missed }) }, message);
  }
}
