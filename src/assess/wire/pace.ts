import { sleep } from '../../core/timing.js';

export interface PaceOptions {
  /** Shortest time between two requests, in milliseconds. */
  readonly interval: number;
  /** Time for one answer, in milliseconds. */
  readonly answer: number;
  /** Time for the whole assessment, in milliseconds. */
  readonly total: number;
}

/** The assessment used up its time, or the server sent more than it may. */
export class OutOfTime extends Error {
  override readonly name = 'OutOfTime';
}

/** Most bytes of one assessment: everything that arrived is kept until its end. */
export const MAX_TOTAL = 64 * 1024 * 1024;

/** Limits the rate of requests, and the time and the bytes of the assessment. */
export class Pace {
  private readonly end: number;
  private next = 0;
  private bytes = 0;
  requests = 0;

  constructor(readonly options: PaceOptions) {
    this.end = performance.now() + options.total;
  }

  /** Milliseconds left for an answer: never more than the rest of the assessment. */
  limit(wanted = this.options.answer): number {
    return Math.max(1, Math.min(wanted, this.end - performance.now()));
  }

  /** Counts what arrived. Returns false if the server sent more than it may. */
  received(bytes: number): boolean {
    this.bytes += bytes;
    return this.bytes <= MAX_TOTAL;
  }

  /** Throws `OutOfTime` at the end of the assessment: an answer that is missing then says nothing about the server. */
  check(): void {
    if (this.bytes > MAX_TOTAL) throw new OutOfTime(`the server sent more than ${MAX_TOTAL / 1024 / 1024} MiB`);
    if (performance.now() >= this.end) throw new OutOfTime('the time was over');
  }

  /** Waits for the turn of the next request. Throws `OutOfTime`. */
  async turn(): Promise<void> {
    this.check();
    const now = performance.now();
    const wait = this.next - now;
    this.next = Math.max(now, this.next) + this.options.interval;
    this.requests++;
    if (wait > 0) await sleep(wait);
  }
}
