/**
 * One request and its reply over undici's `dispatch`. The handler uses undici's older interface (`onConnect`,
 * `onHeaders`, …), which is faster: for the newer one, undici 7 creates two more objects per request and an object for
 * the headers.
 */
import { type HttpHeaders, headerOf } from '../../protocol/http/headers.js';
import { type Abortable, HttpError, type HttpReply, type HttpRequest } from './client-types.js';
import { codingOf, Decoding, type Encoded } from './content-decoding.js';
import type { Route } from './origin-route.js';
import type { Carried, Connection } from './pooled-connection.js';
import { replyError } from './undici-errors.js';

/** A request with more bytes than this may be answered before the server has read all of it. */
const LARGE_REQUEST = 64 * 1024;

/** Maximum bytes of a redirect's body that are read to keep the connection usable. */
const REDIRECT_BODY_LIMIT = 64 * 1024;

const ABORTED = new Error('the request was aborted before it was sent');

export class Exchange implements Abortable, Carried, Encoded {
  connection: Connection | undefined;
  /** Whether a byte of the request may have reached the server. */
  private sent = false;
  private over = false;
  private held = false;
  /** True while `dispatch` runs. A failure is reported later, when the caller has the exchange object. */
  private starting = true;
  /** Whether the connection serves this exchange: from the first byte of the request to the last byte of the reply. */
  private running = false;
  private begun = false;
  /** Whether the body ends only with the connection, because it has no length. */
  private untilClose = false;
  /** Events that arrived while the reply was paused, in order: at most those of one read of the socket. */
  private waiting: (() => void)[] | undefined;
  private decoding: Decoding | undefined;
  private route: Route | undefined;
  /** The path that the caller gave. */
  private path = '';
  /** The path in the request, which a remembered redirect may change. */
  private asked = '';
  /** Whether a redirect was followed. The exchange follows at most one redirect. */
  private followed = false;

  constructor(
    private readonly request: HttpRequest,
    private reply: HttpReply,
    /** Called when the head of a reply arrives. */
    private readonly answered: () => void,
  ) {}

  start(route: Route, path: string): void {
    this.route = route;
    this.path = path;
    this.send(route.moved?.now(path) ?? path);
    this.starting = false;
  }

  private send(path: string): void {
    const { pool, prefix, headers: own } = this.route!;
    const { method, headers, body } = this.request;
    this.asked = path;
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
  }

  abort(): void {
    if (this.over) return;
    this.finish();
    if (this.running) this.connection?.drop();
  }

  pause(): void {
    if (this.decoding) this.decoding.pause();
    else this.hold();
  }

  resume(): void {
    if (this.decoding) this.decoding.resume();
    else this.unhold();
  }

  hold(): void {
    if (this.over || this.held) return;
    this.held = true;
    // Before the request is sent, the connection may serve another exchange or be in its TLS handshake.
    if (this.running) this.connection?.hold();
  }

  unhold(): void {
    if (!this.held) return;
    this.held = false;
    // The reader gets the data in a microtask: undici must not read from this connection while it delivers data of
    // another connection.
    queueMicrotask(() => this.deliver());
  }

  /** Delivers the events that arrived during the pause, and continues reading. */
  private deliver(): void {
    try {
      while (this.waiting && !this.held) {
        this.waiting.shift()?.();
        if (this.waiting?.length === 0) this.waiting = undefined;
      }
    } catch (error) {
      this.failed(error as Error);
    }
    if (!this.held && !this.over && this.running) this.connection?.readOn();
  }

  private later(run: () => void): void {
    this.waiting ??= [];
    this.waiting.push(run);
  }

  /** The connection is open, including TLS, and the request is about to be written. */
  onConnect(): void {
    // An exception instead of an abort, because an abort would close the connection.
    if (this.over) throw ABORTED;
    this.sent = true;
    this.running = true;
    if (this.held) this.connection?.hold();
  }

  onHeaders(status: number, raw: Buffer[]): boolean {
    // Ignores interim replies.
    if (status < 200 || this.over) return true;
    this.begun = true;
    this.answered();
    const headers = readHeaders(raw);
    this.untilClose =
      headerOf(headers, 'content-length') === undefined &&
      headerOf(headers, 'transfer-encoding') === undefined &&
      status !== 204 &&
      status !== 304;
    if (this.held) this.later(() => this.begin(status, headers));
    else this.begin(status, headers);
    return true;
  }

  private begin(status: number, headers: HttpHeaders): void {
    if (status >= 300 && this.follows(status, headers)) return;
    const coding = codingOf(headers);
    if (coding === undefined) {
      this.reply.start(status, headers);
      return;
    }
    try {
      this.decoding = new Decoding(coding, this.reply, this);
    } catch (error) {
      this.failed(error as Error);
      return;
    }
    this.decoding.start(status, headers);
  }

  /**
   * Repeats the request if a redirect only adds or removes a trailing slash. Such a redirect shows that nothing was
   * executed.
   */
  private follows(status: number, headers: HttpHeaders): boolean {
    if (this.followed) return false;
    const path = this.route?.moved?.next(this.path, this.asked, status, headers);
    if (path === undefined) return false;
    const { reply } = this;
    let unread = 0;
    const again = (): void => {
      this.reply = reply;
      this.followed = true;
      this.over = false;
      this.running = false;
      this.sent = false;
      this.begun = false;
      this.send(path);
    };
    this.reply = {
      start: () => {},
      data: (chunk) => {
        unread += chunk.length;
        if (unread > REDIRECT_BODY_LIMIT) this.connection?.drop();
      },
      end: again,
      fail: again,
    };
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.over) return true;
    if (this.held || this.waiting) this.later(() => (this.decoding ?? this.reply).data(chunk));
    else (this.decoding ?? this.reply).data(chunk);
    return true;
  }

  /** If this throws, undici calls `onError`. */
  onComplete(): void {
    if (this.over) return;
    const { connection, request } = this;
    const broken = this.untilClose && connection?.broken;
    // The connection may now serve another exchange.
    this.running = false;
    if (this.held) connection?.release();
    if (request.body && request.body.length > LARGE_REQUEST) connection?.dropIfWriting();
    if (broken) this.onError(new HttpError('ECONNRESET', 'the connection was reset before the reply ended'));
    else if (this.waiting) this.later(() => this.end());
    else this.end();
  }

  private end(): void {
    if (this.over) return;
    if (this.decoding) this.decoding.end();
    else this.ended();
  }

  /** The whole reply was delivered. */
  ended(): void {
    if (this.over) return;
    const { reply, running, connection } = this;
    reply.end();
    // After a followed redirect, the exchange continues with another request.
    if (this.reply !== reply) return;
    this.over = true;
    // Compressed data can end before the body does. A server that never ends the body would keep the connection open.
    if (running) connection?.drop();
  }

  failed(error: Error): void {
    if (this.over) return;
    if (this.running) this.connection?.drop();
    this.onError(error);
  }

  onError(error: Error): void {
    if (this.over) return;
    this.finish();
    const failure = { sent: this.sent, error: replyError(error, this.begun) };
    if (this.starting) queueMicrotask(() => this.reply.fail(failure));
    else this.reply.fail(failure);
  }

  private finish(): void {
    this.over = true;
    this.waiting = undefined;
    this.decoding?.destroy();
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
    // undici removes blanks before a header value, but not the blanks after it.
    while (end > 0 && (value[end - 1] === SPACE || value[end - 1] === TAB)) end--;
    headers[i + 1] = value.toString('latin1', 0, end);
  }
  return headers;
}
