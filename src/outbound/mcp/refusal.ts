import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { retryAfterOf } from '../../protocol/http/retry-after.js';
import { readReply } from '../../protocol/jsonrpc/message.js';
import type { HttpHeaders } from '../http/index.js';

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
