/** The lines of an HTTP/1.1 message before its body, as both sides of the gateway read and write them. */

import { type HttpHeaders, headerOf } from './headers.js';

/** What came is no HTTP/1.1, or could be read in two ways. */
export class HttpSyntaxError extends Error {
  override readonly name = 'HttpSyntaxError';
  readonly code = 'HTTP_INVALID';
}

export { type HttpHeaders, headerOf };

/** The name of a header, or a method. */
export const TOKEN = /^[\w!#$%&'*+\-.^`|~]+$/;
/** What a value must not have: control characters, and what one byte cannot say. */
export const NOT_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** What ends the lines before a body. */
export const HEAD_END = Buffer.from('\r\n\r\n');
/** The length of a body that comes in chunks. */
export const CHUNKED = -1;
/** Statuses whose replies have no body, whatever their headers say. */
export const NO_BODY: ReadonlySet<number> = new Set([204, 304]);

/** What must not stand in a part of the lines, whose last character may be half a line end. */
const ILL_BEGUN = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|[^\r]\n/;
const CLOSE = /(?:^|[ \t,])close[ \t]*,/;
const KEEP_ALIVE = /(?:^|[ \t,])keep-alive[ \t]*,/;
const DIGITS = /^\d{1,15}$/;

/** Refuses what can no longer become the lines before a body, so that nobody waits for the rest of them. */
export function checkBegun(text: string): void {
  if (ILL_BEGUN.test(text)) throw new HttpSyntaxError('a control character stands before the body');
}

/** Of each character: whether it can be part of a name, whether that has to be written small, and part of a value. */
const IN_NAME = 1;
const CAPITAL = 2;
const IN_VALUE = 4;
const KINDS = Uint8Array.from({ length: 256 }, (_, code) => {
  const character = String.fromCharCode(code);
  return (
    (TOKEN.test(character) ? IN_NAME : 0) |
    (/[A-Z]/.test(character) ? CAPITAL : 0) |
    (NOT_IN_VALUE.test(character) ? 0 : IN_VALUE)
  );
});
const TAB = 9;
export const LF = 10;
export const CR = 13;
const SPACE = 32;
const COLON = 58;

/** What the headers of a message say of its body and of the connection. */
export interface Framing {
  readonly headers: HttpHeaders;
  /** Bytes of the body, or `CHUNKED`; undefined where nothing is told. */
  readonly length: number | undefined;
  readonly keepAlive: boolean;
}

/**
 * Reads the headers of a message that begins with a line of `first` characters; without the empty line that ends them.
 * Whatever could be framed in two ways is refused (RFC 9112 §6.3), so that nobody can make the end of one message look
 * like the beginning of the next.
 */
export function readFields(text: string, first: number, minor: string): Framing {
  const headers: string[] = [];
  let length: string | undefined;
  let coding: string | undefined;
  let connection = '';
  let at = endOfLine(text, 0, 0);
  if (at !== first) throw new HttpSyntaxError('a control character stands before the body');
  while (at < text.length) {
    const start = at + 2;
    const colon = endOfName(text, start);
    const name = nameAt(text, start, colon);
    let from = colon + 1;
    while (from < text.length && isBlank(text.charCodeAt(from))) from++;
    at = endOfLine(text, start, from);
    let end = at;
    while (end > from && isBlank(text.charCodeAt(end - 1))) end--;
    const value = text.slice(from, end);
    headers.push(name, value);
    switch (name) {
      case 'content-length':
        if (length !== undefined) throw new HttpSyntaxError('the length of the body is given twice');
        length = value;
        break;
      case 'transfer-encoding':
        if (coding !== undefined) throw new HttpSyntaxError('the transfer coding is given twice');
        coding = value.toLowerCase();
        break;
      case 'connection':
        connection += `${value.toLowerCase()},`;
        break;
    }
  }
  if (coding !== undefined) {
    if (length !== undefined) throw new HttpSyntaxError('there are both a length and a transfer coding');
    if (minor === '0') throw new HttpSyntaxError('a message of HTTP/1.0 has a transfer coding');
    if (coding !== 'chunked') throw new HttpSyntaxError(`the transfer coding ${JSON.stringify(coding)} is unknown`);
  }
  if (length !== undefined && !DIGITS.test(length)) throw new HttpSyntaxError('the length of the body is no number');
  const known = length === undefined ? undefined : Number(length);
  return {
    headers,
    length: coding === undefined ? known : CHUNKED,
    keepAlive:
      connection === '' ? minor === '1' : !CLOSE.test(connection) && (minor === '1' || KEEP_ALIVE.test(connection)),
  };
}

function endOfName(text: string, start: number): number {
  let i = start;
  while (i < text.length && (KINDS[text.charCodeAt(i)]! & IN_NAME) !== 0) i++;
  if (i === start || text.charCodeAt(i) !== COLON) throw new HttpSyntaxError('a header has a name that cannot be one');
  return i;
}

function nameAt(text: string, start: number, end: number): string {
  const name = text.slice(start, end);
  for (let i = start; i < end; i++) if ((KINDS[text.charCodeAt(i)]! & CAPITAL) !== 0) return name.toLowerCase();
  return name;
}

/** Where a line ends that goes on at `from`. Other characters that count as space in JavaScript are part of a value here. */
function endOfLine(text: string, start: number, from: number): number {
  let i = from;
  while (i < text.length && (KINDS[text.charCodeAt(i)]! & IN_VALUE) !== 0) i++;
  if (i === text.length || (text.charCodeAt(i) === CR && text.charCodeAt(i + 1) === LF && i > start)) return i;
  throw new HttpSyntaxError('a control character stands before the body');
}

export const isBlank = (code: number): boolean => code === SPACE || code === TAB;

/** Where the line that begins at `from` ends. */
export function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\r\n', from);
  return end < 0 ? text.length : end;
}
