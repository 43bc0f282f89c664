import { backoff } from '../../core/timing.js';

export interface RestartOptions {
  /** The first pause; it doubles with every failure in a row. */
  initialMs: number;
  maxMs: number;
  /** A pause varies by up to this part of itself, so that many servers do not come back at the same instant. */
  jitter: number;
  /** So many quick failures in a row, and the command is left alone for `maxMs`. */
  failAfter: number;
  /** A child that served this long, and longer than the pause before it, was no quick failure. */
  stableMs: number;
}

export const RESTART: RestartOptions = { initialMs: 1000, maxMs: 60_000, jitter: 0.2, failAfter: 5, stableMs: 10_000 };

/** When a command may be started again after it ended on its own. Counts and computes; keeps no time itself. */
export class RestartPolicy {
  #failures = 0;
  #pause = 0;
  readonly #options: RestartOptions;
  readonly #random: () => number;

  constructor(options: RestartOptions, random: () => number = Math.random) {
    this.#options = options;
    this.#random = random;
  }

  /** Quick failures in a row. */
  get failures(): number {
    return this.#failures;
  }

  /** A child ended unexpectedly after serving for `servedMs` (0: it never came up). Returns the pause before the next. */
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
