import type { Bus } from '../../state/bus.js';
import { KEPT } from './stream-entry.js';

export const COPIES_LIMIT = 64 * 1024 * 1024;

interface Kept {
  readonly name: string;
  readonly bytes: number;
  /** When the bus removes the copy by itself. */
  readonly expires: number;
}

/**
 * Limits the bytes of finished streams that a replica keeps on the Bus. Above the limit the oldest copies are dropped.
 * Clients then get these streams from their maker, as long as it has them in memory.
 */
export class KeptCopies {
  /** In the order in which they end, so the first one is the oldest and expires first. */
  private readonly copies = new Set<Kept>();
  private total = 0;

  constructor(
    private readonly bus: Bus,
    private readonly limit = COPIES_LIMIT,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Bytes of the finished streams on the Bus. */
  get bytes(): number {
    return this.total;
  }

  /** Counts a copy to which nothing is added any more. Resolves when the copies above the limit are dropped. */
  async finished(name: string, bytes: number): Promise<void> {
    const now = this.now();
    const dropped: string[] = [];
    this.copies.add({ name, bytes, expires: now + KEPT.ttlMs });
    this.total += bytes;
    for (const copy of this.copies) {
      const expired = copy.expires <= now;
      if (!expired && this.total <= this.limit) break;
      this.copies.delete(copy);
      this.total -= copy.bytes;
      if (!expired) dropped.push(copy.name);
    }
    // A copy that cannot be dropped, because the Bus is away, expires.
    await Promise.all(dropped.map((each) => this.bus.drop(each).catch(() => {})));
  }
}
