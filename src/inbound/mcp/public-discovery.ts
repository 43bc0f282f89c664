import { ProtocolError } from '../../protocol/errors.js';
import type { Incoming, RpcMessage } from '../../protocol/jsonrpc/message.js';
import { LIST_METHODS } from '../../protocol/mcp/model.js';

/** C-14: the requests that scanners of registries may send without a credential. */
const REQUESTS: ReadonlySet<string> = new Set(['initialize', 'ping', 'server/discover', ...LIST_METHODS]);
const NOTIFICATIONS: ReadonlySet<string> = new Set(['notifications/initialized']);

/** Whether a caller without a credential may send this. */
export function isPublic(incoming: Incoming): boolean {
  return incoming.kind === 'batch' ? incoming.items.every(isPublicItem) : isPublicItem(incoming);
}

function isPublicItem(message: RpcMessage | ProtocolError): boolean {
  if (message instanceof ProtocolError || message.kind === 'response') return false;
  return (message.kind === 'request' ? REQUESTS : NOTIFICATIONS).has(message.method);
}
