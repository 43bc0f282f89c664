/** JSON texts in pieces: some written here, some passed on unchanged. */
import { isAscii } from 'node:buffer';

/** Caches the quoted form of protocol words and tool names, which are few. */
const words = new Map<string, string>();
const MOST_WORDS = 512;

export function quoted(text: string): string {
  let known = words.get(text);
  if (known === undefined) {
    known = JSON.stringify(text);
    if (words.size < MOST_WORDS && text.length < 64) words.set(text, known);
  }
  return known;
}

/** Joins a JSON text to one line for an SSE event. JSON has raw line breaks only between its tokens. */
export const onOneLine = (text: string): string => (/[\r\n]/.test(text) ? text.replace(/[\r\n]+/g, ' ') : text);

/** A piece of a JSON text, written here or passed on. */
export type Piece = string | Buffer;

/** The number of bytes of all parts together. */
export function lengthOf(parts: readonly Buffer[]): number {
  let length = 0;
  for (const part of parts) length += part.length;
  return length;
}

/**
 * Buffers up to this size may share memory and are not counted. Node's shared pool has 8 KiB up to version 22, and 64
 * KiB since.
 */
const SHARED = 8 * 1024;

/** The memory that these parts keep allocated, without the shared pool. */
function memoryBehind(parts: readonly Buffer[]): number {
  let bytes = 0;
  for (let i = 0; i < parts.length; i++) {
    const { buffer } = parts[i]!;
    if (buffer.byteLength <= SHARED) continue;
    let first = 0;
    while (parts[first]!.buffer !== buffer) first++;
    if (first === i) bytes += buffer.byteLength;
  }
  return bytes;
}

/**
 * Returns the parts, of `length` bytes together, for storage over a long time. Slices of far larger buffers would keep
 * those buffers in memory, so such parts are copied.
 */
export function lasting(parts: readonly Buffer[], length: number): readonly Buffer[] {
  if (memoryBehind(parts) <= 2 * length) return parts;
  // Memory outside the shared pool, because a small copy in the pool would keep unrelated data allocated.
  const copy = Buffer.allocUnsafeSlow(length);
  let at = 0;
  for (const part of parts) at += part.copy(copy, at);
  return [copy];
}

/** All pieces in one buffer. */
export function joined(pieces: readonly Piece[], from = 0, to = pieces.length): Buffer {
  const first = pieces[from]!;
  if (to - from === 1 && typeof first !== 'string') return first;
  let text = '';
  let texts = from;
  for (; texts < to && typeof pieces[texts] === 'string'; texts++) text += pieces[texts];
  if (texts === to) return Buffer.from(text);
  let size = 0;
  for (let i = from; i < to; i++) {
    const piece = pieces[i]!;
    size += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length;
  }
  const buffer = Buffer.allocUnsafe(size);
  let at = 0;
  for (let i = from; i < to; i++) {
    const piece = pieces[i]!;
    at += typeof piece === 'string' ? buffer.write(piece, at) : piece.copy(buffer, at);
  }
  return buffer;
}

/** Pieces below this length are cheaper to copy than to send on their own. */
const SHORT = 16 * 1024;

/** Whether slices of these bytes are cheaper to extract as text than as bytes. */
export const isShortText = (source: Buffer): boolean => source.length < SHORT && isAscii(source);

/** Collects pieces in order and joins consecutive texts into one piece. */
export class Assembly {
  private readonly pieces: Piece[] = [];
  private text = '';

  add(piece: Piece): void {
    if (typeof piece === 'string') {
      this.text += piece;
      return;
    }
    if (this.text !== '') this.pieces.push(this.text);
    this.pieces.push(piece);
    this.text = '';
  }

  done(): Piece[] {
    if (this.text !== '') this.pieces.push(this.text);
    return this.pieces;
  }
}

/** The pieces as few buffers: short pieces are joined with their neighbours, long pieces are not copied. */
export function gathered(pieces: readonly Piece[]): Buffer[] {
  const buffers: Buffer[] = [];
  let from = 0;
  for (let i = 0; i < pieces.length; i++) {
    const piece = pieces[i]!;
    if (piece.length < SHORT || typeof piece === 'string') continue;
    if (i > from) buffers.push(joined(pieces, from, i));
    buffers.push(piece);
    from = i + 1;
  }
  if (pieces.length > from) buffers.push(joined(pieces, from));
  return buffers;
}

const texts = new WeakMap<object, string>();

/** The JSON text of a value that never changes, such as an Implementation; serialised once. */
export function textOf(value: object): string {
  let text = texts.get(value);
  if (text === undefined) {
    text = JSON.stringify(value);
    texts.set(value, text);
  }
  return text;
}
