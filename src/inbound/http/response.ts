import { type OutgoingHttpHeaders, validateHeaderName, validateHeaderValue } from 'node:http';
import { lengthOf } from '../../protocol/jsonrpc/json-pieces.js';
import { atEndOfTurn, type Pending } from './batched-writes.js';
import type { UnreadBytes } from './unread-bytes.js';

/** The output of a response: the common part of `node:http` and `node:http2`. */
export interface Outgoing {
  writeHead(status: number, headers: OutgoingHttpHeaders | string[]): unknown;
  flushHeaders(): void;
  writeContinue(): void;
  write(chunk: string | Uint8Array, encoding?: BufferEncoding): boolean;
  end(chunk?: string | Uint8Array, encoding?: BufferEncoding): unknown;
  cork(): void;
  uncork(): void;
  destroy(): unknown;
  on(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
  readonly writableLength: number;
  readonly writableFinished: boolean;
}

/** The exchange as its response sees it. */
export interface ResponseChannel {
  readonly http2: boolean;
  /** Whether the client requests only the head. */
  readonly headOnly: boolean;
  readonly unread: UnreadBytes;
  /** Whether the connection ends with this response. */
  readonly last: boolean;
  /** Set if the client may still send more than its next request; undefined if the response may be sent directly. */
  readonly early: EarlyResponse | undefined;
}

/** Sends a whole response while the client may still be sending. */
export interface EarlyResponse {
  /**
   * Calls `send` once it is known whether the connection can be kept. If the connection cannot be kept, `send` gets
   * another output.
   */
  send(send: (out: Outgoing | undefined) => void): void;
}

/** Bodies up to this size are written together with the head. */
const ONE_PIECE = 16 * 1024;
/** The parts of an event up to this size are joined, and not written one by one. */
const JOIN = 64 * 1024;
/** Statuses whose responses have no body. */
const NO_BODY: ReadonlySet<number> = new Set([204, 304]);

/** One response: sent whole, or begun and then extended. */
export class InboundResponse implements Pending {
  /** Whether the head is decided, so that no other response can be sent. */
  begun = false;
  /** Whether no more parts will be added. */
  ended = false;
  /** Whether the response has ended: all of it was given to the operating system, or the client is gone. */
  closed = false;
  /** Whether all of the response was given to the operating system. */
  finished = false;
  /** A body that waits for the end of the turn, and its encoding. */
  private text = '';
  private encoding: BufferEncoding | undefined;
  /** Whether the last write found the buffers full. */
  private blocked = false;
  private listeners: (() => void)[] | undefined;
  /** Ends the connection that another protocol has taken over. */
  private endTaken: (() => void) | undefined;

  constructor(
    private out: Outgoing,
    private readonly channel: ResponseChannel,
  ) {}

  /** Sends a complete body. */
  send(status: number, headers: readonly string[], body: readonly Buffer[]): void {
    if (this.begun || this.closed) return;
    const length = lengthOf(body);
    // Latin-1 has one byte per character: a small body is written as one string with its head.
    if (length <= ONE_PIECE) {
      let text = '';
      for (const part of body) text += part.toString('latin1');
      this.whole(status, headers, length, text, 'latin1');
    } else this.whole(status, headers, length, body, undefined);
  }

  /** Sends a complete body that is a string. */
  sendText(status: number, headers: readonly string[], text: string): void {
    if (this.begun || this.closed) return;
    this.whole(status, headers, Buffer.byteLength(text), text, 'utf8');
  }

  private whole(
    status: number,
    headers: readonly string[],
    length: number,
    body: string | readonly Buffer[],
    encoding: BufferEncoding | undefined,
  ): void {
    const none = NO_BODY.has(status);
    const all = none ? headers : [...headers, 'Content-Length', String(length)];
    const written = none || this.channel.headOnly ? '' : body;
    const { early } = this.channel;
    if (!early) {
      this.head(status, all, this.channel.last);
      this.ended = true;
      if (typeof written === 'string') {
        this.text = written;
        this.encoding = encoding;
        atEndOfTurn(this);
      } else this.put(written, encoding);
      return;
    }
    // Check the headers now, while the caller can still send another response.
    checkHeaders(all);
    this.begun = true;
    this.ended = true;
    early.send((out) => {
      if (out) this.out = out;
      this.head(status, all, out !== undefined || this.channel.last);
      this.put(written, encoding);
    });
  }

  flush(): void {
    if (this.closed) return;
    this.put(this.text, this.encoding);
    this.text = '';
  }

  private put(body: string | readonly Buffer[], encoding: BufferEncoding | undefined): void {
    const { out } = this;
    // Send the head and the body with one write.
    if (typeof body === 'string') out.end(body, encoding);
    else {
      out.cork();
      for (const part of body) if (part.length > 0) out.write(part);
      out.end();
    }
    this.watch();
  }

  /** Begins a body that is extended until `end`. */
  open(status: number, headers: readonly string[]): void {
    if (this.begun || this.closed) return;
    this.head(status, headers, this.channel.last);
    if (this.channel.headOnly) this.end();
    else this.out.flushHeaders();
  }

  write(chunk: string | readonly Buffer[]): void {
    if (!this.begun || this.ended || this.closed) return;
    const { out } = this;
    if (typeof chunk === 'string') {
      // An empty chunk would end the body.
      if (chunk === '') return;
      this.blocked = !out.write(chunk);
    } else {
      const size = lengthOf(chunk);
      if (size === 0) return;
      if (size < JOIN) this.blocked = !out.write(chunk.length === 1 ? chunk[0]! : Buffer.concat(chunk, size));
      else {
        out.cork();
        for (const part of chunk) if (part.length > 0) this.blocked = !out.write(part);
        out.uncork();
      }
    }
    this.watch();
  }

  end(): void {
    if (!this.begun || this.ended || this.closed) return;
    this.ended = true;
    this.out.end();
    this.watch();
  }

  /** Called when another protocol takes the connection over. No response is sent, and `end` ends the connection. */
  taken(end: () => void): void {
    this.begun = true;
    this.ended = true;
    this.endTaken = end;
  }

  private head(status: number, headers: readonly string[], last: boolean): void {
    if (this.channel.http2) this.out.writeHead(status, fieldsOf(headers));
    else
      this.out.writeHead(
        status,
        last && !asksToClose(headers) ? [...headers, 'Connection', 'close'] : (headers as string[]),
      );
    this.begun = true;
  }

  /** The number of bytes that wait for the client. */
  get unread(): number {
    return this.out.writableLength;
  }

  private watch(): void {
    if (this.out.writableLength > 0) this.channel.unread.waits(this);
  }

  /** Whether so many bytes wait that the writer should pause. */
  get full(): boolean {
    return this.blocked && this.out.writableLength > 0;
  }

  onDrain(listener: () => void): void {
    this.out.on('drain', listener);
  }

  offDrain(listener: () => void): void {
    this.out.off('drain', listener);
  }

  /** Calls back once when the response has ended for any reason. */
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

  /** Aborts the response: in HTTP/1.1 by closing the connection. */
  destroy(): void {
    if (this.closed) return;
    if (this.endTaken) this.endTaken();
    else this.out.destroy();
    this.over(false);
  }

  /** Called when all is written, or when no more can be written. */
  over(finished: boolean): void {
    if (this.closed) return;
    this.closed = true;
    this.finished = finished;
    this.channel.unread.gone(this);
    const { listeners } = this;
    this.listeners = undefined;
    if (listeners) for (const listener of listeners) listener();
  }
}

const asksToClose = (headers: readonly string[]): boolean => headers.includes('Connection');

function checkHeaders(headers: readonly string[]): void {
  for (let i = 0; i < headers.length; i += 2) {
    validateHeaderName(headers[i]!);
    validateHeaderValue(headers[i]!, headers[i + 1]!);
  }
}

/**
 * Header fields for HTTP/2: in lower case, each name once, without connection headers (RFC 9113 §8.2). Only cookies
 * cannot be joined into one field (RFC 9110 §5.3).
 */
function fieldsOf(headers: readonly string[]): OutgoingHttpHeaders {
  checkHeaders(headers);
  const fields: Record<string, string> = {};
  const cookies: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!.toLowerCase();
    if (name === 'connection' || name === 'upgrade') continue;
    if (name === 'set-cookie') {
      cookies.push(headers[i + 1]!);
      continue;
    }
    fields[name] = name in fields ? `${fields[name]}, ${headers[i + 1]}` : headers[i + 1]!;
  }
  return cookies.length > 0 ? { ...fields, 'set-cookie': cookies } : fields;
}
