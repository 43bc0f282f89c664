import { WebSocketServer } from 'ws';
import type { Principal } from '../../../core/caller.js';
import type { View } from '../../../core/gateway.js';
import { type Authenticated, type Authenticator, admitted, Challenge } from '../../../identity/authenticator.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { RequestContext, Route } from '../../http/route.js';
import type { Upgrade } from '../../http/upgrade.js';
import type { DuplexClientOptions } from '../duplex-client.js';
import { MCP_ERRORS } from '../mcp-errors.js';
import type { Carrier, Sessions } from '../session/sessions.js';
import { CLOSE, WebSocketConnection } from './websocket-connection.js';

/** The name of MCP in the header `Sec-WebSocket-Protocol`. */
const SUBPROTOCOL = 'mcp';
const VERSION = '13';

export interface WebSocketEndpointOptions extends Pick<DuplexClientOptions, 'modern' | 'refused' | 'failed'> {
  readonly sessions: Sessions<Carrier>;
  /** Authenticates the caller of each message, with the headers of the request that opened the connection. */
  readonly authenticator: Authenticator;
  readonly limits: DuplexClientOptions['limits'] & {
    readonly body: number;
    /** The maximum number of connections, of all callers together and of one caller. */
    readonly webSockets: number;
    readonly webSocketsPerCaller: number;
  };
  /** Milliseconds between two pings. */
  readonly ping: number;
}

/** MCP over WebSocket (S3-15): each text frame is one message. */
export class WebSocketEndpoint {
  private readonly server: WebSocketServer;
  /** The open connections with the keys of their callers. */
  private readonly clients = new Map<WebSocketConnection, string>();
  private readonly counts = new Map<string, number>();
  private leaving = false;

  constructor(private readonly options: WebSocketEndpointOptions) {
    this.server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      // Compression would need memory for each connection, and a small frame could become a large message.
      perMessageDeflate: false,
      maxPayload: options.limits.body,
      handleProtocols: (offered) => offered.has(SUBPROTOCOL) && SUBPROTOCOL,
    });
  }

  routes(path: string, viewOf: (context: RequestContext) => View): Route[] {
    return [
      {
        method: 'GET',
        path,
        access: 'user',
        errors: MCP_ERRORS,
        description: 'MCP over WebSocket',
        webSocket: true,
        handle: (context) => this.open(context, viewOf(context)),
      },
    ];
  }

  /** The number of open connections. */
  get size(): number {
    return this.clients.size;
  }

  private open({ req, principal }: RequestContext, view: View): void {
    const { upgrade } = req;
    if (!upgrade)
      throw new ProtocolError('upgrade_required', 'This endpoint serves WebSocket only; /mcp serves HTTP', {
        headers: { Upgrade: 'websocket', Connection: 'Upgrade' },
      });
    checkHandshake((name) => req.header(name));
    this.checkRoom(principal);
    this.take(upgrade, req, principal, view);
  }

  private checkRoom({ key }: Principal): void {
    const { webSockets, webSocketsPerCaller } = this.options.limits;
    const headers = { 'Retry-After': '5' };
    if (this.leaving) throw new ProtocolError('overloaded', 'The gateway is stopping', { headers });
    if (this.clients.size >= webSockets)
      throw new ProtocolError('overloaded', `The gateway has ${webSockets} WebSockets ("limits.webSockets")`, {
        headers,
      });
    if ((this.counts.get(key) ?? 0) >= webSocketsPerCaller)
      throw new ProtocolError(
        'rate_limited',
        `You have ${webSocketsPerCaller} WebSockets ("limits.webSocketsPerCaller"); close one of them`,
        { headers },
      );
  }

  private take(upgrade: Upgrade, req: RequestContext['req'], principal: Principal, view: View): void {
    let client: WebSocketConnection | undefined;
    const revoked = (): void => client?.end(CLOSE.policy, REVOKED);
    const { message, socket, head, unread } = upgrade.take({
      // A call that an access token began may finish after the token has expired.
      get listens() {
        return !client?.busy;
      },
      end: revoked,
    });
    const { modern, sessions, limits, ping, refused, failed } = this.options;
    // The library calls back before this call returns. It could also refuse the handshake itself, but the checks above
    // leave few reasons for that.
    this.server.handleUpgrade(message, socket, head, (webSocket) => {
      const opened = new WebSocketConnection(webSocket, {
        ...{ modern, sessions, limits, ping, unread, refused, failed, view },
        address: req.clientAddress,
        authenticate: () => this.callerOf(req, principal, revoked),
      });
      client = opened;
      this.add(opened, principal.key);
      webSocket.on('close', () => this.remove(opened));
    });
  }

  /** The caller of a message. The connection ends if its credential is no longer valid. */
  private callerOf(
    req: RequestContext['req'],
    { key }: Principal,
    revoked: () => void,
  ): Principal | Promise<Principal> {
    const decide = (given: Authenticated): Principal => {
      if (given instanceof Challenge || given.key !== key) {
        revoked();
        throw new ProtocolError('unauthorized', REVOKED);
      }
      return admitted(given);
    };
    const given = this.options.authenticator.authenticate(req);
    return given instanceof Promise ? given.then(decide) : decide(given);
  }

  private add(client: WebSocketConnection, key: string): void {
    this.clients.set(client, key);
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
  }

  private remove(client: WebSocketConnection): void {
    const key = this.clients.get(client);
    if (key === undefined) return;
    this.clients.delete(client);
    const left = (this.counts.get(key) ?? 0) - 1;
    if (left > 0) this.counts.set(key, left);
    else this.counts.delete(key);
  }

  /** Closes the connections without a running call, so that their clients move to another replica. */
  leave(): void {
    this.leaving = true;
    for (const client of [...this.clients.keys()]) client.leave();
  }

  close(): void {
    for (const client of [...this.clients.keys()]) client.stop();
  }
}

const REVOKED = 'The credential of this connection is no longer valid';

/** Refuses a handshake that the library would refuse, with a reason (RFC 6455 §4.2). */
function checkHandshake(header: (name: string) => string | undefined): void {
  const version = header('sec-websocket-version');
  if (version !== VERSION)
    throw new ProtocolError('upgrade_required', `Sec-WebSocket-Version must be ${VERSION}`, {
      headers: { 'Sec-WebSocket-Version': VERSION },
    });
  if (!/^[+/0-9A-Za-z]{22}==$/.test(header('sec-websocket-key') ?? ''))
    throw new ProtocolError('invalid_request', 'Sec-WebSocket-Key must be 16 bytes in base64');
  const offered = header('sec-websocket-protocol');
  if (offered === undefined) return;
  const names = offered.split(',').map((name) => name.trim());
  if (!names.includes(SUBPROTOCOL))
    throw new ProtocolError(
      'invalid_request',
      `Sec-WebSocket-Protocol must offer "${SUBPROTOCOL}", or must be left out`,
    );
}
