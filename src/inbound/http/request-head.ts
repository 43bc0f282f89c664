import { ProtocolError } from '../../protocol/errors.js';

/** The head of a request, as the library parsed it. */
export interface RequestHead {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersion: string;
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  /** Alternating names and values, in the order received. */
  readonly rawHeaders: readonly string[];
}

export const MOST_HEADERS = 128;
const ABSOLUTE = /^(https?):\/\/([^/?#]+)(.*)$/i;
const SLASH = 47;

/**
 * Refuses a head that two readers could interpret differently, beyond the checks of the parser: a proxy in front of the
 * gateway must not see another request than the gateway (fault 11). Returns the path and query.
 */
export function checkHead(head: RequestHead, http2: boolean): string {
  const { headers, rawHeaders } = head;
  if (rawHeaders.length > MOST_HEADERS * 2)
    throw new ProtocolError('headers_too_large', `A request may have at most ${MOST_HEADERS} headers`, CLOSE);
  checkRepeats(rawHeaders);
  return http2 ? checkHttp2(head) : checkHttp1(head, text(headers['host']));
}

function checkHttp1({ method = '', url = '', httpVersion, headers }: RequestHead, host: string | undefined): string {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') throw unreadable(`HTTP/${httpVersion} is not supported`);
  if (host === undefined && httpVersion === '1.1') throw unreadable('the Host header is missing');
  const coding = text(headers['transfer-encoding']);
  if (coding !== undefined && (httpVersion === '1.0' || coding.toLowerCase() !== 'chunked'))
    throw unreadable(`the transfer coding ${JSON.stringify(coding)} is not supported in HTTP/${httpVersion}`);
  const upgrade = text(headers['upgrade']);
  if (upgrade !== undefined) checkUpgrade(upgrade, text(headers['connection']));
  return url.charCodeAt(0) === SLASH ? url : pathOf(method, url, host);
}

/** RFC 9113 §8.3.1: the authority replaces `Host`; if both are present, they must agree. */
function checkHttp2({ method, url = '', headers }: RequestHead): string {
  const authority = text(headers[':authority']);
  const host = text(headers['host']);
  if (authority === undefined && host === undefined) throw unreadable('the :authority and Host headers are missing');
  if (authority !== undefined && host !== undefined && authority.toLowerCase() !== host.toLowerCase())
    throw unreadable('the :authority and Host headers differ');
  if (url.charCodeAt(0) !== SLASH && !(url === '*' && method === 'OPTIONS'))
    throw unreadable('the target is not a path');
  return url;
}

/**
 * A proxy may read the last of these headers where the gateway reads the first, so they must not be repeated (fault
 * 11).
 */
const SINGLE = ['host', 'content-type', 'authorization', 'mcp-session-id'] as const;
const LENGTHS = new Map(SINGLE.map((name, i) => [name.length, { name, bit: 1 << i }]));

function checkRepeats(rawHeaders: readonly string[]): void {
  let seen = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const given = rawHeaders[i]!;
    // Each of these names has a different length.
    const single = LENGTHS.get(given.length);
    if (single === undefined || given.toLowerCase() !== single.name) continue;
    if ((seen & single.bit) !== 0)
      throw new ProtocolError('invalid_request', `The ${single.name} header appears twice`, CLOSE);
    seen |= single.bit;
  }
}

/**
 * A client that requests another protocol gets a response in HTTP or a refusal. Clients that offer HTTP/2 without TLS
 * (`h2c`) on every request expect a response in HTTP. Other clients cannot use such a response, so they get a refusal.
 * `UpgradeExchange` decides about WebSocket, which few paths serve.
 */
function checkUpgrade(upgrade: string, connection = ''): void {
  if (!/(?:^|[\s,])upgrade(?:$|[\s,])/i.test(connection)) return;
  if (/^\s*(?:h2c|websocket)\s*$/i.test(upgrade)) return;
  throw new ProtocolError('invalid_request', `An upgrade to ${JSON.stringify(upgrade)} is not supported`, CLOSE);
}

/** Reads a target that does not begin with its path: `*`, or a URL (RFC 9112 §3.2). */
function pathOf(method: string, target: string, host: string | undefined): string {
  if (target === '*' && method === 'OPTIONS') return target;
  const [, scheme, authority, path] = ABSOLUTE.exec(target) ?? [];
  if (scheme === undefined || authority === undefined || path === undefined)
    throw unreadable('the target is not a path');
  if (host === undefined || withoutPort(authority, scheme) !== withoutPort(host, scheme))
    throw unreadable('the target and the Host header name different hosts');
  return path.startsWith('/') ? path : `/${path}`;
}

/** Host names with and without the default port of the scheme count as equal. */
const withoutPort = (authority: string, scheme: string): string =>
  authority.toLowerCase().replace(scheme.toLowerCase() === 'https' ? /:443$/ : /:80$/, '');

const CLOSE = { headers: { Connection: 'close' } };

export const unreadable = (why: string): ProtocolError =>
  new ProtocolError('invalid_request', `The request cannot be read: ${why}`, CLOSE);

const text = (value: string | string[] | undefined): string | undefined =>
  typeof value === 'string' ? value : undefined;

/** The error for the client after a failure of the parser or the connection; undefined if the client is gone. */
export function refusalOf(
  error: NodeJS.ErrnoException & { readonly reason?: string; readonly rawPacket?: Buffer },
  limits: { readonly head: number; readonly times: { readonly head: number; readonly request: number } },
): ProtocolError | undefined {
  const { code = '', reason, rawPacket } = error;
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ProtocolError(
        'headers_too_large',
        `The head of a request may have at most ${limits.head} bytes`,
        CLOSE,
      );
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return unreadable('the chunk extensions are too large');
    case 'ERR_HTTP_REQUEST_TIMEOUT': {
      const { head, request } = limits.times;
      const message = `The head of a request must arrive within ${head / 1_000} seconds, the whole request within ${request / 1_000} seconds`;
      return new ProtocolError('request_timeout', message, CLOSE);
    }
    // The client closed its side of the connection in the middle of a request.
    case 'HPE_INVALID_EOF_STATE':
      return undefined;
  }
  if (!code.startsWith('HPE_')) return undefined;
  if (rawPacket?.[0] === TLS_HANDSHAKE) return unreadable('it is TLS, but this port serves HTTP without TLS');
  return unreadable(reason ? reason.charAt(0).toLowerCase() + reason.slice(1) : 'it is not HTTP/1.1');
}

const TLS_HANDSHAKE = 0x16;
