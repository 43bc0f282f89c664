import { sleep } from '../core/timing.js';
import type { Log } from '../telemetry/log.js';
import type { Bus } from './bus.js';
import { newId } from './ids.js';

/** Rows that end by themselves. */
export interface Expiring {
  /** Rows removed by one statement: few enough that calls hardly notice it. */
  readonly batch: number;
  /** Removes a batch of them and returns how many; fewer than a batch means that none are left. */
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
/** After each statement the database is left alone for as long as the statement took, and for this long at least. */
const PAUSE_MS = 5;

/** Removes expired rows until none are left, in small batches. Of all replicas one does it. */
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

  /** Resolves when nothing expired is left, or another replica sees to it; never rejects. */
  sweep(): Promise<void> {
    this.#round ??= this.#sweepAll()
      .catch((error: unknown) => this.#options.log?.warn({ err: error }, 'expired rows were not removed'))
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
      // One batch of each in turn: none waits for the others to be empty.
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

  /** The lease outlasts the pause between two rounds: the same replica goes on, as long as it is there. */
  async #hold(): Promise<boolean> {
    const { bus, everyMs } = this.#options;
    return (await bus.lease(LEASE, this.#self, Math.max(LEASE_MS, 2 * everyMs))) !== undefined;
  }
}
