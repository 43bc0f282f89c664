import { randomBytes, type X509Certificate } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server, type Http2Server } from 'node:http2';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { ClientCertificate } from '../../identity/authenticator.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type Log, SILENT } from '../../telemetry/log.js';
import { ThrottledLog } from '../../telemetry/throttled-log.js';
import type { Connection, ConnectionOwner } from './connection.js';
import { type ConnectionLimits, Connections, type ExceededLimit } from './connection-limits.js';
import { TrustedProxies } from './forwarded.js';
import type { InboundRequest } from './request.js';
import { MOST_HEADERS, refusalOf } from './request-head.js';
import type { InboundResponse } from './response.js';
import { type Certificates, secureOptions, type TlsContext, type TlsFiles } from './tls.js';
import { UnreadBytes } from './unread-bytes.js';

/** Time limits for clients, in milliseconds. */
export interface Times {
  /** Time limit for the head of a request. */
  readonly head: number;
  /** Time limit for a whole request. */
  readonly request: number;
  /** Time limit between a response and the next request on the connection. */
  readonly idle: number;
}

export interface ListenerSettings {
  readonly limits: ConnectionLimits & {
    /** The maximum number of bytes of a request's head. */
    readonly head: number;
    /** The maximum number of response bytes that wait for clients, for all clients together. */
    readonly unread: number;
  };
  readonly times: Times;
  readonly trustedProxies: readonly string[];
  readonly tls?: { readonly files: TlsFiles; readonly certificates: Certificates } | undefined;
  readonly log: Log;
  /** Called for each connection that a limit refused or closed. */
  readonly limited?: (limit: ExceededLimit | 'limits.unread', count: number) => void;
}

export const SETTINGS: ListenerSettings = {
  limits: { connections: 10_000, connectionsPerAddress: 1_000, head: 16 * 1024, unread: 128 * 1024 * 1024 },
  times: { head: 5_000, request: 30_000, idle: 75_000 },
  trustedProxies: [],
  log: SILENT,
};

export interface ListenerOptions {
  readonly settings?: Partial<ListenerSettings>;
  handle(req: InboundRequest, res: InboundResponse): void;
  /** Whether a WebSocket can be opened at a target; by default at none. */
  upgrades?(target: string): boolean;
  /** Responds to a request that cannot be served, or to invalid bytes. */
  refuse(req: InboundRequest, res: InboundResponse, error: unknown): void;
  /** Called if the operating system failed to provide a connection. The listener continues. */
  failed(error: unknown): void;
}

/** Milliseconds of silence after which the system probes whether the client still exists. */
const PROBE_AFTER = 60_000;
const BACKLOG = 1_024;
/** Milliseconds after which a response is abandoned if its client reads nothing. */
const STALL = 600_000;
/** The maximum number of concurrent HTTP/2 requests on one connection. */
const MOST_STREAMS = 100;

const CONNECTION = Symbol('connection');
interface Carrier {
  [CONNECTION]?: Connection;
}

/**
 * Accepts connections and passes their requests on: HTTP/1.1 with `node:http`, and over TLS also HTTP/2 with
 * `node:http2`, as the client prefers.
 */
export class Listener implements ConnectionOwner {
  readonly proxies: TrustedProxies;
  readonly unread: UnreadBytes;
  /** Whether every response ends its connection. */
  leaving = false;
  seconds = 0;
  private readonly settings: ListenerSettings;
  private readonly server: Server | HttpsServer;
  private readonly connections: Connections;
  /** Connections whose TLS handshake is not finished, by their addresses and ports. */
  private readonly handshakes = new Map<string, Connection>();
  private readonly throttledLog: ThrottledLog;
  private clock: NodeJS.Timeout | undefined;

  constructor(private readonly options: ListenerOptions) {
    const settings = { ...SETTINGS, ...options.settings };
    this.settings = settings;
    this.throttledLog = new ThrottledLog(settings.log);
    this.proxies = new TrustedProxies(settings.trustedProxies);
    this.connections = new Connections(settings.limits, this.proxies, (limit, peer) => this.limitExceeded(limit, peer));
    this.unread = new UnreadBytes({ bytes: settings.limits.unread, stall: STALL }, (count, why) => {
      if (why === 'limit') settings.limited?.('limits.unread', count);
      this.throttledLog.warn(`unread ${why}`, { count, limit: settings.limits.unread }, UNREAD[why]);
    });
    this.server = settings.tls ? this.secure(settings.tls) : this.plain();
    this.server.on('clientError', (error, socket) => this.unreadable(error, socket as Socket));
    this.server.on('request', (req, res) => connectionOf(req.socket)?.request(req, res, false));
    this.server.on('checkContinue', (req: IncomingMessage, res: ServerResponse) =>
      connectionOf(req.socket)?.request(req, res, true),
    );
    this.server.on('upgrade', (req: IncomingMessage, socket, head) =>
      connectionOf(socket as Socket)?.upgrade(req, head),
    );
    this.server.on('connect', (_, socket) => connectionOf(socket as Socket)?.broke(noTunnel()));
  }

  get requestTime(): number {
    return this.settings.times.request;
  }

  get count(): number {
    return this.connections.size;
  }

  private plain(): Server {
    const server = createServer(this.httpOptions());
    [this.parser] = server.listeners('connection') as ((socket: Socket) => void)[];
    return server.on('connection', (socket) => {
      (socket as Carrier)[CONNECTION] = this.connections.accept(socket, this);
    });
  }

  /** The library's function that attaches its parser of HTTP/1.1 to a socket. */
  private parser: ((socket: Socket) => void) | undefined;

  parse({ socket }: Connection): void {
    this.parser?.call(this.server, socket);
  }

  private httpOptions(): ServerOptions {
    const { limits, times } = this.settings;
    const head = Math.min(times.head, times.request);
    return {
      // Always uses the strict parser, independent of the command line of the process.
      insecureHTTPParser: false,
      joinDuplicateHeaders: false,
      // `checkHead` refuses a request without Host and names the reason.
      requireHostHeader: false,
      maxHeaderSize: limits.head,
      headersTimeout: head,
      requestTimeout: times.request,
      keepAliveTimeout: times.idle,
      connectionsCheckingInterval: Math.max(20, Math.min(1_000, head / 4)),
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: PROBE_AFTER,
    };
  }

  /** TLS with the negotiated protocol: HTTP/2 if the client supports it. */
  private secure({ files, certificates }: NonNullable<ListenerSettings['tls']>): HttpsServer {
    const http2 = this.http2();
    const server = createHttpsServer({
      ...this.httpOptions(),
      ...secureOptions(certificates.context),
      ALPNProtocols: ['h2', 'http/1.1'],
      // The time counts from the start of the connection, even if the process is blocked in the meantime.
      handshakeTimeout: 2 * this.settings.times.head,
      requestCert: files.clientCa !== undefined,
      rejectUnauthorized: files.clientCa !== undefined && files.clientCertificate === 'required',
    });
    [this.parser] = server.listeners('secureConnection') as ((socket: Socket) => void)[];
    server.removeAllListeners('secureConnection');
    server.on('connection', (socket: Socket) => {
      const connection = this.connections.accept(socket, this);
      if (!connection) return;
      const key = numbersOf(socket);
      this.handshakes.set(key, connection);
      socket.once('close', () => this.handshakes.delete(key));
    });
    server.on('secureConnection', (socket: TLSSocket) => {
      const connection = this.secured(socket);
      if (!connection) socket.destroy();
      else if (socket.alpnProtocol === 'h2') {
        this.adopted = connection;
        http2.emit('connection', socket);
      } else this.parse(connection);
    });
    server.on('tlsClientError', ({ code = '' }: NodeJS.ErrnoException, socket) => {
      // Clients that only probe the port are not logged.
      if (/^ERR_(SSL|TLS)/.test(code))
        this.throttledLog.warn('tls', { reason: code, peer: socket.remoteAddress }, HANDSHAKE);
    });
    return server;
  }

  private secured(socket: TLSSocket): Connection | undefined {
    const connection = this.handshakes.get(numbersOf(socket));
    if (!connection) return undefined;
    this.handshakes.delete(numbersOf(socket));
    const certificate = socket.getPeerX509Certificate?.();
    // Even if certificates are optional, an invalid certificate is refused.
    if (certificate && !socket.authorized) {
      const reason = socket.authorizationError?.toString();
      this.throttledLog.warn('certificate', { reason, peer: connection.peer }, CERTIFICATE);
      return undefined;
    }
    connection.secured(socket, certificate && describe(certificate));
    (socket as Carrier)[CONNECTION] = connection;
    return connection;
  }

  /** The connection whose HTTP/2 session is being created. */
  private adopted: Connection | undefined;

  private http2(): Http2Server {
    const { limits } = this.settings;
    const server = createHttp2Server({
      maxHeaderListPairs: MOST_HEADERS + 8,
      settings: { maxConcurrentStreams: MOST_STREAMS, maxHeaderListSize: limits.head, enablePush: false },
    });
    server.on('session', (session) => {
      const connection = this.adopted!;
      connection.session = session;
      (session as Carrier)[CONNECTION] = connection;
    });
    // The session closes itself, and its streams report the error.
    server.on('sessionError', () => {});
    server.on('request', (req, res) => (req.stream.session as Carrier)?.[CONNECTION]?.stream(req, res, false));
    server.on('checkContinue', (req, res) => (req.stream.session as Carrier)?.[CONNECTION]?.stream(req, res, true));
    server.on('connect', (req, res) => (req.stream.session as Carrier)?.[CONNECTION]?.stream(req, res, false));
    return server;
  }

  /** Called when the parser failed, or when the connection broke. */
  private unreadable(error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = connectionOf(socket);
    const { limits, times } = this.settings;
    const refusal = refusalOf(error, { head: limits.head, times });
    if (!connection || !refusal) socket.destroy();
    else if (refusal.reason === 'request_timeout') connection.late(refusal, times.head);
    else connection.broke(refusal);
  }

  private limitExceeded(limit: ExceededLimit, peer: string): void {
    this.settings.limited?.(limit, 1);
    this.throttledLog.warn(limit, { limit, peer }, LIMIT_MESSAGES[limit]);
  }

  handle(req: InboundRequest, res: InboundResponse): void {
    this.options.handle(req, res);
  }

  upgrades(target: string): boolean {
    return this.options.upgrades?.(target) ?? false;
  }

  refuse(req: InboundRequest, res: InboundResponse, error: unknown): void {
    this.options.refuse(req, res, error);
  }

  busy(connection: Connection): void {
    this.connections.busy(connection);
  }

  idle(connection: Connection): void {
    this.connections.idle(connection);
  }

  listen(host: string, port: number): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen({ host, port, backlog: BACKLOG }, () => {
        this.server.off('error', reject).on('error', (error) => this.options.failed(error));
        this.clock = setInterval(() => this.tick(), 1_000).unref();
        this.settings.tls?.certificates.watch((context) => this.renew(context));
        resolve(this.server.address() as AddressInfo);
      });
    });
  }

  /** New connections use the new certificate; open connections keep theirs. */
  renew(context: TlsContext): void {
    // Sessions negotiated with the old files are not resumed, because the trusted authority may have changed.
    (this.server as HttpsServer).setSecureContext({ ...secureOptions(context), ticketKeys: randomBytes(48) });
  }

  /** Checks the certificate files now instead of at the next interval. */
  async reload(): Promise<void> {
    await this.settings.tls?.certificates.reload((context) => this.renew(context));
  }

  private tick(): void {
    this.seconds++;
    this.unread.check();
    // The HTTP/1.1 library closes idle connections slightly earlier, except those that send empty lines.
    const { idle, head } = this.settings.times;
    const before = this.seconds - Math.ceil((idle + head) / 1_000) - 1;
    for (const connection of this.connections.idling) {
      if (connection.idleSince >= before) break;
      connection.expire();
    }
  }

  /** Accepts no more connections; resolves when the last one is closed. */
  async close(): Promise<void> {
    this.settings.tls?.certificates.stop();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
    // The system reports that the listener is closed slightly before all connections have processed their own close.
    await this.connections.none();
    clearInterval(this.clock);
  }

  /** Closes the idle connections. */
  closeIdle(): void {
    for (const connection of this.connections) connection.closeIfIdle();
  }

  closeAll(): void {
    for (const connection of this.connections) connection.destroy();
  }
}

const connectionOf = (socket: Socket): Connection | undefined => (socket as Carrier)[CONNECTION];

/** Identifies a TCP connection: a TLS socket has the same addresses and ports as the socket below it. */
const numbersOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

const describe = (certificate: X509Certificate): ClientCertificate => ({
  subject: certificate.subject,
  commonName: /^CN=(.+)$/m.exec(certificate.subject)?.[1],
  names: certificate.subjectAltName,
  fingerprint: certificate.fingerprint256,
});

const noTunnel = (): ProtocolError =>
  new ProtocolError('http_method_not_allowed', 'HTTP method CONNECT not allowed: the gateway does not open tunnels', {
    headers: { Allow: 'GET, HEAD, POST, DELETE, OPTIONS', Connection: 'close' },
  });

const HANDSHAKE = 'refused a connection: TLS could not be established';
const CERTIFICATE = 'refused a connection: its client certificate is not signed by an authority in tls.clientCa';
const UNREAD = {
  limit: 'disconnected slow clients: too many response bytes waited for them (limits.unread)',
  stall: 'disconnected clients that stopped reading',
};
const LIMIT_MESSAGES: Readonly<Record<ExceededLimit, string>> = {
  'limits.connections':
    'too many connections: closed the connection that was idle for longest, or the new connection if none is idle',
  'limits.connectionsPerAddress':
    'refused a connection: too many connections from its address; if it is the address of a proxy, add it to trustedProxies',
};
