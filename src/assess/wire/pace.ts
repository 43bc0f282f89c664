import { sleep } from '../../core/timing.js';

export interface PaceOptions {
  /** Shortest time between two requests, in milliseconds. */
  readonly interval: number;
  /** Time for one answer, in milliseconds. */
  readonly answer: number;
  /** Time for the whole assessment, in milliseconds. */
  readonly total: number;
}

/** The assessment used up its time. */
export class OutOfTime extends Error {
  override readonly name = 'OutOfTime';
}

/** Keeps the rate of requests polite, and the time of the assessment bounded. */
export class Pace {
  private readonly end: number;
  private next = 0;
  requests = 0;

  constructor(readonly options: PaceOptions) {
    this.end = performance.now() + options.total;
  }

  /** Milliseconds left for an answer: never more than the rest of the assessment. */
  limit(wanted = this.options.answer): number {
    return Math.max(1, Math.min(wanted, this.end - performance.now()));
  }

  /** Waits for the turn of the next request. Throws `OutOfTime`. */
  async turn(): Promise<void> {
    const now = performance.now();
    if (now >= this.end) throw new OutOfTime('the time for the assessment is over');
    const wait = this.next - now;
    this.next = Math.max(now, this.next) + this.options.interval;
    this.requests++;
    if (wait > 0) await sleep(wait);
  }
}
