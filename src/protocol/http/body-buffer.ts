/** The size of a shared block, in bytes. Parts smaller than a block are copied into blocks. */
const BLOCK = 4 * 1024;

/**
 * Collects a body that arrives in parts. Small parts are copied into blocks: each buffer costs about a hundred bytes of
 * overhead, and the sender chooses the size of the parts. Most bodies arrive in one part, which is not copied.
 */
export class BodyBuffer {
  /** The number of bytes in all parts. */
  size = 0;
  private parts: Buffer[] = [];
  /** The block that collects small parts, and the number of bytes used in it. */
  private block: Buffer | undefined;
  private filled = 0;

  /** The caller must not write to the part afterwards. */
  add(part: Buffer): void {
    if (part.length === 0) return;
    this.size += part.length;
    if (this.parts.length === 0) this.parts.push(part);
    else if (part.length < BLOCK) this.join(part);
    else {
      this.cut();
      // A part may be a slice of a larger buffer. A slice of less than half of its buffer is copied, because it would
      // keep the rest of the buffer in memory.
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

  /** All bytes in one buffer. Empties this object. */
  take(): Buffer {
    const { size } = this;
    const parts = this.takeAll();
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts, size);
  }

  /** All bytes, without joining long parts. Empties this object. */
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
