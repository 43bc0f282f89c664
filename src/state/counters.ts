import { monotonicMs } from './clock.js';

/** Keys are chosen by callers of the gateway: past this many the oldest windows are forgotten. */
const MAX_KEYS = 100_000;

/** Fixed-window counters in memory: the embedded gateway's, which would otherwise pay an fsync per counted request. */
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
