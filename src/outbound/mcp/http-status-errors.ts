import { hideCredentials } from '../../identity/mask-secrets.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { retryAfterOf } from '../../protocol/http/retry-after.js';
import { readReply } from '../../protocol/jsonrpc/message.js';
import { type HttpHeaders, headerOf } from '../http/index.js';
import { shownUrl } from '../shown-url.js';
import { CredentialRefused, type Server, subject } from './server-errors.js';

/** The JSON-RPC error in the body of an error response, if there is one. */
function rpcErrorOf(status: number, body: Buffer): UpstreamRpcError | undefined {
  if (body.length === 0) return undefined;
  try {
    const message = readReply(body);
    if (message.kind !== 'response' || !message.error) return undefined;
    const { code, message: text, data } = message.error;
    return new UpstreamRpcError(code, text, data, status);
  } catch {
    return undefined;
  }
}

const HOST_CHECK = /\bhost\b/i;
const MOST_SHOWN = 200;

/** The first non-empty line of an error body. Undefined if the body is not text. */
function explanation(headers: HttpHeaders, body: Buffer): string | undefined {
  const type = headerOf(headers, 'content-type') ?? 'text/plain';
  if (!/^(text\/plain|application\/(?:[\w.+-]+\+)?json)/i.test(type)) return undefined;
  const line = body
    .toString('utf8', 0, 4 * MOST_SHOWN)
    .split('\n')
    .map((text) => text.replace(/[^\x20-\x7e\u00a0-\uffff]/g, ' ').trim())
    .find((text) => text !== '');
  return line === undefined ? undefined : hideCredentials(line).slice(0, MOST_SHOWN);
}

/** The target of a redirect, without secrets. */
export function redirectTarget(headers: HttpHeaders): string | undefined {
  const location = headerOf(headers, 'location');
  if (location === undefined) return undefined;
  return URL.canParse(location) ? shownUrl(location) : location.replace(/[?#].*$/s, '').slice(0, MOST_SHOWN);
}

/**
 * Turns an HTTP status other than 2xx into an error for the caller that says what the server answered and what to do.
 * The server's demands on the gateway (such as a challenge) are not passed on: the caller cannot meet them (GW-07).
 */
export function refusal(
  server: Server,
  status: number,
  headers: HttpHeaders,
  body: Buffer,
): ProtocolError | UpstreamRpcError {
  const data = { server: server.name, status };
  const detail = { data, outcome: status < 500 ? ('not_executed' as const) : ('unknown' as const) };
  const told = server.place === undefined ? undefined : explanation(headers, body);
  const answered = `HTTP ${status}${told === undefined ? '' : `: ${told}`}`;
  const make = (reason: 'upstream_error', what: string): ProtocolError =>
    new ProtocolError(reason, `${subject(server)} ${what}`, detail);
  if (status === 429) {
    const retryAfter = retryAfterOf(headers);
    return new ProtocolError('upstream_rate_limited', `${subject(server)} is limiting requests`, {
      ...detail,
      data: { ...data, ...(retryAfter && { retryAfter }) },
      ...(retryAfter && { headers: { 'Retry-After': retryAfter } }),
    });
  }
  const refused = (what: string): CredentialRefused =>
    new CredentialRefused(`${subject(server)} ${what}`, detail, {
      status,
      challenge: headerOf(headers, 'www-authenticate'),
    });
  if (status === 401)
    return refused(
      `did not accept the gateway's credentials (${answered}); check "headers" of the server in the configuration`,
    );
  if ((status === 403 || status === 421) && HOST_CHECK.test(body.toString('utf8', 0, 4 * MOST_SHOWN)))
    return make(
      'upstream_error',
      `refused the host name of the request (${answered}); allow the host of its URL at the server`,
    );
  if (status === 403)
    return refused(
      `refused the request (${answered}); the credentials in "headers" may be missing or lack a permission`,
    );
  const rpc = rpcErrorOf(status, body);
  if (rpc) return rpc;
  if (status < 400) {
    const target = server.place === undefined ? undefined : redirectTarget(headers);
    const to = target === undefined ? '' : ` to ${target}`;
    return make(
      'upstream_error',
      `answered with a redirect${to} (HTTP ${status}), which is not followed; correct its URL`,
    );
  }
  if (status === 404 || status === 405)
    return make(
      'upstream_error',
      `has no MCP endpoint there (HTTP ${status}); check its URL, which often ends in /mcp or /sse`,
    );
  return make('upstream_error', `answered ${answered}`);
}
