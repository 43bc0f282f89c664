/** Sleeping, waiting with a limit, and pauses that grow: the one place where they are made. Imports nothing. */

/** A longer timer would fire at once: Node counts the milliseconds in 31 bits. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Ends a sleep early: a `Cancellation`, or anything else that calls back once. */
export interface Interrupt {
  /** Calls at once where it has happened already. Returns how to stop listening. */
  onCancel(listener: () => void): () => void;
}

export interface SleepOptions {
  /** The sleep ends early with it; the promise is fulfilled then, too. */
  readonly until?: Interrupt | AbortSignal | undefined;
  /** False for a timer that does not keep the process from ending. */
  readonly ref?: boolean;
}

/** Resolves after so many milliseconds, or earlier with `until`. Never rejects and leaves no timer behind. */
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
  /** Called when the time is over before the work is. */
  late?(): void;
  /** False for a timer that does not keep the process from ending. */
  readonly ref?: boolean;
}

/**
 * The outcome of the work if it settles within so many milliseconds, undefined otherwise. The work goes on in that case, and
 * its later failure is ignored.
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
  /** The pause after the first failure, in milliseconds; it doubles with each further one in a row. */
  readonly first: number;
  /** No pause is longer. */
  readonly longest: number;
  /** The part by which chance makes a pause shorter or longer, so that many do not come back at once: 0.5 for a half. */
  readonly jitter?: number;
}

/** The pause after so many failures in a row, the first being 1. */
export function backoff(
  failures: number,
  { first, longest, jitter = 0 }: BackoffOptions,
  random: () => number = Math.random,
): number {
  const doublings = Math.min(Math.max(0, failures - 1), 30);
  const pause = Math.min(longest, first * 2 ** doublings);
  return Math.min(longest, pause * (1 + jitter * (2 * random() - 1)));
}

/** Counts failures in a row. */
export class Backoff {
  private count = 0;

  constructor(private readonly options: BackoffOptions) {}

  get failures(): number {
    return this.count;
  }

  /** One more failure: the pause before the next attempt. */
  next(): number {
    this.count++;
    return backoff(this.count, this.options);
  }

  /** It worked: the next failure is the first again. */
  reset(): void {
    this.count = 0;
  }
}

/** A timer takes neither negative numbers nor NaN. */
const limited = (milliseconds: number): number => Math.min(LONGEST_TIMER, Math.max(0, milliseconds || 0));

function listen(until: Interrupt | AbortSignal, listener: () => void): () => void {
  if (!(until instanceof AbortSignal)) return until.onCancel(listener);
  if (until.aborted) listener();
  else until.addEventListener('abort', listener, { once: true });
  return () => until.removeEventListener('abort', listener);
}
