import {
  checkBegun,
  type HttpHeaders,
  HttpSyntaxError,
  headerOf,
  lineEnd,
  NO_BODY,
  readFields,
} from '../../protocol/http/fields.js';

/** The length of a body that ends with its connection. */
export const TO_THE_END = -2;

/** The head of a reply: what it says, where its body ends, and whether the connection outlives it. */
export interface Head {
  readonly status: number;
  readonly headers: HttpHeaders;
  /** Bytes of the body, `CHUNKED` or `TO_THE_END`. */
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
const BEGINNING = 'HTTP/1.';

/** Refuses what cannot become a head any more. The first `seen` bytes were looked at before. */
export function checkHeadBegun(source: Buffer, at: number, end: number, seen: number): void {
  const beginning = source.toString('latin1', at, Math.min(end, at + BEGINNING.length));
  if (!BEGINNING.startsWith(beginning)) throw new HttpSyntaxError('the reply does not begin like HTTP/1.1');
  checkBegun(source.toString('latin1', at + Math.max(0, seen - 1), end));
}

/** Reads the lines before the body, without the empty one. */
export function readHead(text: string): Head {
  const first = lineEnd(text, 0);
  const line = STATUS_LINE.exec(text.slice(0, first));
  if (!line) throw new HttpSyntaxError('the reply does not begin like HTTP/1.1');
  const { headers, length, keepAlive } = readFields(text, first, line[1]!);
  const status = Number(line[2]);
  const none = status < 200 || NO_BODY.has(status);
  const framed = none ? 0 : (length ?? TO_THE_END);
  const persistent =
    framed !== TO_THE_END &&
    keepAlive &&
    // Where no body can be, one was announced: it may come all the same.
    (framed !== 0 || (length ?? 0) === 0);
  return { status, headers, length: framed, keep: persistent ? kept(headerOf(headers, 'keep-alive')) : 0 };
}

function kept(hint: string | undefined): number {
  const seconds = hint === undefined ? undefined : /(?:^|[\s,;])timeout=(\d{1,9})/i.exec(hint)?.[1];
  return seconds === undefined ? KEPT : Math.min(KEPT_AT_MOST, Math.max(0, Number(seconds) * 1_000 - MARGIN));
}
