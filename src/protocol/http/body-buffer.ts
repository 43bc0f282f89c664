/** What is smaller is copied together with others. */
const BLOCK = 4 * 1024;

/**
 * A text that comes in parts, until all of it is there. Small parts are copied together: each would be a hundred bytes of
 * memory beside its own, and whoever sends them says how small they are. Most texts come in one part, which is not copied.
 */
export class BodyBuffer {
  /** Bytes of all parts. */
  size = 0;
  private parts: Buffer[] = [];
  /** Where small parts go at present, and how much of it they fill. */
  private block: Buffer | undefined;
  private filled = 0;

  /** The part is not to be written to any more. */
  add(part: Buffer): void {
    if (part.length === 0) return;
    this.size += part.length;
    if (this.parts.length === 0) this.parts.push(part);
    else if (part.length < BLOCK) this.join(part);
    else {
      this.cut();
      // What is not most of the memory it lies in would keep the rest of that as well.
      this.parts.push(part.length * 2 >= part.buffer.byteLength ? part : Buffer.from(part));
    }
  }

  private join(part: Buffer): void {
    if (this.filled + part.length > BLOCK) this.cut();
    this.block ??= Buffer.allocUnsafeSlow(BLOCK);
    this.filled += part.copy(this.block, this.filled);
  }

  private cut(): void {
    if (this.block) this.parts.push(this.block.subarray(0, this.filled));
    this.block = undefined;
    this.filled = 0;
  }

  /** All of it, in one piece. Nothing is kept here. */
  take(): Buffer {
    const { size } = this;
    const parts = this.takeAll();
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts, size);
  }

  /** All of it, without copying long parts together. Nothing is kept here. */
  takeAll(): Buffer[] {
    this.cut();
    const { parts } = this;
    this.drop();
    return parts;
  }

  drop(): void {
    this.parts = [];
    this.block = undefined;
    this.filled = 0;
    this.size = 0;
  }
}
