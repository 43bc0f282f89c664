import { Cancellation } from '../../core/caller.js';
import type { UpstreamCall } from '../../core/upstream.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';

/** A request of the gateway itself, without a client. */
export function gatewayCall(method: string, params: JsonObject = {}): UpstreamCall {
  return {
    method,
    params: RawObject.from(params),
    wantsProgress: false,
    logLevel: undefined,
    cancellation: new Cancellation(),
    mirrored: [],
    tasks: 'none',
    notify: () => {},
  };
}
