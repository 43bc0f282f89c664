import { randomFillSync, randomInt } from 'node:crypto';

/** Ids come in blocks of this size, each block in an order of its own. */
const BLOCK = 2 ** 16;
/** Blocks there are: ids stay below 2^31, because some servers read them as 32-bit integers. */
const BLOCKS = 2 ** 15;

/**
 * Ids of requests: whole numbers that nobody can guess, and that do not come twice before all 2^31 were used (BASE-02). A
 * reply that was made up in advance, for the next request on a connection, has no id to carry.
 */
export class RequestIds {
  /** What is left of the block: the last entries were taken. */
  private readonly order = new Uint16Array(BLOCK);
  private left = 0;
  /** Never 0, so that no id is 0: some programs take that for none. */
  private block = randomInt(1, BLOCKS);
  private readonly random = new Uint32Array(1024);
  private drawn = this.random.length;

  next(): number {
    if (this.left === 0) this.begin();
    const at = this.below(this.left--);
    const id = this.order[at]!;
    this.order[at] = this.order[this.left]!;
    return this.block * BLOCK + id;
  }

  private begin(): void {
    this.block = this.block === BLOCKS - 1 ? 1 : this.block + 1;
    for (let i = 0; i < BLOCK; i++) this.order[i] = i;
    this.left = BLOCK;
  }

  private below(limit: number): number {
    if (this.drawn === this.random.length) {
      randomFillSync(this.random);
      this.drawn = 0;
    }
    return Math.floor((this.random[this.drawn++]! / 2 ** 32) * limit);
  }
}

const ids = new RequestIds();

/** The id of a request of the gateway, to whichever server or agent. */
export const nextId = (): number => ids.next();
