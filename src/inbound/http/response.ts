import type { Socket } from 'node:net';
import { atEndOfTurn } from '../../core/turn.js';
import { NO_BODY } from '../../protocol/http/fields.js';
import { lengthOf } from '../../protocol/jsonrpc/pieces.js';

/** What a response needs of the connection it goes out on. */
export interface ResponseChannel {
  readonly socket: Socket;
  /** The client did not want the body, only what it would look like. */
  readonly headOnly: boolean;
  /** HTTP/1.0: a body without a length ends with the connection. */
  readonly old: boolean;
  /** The lines that every response has, for a connection that is or is not kept. */
  common(keepAlive: boolean): string;
  /** Whether the connection can be used again after this response. */
  readonly persistent: boolean;
  /** All of the response was written; `keepAlive` is what the client was told. */
  responded(keepAlive: boolean): void;
}

/** Up to here a body leaves in one piece with its head. */
const ONE_PIECE = 16 * 1024;
/** Up to here the parts of an event are copied together instead of being written one by one. */
const JOIN = 64 * 1024;
/** What clients would read differently, or as something else, in a value. */
const NOT_ASCII = /[^\t\x20-\x7e]/;
const LINE_END = Buffer.from('\r\n');

/** One response: whole at once, or begun and added to. */
export class InboundResponse {
  /** Whether it was begun. */
  begun = false;
  /** Nothing more is going to be added. */
  ended = false;
  /** It is over: all of it was handed to the system, or the connection is gone. */
  closed = false;
  /** All of it was handed to the system. */
  finished = false;
  private keepAlive = false;
  private framed = false;
  /** It has no body, whatever is written. */
  private bare = false;
  private listeners: (() => void)[] | undefined;

  constructor(private readonly channel: ResponseChannel) {}

  /** Answers with a body that is all there. */
  send(status: number, headers: readonly string[], body: readonly Buffer[]): void {
    if (this.begun || this.closed) return;
    const length = lengthOf(body);
    const head = this.head(status, headers, length);
    this.ended = true;
    if (this.bare) this.flush(head, 'latin1');
    else if (length <= ONE_PIECE) {
      let text = head;
      for (const part of body) text += part.toString('latin1');
      this.flush(text, 'latin1');
    } else {
      const { socket } = this.channel;
      socket.cork();
      socket.write(head, 'latin1');
      for (const part of body) socket.write(part);
      socket.uncork();
      this.channel.responded(this.keepAlive);
    }
  }

  /** The same for what is a string already. */
  sendText(status: number, headers: readonly string[], text: string): void {
    if (this.begun || this.closed) return;
    const head = this.head(status, headers, Buffer.byteLength(text));
    this.ended = true;
    this.flush(this.bare ? head : head + text, 'utf8');
  }

  private flush(text: string, encoding: 'latin1' | 'utf8'): void {
    atEndOfTurn(() => {
      if (this.closed) return;
      this.channel.socket.write(text, encoding);
      this.channel.responded(this.keepAlive);
    });
  }

  /** Begins a body that is added to until `end`. */
  open(status: number, headers: readonly string[]): void {
    if (this.begun || this.closed) return;
    this.channel.socket.write(this.head(status, headers, undefined), 'latin1');
  }

  write(chunk: string | readonly Buffer[]): void {
    if (!this.begun || this.ended || this.closed || this.bare) return;
    if (typeof chunk === 'string') this.writeText(chunk);
    else this.writeParts(chunk);
  }

  private writeText(text: string): void {
    const { socket } = this.channel;
    // A chunk of no length would end the body.
    if (text === '') return;
    if (this.framed) socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
    else socket.write(text);
  }

  private writeParts(parts: readonly Buffer[]): void {
    const { socket } = this.channel;
    const size = lengthOf(parts);
    if (size === 0) return;
    const framed = this.framed ? [Buffer.from(`${size.toString(16)}\r\n`, 'latin1'), ...parts, LINE_END] : parts;
    if (size < JOIN) {
      socket.write(Buffer.concat(framed));
      return;
    }
    socket.cork();
    for (const part of framed) socket.write(part);
    socket.uncork();
  }

  end(): void {
    if (!this.begun || this.ended || this.closed) return;
    this.ended = true;
    if (this.framed && !this.bare) this.channel.socket.write('0\r\n\r\n', 'latin1');
    this.channel.responded(this.keepAlive);
  }

  private head(status: number, headers: readonly string[], length: number | undefined): string {
    const { channel } = this;
    let { persistent } = channel;
    let lines = '';
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!;
      const value = headers[i + 1]!;
      if (NOT_ASCII.test(value)) throw new Error(`the value of the header ${name} cannot be sent`);
      if (name === 'Connection') persistent &&= value !== 'close';
      else lines += `${name}: ${value}\r\n`;
    }
    const none = NO_BODY.has(status);
    this.begun = true;
    this.bare = channel.headOnly || none;
    this.framed = length === undefined && !channel.old && !none;
    this.keepAlive = persistent && (length !== undefined || this.framed || none);
    const known = length === undefined || none ? '' : `Content-Length: ${length}\r\n`;
    const framing = this.framed ? 'Transfer-Encoding: chunked\r\n' : known;
    return `HTTP/1.1 ${status} ${PHRASES[status] ?? ''}\r\n${lines}${framing}${channel.common(this.keepAlive)}\r\n`;
  }

  /** Bytes that wait for the client to read on. */
  get unread(): number {
    return this.channel.socket.writableLength;
  }

  /** Whether so much waits that whoever writes should wait as well. */
  get full(): boolean {
    return this.channel.socket.writableNeedDrain;
  }

  onDrain(listener: () => void): void {
    this.channel.socket.on('drain', listener);
  }

  offDrain(listener: () => void): void {
    this.channel.socket.off('drain', listener);
  }

  /** Calls back once when the response is over, however it came to that. */
  onClose(listener: () => void): void {
    if (this.closed) {
      listener();
      return;
    }
    this.listeners ??= [];
    this.listeners.push(listener);
  }

  offClose(listener: () => void): void {
    const at = this.listeners?.indexOf(listener) ?? -1;
    if (at >= 0) this.listeners!.splice(at, 1);
  }

  /** Cuts the connection. */
  destroy(): void {
    if (this.closed) return;
    this.channel.socket.destroy();
    this.over(false);
  }

  /** Called by the connection when all was written, or when nothing more can be. */
  over(finished: boolean): void {
    if (this.closed) return;
    this.closed = true;
    this.finished = finished;
    const { listeners } = this;
    this.listeners = undefined;
    if (listeners) for (const listener of listeners) listener();
  }
}

/** For people who read along; programs go by the number. */
const PHRASES: Readonly<Record<number, string>> = {
  200: 'OK',
  202: 'Accepted',
  204: 'No Content',
  304: 'Not Modified',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  499: 'Client Closed Request',
  500: 'Internal Server Error',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  508: 'Loop Detected',
};
