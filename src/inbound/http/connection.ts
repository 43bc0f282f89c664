import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { constants, type Http2ServerRequest, type Http2ServerResponse, type ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { ClientCertificate } from '../../identity/authenticator.js';
import type { ProtocolError } from '../../protocol/errors.js';
import { InboundRequest, type Incoming, ignored, type RequestSource } from './request.js';
import { checkHead } from './request-head.js';
import { type EarlyResponse, InboundResponse, type Outgoing, type ResponseChannel } from './response.js';
import type { UnreadBytes } from './unread-bytes.js';
import { offersHttp2, UpgradeExchange, withoutUpgrade } from './upgrade-exchange.js';

/** The listener as a connection sees it. */
export interface ConnectionOwner {
  readonly unread: UnreadBytes;
  /** Milliseconds for a request to arrive. */
  readonly requestTime: number;
  /** Whether the gateway is about to stop, so that every response ends its connection. */
  readonly leaving: boolean;
  /** Seconds since the listener was opened. */
  readonly seconds: number;
  /** Whether a WebSocket can be opened at a target. */
  upgrades(target: string): boolean;
  /** Attaches the HTTP parser to the connection again. */
  parse(connection: Connection): void;
  handle(req: InboundRequest, res: InboundResponse): void;
  /** Responds to a request that cannot be served, or to invalid bytes. */
  refuse(req: InboundRequest, res: InboundResponse, error: unknown): void;
  /** Called when an exchange begins on a connection, or when the last exchange ends. */
  busy(connection: Connection): void;
  idle(connection: Connection): void;
}

/** Milliseconds that a client has to read the last response before its connection is closed. */
const LINGER = 1_000;
/** The maximum number of pipelined requests read ahead of the current one. */
const MOST_AHEAD = 16;

/** One connection of a client. HTTP/1.1 serves one request after the other, HTTP/2 many at a time. */
export class Connection implements RequestSource {
  /** The socket that carries HTTP: the TLS socket if there is TLS. */
  socket: Socket;
  session: ServerHttp2Session | undefined;
  certificate: ClientCertificate | undefined;
  /** The current exchange, in HTTP/1.1. */
  private current: Exchange | UpgradeExchange | undefined;
  /** Pipelined requests that wait for the current exchange. */
  private ahead: Exchange[] = [];
  /** A request for another protocol that waits for the current exchange. */
  private upgrading: (() => void) | undefined;
  /** The error for invalid bytes after the last request. */
  private failure: ProtocolError | undefined;
  private exchanges = 0;
  /** The number of requests whose heads have arrived, in HTTP/1.1. */
  private seen = 0;
  /** The number of bytes that were read when the connection became idle. */
  private quietSince = 0;
  /** When the connection became idle, in the seconds of its listener. */
  idleSince: number;

  constructor(
    /** The TCP connection: closing it closes everything on it. */
    private readonly tcp: Socket,
    readonly peer: string,
    /** Whether the peer is a trusted proxy, whose forwarding headers count. */
    readonly trusted: boolean,
    readonly owner: ConnectionOwner,
  ) {
    this.socket = tcp;
    this.idleSince = owner.seconds;
    // The library removes its own listener when a client requests another protocol. Without a listener, a reset of the
    // connection would be an uncaught exception.
    tcp.on('error', ignored);
  }

  get encrypted(): boolean {
    return this.socket !== this.tcp;
  }

  get identity(): object | undefined {
    return this.session ? undefined : this;
  }

  get bodyTime(): number | undefined {
    return this.session ? this.owner.requestTime : undefined;
  }

  /**
   * Whether no bytes of another request have arrived since the last response. Bytes that wait in the operating system
   * are not seen.
   */
  get quiet(): boolean {
    return this.exchanges === 0 && (this.session !== undefined || this.tcp.bytesRead === this.quietSince);
  }

  /** Called when TLS is established on the connection. */
  secured(socket: TLSSocket, certificate: ClientCertificate | undefined): void {
    this.socket = socket;
    socket.on('error', ignored);
    this.certificate = certificate;
    this.quietSince = this.tcp.bytesRead;
  }

  request(message: IncomingMessage, out: ServerResponse, expects: boolean): void {
    this.seen++;
    const exchange = new Exchange(this, message, out, expects, out as Outgoing);
    if (!this.current) {
      this.begin(exchange);
      return;
    }
    this.ahead.push(exchange);
    if (this.ahead.length >= MOST_AHEAD) this.socket.pause();
  }

  stream(message: Http2ServerRequest, out: Http2ServerResponse, expects: boolean): void {
    this.start(new Exchange(this, message, undefined, expects, out as unknown as Outgoing));
  }

  /** Called when the client requests another protocol. The library has detached its parser from the socket. */
  upgrade(message: IncomingMessage, head: Buffer): void {
    const begin = (): void => {
      if (offersHttp2(message)) this.ignoreUpgrade(message, head);
      else this.begin(new UpgradeExchange(this, message, head, new LastReply(this.socket)));
    };
    if (this.current) this.upgrading = begin;
    else begin();
  }

  /** Reads the request again, without its offer of another protocol. */
  private ignoreUpgrade(message: IncomingMessage, head: Buffer): void {
    this.socket.setTimeout(0);
    if (head.length > 0) this.socket.unshift(head);
    this.socket.unshift(withoutUpgrade(message));
    this.owner.parse(this);
  }

  private begin(exchange: Exchange | UpgradeExchange): void {
    this.current = exchange;
    this.start(exchange);
  }

  private start(exchange: Exchange | UpgradeExchange): void {
    if (this.exchanges++ === 0) this.owner.busy(this);
    exchange.handle();
  }

  /** Called when an exchange has ended. */
  done(exchange: Exchange | UpgradeExchange): void {
    this.exchanges--;
    if (this.current === exchange) {
      this.current = undefined;
      const next = this.ahead.shift();
      if (!this.socket.writable) this.ahead = [];
      else if (next) {
        if (this.ahead.length < MOST_AHEAD) this.socket.resume();
        this.begin(next);
        return;
      } else if (this.upgrading) {
        const { upgrading } = this;
        this.upgrading = undefined;
        upgrading();
        if (this.exchanges > 0) return;
      } else if (this.failure) this.refuse(this.failure);
    }
    if (this.exchanges > 0) return;
    this.quietSince = this.tcp.bytesRead;
    this.idleSince = this.owner.seconds;
    this.owner.idle(this);
  }

  /**
   * Called when a request took too long to arrive. If the process itself was blocked, the client's bytes may wait in
   * the operating system, so they are read first. If bytes did arrive, the client gets the same time once more.
   */
  late(error: ProtocolError, time: number): void {
    const { bytesRead } = this.tcp;
    const { seen } = this;
    const refuse = (): void => {
      const last = this.ahead.at(-1) ?? this.current;
      if (this.seen === seen && !last?.complete) this.broke(error);
    };
    setImmediate(() => {
      if (this.tcp.bytesRead === bytesRead) refuse();
      else setTimeout(refuse, time).unref();
    });
  }

  /** Called when the parser failed on this connection, or detached itself from the connection. */
  broke(error: ProtocolError): void {
    // After a failure the parser also fails on all later bytes.
    if (this.failure) return;
    this.failure = error;
    const last = this.ahead.at(-1) ?? this.current;
    if (!last) this.refuse(error);
    else if (!last.complete) last.broke(error);
    // The error is sent after the responses to earlier requests; until then the socket is paused.
    else this.socket.pause();
  }

  /** Responds to invalid bytes and ends the connection. */
  refuse(error: ProtocolError): void {
    if (!this.socket.writable) return;
    const channel = { http2: false, headOnly: false, unread: this.owner.unread, last: true, early: undefined };
    const req = new InboundRequest(undefined, '/', this, undefined);
    this.owner.refuse(req, new InboundResponse(this.lastReply(), channel), error);
  }

  /**
   * Writes the last response on this connection without the library, which would close the connection at once. Until
   * the client has read the response, further bytes from it are discarded: closing with unread bytes would reset the
   * connection and lose the response. The client may send for as long as a request may take.
   */
  lastReply(sent?: () => unknown): Outgoing {
    const { socket } = this;
    const until = performance.now() + this.owner.requestTime;
    let read = socket.bytesRead;
    const timer = setInterval(() => {
      const quiet = socket.bytesRead === read && socket.writableLength === 0;
      if (quiet || performance.now() > until) this.destroy();
      read = socket.bytesRead;
    }, LINGER);
    socket.once('close', () => clearInterval(timer));
    socket.resume();
    return new LastReply(socket, sent);
  }

  /** Called when the connection was idle for too long. */
  expire(): void {
    if (this.session) this.session.close();
    else this.destroy();
  }

  /**
   * Ends an idle HTTP/1.1 connection. An HTTP/2 connection ends after its open requests; the client learns which of its
   * requests are served, so that it can repeat later requests on another connection.
   */
  closeIfIdle(): void {
    if (this.session) this.session.close();
    else if (this.quiet) this.destroy();
  }

  destroy(): void {
    this.tcp.destroy();
  }
}

const EXCHANGE = Symbol('exchange');
function onClose(this: { [EXCHANGE]: Exchange }): void {
  this[EXCHANGE].closed();
}

/** One request and its response. */
class Exchange implements ResponseChannel, EarlyResponse {
  private readonly res: InboundResponse;
  private req: InboundRequest | undefined;
  private failure: ProtocolError | undefined;
  /** The gateway told the client to send its body. */
  private asked = false;
  /** The whole response was given to the operating system without the help of the library. */
  private sent = false;

  constructor(
    private readonly connection: Connection,
    private readonly message: Incoming,
    /** In HTTP/1.1. */
    private readonly http1: ServerResponse | undefined,
    private readonly expects: boolean,
    private readonly out: Outgoing,
  ) {
    this.res = new InboundResponse(out, this);
    (out as Outgoing & { [EXCHANGE]: Exchange })[EXCHANGE] = this;
    out.on('close', onClose as () => void);
    if (!http1 && !message.complete) endStream(message as Http2ServerRequest);
  }

  get http2(): boolean {
    return this.http1 === undefined;
  }

  get headOnly(): boolean {
    return this.message.method === 'HEAD';
  }

  get unread(): UnreadBytes {
    return this.connection.owner.unread;
  }

  get last(): boolean {
    return this.connection.owner.leaving;
  }

  get complete(): boolean {
    return this.message.complete;
  }

  get early(): EarlyResponse | undefined {
    return this.http1 === undefined || (this.message.complete && !this.endsConnection) ? undefined : this;
  }

  /** Whether the connection ends with this response in any case, although the client may already have sent more. */
  private get endsConnection(): boolean {
    return this.last || (this.expects && !this.asked);
  }

  handle(): void {
    const { owner } = this.connection;
    try {
      this.req = this.request(checkHead(this.message, this.http2));
    } catch (error) {
      this.req = this.request('/');
      owner.refuse(this.req, this.res, error);
      return;
    }
    if (this.failure) this.req.fail(this.failure);
    try {
      owner.handle(this.req, this.res);
    } catch (error) {
      this.res.destroy();
      throw error;
    }
  }

  private request(target: string): InboundRequest {
    return new InboundRequest(this.message, target, this.connection, this.expects ? () => this.ask() : undefined);
  }

  /** After the response has begun it is too late to request the body. */
  private ask(): void {
    if (this.res.begun) return;
    this.asked = true;
    this.out.writeContinue();
  }

  /**
   * Most bodies arrive together with their heads and are parsed within this turn of the event loop. If the body is
   * longer, the connection cannot be kept, because the rest of the body would have to be read first.
   */
  send(send: (out: Outgoing | undefined) => void): void {
    setImmediate(() => {
      if (this.res.closed) return;
      if (this.message.complete && !this.endsConnection) {
        send(undefined);
        return;
      }
      send(this.connection.lastReply(() => (this.sent = true)));
      this.message.resume();
    });
  }

  /** The rest of the body is unreadable or does not arrive. */
  broke(error: ProtocolError): void {
    this.failure = error;
    // A handler that waits for the body gets the error and responds.
    if (!this.req || this.req.fail(error) || this.res.begun) return;
    this.connection.owner.refuse(this.req, this.res, error);
  }

  /** Called when the library has finished the response. */
  closed(): void {
    const { http1, connection } = this;
    this.req?.over();
    this.res.over(this.sent || (http1 ? sentBy(http1, connection.socket) : sentOn(this.message as Http2ServerRequest)));
    connection.done(this);
  }
}

/**
 * Ends an HTTP/2 stream with its response, even if the body of the request is not complete (RFC 9113 §8.1). The library
 * ends only streams whose bodies nobody began to read: a client that never completes a refused body would keep its
 * stream and its connection open without a time limit.
 */
function endStream(message: Http2ServerRequest): void {
  const { stream } = message;
  stream.once('finish', () => {
    if (!message.complete) stream.close(constants.NGHTTP2_NO_ERROR);
  });
}

/** The library detaches the socket of a response that it has sent. */
const sentBy = (out: ServerResponse, socket: Socket): boolean => out.socket === null && !socket.destroyed;
const sentOn = ({ stream }: Http2ServerRequest): boolean => stream.writableFinished && stream.rstCode === 0;

/** The last response on a connection of HTTP/1.1, in one piece. */
class LastReply implements Outgoing {
  private head = '';
  private readonly parts: Buffer[] = [];
  readonly writableFinished = false;

  constructor(
    private readonly socket: Socket,
    private readonly sent?: () => unknown,
  ) {}

  get writableLength(): number {
    return this.socket.writableLength;
  }

  writeHead(status: number, headers: string[]): void {
    this.head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nDate: ${new Date().toUTCString()}\r\n`;
    for (let i = 0; i < headers.length; i += 2) this.head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  }

  write(chunk: string | Uint8Array, encoding?: BufferEncoding): boolean {
    this.parts.push(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk));
    return true;
  }

  end(chunk?: string | Uint8Array, encoding?: BufferEncoding): void {
    if (chunk !== undefined) this.write(chunk, encoding);
    this.socket.end(Buffer.concat([Buffer.from(`${this.head}\r\n`, 'latin1'), ...this.parts]), () => this.sent?.());
  }

  destroy(): void {
    this.socket.destroy();
  }

  flushHeaders(): void {}
  writeContinue(): void {}
  cork(): void {}
  uncork(): void {}
  on(): void {}
  off(): void {}
}
