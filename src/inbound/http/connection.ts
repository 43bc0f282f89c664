import type { Socket } from 'node:net';
import { ProtocolError } from '../../protocol/errors.js';
import { ChunkedBody } from '../../protocol/http/chunked.js';
import { CHUNKED, CR, HEAD_END, HttpSyntaxError, LF } from '../../protocol/http/fields.js';
import { type BodySource, InboundRequest } from './request.js';
import { checkRequestBegun, HEAD_LIMIT, hasBody, type RequestHead, readRequestHead } from './request-head.js';
import { InboundResponse, type ResponseChannel } from './response.js';

/** Who listens. Times are counted in its seconds. */
export interface ConnectionOwner {
  /** Seconds since it began to listen. */
  readonly seconds: number;
  readonly times: Times;
  /** The lines that every response has, where the connection is kept and where it is not. */
  readonly lines: { readonly kept: string; readonly closed: string };
  /** No connection is kept any longer than the request on it. */
  readonly leaving: boolean;
  handle(req: InboundRequest, res: InboundResponse): void;
  /** Answers what could not be read as a request. */
  refuse(req: InboundRequest, res: InboundResponse, error: ProtocolError): void;
  gone(connection: Connection): void;
}

/** How many seconds a client has. */
export interface Times {
  /** For the head of a request. */
  readonly head: number;
  /** For all of a request. */
  readonly request: number;
  /** To begin another. */
  readonly idle: number;
  /** To read an answer. */
  readonly answer: number;
  /** To hear that the connection is over. */
  readonly parting: number;
}

export const TIMES: Times = { head: 5, request: 30, idle: 65, answer: 600, parting: 1 };

/** What is read ahead of the request under way, or of a body that nobody has asked for yet. */
const MOST_AHEAD = 64 * 1024;
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const NO_HEAD: RequestHead = { method: '', target: '/', headers: [], length: 0, keepAlive: false, old: false };

/** One client's connection: one request after the other, each answered before the next is looked at. */
export class Connection implements BodySource, ResponseChannel {
  readonly identity = {};
  private req: InboundRequest | undefined;
  private res: InboundResponse | undefined;
  private chunks: ChunkedBody | undefined;
  /** Bytes of the body that are still to come, where that is known. */
  private left = 0;
  /** What was read and cannot be taken yet. */
  private ahead: Buffer | undefined;
  /** So much of it was seen not to end a head. */
  private seen = 0;
  private advancing = false;
  private held = false;
  /** What comes is no longer looked at. */
  private deaf = false;
  /** The client has had its last answer, and a moment to take it. */
  private parting = false;
  /** When that began. */
  private parted = 0;
  /** Nothing of the next request has come since the last one was answered. */
  private resting = false;
  /** All of the answer is written, and not all of it was taken. */
  private taking = false;
  /** When what it does now began. */
  private since: number;

  constructor(
    readonly socket: Socket,
    private readonly owner: ConnectionOwner,
  ) {
    this.since = owner.seconds;
    socket.on('data', (chunk) => this.read(chunk));
    // What follows is told by `close`.
    socket.on('error', () => {});
    socket.on('close', () => this.lost());
  }

  get idle(): boolean {
    return !this.req && !this.ahead;
  }

  get headOnly(): boolean {
    return this.req?.method === 'HEAD';
  }

  get old(): boolean {
    return this.req?.head.old === true;
  }

  get persistent(): boolean {
    const { req } = this;
    // The rest of a body that nobody reads would have to be read before the next request could be.
    return req?.complete === true && req.head.keepAlive && !this.owner.leaving;
  }

  common(keepAlive: boolean): string {
    const { kept, closed } = this.owner.lines;
    return keepAlive ? kept : closed;
  }

  private read(chunk: Buffer): void {
    if (this.parting) this.stillSends();
    if (this.parting || this.deaf) return;
    this.ahead = this.ahead ? Buffer.concat([this.ahead, chunk]) : chunk;
    this.advance();
  }

  private advance(): void {
    // A request that is answered at once comes back here.
    if (this.advancing) return;
    this.advancing = true;
    try {
      while (this.ahead && !this.parting && !this.deaf && this.step(this.ahead));
    } catch (error) {
      this.refuse(error);
    } finally {
      this.advancing = false;
    }
  }

  /** Takes what can be taken of what was read. Whether it is worth another look. */
  private step(ahead: Buffer): boolean {
    const { req } = this;
    if (!req) return this.takeHead(ahead);
    if (!req.complete) return this.takeBody(req, ahead);
    if (ahead.length > MOST_AHEAD) this.hold();
    return false;
  }

  private takeHead(ahead: Buffer): boolean {
    // Empty lines before a request are a habit of old clients (RFC 9112 §2.2).
    let from = 0;
    while (ahead[from] === CR && ahead[from + 1] === LF) from += 2;
    if (from > 0) {
      this.leave(ahead, from);
      return true;
    }
    if (ahead.length === 1 && ahead[0] === CR) return false;
    if (this.resting) {
      this.resting = false;
      this.since = this.owner.seconds;
    }
    const end = ahead.indexOf(HEAD_END, Math.max(0, this.seen - HEAD_END.length));
    if ((end < 0 ? ahead.length : end) > HEAD_LIMIT)
      throw new ProtocolError('headers_too_large', `The head of a request has at most ${HEAD_LIMIT} bytes`);
    if (end < 0) {
      checkRequestBegun(ahead, this.seen);
      this.seen = ahead.length;
      return false;
    }
    this.seen = 0;
    const head = readRequestHead(ahead.toString('latin1', 0, end));
    this.leave(ahead, end + HEAD_END.length);
    this.begin(head);
    return true;
  }

  private begin(head: RequestHead): void {
    const req = new InboundRequest(head, this);
    const res = new InboundResponse(this);
    this.req = req;
    this.res = res;
    this.left = head.length;
    this.chunks = head.length === CHUNKED ? new ChunkedBody() : undefined;
    if (!hasBody(head)) req.end();
    // Most bodies come with their heads.
    else while (this.ahead && !req.complete) this.takeBody(req, this.ahead);
    try {
      this.owner.handle(req, res);
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  private takeBody(req: InboundRequest, ahead: Buffer): boolean {
    const { chunks } = this;
    if (chunks) {
      const stopped = chunks.read(ahead, 0, ahead.length);
      if (chunks.from < stopped) req.push(ahead.subarray(chunks.from, stopped));
      this.leave(ahead, stopped);
      if (chunks.over) req.end();
    } else {
      const count = Math.min(this.left, ahead.length);
      this.left -= count;
      req.push(ahead.subarray(0, count));
      this.leave(ahead, count);
      if (this.left === 0) req.end();
    }
    if (!req.complete && req.waiting > MOST_AHEAD) this.hold();
    return true;
  }

  /** So much of what was read is taken. */
  private leave(ahead: Buffer, taken: number): void {
    this.ahead = taken < ahead.length ? ahead.subarray(taken) : undefined;
  }

  private hold(): void {
    this.held = true;
    this.since = this.owner.seconds;
    this.socket.pause();
  }

  private release(): void {
    if (!this.held) return;
    this.held = false;
    this.since = this.owner.seconds;
    this.socket.resume();
  }

  wanted(): void {
    const { req, res } = this;
    if (req!.untouched && !res!.begun && !this.old && req!.header('expect')?.toLowerCase() === '100-continue')
      this.socket.write(CONTINUE, 'latin1');
    this.release();
  }

  /** The connection brought something that is no request. */
  private refuse(error: unknown): void {
    const refusal =
      error instanceof ProtocolError
        ? error
        : error instanceof HttpSyntaxError
          ? new ProtocolError('invalid_request', `The request cannot be read: ${error.message}`)
          : undefined;
    if (!refusal) throw error;
    if (this.socket.destroyed) return;
    this.deaf = true;
    this.ahead = undefined;
    // Where a body turns out to be none, somebody may be waiting for it.
    if (this.req && (this.req.fail(refusal) || this.res?.begun)) return;
    this.req ??= new InboundRequest(NO_HEAD, this);
    this.res ??= new InboundResponse(this);
    this.owner.refuse(this.req, this.res, refusal);
  }

  responded(keepAlive: boolean): void {
    const { socket } = this;
    // Nothing waits to be written either where nothing can be any more: that is told by `close`.
    if (socket.destroyed || socket.errored || socket.writableEnded) return;
    if (socket.writableLength === 0) this.answered(keepAlive);
    else {
      this.taking = true;
      this.since = this.owner.seconds;
      socket.write('', (error) => error ?? this.answered(keepAlive));
    }
  }

  private answered(keepAlive: boolean): void {
    const { res } = this;
    if (!res || this.parting) return;
    this.since = this.owner.seconds;
    this.taking = false;
    if (keepAlive) {
      this.req = undefined;
      this.res = undefined;
      this.resting = true;
    } else this.part();
    res.over(true);
    this.release();
    this.advance();
  }

  /**
   * Says goodbye. What the client still sends is thrown away until it has heard: closing at once would make its system
   * throw away the answer.
   */
  private part(): void {
    this.parting = true;
    this.parted = this.since;
    this.ahead = undefined;
    this.socket.end();
  }

  private stillSends(): void {
    const { seconds, times } = this.owner;
    if (seconds - this.parted <= times.request) this.since = seconds;
  }

  private lost(): void {
    this.owner.gone(this);
    this.parting = true;
    this.req?.fail(new ProtocolError('invalid_request', 'The body ended early'));
    this.res?.over(false);
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** Looks whether the client took too long over something. */
  check(): void {
    // That it is over is told a little later, by `close`.
    if (this.socket.destroyed) return;
    const { seconds, times } = this.owner;
    const age = seconds - this.since;
    if (this.parting) {
      if (age > times.parting) this.destroy();
    } else if (this.taking) {
      if (age > times.answer) this.destroy();
    } else if (this.resting) {
      if (age > times.idle) this.destroy();
    } else if (!this.req) {
      if (age > times.head) this.refuse(tooSlow(`The head of a request has ${times.head} seconds to come`));
    } else if (this.held) {
      // Nothing is read, so that the client is gone would not be noticed either.
      if (age > times.request) this.destroy();
    } else if (!this.req.complete && !this.deaf && age > times.request)
      this.refuse(tooSlow(`A request has ${times.request} seconds to come`));
  }
}

const tooSlow = (message: string): ProtocolError =>
  new ProtocolError('request_timeout', message, { headers: { Connection: 'close' } });
