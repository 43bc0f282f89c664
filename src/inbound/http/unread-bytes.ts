/** A response of which some bytes wait for its client to read on. */
export interface ResponseReader {
  /** Bytes that wait in the process. */
  readonly unread: number;
  destroy(): void;
}

export interface UnreadLimits {
  /** The most bytes that wait for all readers together. */
  readonly bytes: number;
  /** Milliseconds after which a reader that took nothing is cut. */
  readonly stall: number;
}

interface Waiting {
  /** Bytes that waited when they were counted last. */
  bytes: number;
  /** When the reader last took something, or when its wait began. */
  moved: number;
}

/** Below the limit by this factor once it was exceeded, so that not every write has to count again. */
const RELIEF = 0.9;

/**
 * Bounds the bytes of responses that wait for their clients, of all clients together: each alone may be within its limits
 * while many of them exhaust the memory. Beyond the limit the readers that took nothing for the longest time are cut.
 */
export class UnreadBytes {
  private readonly readers = new Map<ResponseReader, Waiting>();
  /** Never less than the true sum: what readers took since the last count is still in it. */
  private sum = 0;

  constructor(
    private readonly limits: UnreadLimits,
    /** Tells that readers were cut. */
    private readonly cut: (count: number, why: 'limit' | 'stall') => void = () => {},
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Bytes that wait, as far as they were counted. */
  get bytes(): number {
    return this.sum;
  }

  /** Something was written that the system did not take at once. */
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

  /** The response is over. */
  gone(reader: ResponseReader): void {
    const known = this.readers.get(reader);
    if (!known) return;
    this.readers.delete(reader);
    this.sum -= known.bytes;
  }

  /** Called from time to time: readers that take nothing are cut also where there is room for what they do not take. */
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

  /** `newest` is cut by nobody: a single response may be larger than the limit. */
  private relieve(newest: ResponseReader): void {
    this.count();
    if (this.sum <= this.limits.bytes) return;
    // The order of the map decides between those that moved at the same time: the oldest is first.
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
