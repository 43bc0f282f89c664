import { sleep } from '../core/timing.js';
import type { Log } from '../telemetry/log.js';
import type { Bus } from './bus.js';
import { newId } from './ids.js';

/** A store whose rows expire. */
export interface Expiring {
  /** Rows removed by one statement: few, so that calls are not delayed. */
  readonly batch: number;
  /** Removes one batch of expired rows and returns their number; fewer than `batch` means that none are left. */
  sweep(): Promise<number>;
}

export interface SweeperOptions {
  readonly bus: Bus;
  readonly stores: readonly Expiring[];
  readonly everyMs: number;
  readonly log?: Log | undefined;
}

const LEASE = 'sweeper';
const LEASE_MS = 30_000;
/** Minimum pause after each statement. The pause is as long as the statement took if that is longer. */
const PAUSE_MS = 5;

/** Removes expired rows in small batches until none are left. One replica of the cluster does this at a time. */
export class Sweeper {
  readonly #options: SweeperOptions;
  readonly #self = newId();
  readonly #timer: NodeJS.Timeout;
  #round: Promise<void> | undefined;
  #closed = false;

  constructor(options: SweeperOptions) {
    this.#options = options;
    const every = options.everyMs * (0.9 + Math.random() * 0.2);
    this.#timer = setInterval(() => void this.sweep(), every).unref();
  }

  /** Resolves when no expired rows are left, or if another replica removes them; never rejects. */
  sweep(): Promise<void> {
    this.#round ??= this.#sweepAll()
      .catch((error: unknown) =>
        this.#options.log?.warn({ err: error }, 'failed to remove expired rows; the next round tries again'),
      )
      .finally(() => {
        this.#round = undefined;
      });
    return this.#round;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#round;
    await this.#options.bus.release(LEASE, this.#self).catch(() => {});
  }

  async #sweepAll(): Promise<void> {
    let left = [...this.#options.stores];
    let held = 0;
    while (left.length > 0 && !this.#closed) {
      const full: Expiring[] = [];
      // One batch per store in turn, so that a large store does not delay the others.
      for (const store of left) {
        if (this.#closed) return;
        if (performance.now() > held) {
          if (!(await this.#hold())) return;
          held = performance.now() + LEASE_MS / 3;
        }
        const began = performance.now();
        if ((await store.sweep()) >= store.batch) full.push(store);
        await sleep(Math.max(PAUSE_MS, performance.now() - began));
      }
      left = full;
    }
  }

  /** The lease lasts longer than the interval between two rounds, so that the same replica continues while it lives. */
  async #hold(): Promise<boolean> {
    const { bus, everyMs } = this.#options;
    return (await bus.lease(LEASE, this.#self, Math.max(LEASE_MS, 2 * everyMs))) !== undefined;
  }
}
