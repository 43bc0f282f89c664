/** Streams asked about in one query. */
const CHUNK = 100;

interface Waiting {
  readonly fns: Set<() => void>;
  seen: string | undefined;
}

export interface WakesOptions {
  /** The newest id of each of these streams. */
  tails(streams: readonly string[]): Promise<Map<string, string>>;
  /** A cheap look whether anything at all has changed; the streams are asked only if so. */
  changed?(): Promise<boolean>;
  pollMs: number;
}

/**
 * Who waits for which stream. Hints arrive through `fire`; because a hint may be lost with a connection, the newest ids
 * are compared every `pollMs` as well. Nothing runs while nobody waits.
 */
export class Wakes {
  readonly #options: WakesOptions;
  readonly #waiting = new Map<string, Waiting>();
  /** Those that wait for hints alone: there is nothing to compare. */
  readonly #hinted = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | undefined;
  #polling = false;

  constructor(options: WakesOptions) {
    this.#options = options;
  }

  add(stream: string, fn: () => void): () => void {
    const entry = this.#waiting.get(stream) ?? { fns: new Set(), seen: undefined };
    // A function of its own, so that the same one given twice is called twice and removed once.
    const own = (): void => fn();
    entry.fns.add(own);
    this.#waiting.set(stream, entry);
    this.#timer ??= setInterval(() => void this.#poll(), this.#options.pollMs).unref();
    return () => {
      entry.fns.delete(own);
      if (entry.fns.size === 0 && this.#waiting.get(stream) === entry) this.#waiting.delete(stream);
      if (this.#waiting.size === 0) this.close();
    };
  }

  addHinted(topic: string, fn: () => void): () => void {
    const fns = this.#hinted.get(topic) ?? new Set();
    const own = (): void => fn();
    this.#hinted.set(topic, fns.add(own));
    return () => {
      fns.delete(own);
      if (fns.size === 0 && this.#hinted.get(topic) === fns) this.#hinted.delete(topic);
    };
  }

  /** By the name of a stream, or of a topic. */
  fire(name: string): void {
    for (const fns of [this.#waiting.get(name)?.fns, this.#hinted.get(name)]) {
      for (const fn of [...(fns ?? [])]) {
        try {
          fn();
        } catch {
          // One listener's fault is not the others'.
        }
      }
    }
  }

  fireAll(): void {
    for (const name of new Set([...this.#waiting.keys(), ...this.#hinted.keys()])) this.fire(name);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    try {
      if (this.#options.changed && !(await this.#options.changed())) return;
      const streams = [...this.#waiting.keys()];
      for (let i = 0; i < streams.length; i += CHUNK) {
        const part = streams.slice(i, i + CHUNK);
        const tails = await this.#options.tails(part);
        for (const stream of part) {
          const entry = this.#waiting.get(stream);
          const tail = tails.get(stream);
          if (!entry || entry.seen === tail) continue;
          entry.seen = tail;
          this.fire(stream);
        }
      }
    } catch {
      // The engine is away: the next round asks again.
    } finally {
      this.#polling = false;
    }
  }
}
