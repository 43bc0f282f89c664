import { randomFillSync, randomInt } from 'node:crypto';

/** Size of a block of ids. Each block has its own random order. */
const BLOCK = 2 ** 16;
/** Number of blocks. Ids stay below 2^31, because some servers read them as 32-bit integers. */
const BLOCKS = 2 ** 15;

/**
 * Generates request ids: unpredictable integers without repetition until all 2^31 are used (BASE-02). A peer cannot
 * prepare a reply to the next request on a connection, because it cannot guess the id.
 */
export class RequestIds {
  /** The ids of the current block. Ids are taken from the end. */
  private readonly order = new Uint16Array(BLOCK);
  private left = 0;
  /** Never 0, because some programs treat the id 0 as a missing id. */
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

/** The id of the next request of the gateway to any server or agent. */
export const nextId = (): number => ids.next();
