import { bucketOf } from './bus.js';

/** Streams asked about in one query. */
const CHUNK = 100;
/** Names are spread over so many channels: a process listens to those of the names somebody waits for there. */
const CHANNELS = 1_024;

export const channelOf = (name: string): number => bucketOf(name, CHANNELS);

interface Waiting {
  /** Those that wait for a stream: its newest id is compared as well. */
  readonly stream: Set<() => void>;
  /** Those that wait for hints alone: there is nothing to compare. */
  readonly hint: Set<() => void>;
  seen: string | undefined;
}

export interface WakeupsOptions {
  /** The newest id of each of these streams. */
  tails(streams: readonly string[]): Promise<Map<string, string>>;
  /** A cheap look whether anything at all has changed; the streams are asked only if so. */
  changed?(): Promise<boolean>;
  /** Somebody waits for a name of a channel that was not needed before. */
  needed?(): void;
  pollMs: number;
}

/**
 * Which functions wait for which stream or topic. Hints arrive through `fire`; because a hint may be lost with a
 * connection, the newest ids are compared every `pollMs` as well. Nothing runs while nothing is waited for.
 */
export class Wakeups {
  readonly #options: WakeupsOptions;
  readonly #waiting = new Map<string, Waiting>();
  /** How many names are waited for in each channel. */
  readonly #channels = new Map<number, number>();
  #streams = 0;
  #timer: NodeJS.Timeout | undefined;
  #polling = false;

  constructor(options: WakeupsOptions) {
    this.#options = options;
  }

  add(stream: string, fn: () => void): () => void {
    const remove = this.#add(stream, 'stream', fn);
    this.#streams++;
    this.#timer ??= setInterval(() => void this.#poll(), this.#options.pollMs).unref();
    return () => {
      if (remove() && --this.#streams === 0) this.close();
    };
  }

  addHinted(topic: string, fn: () => void): () => void {
    return this.#add(topic, 'hint', fn);
  }

  #add(name: string, kind: 'stream' | 'hint', fn: () => void): () => boolean {
    let entry = this.#waiting.get(name);
    if (!entry) {
      entry = { stream: new Set(), hint: new Set(), seen: undefined };
      this.#waiting.set(name, entry);
      this.#count(name, 1);
    }
    // A function of its own, so that the same one given twice is called twice and removed once.
    const own = (): void => fn();
    const { [kind]: fns, stream, hint } = entry;
    fns.add(own);
    return () => {
      if (!fns.delete(own)) return false;
      if (stream.size + hint.size === 0 && this.#waiting.delete(name)) this.#count(name, -1);
      return true;
    };
  }

  #count(name: string, by: 1 | -1): void {
    const channel = channelOf(name);
    const names = (this.#channels.get(channel) ?? 0) + by;
    if (names === 0) this.#channels.delete(channel);
    else this.#channels.set(channel, names);
    if (names === 1 && by === 1) this.#options.needed?.();
  }

  /** The channels of all names that are waited for. */
  channels(): ReadonlySet<number> {
    return new Set(this.#channels.keys());
  }

  /** By the name of a stream, or of a topic. */
  fire(name: string): void {
    const entry = this.#waiting.get(name);
    if (!entry) return;
    for (const fn of [...entry.stream, ...entry.hint]) {
      try {
        fn();
      } catch {
        // One listener's fault is not the others'.
      }
    }
  }

  /** Hints of these channels may have been missed. */
  fireChannels(channels: ReadonlySet<number>): void {
    for (const name of [...this.#waiting.keys()]) if (channels.has(channelOf(name))) this.fire(name);
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
      const streams = [...this.#waiting].flatMap(([name, { stream }]) => (stream.size > 0 ? [name] : []));
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

export interface ChannelsOptions {
  readonly wakeups: Wakeups;
  listen(channels: readonly number[]): Promise<unknown>;
  unlisten(channels: readonly number[]): Promise<unknown>;
  /** The connection could not be used. */
  failed(): void;
}

/** The channels one connection listens to, kept at those that are needed. */
export class ListenedChannels {
  readonly #options: ChannelsOptions;
  readonly #listened = new Set<number>();
  #updating = false;
  #again = false;

  constructor(options: ChannelsOptions) {
    this.#options = options;
  }

  /** Listens to channels that became needed. With `trim`, channels that are not needed any more are left. */
  async update({ trim = false } = {}): Promise<void> {
    this.#again = true;
    if (this.#updating) return;
    this.#updating = true;
    try {
      while (this.#again) {
        this.#again = false;
        await this.#step(trim);
      }
    } catch {
      this.#options.failed();
    } finally {
      this.#updating = false;
    }
  }

  async #step(trim: boolean): Promise<void> {
    const { wakeups, listen, unlisten } = this.#options;
    const needed = wakeups.channels();
    const added = new Set([...needed].filter((channel) => !this.#listened.has(channel)));
    if (added.size > 0) {
      await listen([...added]);
      for (const channel of added) this.#listened.add(channel);
      // What was sent while nothing listened.
      wakeups.fireChannels(added);
    }
    const left = trim ? [...this.#listened].filter((channel) => !needed.has(channel)) : [];
    if (left.length === 0) return;
    for (const channel of left) this.#listened.delete(channel);
    await unlisten(left);
  }
}
