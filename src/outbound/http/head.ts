import { type HttpHeaders, invalid, TOKEN } from './exchange.js';

/** How a body ends where no length was given. */
export const CHUNKED = -1;
export const TO_THE_END = -2;

/** The head of a reply: what it says, where its body ends, and whether the connection outlives it. */
export interface Head {
  readonly status: number;
  readonly headers: HttpHeaders;
  /** Bytes of the body, or one of the two above. */
  readonly length: number;
  /** Milliseconds for which the connection may then wait for another request; 0 where it must not be used again. */
  readonly keep: number;
}

/** Longer heads are refused, so that nobody can make us collect one without end. */
export const HEAD_LIMIT = 32 * 1024;

const KEPT = 30_000;
const KEPT_AT_MOST = 600_000;
/** A server that closes after n seconds may do so while a request is on its way: we stop a little earlier. */
const MARGIN = 1_000;

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: |$)/;
/** Control characters, and line ends that others might read differently. */
const ILL_FORMED = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?:^|[^\r])\n/;
/** The same for a part, whose last character may be half a line end. */
const ILL_BEGUN = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|[^\r]\n/;
const BEGINNING = 'HTTP/1.';
const CLOSE = /(?:^|[ \t,])close[ \t]*,/;
const KEEP_ALIVE = /(?:^|[ \t,])keep-alive[ \t]*,/;
const DIGITS = /^\d{1,15}$/;
const NO_BODY: ReadonlySet<number> = new Set([204, 304]);

/**
 * Refuses what cannot become a head any more, so that nobody waits for the rest of it. The first `seen` bytes were looked
 * at before.
 */
export function checkBegun(source: Buffer, at: number, end: number, seen: number): void {
  const beginning = source.toString('latin1', at, Math.min(end, at + BEGINNING.length));
  if (!BEGINNING.startsWith(beginning)) throw invalid('the reply does not begin like HTTP/1.1');
  if (ILL_BEGUN.test(source.toString('latin1', at + Math.max(0, seen - 1), end)))
    throw invalid('a control character stands in the head of the reply');
}

/**
 * Reads the lines before the body, without the empty one. Whatever could be framed in two ways is refused (RFC 9112 §6.3),
 * so that no server can make its next reply look like the answer to somebody else's request.
 */
export function readHead(text: string): Head {
  if (ILL_FORMED.test(text)) throw invalid('a control character stands in the head of the reply');
  let end = lineEnd(text, 0);
  const line = STATUS_LINE.exec(text.slice(0, end));
  if (!line) throw invalid('the reply does not begin like HTTP/1.1');
  const status = Number(line[2]);
  const headers: string[] = [];
  let length: string | undefined;
  let coding: string | undefined;
  let connection = '';
  let hint: string | undefined;
  while (end < text.length) {
    const from = end + 2;
    end = lineEnd(text, from);
    const colon = text.indexOf(':', from);
    if (colon < 0 || colon > end) throw invalid('a header has no colon');
    const name = text.slice(from, colon).toLowerCase();
    if (!TOKEN.test(name)) throw invalid('a header has a name that cannot be one');
    const value = trimmed(text, colon + 1, end);
    headers.push(name, value);
    switch (name) {
      case 'content-length':
        if (length !== undefined) throw invalid('the length of the reply is given twice');
        length = value;
        break;
      case 'transfer-encoding':
        if (coding !== undefined) throw invalid('the transfer coding of the reply is given twice');
        coding = value.toLowerCase();
        break;
      case 'connection':
        connection += `${value.toLowerCase()},`;
        break;
      case 'keep-alive':
        hint = /(?:^|[\s,;])timeout=(\d{1,9})/i.exec(value)?.[1];
        break;
    }
  }
  const framed = framing(status, line[1]!, length, coding);
  const persistent =
    framed !== TO_THE_END &&
    !CLOSE.test(connection) &&
    (line[1] === '1' || KEEP_ALIVE.test(connection)) &&
    // Where no body can be, one was announced: it may come all the same.
    (framed !== 0 || (coding === undefined && Number(length ?? 0) === 0));
  return { status, headers, length: framed, keep: persistent ? kept(hint) : 0 };
}

function framing(status: number, minor: string, length: string | undefined, coding: string | undefined): number {
  if (coding !== undefined) {
    if (length !== undefined) throw invalid('the reply has both a length and a transfer coding');
    if (minor === '0') throw invalid('an HTTP/1.0 reply has a transfer coding');
    if (coding !== 'chunked') throw invalid(`the transfer coding ${JSON.stringify(coding)} is unknown`);
  }
  if (length !== undefined && !DIGITS.test(length)) throw invalid('the length of the reply is no number');
  if (status < 200 || NO_BODY.has(status)) return 0;
  if (coding !== undefined) return CHUNKED;
  return length === undefined ? TO_THE_END : Number(length);
}

const kept = (hint: string | undefined): number =>
  hint === undefined ? KEPT : Math.min(KEPT_AT_MOST, Math.max(0, Number(hint) * 1_000 - MARGIN));

/** Without the blanks around it. Other characters that count as space in JavaScript are part of a value here. */
function trimmed(text: string, from: number, to: number): string {
  let [start, end] = [from, to];
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

const isBlank = (code: number): boolean => code === 32 || code === 9;

function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\r\n', from);
  return end < 0 ? text.length : end;
}
