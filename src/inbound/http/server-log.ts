import type { Log } from '../../telemetry/log.js';

/** Milliseconds between two lines about the same thing. */
const PAUSE = 10_000;

/** Warnings about things that clients cause: clients decide how often they happen, and not how much is logged. */
export class Seldom {
  private readonly last = new Map<string, { at: number; missed: number }>();

  constructor(private readonly log: Log) {}

  /** `kind` is one of few. */
  warn(kind: string, fields: object, message: string): void {
    const now = performance.now();
    const last = this.last.get(kind);
    if (last && now - last.at < PAUSE) {
      last.missed++;
      return;
    }
    this.last.set(kind, { at: now, missed: 0 });
    this.log.warn({ ...fields, ...(last && last.missed > 0 && { notLogged: last.missed }) }, message);
  }
}
