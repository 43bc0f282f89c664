import { backoff } from '../../core/timing.js';

export interface RestartOptions {
  /** The first pause. It doubles with every failure in a row. */
  initialMs: number;
  maxMs: number;
  /** A pause varies randomly by up to this fraction, so that many servers do not restart at the same moment. */
  jitter: number;
  /** After this many quick failures in a row, the command is not restarted for `maxMs`. */
  failAfter: number;
  /** A child that served at least this long, and longer than the pause before it, does not count as a quick failure. */
  stableMs: number;
}

export const RESTART: RestartOptions = { initialMs: 1000, maxMs: 60_000, jitter: 0.2, failAfter: 5, stableMs: 10_000 };

/** Decides when a command may be restarted after it ended on its own. Has no timers: `supervisor.ts` carries it out. */
export class RestartPolicy {
  #failures = 0;
  #pause = 0;
  readonly #options: RestartOptions;
  readonly #random: () => number;

  constructor(options: RestartOptions, random: () => number = Math.random) {
    this.#options = options;
    this.#random = random;
  }

  /** Number of quick failures in a row. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * A child ended unexpectedly after `servedMs` of service (0: failed start). Returns the pause before the next start.
   */
  ended(servedMs: number): { pauseMs: number; failed: boolean } {
    const { initialMs, maxMs, jitter, failAfter, stableMs } = this.#options;
    this.#failures = servedMs >= Math.max(stableMs, this.#pause) ? 1 : this.#failures + 1;
    const failed = this.#failures >= failAfter;
    const first = failed ? maxMs : initialMs;
    const pause = backoff(this.#failures, { first, longest: maxMs, jitter }, this.#random);
    this.#pause = Math.max(initialMs, pause);
    return { pauseMs: this.#pause, failed };
  }
}
