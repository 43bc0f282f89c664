/**
 * The headers of requests to agents. The headers of `src/identity/upstream-credentials.ts` are part of each request.
 */
import type { Exchange } from '../../core/a2a/agent.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { RequestFormat } from '../../protocol/a2a/request-format.js';
import { type HttpTarget, inLane } from '../http/index.js';

/**
 * Headers of a caller's request that are never forwarded to an agent, whatever the list of forwarded headers (§3.11).
 */
export const NEVER_FORWARDED: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
  'host',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'content-type',
  'accept',
  'forwarded',
  'a2a-version',
  'a2a-extensions',
  'x-a2a-extensions',
]);

/** The target of a request with this credential: its own connections, and the query that the credential needs. */
export function targetWith(target: HttpTarget, { key, query }: Credential): HttpTarget {
  if (query === undefined) return inLane(target, key);
  const { origin, path } = target;
  return inLane({ origin, path: `${path}${path.includes('?') ? '&' : '?'}${query}` }, key);
}

/** The constant headers of requests of one kind, with one credential, to one interface. Flat pairs, built once. */
export function standingHeaders(
  credential: Credential,
  format: RequestFormat,
  own: readonly string[],
): readonly string[] {
  return [...own, ...credential.headers, ...(format.named === undefined ? [] : ['A2A-Version', format.named])];
}

/** The headers of one request. A header of the credential replaces a forwarded header with the same name. */
export function withExchange(
  standing: readonly string[],
  credential: Credential,
  format: RequestFormat,
  exchange: Exchange,
): readonly string[] {
  const names = Object.keys(exchange.forward);
  if (names.length === 0 && exchange.extensions.length === 0) return standing;
  const headers = [...standing];
  if (exchange.extensions.length > 0) headers.push(format.extensions, exchange.extensions.join(', '));
  for (const name of names) {
    const lower = name.toLowerCase();
    if (NEVER_FORWARDED.has(lower) || lower.startsWith('x-forwarded-') || isConfigured(credential.headers, lower))
      continue;
    headers.push(name, exchange.forward[name]!);
  }
  return headers;
}

export const requestHeaders = (
  credential: Credential,
  format: RequestFormat,
  exchange: Exchange,
  own: readonly string[],
): readonly string[] => withExchange(standingHeaders(credential, format, own), credential, format, exchange);

function isConfigured(headers: readonly string[], lower: string): boolean {
  for (let i = 0; i < headers.length; i += 2) if (headers[i]!.toLowerCase() === lower) return true;
  return false;
}
