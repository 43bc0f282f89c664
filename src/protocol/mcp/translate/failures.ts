import { ProtocolError, type UpstreamRpcError } from '../../errors.js';
import type { RpcErrorObject } from '../../jsonrpc/message.js';
import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { isObject } from '../model.js';
import type { Revision } from '../revisions/index.js';

/** A failure on the wire: a tool result for the model, or a JSON-RPC error with its HTTP status. */
export type EncodedFailure =
  | { readonly result: JsonObject }
  | { readonly error: RpcErrorObject; readonly status: number; readonly headers: Readonly<Record<string, string>> };

/** Refusals that the model can act on. They become tool results if the client's revision has no code for them. */
const FOR_THE_MODEL: readonly string[] = [
  'invalid_arguments',
  'missing_capability',
  'not_bridgeable',
  'overloaded',
  'not_approved',
  'policy_denied',
  'plugin_denied',
  'login_required',
];

export interface FailureContext {
  readonly method: string;
  /** The requested URI of a `resources/read`. */
  readonly uri?: JsonValue | undefined;
}

export function encodeFailure(
  error: ProtocolError | UpstreamRpcError,
  to: Revision,
  context: FailureContext,
): EncodedFailure {
  return error instanceof ProtocolError ? encodeOwn(error, to, context) : encodeUpstream(error, to, context);
}

/** One of the gateway's own errors, with its code in this revision. */
export function errorObject(error: ProtocolError, to: Revision): RpcErrorObject {
  const { row, message, data } = error;
  return { code: to.era === 'modern' ? row.modern : row.legacy, message, data: data as JsonObject };
}

function toolError(text: string): EncodedFailure {
  return { result: { content: [{ type: 'text', text }], isError: true } };
}

function encodeOwn(error: ProtocolError, to: Revision, { method }: FailureContext): EncodedFailure {
  const modern = to.era === 'modern';
  if (
    method === 'tools/call' &&
    FOR_THE_MODEL.includes(error.reason) &&
    error.detail.forTheModel !== false &&
    !(modern && error.reason === 'missing_capability')
  ) {
    return toolError(error.message);
  }
  const { row } = error;
  return {
    error: errorObject(error, to),
    status: (modern ? row.httpModern : undefined) ?? row.http,
    headers: error.detail.headers ?? {},
  };
}

/** mcp.md 4.8: codes that describe one hop are never relayed. */
function encodeUpstream(error: UpstreamRpcError, to: Revision, context: FailureContext): EncodedFailure {
  const { code, message, data } = error;
  const plain = (as: number, withData: unknown = data): EncodedFailure => ({
    error: { code: as, message, ...(withData !== undefined && { data: withData as JsonValue }) },
    status: 200,
    headers: {},
  });
  const modern = to.era === 'modern';
  if (context.method === 'resources/read' && isMissingResource(error, context.uri)) {
    const about = { ...(isObject(data) ? data : {}), uri: context.uri ?? null, reason: 'resource_not_found' };
    return plain(modern ? -32602 : -32002, about);
  }
  if (code === -32042 && !modern) {
    if (to.expresses.urlElicitationError) return plain(code);
    const text = [message, ...urlsOf(data)].join('\n');
    return context.method === 'tools/call' ? toolError(text) : plain(-32603);
  }
  const hopCode = code <= -32020 && code >= -32099;
  const meaningless = code <= -32000 && code >= -32019;
  if (hopCode || (modern && meaningless)) {
    return plain(-32603, { reason: 'upstream_error', code, ...(data !== undefined && { data: data as JsonValue }) });
  }
  return plain(code);
}

function isMissingResource({ code, data, message }: UpstreamRpcError, uri: JsonValue | undefined): boolean {
  if (code === -32002) return true;
  if (code !== -32602) return false;
  return (isObject(data) && data['uri'] === uri) || /not found/i.test(message);
}

function urlsOf(data: unknown): string[] {
  const listed = isObject(data) ? data['elicitations'] : undefined;
  if (!Array.isArray(listed)) return [];
  return listed.flatMap((item) => (isObject(item) && typeof item['url'] === 'string' ? [item['url']] : []));
}
