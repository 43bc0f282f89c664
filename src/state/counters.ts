import { monotonicMs } from './clock.js';

/** Limit on keys, because callers of the gateway choose them; beyond it the oldest windows are dropped. */
const MAX_KEYS = 100_000;

/** Fixed-window counters in memory, for the embedded database, where each stored count would cost an fsync. */
export class Counters {
  readonly #windows = new Map<string, { value: number; ends: number }>();

  incr(key: string, n: number, ttlMs: number): number {
    const now = monotonicMs();
    const open = this.#windows.get(key);
    if (open && open.ends > now) {
      open.value += n;
      return open.value;
    }
    this.#windows.delete(key);
    if (this.#windows.size >= MAX_KEYS) this.#forget(now);
    this.#windows.set(key, { value: n, ends: now + ttlMs });
    return n;
  }

  #forget(now: number): void {
    for (const [key, { ends }] of this.#windows) if (ends <= now) this.#windows.delete(key);
    for (const key of this.#windows.keys()) {
      if (this.#windows.size < MAX_KEYS) return;
      this.#windows.delete(key);
    }
  }
}
