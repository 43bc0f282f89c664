import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { type Implementation, isObject, type ServerDescription } from '../../../protocol/mcp/model.js';
import { type Revision, revisionOf } from '../../../protocol/mcp/revisions/index.js';
import { decodeServerCapabilities, encodeClientCapabilities } from '../../../protocol/mcp/translate/capabilities.js';
import { takesTasks } from '../../../protocol/mcp/translate/task.js';
import { HandshakeRefused } from './session-errors.js';
import type { SessionOptions } from './session-options.js';

export interface Handshake {
  readonly revision: Revision;
  readonly description: ServerDescription;
}

/**
 * Sends the `initialize` request and reads its answer. Rejects with `HandshakeRefused` if the server opens no session.
 */
export async function handshake(
  { context, capabilities, offer }: SessionOptions,
  initialize: (params: JsonObject) => Promise<JsonObject>,
): Promise<Handshake> {
  const result = await initialize({
    protocolVersion: offer.date,
    capabilities: encodeClientCapabilities(capabilities, offer),
    clientInfo: context.clientInfo,
  }).catch((error: unknown) => {
    throw refusalOf(error);
  });
  const revision = revisionOf(result['protocolVersion']);
  if (revision?.era !== 'legacy') {
    // LIFE-08: a session needs a known legacy revision.
    const answered = JSON.stringify(result['protocolVersion']);
    const message = `Server "${context.name}" answered the handshake with protocol version ${answered}`;
    throw new HandshakeRefused(-32602, message, undefined);
  }
  const { serverInfo, instructions } = result;
  const description = {
    capabilities: decodeServerCapabilities(result['capabilities'], revision),
    ...(isObject(serverInfo) && { serverInfo: serverInfo as Implementation }),
    ...(typeof instructions === 'string' && { instructions }),
    tasks: takesTasks(result['capabilities']),
    revision: revision.date,
  };
  return { revision, description };
}

/** Converts an error that means a refused handshake to `HandshakeRefused`. Returns other errors unchanged. */
function refusalOf(error: unknown): unknown {
  if (error instanceof UpstreamRpcError)
    return new HandshakeRefused(error.code, error.message, error.data, error.status);
  if (!(error instanceof ProtocolError)) return error;
  const status = error.detail.data?.['status'];
  if (status === 400 || status === 404 || status === 405)
    return new HandshakeRefused(-32600, error.message, undefined, status, error);
  return error;
}
