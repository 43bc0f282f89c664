import { ProtocolError } from '../../protocol/errors.js';
import { type Id, writeError } from '../../protocol/jsonrpc/message.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { EVENT_STREAM, writeEvent, writePriming, writeRetry } from '../../protocol/sse/writer.js';
import type { Accepted } from '../http/accept-header.js';
import { EventResponse } from '../http/event-stream-response.js';
import type { InboundResponse } from '../http/response.js';
import { sendBody, sendEmpty, sendJson } from '../http/send-body.js';
import type { ReplyChannel } from './reply-channel.js';
import type { EventLog, LoggedStream } from './session/event-log.js';
import { ReconnectWindow } from './session/reconnect-window.js';
import type { EventSink, Resumable } from './session/shared-streams.js';

/** After this many milliseconds without a response a stream is opened, so that proxies and users see activity. */
const QUIET_MODERN = 10_000;
const QUIET_SESSION = 500;

export const RETRY = 1_000;

/**
 * The reply to one modern request: plain JSON, or a stream if a message comes before the response and the client
 * accepts a stream.
 */
export class ModernReplyChannel implements ReplyChannel {
  private stream: EventResponse | undefined;
  private over = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    readonly requestId: string,
    readonly address: string,
    private readonly res: InboundResponse,
    private readonly headers: readonly string[],
    private readonly accepts: Accepted,
  ) {}

  /** From now on the client waits for a response. Starts the timer. */
  awaited(): void {
    if (this.over || this.stream || !this.accepts.stream) return;
    this.timer = setTimeout(() => this.open(), QUIET_MODERN);
    this.timer.unref();
  }

  private open(): EventResponse {
    clearTimeout(this.timer);
    this.stream ??= new EventResponse(this.res, this.headers);
    return this.stream;
  }

  send(message: Buffer): void {
    if (!this.accepts.stream || this.res.ended || this.res.closed) return;
    this.open().message(writeEvent([message]));
  }

  finish(message: readonly Buffer[], status: number, headers: readonly string[]): void {
    this.stop();
    if (this.res.ended || this.res.closed) return;
    if (!this.accepts.json && status === 200) this.open();
    if (!this.stream) {
      const all = headers.length > 0 ? [...this.headers, ...headers] : this.headers;
      sendJson(this.res, status, all, message);
      return;
    }
    this.stream.message(writeEvent(message));
    this.stream.end();
  }

  /** The response was sent, or the connection is gone. Stops the timer. */
  stop(): void {
    this.over = true;
    clearTimeout(this.timer);
  }
}

/**
 * The reply to a POST of a session. A streamed reply is logged, so that a client that lost the connection gets the rest
 * with `Last-Event-ID`; a lost connection does not cancel the request (HL-09).
 */
export class SessionReplyChannel implements ReplyChannel {
  private logged: LoggedStream | undefined;
  private timer: NodeJS.Timeout | undefined;
  private absence: ReconnectWindow | undefined;
  private answered = false;

  constructor(
    readonly requestId: string,
    readonly address: string,
    private readonly res: InboundResponse,
    private readonly headers: readonly string[],
    private readonly accepts: Accepted,
    private readonly log: EventLog,
    private readonly priming: boolean,
    /** The id of the answered request, if there is one. */
    private readonly request?: Id,
    /**
     * Identifies the connection. Once the client of the session sends another message on this connection, it has read
     * the replies that were sent on it before.
     */
    private readonly connection?: object,
  ) {
    if (accepts.stream) {
      this.timer = setTimeout(() => this.open(), QUIET_SESSION);
      this.timer.unref();
    }
  }

  private open(): LoggedStream {
    clearTimeout(this.timer);
    if (!this.logged) {
      this.logged = this.log.open(this.request, true);
      if (!this.res.closed) connect(this.res, this.headers, this.logged, { priming: this.priming });
    }
    return this.logged;
  }

  /** Calls `over` if the client loses its connection and does not reconnect in time. */
  awaitReconnect(window: number, over: () => void): void {
    this.res.onClose(() => {
      if (!this.answered) this.absence = new ReconnectWindow({ window, stream: () => this.logged, over });
    });
  }

  send(message: Buffer): void {
    if (this.accepts.stream) this.open().append([message]);
  }

  finish(message: readonly Buffer[], status: number, headers: readonly string[]): void {
    clearTimeout(this.timer);
    this.answered = true;
    this.absence?.end();
    if (!this.accepts.json && status === 200) this.open();
    if (this.logged) {
      if (message.length > 0) this.logged.append(message);
      this.logged.finish();
      return;
    }
    if (this.res.ended || this.res.closed) return;
    if (message.length === 0) sendEmpty(this.res, status, this.headers);
    else if (this.accepts.stream && this.priming && status === 200) this.answerAtOnce(message);
    else {
      const all = headers.length > 0 ? [...this.headers, ...headers] : this.headers;
      sendJson(this.res, status, all, message);
    }
  }

  /** A client that can resume gets an event id to resume from, even if the whole reply fits into one packet. */
  private answerAtOnce(message: readonly Buffer[]): void {
    const reply = this.log.whole(message, this.connection, this.request);
    const body = [Buffer.from(writePriming(reply.before, RETRY)), ...writeEvent(message, { id: reply.event })];
    sendBody(this.res, 200, [...this.headers, ...NOT_STORED], EVENT_STREAM, body);
  }

  poll(retry: number): void {
    if (!this.accepts.stream || !this.priming) return;
    const stream = this.open();
    stream.closeForReconnect(retry);
  }
}

const NOT_STORED = ['Cache-Control', 'no-cache, no-transform', 'X-Accel-Buffering', 'no'];

/**
 * Answers a request whose reply cannot be resumed with an error. Otherwise the client would wait until its own timeout.
 */
export function answerLost(res: InboundResponse, headers: readonly string[], request: Id): void {
  const lost = new ProtocolError(
    'event_not_found',
    'The reply to this request is no longer kept. The request may have been executed: check its effect before you send it again',
    { outcome: 'unknown' },
  );
  const error = { code: lost.row.legacy, message: lost.message, data: lost.data as JsonObject };
  sendBody(res, 200, [...headers, ...NOT_STORED], EVENT_STREAM, writeEvent([writeError(request, error)]));
}

/** Sends a logged stream over one connection, from event `after` on. */
export function connect(
  res: InboundResponse,
  headers: readonly string[],
  stream: Resumable & Partial<Pick<LoggedStream, 'position' | 'opened'>>,
  options: { readonly priming?: boolean; readonly after?: number; readonly maxAge?: number },
): EventResponse {
  const opened: { response?: EventResponse } = {};
  const open = (): EventResponse => {
    opened.response ??= new EventResponse(res, headers, {
      ...(options.maxAge !== undefined && { maxAge: options.maxAge }),
      aged: () => opened.response?.write(writeRetry(RETRY)),
    });
    return opened.response;
  };
  const sink: EventSink = {
    event: (id, data) => {
      open().message(writeEvent(data, { id }));
    },
    end: (retry) => {
      if (retry !== undefined) open().write(writeRetry(retry));
      open().end();
    },
  };
  // If the event log no longer has the requested events, `connect` throws before anything is sent.
  if (options.priming) {
    const priming = writePriming(stream.position ?? '', RETRY);
    // A client must not see an event id before every replica can find the stream, because the client may reconnect to
    // another replica.
    if (stream.opened) void stream.opened.then(() => open().write(priming));
    else open().write(priming);
  }
  stream.connect(sink, options.after);
  res.onClose(() => stream.disconnect(sink));
  return open();
}
