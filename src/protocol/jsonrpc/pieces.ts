/** JSON texts in pieces: some written here, some passed on as they came. */
import { isAscii } from 'node:buffer';

/** Words of the protocol, and names of tools that are in use, are few; each is quoted once. */
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

/** An agent may write JSON over several lines; an event is one. Line breaks in JSON stand only between its tokens. */
export const onOneLine = (text: string): string => (/[\r\n]/.test(text) ? text.replace(/[\r\n]+/g, ' ') : text);

/** A piece of a JSON text, written here or passed on. */
export type Piece = string | Buffer;

/** How many bytes these parts have together. */
export function lengthOf(parts: readonly Buffer[]): number {
  let length = 0;
  for (const part of parts) length += part.length;
  return length;
}

/** What small buffers share is not counted up to this size. Node shares 8 KiB up to version 22, and 64 KiB since. */
const SHARED = 8 * 1024;

/** How much memory is there for as long as these parts are, but for what small buffers share. */
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
 * These parts, of `length` bytes together, for somebody who keeps them long. A part may be cut from a far larger text, all of
 * which would be kept with it: then it is a copy.
 */
export function lasting(parts: readonly Buffer[], length: number): readonly Buffer[] {
  if (memoryBehind(parts) <= 2 * length) return parts;
  // In memory of its own: a small copy would otherwise share some with whatever else is written meanwhile.
  const copy = Buffer.allocUnsafeSlow(length);
  let at = 0;
  for (const part of parts) at += part.copy(copy, at);
  return [copy];
}

/** One buffer of all the pieces. */
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

/** Whether parts of these bytes are cheaper to take out as text than as bytes. */
export const isShortText = (source: Buffer): boolean => source.length < SHORT && isAscii(source);

/** Puts pieces together in order; texts that follow each other become one piece. */
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

/** The pieces as few buffers: short ones are joined with their neighbours, a long one is passed on without a copy. */
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

/** The JSON text of a value that never changes, such as what a program says of itself; written once. */
export function textOf(value: object): string {
  let text = texts.get(value);
  if (text === undefined) {
    text = JSON.stringify(value);
    texts.set(value, text);
  }
  return text;
}
