import type { Caller } from '../core/caller.js';
import type { Upstream } from '../core/upstream.js';
import { gatewayCall } from '../outbound/mcp/gateway-call.js';
import { ProtocolError } from '../protocol/errors.js';
import { isObject, type JsonObject } from '../protocol/jsonrpc/raw.js';

const MOST_PAGES = 20;

/** The tools of a server that is not part of the gateway. The connection is closed afterwards. */
export async function toolsOfTrial(upstream: Upstream, caller: Caller): Promise<readonly JsonObject[]> {
  try {
    if (upstream.personal)
      throw new ProtocolError('login_required', 'Users sign in at this server; register it, then sign in');
    const tools: JsonObject[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page++) {
      const params = cursor === undefined ? {} : { cursor };
      const outcome = await upstream.request(caller, gatewayCall('tools/list', params));
      if (outcome.kind === 'error') throw outcome.error;
      const { tools: listed, nextCursor } = outcome.kind === 'complete' ? outcome.result.value() : {};
      if (Array.isArray(listed)) tools.push(...listed.filter(isObject));
      if (typeof nextCursor !== 'string') break;
      cursor = nextCursor;
    }
    return tools;
  } finally {
    await upstream.close();
  }
}
