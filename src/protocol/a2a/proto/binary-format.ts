/** The binary form of protocol buffers, limited to the features that the A2A services use. */

export const VARINT = 0;
export const FIXED64 = 1;
export const BYTES = 2;
const FIXED32 = 5;

export class ProtoSyntaxError extends Error {
  override readonly name = 'ProtoSyntaxError';
}

const tooShort = (): ProtoSyntaxError => new ProtoSyntaxError('the message ends in the middle of a field');

export class Reader {
  at = 0;

  constructor(readonly source: Buffer) {}

  get done(): boolean {
    return this.at >= this.source.length;
  }

  /** A number of up to 64 bits, as precise as a double; negative numbers take ten bytes. */
  varint(): number {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.source[this.at++];
      if (byte === undefined) throw tooShort();
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= (bits & 0x0f) << 28;
        high = bits >> 4;
      } else if (shift < 63) high |= bits << (shift - 32);
      if (byte < 0x80) return (high | 0) * 0x1_0000_0000 + (low >>> 0);
    }
    throw new ProtoSyntaxError('a varint is longer than ten bytes');
  }

  double(): number {
    const value = this.take(8).readDoubleLE(0);
    return value;
  }

  bytes(): Buffer {
    return this.take(this.varint());
  }

  private take(length: number): Buffer {
    const end = this.at + length;
    if (length < 0 || end > this.source.length) throw tooShort();
    const bytes = this.source.subarray(this.at, end);
    this.at = end;
    return bytes;
  }

  skip(wire: number): void {
    if (wire === VARINT) this.varint();
    else if (wire === FIXED64) this.take(8);
    else if (wire === BYTES) this.bytes();
    else if (wire === FIXED32) this.take(4);
    else throw new ProtoSyntaxError(`unknown wire type ${wire}`);
  }
}

export class Writer {
  private readonly chunks: Buffer[] = [];
  private size = 0;

  private push(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.size += chunk.length;
  }

  tag(field: number, wire: number): this {
    return this.varint(field * 8 + wire);
  }

  varint(value: number): this {
    const bytes: number[] = [];
    let low = value >>> 0;
    let high = Math.floor(value / 0x1_0000_0000) >>> 0;
    do {
      const bits = low & 0x7f;
      low = ((low >>> 7) | ((high & 0x7f) << 25)) >>> 0;
      high >>>= 7;
      bytes.push(low !== 0 || high !== 0 ? bits | 0x80 : bits);
    } while (low !== 0 || high !== 0);
    this.push(Buffer.from(bytes));
    return this;
  }

  double(value: number): this {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeDoubleLE(value, 0);
    this.push(bytes);
    return this;
  }

  bytes(value: Buffer): this {
    this.varint(value.length);
    this.push(value);
    return this;
  }

  finish(): Buffer {
    return this.chunks.length === 1 ? this.chunks[0]! : Buffer.concat(this.chunks, this.size);
  }
}
