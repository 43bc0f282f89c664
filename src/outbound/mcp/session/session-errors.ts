import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';

/** The server no longer knows the session; what was sent on it was not accepted. */
export class SessionExpired extends ProtocolError {
  constructor(server: string) {
    super('upstream_error', `Server "${server}" ended the session`, { outcome: 'not_executed', data: { server } });
  }
}

/** The server does not take the handshake: a modern-only server names its versions instead (VER-08). */
export class HandshakeRefused extends UpstreamRpcError {
  constructor(
    code: number,
    message: string,
    data: unknown,
    status?: number,
    /** The refusal as callers are told of it, where it was no JSON-RPC error. */
    readonly refusal?: ProtocolError,
  ) {
    super(code, message, data, status);
  }
}
