import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';

/** The server no longer knows the session and did not accept the request. */
export class SessionExpired extends ProtocolError {
  constructor(server: string) {
    super('upstream_error', `Server "${server}" ended the session`, { outcome: 'not_executed', data: { server } });
  }
}

/** The server refuses the handshake. A modern-only server lists its versions in the error (VER-08). */
export class HandshakeRefused extends UpstreamRpcError {
  constructor(
    code: number,
    message: string,
    data: unknown,
    status?: number,
    /** The error for callers, if the refusal was not a JSON-RPC error. */
    readonly refusal?: ProtocolError,
  ) {
    super(code, message, data, status);
  }
}
