/** Keeps the last `size` bytes of an endless stream, in a buffer that is allocated once. */
export class Tail {
  #ring: Buffer | undefined;
  #at = 0;
  #full = false;
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
  }

  push(chunk: Buffer): void {
    this.#ring ??= Buffer.alloc(this.#size);
    const kept = chunk.length > this.#size ? chunk.subarray(chunk.length - this.#size) : chunk;
    const first = Math.min(kept.length, this.#size - this.#at);
    kept.copy(this.#ring, this.#at, 0, first);
    kept.copy(this.#ring, 0, first);
    if (this.#at + kept.length >= this.#size) this.#full = true;
    this.#at = (this.#at + kept.length) % this.#size;
  }

  toString(): string {
    if (this.#ring === undefined) return '';
    if (!this.#full) return this.#ring.toString('utf8', 0, this.#at);
    const bytes = Buffer.concat([this.#ring.subarray(this.#at), this.#ring.subarray(0, this.#at)]);
    // The cut may have split a character, so the text starts at the next character.
    let start = 0;
    while (start < 4 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
    return bytes.toString('utf8', start);
  }
}
