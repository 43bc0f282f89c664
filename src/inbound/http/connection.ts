import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { ClientCertificate } from '../../identity/authenticator.js';
import type { ProtocolError } from '../../protocol/errors.js';
import { InboundRequest, type Incoming, ignored, type RequestSource } from './request.js';
import { checkHead } from './request-head.js';
import { type EarlyResponse, InboundResponse, type Outgoing, type ResponseChannel } from './response.js';
import type { UnreadBytes } from './unread-bytes.js';

/** What a connection needs of the listener that accepted it. */
export interface ConnectionOwner {
  readonly unread: UnreadBytes;
  /** Milliseconds for a request to arrive. */
  readonly requestTime: number;
  /** The gateway is about to stop: every response ends its connection. */
  readonly leaving: boolean;
  /** Seconds since the listener was opened. */
  readonly seconds: number;
  handle(req: InboundRequest, res: InboundResponse): void;
  /** Answers a request that cannot be served, or something that is no request. */
  refuse(req: InboundRequest, res: InboundResponse, error: unknown): void;
  /** A connection has, or has no longer, an exchange under way. */
  busy(connection: Connection): void;
  idle(connection: Connection): void;
}

/** Milliseconds that a client has to read the last response before its connection is closed under it. */
const LINGER = 1_000;
/** Requests that are read ahead of the one under way. */
const MOST_AHEAD = 16;

/** One connection of a client. In HTTP/1.1 it serves one request after the other, in HTTP/2 many at a time. */
export class Connection implements RequestSource {
  /** The socket that HTTP is spoken on: that of TLS, where there is TLS. */
  socket: Socket;
  session: ServerHttp2Session | undefined;
  certificate: ClientCertificate | undefined;
  /** The exchange under way, in HTTP/1.1. */
  private current: Exchange | undefined;
  /** Pipelined requests that wait for it. */
  private ahead: Exchange[] = [];
  /** What came behind the last request and is none. */
  private failure: ProtocolError | undefined;
  private exchanges = 0;
  /** Requests whose heads have arrived, in HTTP/1.1. */
  private seen = 0;
  /** Bytes read when the connection became idle. */
  private quietSince = 0;
  /** When the connection became idle, in the seconds of its listener. */
  idleSince: number;

  constructor(
    /** The TCP connection: closing it closes everything on it. */
    private readonly tcp: Socket,
    readonly peer: string,
    /** Whether the peer is a proxy that may speak for its clients. */
    readonly trusted: boolean,
    readonly owner: ConnectionOwner,
  ) {
    this.socket = tcp;
    this.idleSince = owner.seconds;
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

  /** Nothing of another request has arrived since the last one was answered, as far as that can be seen. */
  get quiet(): boolean {
    return this.exchanges === 0 && (this.session !== undefined || this.tcp.bytesRead === this.quietSince);
  }

  /** TLS is established on the connection. */
  secured(socket: TLSSocket, certificate: ClientCertificate | undefined): void {
    this.socket = socket;
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

  private begin(exchange: Exchange): void {
    this.current = exchange;
    this.start(exchange);
  }

  private start(exchange: Exchange): void {
    if (this.exchanges++ === 0) this.owner.busy(this);
    exchange.handle();
  }

  /** An exchange is over. */
  done(exchange: Exchange): void {
    this.exchanges--;
    if (this.current === exchange) {
      this.current = undefined;
      const next = this.ahead.shift();
      if (!this.socket.writable) this.ahead = [];
      else if (next) {
        if (this.ahead.length < MOST_AHEAD) this.socket.resume();
        this.begin(next);
        return;
      } else if (this.failure) this.refuse(this.failure);
    }
    if (this.exchanges > 0) return;
    this.quietSince = this.tcp.bytesRead;
    this.idleSince = this.owner.seconds;
    this.owner.idle(this);
  }

  /**
   * A request took too long to arrive, by the clock. Where the process itself was held up, what the client sent may lie in
   * the system: it is read first. A client of which something did arrive has the same time once more.
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

  /** The parser gave up on this connection. */
  broke(error: ProtocolError): void {
    // Once it did, it does so for whatever else arrives.
    if (this.failure) return;
    this.failure = error;
    const last = this.ahead.at(-1) ?? this.current;
    if (!last) this.refuse(error);
    else if (!last.complete) last.broke(error);
    // Refused when the requests before it are answered; until then nothing more is read.
    else this.socket.pause();
  }

  /** Answers something that is no request, and ends the connection. */
  refuse(error: ProtocolError): void {
    if (!this.socket.writable) return;
    const channel = { http2: false, headOnly: false, unread: this.owner.unread, last: true, early: undefined };
    const req = new InboundRequest(undefined, '/', this, undefined);
    this.owner.refuse(req, new InboundResponse(this.lastReply(), channel), error);
  }

  /**
   * Writes the last response on this connection past the library, which would close the connection with it. Until the
   * client has heard, what it still sends is thrown away: closing at once would make its system throw away the response.
   * It may send for as long as a request may take.
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
    socket.on('error', ignored);
    socket.resume();
    return new LastReply(socket, sent);
  }

  /** Was idle for too long. */
  expire(): void {
    if (this.session) this.session.close();
    else this.destroy();
  }

  /**
   * Ends the connection if nothing is under way, and in HTTP/2 as soon as nothing is: the client is told which of its
   * requests were the last, so that it can repeat later ones on another connection.
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
  /** The client was told to send its body. */
  private asked = false;
  /** All of the response was handed to the system, past the library. */
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
    return this.http1 === undefined || (this.message.complete && !this.parting) ? undefined : this;
  }

  /** The connection ends with the response whatever the client would like, which may have sent more by now. */
  private get parting(): boolean {
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

  /** In the middle of the response it is too late to ask. */
  private ask(): void {
    if (this.res.begun) return;
    this.asked = true;
    this.out.writeContinue();
  }

  /**
   * Most bodies arrive together with their heads, and are parsed before the event loop goes on. Where the body is longer,
   * the connection cannot be kept: the rest of it would have to be read first.
   */
  send(send: (out: Outgoing | undefined) => void): void {
    setImmediate(() => {
      if (this.res.closed) return;
      if (this.message.complete && !this.parting) {
        send(undefined);
        return;
      }
      send(this.connection.lastReply(() => (this.sent = true)));
      this.message.resume();
    });
  }

  /** The rest of the body is unreadable, or does not come. */
  broke(error: ProtocolError): void {
    this.failure = error;
    // A handler that waits for the body hears of it, and answers.
    if (!this.req || this.req.fail(error) || this.res.begun) return;
    this.connection.owner.refuse(this.req, this.res, error);
  }

  /** The library is done with the response. */
  closed(): void {
    const { http1, connection } = this;
    this.req?.over();
    this.res.over(this.sent || (http1 ? sentBy(http1, connection.socket) : sentOn(this.message as Http2ServerRequest)));
    connection.done(this);
  }
}

/** A response that the library has sent has let go of its socket. */
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
