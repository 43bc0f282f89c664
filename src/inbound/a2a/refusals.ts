import { restDialect } from '../../protocol/a2a/detect.js';
import { type DialectId, ERROR_PROFILES, type ErrorProfile } from '../../protocol/a2a/dialect.js';
import { A2A_JSON, refusalDialect } from '../../protocol/a2a/habits.js';
import { dialect, restError } from '../../protocol/a2a/index.js';
import { ProtocolError, type Reason } from '../../protocol/errors.js';
import { type Id, writeError } from '../../protocol/jsonrpc/message.js';
import { sendBody, sendJson } from '../http/reply.js';
import type { InboundResponse } from '../http/response.js';
import type { Visit } from '../http/server.js';
import { placeOf } from './paths.js';
import { namedVersion } from './visit.js';

/**
 * JSON-RPC errors travel on 200, but for what HTTP itself has to say: who you are, whether there is anything here, and
 * that you are too many.
 */
const ON_HTTP: ReadonlySet<Reason> = new Set<Reason>([
  'unauthorized',
  'forbidden',
  'not_found',
  'agent_not_found',
  'http_method_not_allowed',
  'body_too_large',
  'headers_too_large',
  'unsupported_media_type',
  'rate_limited',
  'overloaded',
]);

export const JSON_TYPE = 'application/json';

/** A body of another type than the binding reads (S-74). */
export function incompatibleContent(type: string | undefined, expected: string): ProtocolError {
  const sent = type === undefined ? 'no content type' : `content type "${type.slice(0, 100)}"`;
  return new ProtocolError('content_type_not_supported', `Incompatible ${sent}: send ${expected}`, {
    outcome: 'not_executed',
  });
}

export const rpcStatus = (error: unknown): number =>
  error instanceof ProtocolError && ON_HTTP.has(error.reason) ? error.row.http : 200;

export const headersOf = (error: unknown): string[] =>
  error instanceof ProtocolError ? Object.entries(error.detail.headers ?? {}).flat() : [];

/** The JSON-RPC text of an error. */
export const rpcError = (id: Id | null, error: unknown, as: DialectId): Buffer =>
  writeError(id, dialect(as).writeError(error));

export function sendRpcError(
  res: InboundResponse,
  headers: readonly string[],
  id: Id | null,
  error: unknown,
  as: DialectId,
): void {
  sendJson(res, rpcStatus(error), [...headers, ...headersOf(error)], [rpcError(id, error, as)]);
}

/** Whether the client is to be answered in the media type of A2A (G-27). */
export function wantsA2aJson({ req }: Pick<Visit, 'req'>): boolean {
  const [accept, sent] = [req.header('accept'), req.header('content-type')];
  return accept?.toLowerCase().includes(A2A_JSON) === true || sent?.toLowerCase().startsWith(A2A_JSON) === true;
}

export const restType = (visit: Pick<Visit, 'req'>): string => (wantsA2aJson(visit) ? A2A_JSON : JSON_TYPE);

export function sendRestError(visit: Visit, error: unknown, as: DialectId, profile: ErrorProfile): void {
  const { status, body, headers } = restError(error, as, profile);
  const all = [...visit.headers, ...Object.entries<string>({ ...headers }).flat()];
  sendBody(visit.res, status, all, restType(visit), [Buffer.from(JSON.stringify(body))]);
}

/** What stands at the place of an agent's name beneath the front agent. */
const OF_THE_FRONT = /^(?:v1|tasks|extendedAgentCard|message:(?:send|stream))$/;

/**
 * Answers what never came as far as an agent: callers nobody knows, paths nothing is at, a gateway without A2A. The path
 * tells the binding, and with it the shape of the error.
 */
export function refuseA2a(visit: Visit, error: ProtocolError, profile: ErrorProfile = ERROR_PROFILES[0]): void {
  const { res, path } = visit;
  if (res.begun) {
    res.end();
    return;
  }
  const named = namedVersion(visit);
  // Whether such an agent exists is not asked: the shape must not tell.
  const place = placeOf(path, (name) => !OF_THE_FRONT.test(name));
  if (place && place !== 'unknown' && place.endpoint.kind === 'rpc') {
    sendRpcError(res, visit.headers, error.detail.id ?? null, error, refusalDialect(named));
    return;
  }
  const target = place && place !== 'unknown' && place.endpoint.kind === 'rest' ? place.endpoint.target : undefined;
  const version = named === 'unsupported' ? undefined : named;
  sendRestError(visit, error, restDialect(target?.v1 ?? false, version, undefined), profile);
}
