import { within } from './timing.js';

/** A counter that all replicas share. It starts at 0 and is removed `ttlMs` after its first addition. */
export interface SharedCounter {
  /** Adds to a counter and returns the new value. */
  incr(key: string, n: number, ttlMs: number): Promise<number>;
}

export interface SharedRateCountsOptions {
  /** Distinguishes the counters of this limit. */
  readonly name: string;
  /** The most uses in each interval, over all replicas. */
  readonly limit: number;
  /** The length of an interval, in milliseconds. */
  readonly interval: number;
  readonly counter: SharedCounter;
  /** The clock that all replicas share. */
  readonly now: () => number;
  /** Called when the shared counter does not answer, and this replica counts alone. */
  readonly away: (error: unknown) => void;
}

/** A replica reserves one tenth of the limit at a time, so that the rest stays available to other replicas. */
const BATCHES = 10;
const LARGEST_BATCH = 1_000;
/** How long a call waits for the shared counter, in milliseconds. */
const PATIENCE = 250;
/** How long this replica counts alone before it asks the shared counter again, in milliseconds. */
const ALONE = 1_000;
/** The most keys counted at the same time. Beyond this number the oldest key is dropped. */
const MOST_KEYS = 100_000;

interface Window {
  /** The number of the interval since the epoch. */
  readonly slot: number;
  used: number;
  /** Uses that this replica took from the shared counter. */
  reserved: number;
  /** Whether all uses of the interval are reserved, by this replica or by others. */
  full: boolean;
  reserving: Promise<void> | undefined;
}

/**
 * Counts uses per key in fixed intervals, shared by all replicas. A replica reserves several uses at a time, so that
 * most calls do not wait for the shared counter. If the counter does not answer, each replica counts alone.
 */
export class SharedRateCounts {
  private readonly windows = new Map<string, Window>();
  private readonly batch: number;
  /** The time until which this replica counts alone. */
  private alone = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: SharedRateCountsOptions) {
    this.batch = Math.min(Math.ceil(options.limit / BATCHES), LARGEST_BATCH);
  }

  /**
   * Takes one use. Returns 0, or the milliseconds until the next interval if all uses are taken. Returns a promise only
   * if no reserved use is left.
   */
  take(key: string): number | Promise<number> {
    const { limit, interval, now } = this.options;
    const at = now();
    const slot = Math.floor(at / interval);
    const window = this.window(key, slot);
    if (window.used < window.reserved) {
      window.used++;
      // Reserves the next batch before it is needed.
      if (!window.full && !window.reserving && window.reserved - window.used < this.batch / 2) this.ahead(key, window);
      return 0;
    }
    if (window.full) return this.left(slot, at);
    if (at < this.alone) {
      if (window.used >= limit) return this.left(slot, at);
      window.used++;
      return 0;
    }
    window.reserving ??= this.reserve(key, window);
    return window.reserving.then(() => this.take(key));
  }

  private ahead(key: string, window: Window): void {
    if (this.options.now() < this.alone) return;
    window.reserving = this.reserve(key, window);
  }

  private left(slot: number, at: number): number {
    return Math.max(1, (slot + 1) * this.options.interval - at);
  }

  private window(key: string, slot: number): Window {
    const known = this.windows.get(key);
    if (known?.slot === slot) return known;
    this.windows.delete(key);
    if (this.windows.size >= MOST_KEYS) this.windows.delete(this.windows.keys().next().value!);
    const made: Window = { slot, used: 0, reserved: 0, full: false, reserving: undefined };
    this.windows.set(key, made);
    return made;
  }

  /** Takes a batch from the shared counter, and reports the uses that were counted alone. Never rejects. */
  private async reserve(key: string, window: Window): Promise<void> {
    const { name, limit, interval, counter, now, away } = this.options;
    const wanted = Math.max(0, window.used - window.reserved) + this.batch;
    try {
      const total = await within(counter.incr(`rate:${name}:${key}:${window.slot}`, wanted, interval), PATIENCE);
      if (total === undefined) throw new Error('the shared counter did not answer in time');
      window.reserved += wanted - Math.min(wanted, Math.max(0, total - limit));
      window.full = total >= limit;
    } catch (error) {
      this.alone = now() + ALONE;
      away(error);
    } finally {
      window.reserving = undefined;
    }
  }
}
