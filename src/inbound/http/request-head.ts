import { ProtocolError } from '../../protocol/errors.js';
import {
  checkBegun,
  type HttpHeaders,
  HttpSyntaxError,
  headerOf,
  lineEnd,
  readFields,
} from '../../protocol/http/fields.js';

/** What a request says before its body. */
export interface RequestHead {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** No name stands twice: what came in several lines was joined. */
  readonly headers: HttpHeaders;
  /** Bytes of the body, or `CHUNKED`. */
  readonly length: number;
  /** Whether the client takes another answer on the same connection. */
  readonly keepAlive: boolean;
  /** HTTP/1.0 knows no chunks. */
  readonly old: boolean;
}

/** Whether there is a body, be it an empty one in chunks. */
export const hasBody = ({ length }: RequestHead): boolean => length !== 0;

/** Longer heads are refused (fault 11). */
export const HEAD_LIMIT = 16 * 1024;

const MOST_HEADERS = 128;
const VERSION = ' HTTP/1.';
/**
 * The methods that are registered. A word that is none begins no request either: what a client takes for one may be the
 * rest of another (fault 11).
 */
const METHODS: ReadonlySet<string> = new Set(
  `ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR
  MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PRI PROPFIND PROPPATCH PUT QUERY REBIND REPORT
  SEARCH TRACE UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`.split(/\s+/),
);
const ABSOLUTE = /^https?:\/\/([^/?#]+)(.*)$/i;
/** Of these a proxy may read the last where we read the first, so they stand once (fault 11). */
const SINGLE: ReadonlySet<string> = new Set(['host', 'authorization', 'content-type', 'mcp-session-id']);

/** Refuses what cannot become a head any more. The first `seen` bytes were looked at before. */
export function checkRequestBegun(source: Buffer, seen: number): void {
  const first = source[0]!;
  // Methods are words. What begins otherwise, such as TLS on a port that speaks none, is answered before it is all here.
  if (first < 33 || first > 126) throw new HttpSyntaxError('it does not begin like HTTP/1.1');
  checkBegun(source.toString('latin1', Math.max(0, seen - 1)));
}

/** Reads the lines before the body, without the empty one. */
export function readRequestHead(text: string): RequestHead {
  const first = lineEnd(text, 0);
  const method = text.slice(0, Math.max(0, text.indexOf(' ')));
  const targetEnd = first - VERSION.length - 1;
  const target = text.slice(method.length + 1, Math.max(0, targetEnd));
  const minor = text.charAt(first - 1);
  const isLine = text.startsWith(VERSION, targetEnd) && (minor === '1' || minor === '0');
  if (!isLine || target === '' || target.includes(' ') || target.includes('\t'))
    throw new HttpSyntaxError('it does not begin like HTTP/1.1');
  if (!METHODS.has(method)) throw new HttpSyntaxError('its method is none of HTTP');
  const { headers, length, keepAlive } = readFields(text, first, minor);
  if (headers.length > MOST_HEADERS * 2)
    throw new ProtocolError('headers_too_large', `A request has at most ${MOST_HEADERS} headers`);
  const joined = withoutRepeats(headers);
  const host = headerOf(joined, 'host');
  if (host === undefined && minor === '1') throw new HttpSyntaxError('the Host header is missing');
  return {
    method,
    target: target.charCodeAt(0) === SLASH ? target : pathOf(method, target, host),
    headers: joined,
    length: length ?? 0,
    keepAlive,
    old: minor === '0',
  };
}

const SLASH = 47;

/** A target that does not begin with its path: of the whole server, or with the server before the path (RFC 9112 §3.2). */
function pathOf(method: string, target: string, host: string | undefined): string {
  if (target === '*' && method === 'OPTIONS') return target;
  const [, authority, path] = ABSOLUTE.exec(target) ?? [];
  if (authority === undefined || path === undefined) throw new HttpSyntaxError('its target is no path');
  if (host === undefined || withoutPort(authority) !== withoutPort(host))
    throw new HttpSyntaxError('its target is on another host than the Host header says');
  return path.startsWith('/') ? path : `/${path}`;
}

/** The port that http has anyway is no difference. */
const withoutPort = (authority: string): string => authority.toLowerCase().replace(/:80$/, '');

function withoutRepeats(headers: HttpHeaders): HttpHeaders {
  let joined: string[] | undefined;
  for (let i = 2; i < headers.length; i += 2) {
    const name = headers[i]!;
    const before = joined ? placeOf(joined, name, joined.length) : placeOf(headers, name, i);
    if (before < 0) {
      joined?.push(name, headers[i + 1]!);
      continue;
    }
    if (SINGLE.has(name)) throw new ProtocolError('invalid_request', `The ${name} header stands twice`);
    joined ??= headers.slice(0, i);
    joined[before + 1] += `, ${headers[i + 1]}`;
  }
  return joined ?? headers;
}

function placeOf(headers: HttpHeaders, name: string, end: number): number {
  for (let i = 0; i < end; i += 2) if (headers[i] === name) return i;
  return -1;
}
