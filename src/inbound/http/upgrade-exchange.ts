import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { ProtocolError } from '../../protocol/errors.js';
import { InboundRequest, type RequestSource } from './request.js';
import { checkHead, unreadable } from './request-head.js';
import { type EarlyResponse, InboundResponse, type Outgoing, type ResponseChannel } from './response.js';
import type { UnreadBytes } from './unread-bytes.js';
import type { ConnectionTaker, TakenConnection, Upgrade } from './upgrade.js';

/** The connection as a request for another protocol sees it. */
export interface UpgradingConnection extends RequestSource {
  readonly socket: Socket;
  readonly owner: {
    readonly unread: UnreadBytes;
    /** Whether a WebSocket can be opened at a target. */
    upgrades(target: string): boolean;
    handle(req: InboundRequest, res: InboundResponse): void;
    refuse(req: InboundRequest, res: InboundResponse, error: unknown): void;
  };
  /** Writes the last response on the connection. */
  lastReply(): Outgoing;
  /** Called when the exchange has ended. */
  done(exchange: UpgradeExchange): void;
}

/**
 * A request for another protocol and its response. `node:http` has detached its parser from the connection, so the
 * response is the last on this connection. If the route takes the connection over, there is no response.
 */
export class UpgradeExchange implements ResponseChannel, EarlyResponse, Upgrade {
  readonly http2 = false;
  readonly last = true;
  /** The request has no body. */
  readonly complete = true;
  readonly early = this;
  private readonly res: InboundResponse;
  private taker: ConnectionTaker | undefined;

  constructor(
    private readonly connection: UpgradingConnection,
    private readonly message: IncomingMessage,
    private readonly head: Buffer,
    out: Outgoing,
  ) {
    this.res = new InboundResponse(out, this);
  }

  get headOnly(): boolean {
    return this.message.method === 'HEAD';
  }

  get unread(): UnreadBytes {
    return this.connection.owner.unread;
  }

  handle(): void {
    const { connection, message, res } = this;
    const { owner, socket } = connection;
    // Removes the time limit for idle connections, which an earlier request may have set.
    socket.setTimeout(0);
    socket.once('close', () => {
      res.over(false);
      connection.done(this);
    });
    let req = new InboundRequest(message, '/', connection, undefined);
    try {
      req = new InboundRequest(message, checkedTarget(message), connection, undefined);
      if (!isWebSocket(message) || !owner.upgrades(req.target))
        throw new ProtocolError(
          'invalid_request',
          `An upgrade to ${JSON.stringify(message.headers.upgrade)} is not supported`,
        );
      req.upgrade = this;
    } catch (error) {
      owner.refuse(req, res, error);
      return;
    }
    owner.handle(req, res);
  }

  /** Nothing to do: the parser is detached from this connection, so a failure of the parser has no effect here. */
  broke(): void {}

  send(send: (out: Outgoing | undefined) => void): void {
    if (!this.res.closed) send(this.connection.lastReply());
  }

  get listens(): boolean {
    return this.taker?.listens ?? true;
  }

  take(taker: ConnectionTaker): TakenConnection {
    const { message, head, connection, unread } = this;
    this.taker = taker;
    this.res.taken(() => taker.end());
    return { message, head, socket: connection.socket, unread };
  }
}

/**
 * Refuse a body: the gateway would read it as frames, and a proxy in front of the gateway would read it as a body
 * (fault 11).
 */
function checkedTarget(message: IncomingMessage): string {
  const { headers } = message;
  if (Number(headers['content-length'] ?? 0) !== 0 || headers['transfer-encoding'] !== undefined)
    throw unreadable('a request for another protocol has no body');
  return checkHead(message, false);
}

const isWebSocket = ({ headers }: IncomingMessage): boolean => /^\s*websocket\s*$/i.test(headers.upgrade ?? '');

/** RFC 9110 §7.8: a server may ignore an offer of HTTP/2. Such clients expect a response in HTTP/1.1. */
export const offersHttp2 = ({ headers }: IncomingMessage): boolean => /^\s*h2c\s*$/i.test(headers.upgrade ?? '');

/** The request without its offer of another protocol, as bytes to parse again. */
export function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  let text = `${method} ${url} HTTP/${httpVersion}\r\n`;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.toLowerCase() !== 'upgrade') text += `${name}: ${rawHeaders[i + 1]}\r\n`;
  }
  return Buffer.from(`${text}\r\n`, 'latin1');
}
