/** The parts that all REST routes over MCP servers share: caller, call, body, answer. */
import { type Caller, Cancellation, callerOf } from '../../core/caller.js';
import { type Call, plainCall, type View } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { StructureLimits } from '../../protocol/jsonrpc/json-depth-limit.js';
import { type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import { readObject } from '../a2a/json-body.js';
import { isJson } from '../http/accept-header.js';
import type { RequestContext } from '../http/route.js';
import { sendJson } from '../http/send-body.js';

export type BodyLimits = StructureLimits & { readonly body: number };

/** The caller of a REST route. The caller declares no capabilities, so no server asks it a question. */
export const restCaller = ({ principal, req }: RequestContext): Caller => ({
  ...callerOf(principal),
  gatewayUrl: req.forwardedUrl,
});

/** A call that is cancelled when the client closes its connection. */
export function restCall({ req, res }: RequestContext, method: string, params: RawObject, view: View): Call {
  const cancellation = new Cancellation();
  res.onClose(() => {
    if (!res.finished) cancellation.cancel('the client closed the connection');
  });
  const header = (name: string): string | undefined => (TRACE.includes(name) ? req.header(name) : undefined);
  return plainCall(method, params, view, { requestId: req.id, address: req.clientAddress, cancellation, header });
}

/** Other headers have no meaning in a REST call, because only the body has arguments. */
const TRACE: readonly string[] = ['traceparent', 'tracestate'];

export const NO_PARAMS: RawObject = RawObject.from({});

/** Reads a JSON object. */
export async function readBody({ req }: RequestContext, limits: BodyLimits): Promise<RawObject> {
  if (!isJson(req.header('content-type')))
    throw new ProtocolError('unsupported_media_type', 'Content-Type must be application/json');
  return readObject(await req.read(limits.body), limits);
}

export function requiredText(body: RawObject, name: string): string {
  const value: JsonValue | undefined = body.get(name);
  if (value === undefined || value === null || value === '')
    throw new ProtocolError('missing_parameter', `${name} is required in request body`);
  if (typeof value !== 'string') throw new ProtocolError('invalid_params', `"${name}" must be a string`);
  return value;
}

/** Answers differ between callers, so no cache may keep them. */
export const privateHeaders = ({ headers }: RequestContext): readonly string[] => [
  ...headers,
  'Cache-Control',
  'no-store',
];

export function send(context: RequestContext, body: unknown, status = 200): void {
  sendBytes(context, [Buffer.from(JSON.stringify(body))], status);
}

/** Sends a body that is JSON text already. */
export function sendBytes(context: RequestContext, body: readonly Buffer[], status = 200): void {
  sendJson(context.res, status, privateHeaders(context), body);
}
