/**
 * One request and its reply, as undici's `dispatch` runs it. The handler has undici's older form (`onConnect`,
 * `onHeaders`, …): undici 7 wraps the newer form in two more objects for each request and makes an object of its headers.
 */
import { type HttpHeaders, headerOf } from '../../protocol/http/headers.js';
import type { Carried, Connection } from './connection.js';
import { type Abortable, HttpError, type HttpReply, type HttpRequest } from './exchange.js';
import { replyError } from './faults.js';
import type { Route } from './route.js';

/** Above this many bytes of request a server may well answer before it has read everything. */
const LARGE_REQUEST = 64 * 1024;

const ABORTED = new Error('the request was aborted before it was sent');

export class Exchange implements Abortable, Carried {
  connection: Connection | undefined;
  /** Whether a byte of the request may have reached the server. */
  private sent = false;
  private over = false;
  private held = false;
  /** True while `dispatch` runs: a failure is reported later, when the caller has the exchange in hand. */
  private starting = true;
  private stop: ((error?: Error) => void) | undefined;
  private begun = false;
  /** The body has no other end than that of the connection. */
  private untilClose = false;
  /** What had been read when the reply was paused, in its order: at most one read of the socket. */
  private waiting: (() => void)[] | undefined;

  constructor(
    private readonly request: HttpRequest,
    private readonly reply: HttpReply,
  ) {}

  start({ pool, prefix, headers: own }: Route, path: string): void {
    const { method, headers, body } = this.request;
    pool.dispatch(
      {
        path: prefix + path,
        method,
        headers: (own ? own(headers) : headers) as string[],
        body: body ?? null,
        idempotent: false,
      },
      this,
    );
    this.starting = false;
  }

  abort(): void {
    if (this.over) return;
    this.over = true;
    this.waiting = undefined;
    if (this.stop) this.connection?.drop();
  }

  pause(): void {
    if (this.over || this.held) return;
    this.held = true;
    // Before the request is sent the connection is not this one's, or still busy with its handshake.
    if (this.stop) this.connection?.hold();
  }

  resume(): void {
    if (!this.held) return;
    this.held = false;
    // Later: undici must not read on while it hands over what another connection read.
    queueMicrotask(() => this.deliver());
  }

  /** Hands over what waited for `resume`, and reads on. */
  private deliver(): void {
    try {
      while (this.waiting && !this.held) {
        this.waiting.shift()?.();
        if (this.waiting?.length === 0) this.waiting = undefined;
      }
    } catch (error) {
      this.stop?.(error as Error);
      this.onError(error as Error);
    }
    if (!this.held && !this.over && this.stop) this.connection?.readOn();
  }

  private later(run: () => void): void {
    this.waiting ??= [];
    this.waiting.push(run);
  }

  /** The request is about to be written to a connection that is open, its TLS handshake included. */
  onConnect(stop: (error?: Error) => void): void {
    // Thrown, not stopped: nothing is wrong with the connection.
    if (this.over) throw ABORTED;
    this.sent = true;
    this.stop = stop;
    if (this.held) this.connection?.hold();
  }

  onHeaders(status: number, raw: Buffer[]): boolean {
    // Interim replies are of no use here.
    if (status < 200) return true;
    this.begun = true;
    const headers = readHeaders(raw);
    this.untilClose =
      headerOf(headers, 'content-length') === undefined && headerOf(headers, 'transfer-encoding') === undefined;
    if (this.held) this.later(() => this.reply.start(status, headers));
    else this.reply.start(status, headers);
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.held || this.waiting) this.later(() => this.reply.data(chunk));
    else this.reply.data(chunk);
    return true;
  }

  /** Where this throws, undici calls `onError`. */
  onComplete(): void {
    if (this.over) return;
    const { connection, request } = this;
    const broken = this.untilClose && connection?.broken;
    // From here on the connection may carry another exchange.
    this.stop = undefined;
    if (this.held) connection?.release();
    if (request.body && request.body.length > LARGE_REQUEST) connection?.dropIfWriting();
    if (broken) this.onError(new HttpError('ECONNRESET', 'the connection was reset before the reply ended'));
    else if (this.waiting) this.later(() => this.end());
    else this.end();
  }

  private end(): void {
    if (this.over) return;
    this.reply.end();
    this.over = true;
  }

  onError(error: Error): void {
    if (this.over) return;
    this.over = true;
    this.waiting = undefined;
    const failure = { sent: this.sent, error: replyError(error, this.begun) };
    if (this.starting) queueMicrotask(() => this.reply.fail(failure));
    else this.reply.fail(failure);
  }
}

const SPACE = 0x20;
const TAB = 0x09;

function readHeaders(raw: Buffer[]): HttpHeaders {
  const headers = new Array<string>(raw.length);
  for (let i = 0; i < raw.length; i += 2) {
    headers[i] = raw[i]!.toString('latin1').toLowerCase();
    const value = raw[i + 1]!;
    let end = value.length;
    // The blanks before a value are cut off by then, those behind it are not.
    while (end > 0 && (value[end - 1] === SPACE || value[end - 1] === TAB)) end--;
    headers[i + 1] = value.toString('latin1', 0, end);
  }
  return headers;
}
