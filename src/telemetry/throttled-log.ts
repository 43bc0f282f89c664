import type { Log } from './log.js';

/** Milliseconds between two lines about the same thing. */
const PAUSE = 10_000;

/** Lines about things that clients or servers cause: they decide how often such things happen, and not how much is logged. */
export class ThrottledLog {
  private readonly last = new Map<string, { at: number; missed: number }>();

  constructor(private readonly log: Log) {}

  /** `kind` is one of few. */
  warn(kind: string, fields: object, message: string): void {
    this.write('warn', kind, fields, message);
  }

  /** The same for a fault of the gateway. */
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
