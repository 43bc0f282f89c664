/** The lines of an HTTP/1.1 message before its body, as both sides of the gateway read and write them. */

/** What came is no HTTP/1.1, or could be read in two ways. */
export class HttpSyntaxError extends Error {
  override readonly name = 'HttpSyntaxError';
  readonly code = 'HTTP_INVALID';
}

/** Headers in the order in which they came: names, in lower case, and values in turn. */
export type HttpHeaders = readonly string[];

/** A header that stands once; of several the first counts. `name` is in lower case. */
export function headerOf(headers: HttpHeaders, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
  return undefined;
}

/** The name of a header, or a method. */
export const TOKEN = /^[\w!#$%&'*+\-.^`|~]+$/;
/** What a value must not have: control characters, and what one byte cannot say. */
export const NOT_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** Control characters, and line ends that others might read differently. */
const ILL_FORMED = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?:^|[^\r])\n/;
/** The same for a part, whose last character may be half a line end. */
const ILL_BEGUN = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|[^\r]\n/;
const CLOSE = /(?:^|[ \t,])close[ \t]*,/;
const KEEP_ALIVE = /(?:^|[ \t,])keep-alive[ \t]*,/;
const DIGITS = /^\d{1,15}$/;

/** Refuses what can no longer become the lines before a body, so that nobody waits for the rest of them. */
export function checkBegun(text: string): void {
  if (ILL_BEGUN.test(text)) throw new HttpSyntaxError('a control character stands before the body');
}

/** What the headers of a message say of its body and of the connection. */
export interface Framing {
  readonly headers: HttpHeaders;
  /** Bytes of the body; undefined where none are told. */
  readonly length: number | undefined;
  readonly chunked: boolean;
  readonly keepAlive: boolean;
}

/**
 * Reads the headers of a message that begins with a line of `from` characters; without the empty line that ends them.
 * Whatever could be framed in two ways is refused (RFC 9112 §6.3), so that nobody can make the end of one message look
 * like the beginning of the next.
 */
export function readFields(text: string, from: number, minor: string): Framing {
  if (ILL_FORMED.test(text)) throw new HttpSyntaxError('a control character stands before the body');
  const headers: string[] = [];
  let length: string | undefined;
  let coding: string | undefined;
  let connection = '';
  let end = from;
  while (end < text.length) {
    const start = end + 2;
    end = lineEnd(text, start);
    const colon = text.indexOf(':', start);
    if (colon < 0 || colon > end) throw new HttpSyntaxError('a header has no colon');
    const name = text.slice(start, colon).toLowerCase();
    if (!TOKEN.test(name)) throw new HttpSyntaxError('a header has a name that cannot be one');
    const value = trimmed(text, colon + 1, end);
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
  return {
    headers,
    length: length === undefined ? undefined : Number(length),
    chunked: coding !== undefined,
    keepAlive: !CLOSE.test(connection) && (minor === '1' || KEEP_ALIVE.test(connection)),
  };
}

/** Without the blanks around it. Other characters that count as space in JavaScript are part of a value here. */
function trimmed(text: string, from: number, to: number): string {
  let [start, end] = [from, to];
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

const isBlank = (code: number): boolean => code === 32 || code === 9;

/** Where the line that begins at `from` ends. */
export function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\r\n', from);
  return end < 0 ? text.length : end;
}
