import type { DialectId, ErrorProfile } from '../../protocol/a2a/dialect.js';
import { dialect, restError } from '../../protocol/a2a/index.js';
import { A2A_JSON, refusalDialect } from '../../protocol/a2a/version-behavior.js';
import { restDialect } from '../../protocol/a2a/version-detection.js';
import { ProtocolError, type Reason } from '../../protocol/errors.js';
import { type Id, writeError } from '../../protocol/jsonrpc/message.js';
import type { InboundResponse } from '../http/response.js';
import type { ErrorFormat, RequestContext } from '../http/route.js';
import { sendBody, sendJson } from '../http/send-body.js';
import { namedVersion } from './http-binding.js';

/**
 * The reasons whose JSON-RPC errors have an HTTP error status: authentication, missing resources and overload. Other
 * JSON-RPC errors have status 200.
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

/** The error for a body with a media type that the binding does not accept (S-74). */
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

/** Whether the client expects the A2A media type (G-27). */
function wantsA2aJson({ req }: Pick<RequestContext, 'req'>): boolean {
  const [accept, sent] = [req.header('accept'), req.header('content-type')];
  return accept?.toLowerCase().includes(A2A_JSON) === true || sent?.toLowerCase().startsWith(A2A_JSON) === true;
}

export const restType = (context: Pick<RequestContext, 'req'>): string =>
  wantsA2aJson(context) ? A2A_JSON : JSON_TYPE;

export function sendRestError(context: RequestContext, error: unknown, as: DialectId, profile: ErrorProfile): void {
  const { status, body, headers } = restError(error, as, profile);
  const all = [...context.headers, ...Object.entries<string>({ ...headers }).flat()];
  sendBody(context.res, status, all, restType(context), [Buffer.from(JSON.stringify(body))]);
}

const ended = ({ res }: RequestContext): boolean => {
  if (res.begun) res.end();
  return res.begun;
};

/** JSON-RPC errors of A2A, in the version the client names. */
export const A2A_RPC_ERRORS: ErrorFormat = {
  name: 'a2a-jsonrpc',
  write: (context, error) => {
    if (ended(context)) return;
    sendRpcError(context.res, context.headers, error.detail.id ?? null, error, refusalDialect(namedVersion(context)));
  },
};

/** HTTP+JSON errors, in the version the client names; `v1` under the `/v1` of 0.3. */
export const restErrors = (profile: ErrorProfile, v1 = false): ErrorFormat => ({
  name: v1 ? 'a2a-rest-v1' : 'a2a-rest',
  write: (context, error) => {
    if (ended(context)) return;
    const named = namedVersion(context);
    sendRestError(context, error, restDialect(v1, named === 'unsupported' ? undefined : named, undefined), profile);
  },
});
