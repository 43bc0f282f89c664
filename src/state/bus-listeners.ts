import { bucketOf } from './bus.js';

/** Maximum number of streams in one query. */
const CHUNK = 100;
/** Number of channels that share all names. A process listens only to the channels of names with local listeners. */
const CHANNELS = 1_024;

export const channelOf = (name: string): number => bucketOf(name, CHANNELS);

interface Waiting {
  /** Listeners for a stream. The poll also compares the newest id of the stream. */
  readonly stream: Set<() => void>;
  /** Listeners for hints only. A topic has no newest id to compare. */
  readonly hint: Set<() => void>;
  seen: string | undefined;
}

export interface WakeupsOptions {
  /** Returns the newest id of each of these streams. */
  tails(streams: readonly string[]): Promise<Map<string, string>>;
  /** A cheap check for any change in the engine. The poll reads the newest ids only if the check returns true. */
  changed?(): Promise<boolean>;
  /** Called when a channel gets its first listener. */
  needed?(): void;
  pollMs: number;
}

/**
 * The listeners of streams and topics. Hints arrive through `fire`. Because a hint may be lost with a connection, a
 * poll also compares the newest ids of the streams every `pollMs`. Without listeners for streams, no poll runs.
 */
export class Wakeups {
  readonly #options: WakeupsOptions;
  readonly #waiting = new Map<string, Waiting>();
  /** The number of names with listeners in each channel. */
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
    // Wraps the listener in a new function, so that a listener that was added twice is called twice and can be removed
    // once.
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

  /** The channels of all names with listeners. */
  channels(): ReadonlySet<number> {
    return new Set(this.#channels.keys());
  }

  /** Calls the listeners of a stream or topic. */
  fire(name: string): void {
    const entry = this.#waiting.get(name);
    if (!entry) return;
    for (const fn of [...entry.stream, ...entry.hint]) {
      try {
        fn();
      } catch {
        // An error of one listener must not affect the others.
      }
    }
  }

  /** Calls all listeners of these channels, because hints may have been lost. */
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
      // The engine is away: the next poll tries again.
    } finally {
      this.#polling = false;
    }
  }
}

export interface ChannelsOptions {
  readonly wakeups: Wakeups;
  listen(channels: readonly number[]): Promise<unknown>;
  unlisten(channels: readonly number[]): Promise<unknown>;
  /** Called when a command on the connection failed. */
  failed(): void;
}

/** Keeps one connection listening to the needed channels. */
export class ListenedChannels {
  readonly #options: ChannelsOptions;
  readonly #listened = new Set<number>();
  #updating = false;
  #again = false;

  constructor(options: ChannelsOptions) {
    this.#options = options;
  }

  /** Listens to newly needed channels. With `trim`, also stops listening to channels that are no longer needed. */
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
      // Hints sent before this connection listened may be lost.
      wakeups.fireChannels(added);
    }
    const left = trim ? [...this.#listened].filter((channel) => !needed.has(channel)) : [];
    if (left.length === 0) return;
    for (const channel of left) this.#listened.delete(channel);
    await unlisten(left);
  }
}
