/** Helpers for sleeping, time limits and backoff. This file imports nothing. */

/** Node stores timer durations in 31 bits; a longer timer would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Ends a sleep early: a `Cancellation`, or any other object that calls a listener once. */
export interface Interrupt {
  /** Calls the listener at once if the event has happened already. Returns the function that removes the listener. */
  onCancel(listener: () => void): () => void;
}

export interface SleepOptions {
  /** Ends the sleep early. The promise is fulfilled in that case too. */
  readonly until?: Interrupt | AbortSignal | undefined;
  /** False for a timer that does not keep the process alive. */
  readonly ref?: boolean;
}

/** Resolves after the given milliseconds, or earlier with `until`. Never rejects and leaves no timer behind. */
export function sleep(milliseconds: number, { until, ref = true }: SleepOptions = {}): Promise<void> {
  return new Promise((resolve) => {
    let over = false;
    let stop = (): void => {};
    const done = (): void => {
      over = true;
      clearTimeout(timer);
      stop();
      resolve();
    };
    const timer = setTimeout(done, limited(milliseconds));
    if (!ref) timer.unref();
    if (until) stop = listen(until, done);
    if (over) stop();
  });
}

export interface WithinOptions {
  /** Called if the time limit passes before the work settles. */
  late?(): void;
  /** False for a timer that does not keep the process alive. */
  readonly ref?: boolean;
}

/**
 * The outcome of the work if it settles within the given milliseconds, otherwise undefined. Late work continues, and
 * its failure is ignored.
 */
export async function within<T>(
  work: Promise<T>,
  milliseconds: number,
  { late, ref = true }: WithinOptions = {},
): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => {
      late?.();
      resolve(undefined);
    }, limited(milliseconds));
    if (!ref) timer.unref();
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

export interface BackoffOptions {
  /** The pause after the first failure, in milliseconds. Each further failure in a row doubles it. */
  readonly first: number;
  /** The upper limit of a pause, in milliseconds. */
  readonly longest: number;
  /**
   * The fraction by which a pause varies at random, so that many clients do not retry at the same moment: 0.5 for plus
   * or minus a half.
   */
  readonly jitter?: number;
}

/** The pause after the given number of failures in a row. */
export function backoff(
  failures: number,
  { first, longest, jitter = 0 }: BackoffOptions,
  random: () => number = Math.random,
): number {
  const doublings = Math.min(Math.max(0, failures - 1), 30);
  const pause = Math.min(longest, first * 2 ** doublings);
  return Math.min(longest, pause * (1 + jitter * (2 * random() - 1)));
}

/** Counts failures in a row and returns the pause after each. */
export class Backoff {
  private count = 0;

  constructor(private readonly options: BackoffOptions) {}

  get failures(): number {
    return this.count;
  }

  /** Counts one more failure. Returns the pause before the next attempt. */
  next(): number {
    this.count++;
    return backoff(this.count, this.options);
  }

  /** Called after a success. The next failure then counts as the first. */
  reset(): void {
    this.count = 0;
  }
}

/**
 * Runs a function at a signal, but at most once per interval. All further signals in an interval cause one run at its
 * end.
 */
export class Paced {
  private timer: NodeJS.Timeout | undefined;
  private again = false;
  private stopped = false;

  constructor(
    private readonly run: () => void,
    private readonly interval: number,
  ) {}

  signal(): void {
    if (this.stopped) return;
    if (this.timer) {
      this.again = true;
      return;
    }
    this.again = false;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.again) this.signal();
    }, limited(this.interval)).unref();
    this.run();
  }

  /** Drops a signal that waits for the end of the interval. */
  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
  }
}

/** Maps negative numbers and NaN to 0, which timers do not accept. */
const limited = (milliseconds: number): number => Math.min(LONGEST_TIMER, Math.max(0, milliseconds || 0));

function listen(until: Interrupt | AbortSignal, listener: () => void): () => void {
  if (!(until instanceof AbortSignal)) return until.onCancel(listener);
  if (until.aborted) listener();
  else until.addEventListener('abort', listener, { once: true });
  return () => until.removeEventListener('abort', listener);
}
