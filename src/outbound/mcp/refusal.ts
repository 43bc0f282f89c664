import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { readReply } from '../../protocol/jsonrpc/message.js';
import { type HttpHeaders, headerOf } from '../http/index.js';

/** The JSON-RPC error in the body of a refusal, if it has one. */
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

const SECONDS = /^\d{1,10}$/;
/** A date in each of the three forms that a recipient has to know (RFC 9110 §5.6.7). */
const DATE =
  /^(?:[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT|[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d [\d:]{8} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})$/;

/** When to come again, as the reply says it. What is neither a number nor a date tells nobody anything. */
export function retryAfterOf(headers: HttpHeaders): string | undefined {
  const value = headerOf(headers, 'retry-after');
  return value !== undefined && (SECONDS.test(value) || DATE.test(value)) ? value : undefined;
}

/** An HTTP status other than 2xx, as an error for the caller. What the upstream demands of us is not the caller's (GW-07). */
export function refusal(
  name: string,
  status: number,
  headers: HttpHeaders,
  body: Buffer,
): ProtocolError | UpstreamRpcError {
  const data = { server: name, status };
  const detail = { data, outcome: status < 500 ? ('not_executed' as const) : ('unknown' as const) };
  if (status === 401 || status === 403) {
    return new ProtocolError(
      'upstream_unauthorized',
      `Server "${name}" refused the gateway's credentials (HTTP ${status})`,
      detail,
    );
  }
  if (status === 429) {
    const retryAfter = retryAfterOf(headers);
    return new ProtocolError('upstream_rate_limited', `Server "${name}" is limiting requests`, {
      ...detail,
      data: { ...data, ...(retryAfter && { retryAfter }) },
      ...(retryAfter && { headers: { 'Retry-After': retryAfter } }),
    });
  }
  const rpc = rpcErrorOf(status, body);
  if (rpc) return rpc;
  const what = status < 400 ? 'answered with a redirect, which is not followed' : `answered HTTP ${status}`;
  return new ProtocolError('upstream_error', `Server "${name}" ${what}`, detail);
}
