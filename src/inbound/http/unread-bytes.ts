/** A response with bytes that wait for its client. */
export interface ResponseReader {
  /** The number of bytes that wait in the process. */
  readonly unread: number;
  destroy(): void;
}

export interface UnreadLimits {
  /** The maximum number of waiting bytes for all readers together. */
  readonly bytes: number;
  /** Milliseconds after which a reader that read nothing is disconnected. */
  readonly stall: number;
}

interface Waiting {
  /** The number of waiting bytes at the last count. */
  bytes: number;
  /** The time when the reader last read something, or when its wait began. */
  moved: number;
}

/**
 * If the sum exceeds the limit, it is reduced to this share of the limit, so that not every further write triggers a
 * new count.
 */
const RELIEF = 0.9;

/**
 * Limits the response bytes that wait for clients, for all clients together: many clients within their own limits could
 * still exhaust the memory. Beyond the limit, the readers that read nothing for the longest time are disconnected.
 */
export class UnreadBytes {
  private readonly readers = new Map<ResponseReader, Waiting>();
  /** An upper bound of the waiting bytes: bytes that clients read since the last count are still included. */
  private sum = 0;

  constructor(
    private readonly limits: UnreadLimits,
    /** Called when readers were disconnected. */
    private readonly cut: (count: number, why: 'limit' | 'stall') => void = () => {},
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The number of waiting bytes, as of the last count. */
  get bytes(): number {
    return this.sum;
  }

  /** Called when bytes were written that the operating system did not accept at once. */
  waits(reader: ResponseReader): void {
    const { unread } = reader;
    const known = this.readers.get(reader);
    if (known) {
      if (unread < known.bytes) known.moved = this.now();
      this.sum += unread - known.bytes;
      known.bytes = unread;
    } else {
      this.readers.set(reader, { bytes: unread, moved: this.now() });
      this.sum += unread;
    }
    if (this.sum > this.limits.bytes) this.relieve(reader);
  }

  /** Called when the response has ended. */
  gone(reader: ResponseReader): void {
    const known = this.readers.get(reader);
    if (!known) return;
    this.readers.delete(reader);
    this.sum -= known.bytes;
  }

  /** Called periodically: readers that read nothing are disconnected even below the limit. */
  check(): void {
    this.count();
    const before = this.now() - this.limits.stall;
    const stalled = [...this.readers].filter(([, { moved }]) => moved < before);
    for (const [reader] of stalled) this.destroy(reader);
    if (stalled.length > 0) this.cut(stalled.length, 'stall');
  }

  private count(): void {
    const now = this.now();
    this.sum = 0;
    for (const [reader, waiting] of this.readers) {
      const { unread } = reader;
      if (unread < waiting.bytes) waiting.moved = now;
      waiting.bytes = unread;
      this.sum += unread;
      if (unread === 0) this.readers.delete(reader);
    }
  }

  /** `newest` is never disconnected, because a single response may exceed the limit. */
  private relieve(newest: ResponseReader): void {
    this.count();
    if (this.sum <= this.limits.bytes) return;
    // Among readers with equal times, the order of the map decides: the oldest is first.
    const slowest = [...this.readers].sort(([, a], [, b]) => a.moved - b.moved);
    let count = 0;
    for (const [reader] of slowest) {
      if (this.sum <= this.limits.bytes * RELIEF) break;
      if (reader === newest) continue;
      this.destroy(reader);
      count++;
    }
    if (count > 0) this.cut(count, 'limit');
  }

  private destroy(reader: ResponseReader): void {
    this.gone(reader);
    reader.destroy();
  }
}
