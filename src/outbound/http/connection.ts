import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { atEndOfTurn } from '../../core/turn.js';
import { ChunkedBody } from '../../protocol/http/chunked.js';
import { CHUNKED, HEAD_END, HttpSyntaxError } from '../../protocol/http/fields.js';
import { type Abortable, HttpError, type HttpReply } from './exchange.js';
import { checkHeadBegun, HEAD_LIMIT, type Head, readHead, TO_THE_END } from './head.js';

/** A small request leaves in one piece with its head. */
const ONE_PIECE = 16 * 1024;
/** All connections read into this: what it holds is taken out before any of them reads again. */
const INBOX = Buffer.allocUnsafeSlow(64 * 1024);

/** One request and its reply, whichever connection it gets. */
export class Exchange implements Abortable {
  connection: Connection | undefined;
  sent = false;
  held = false;
  over = false;

  constructor(
    readonly head: string,
    readonly body: Buffer | undefined,
    readonly reply: HttpReply,
  ) {}

  abort(): void {
    if (this.over) return;
    this.over = true;
    this.connection?.destroy();
  }

  pause(): void {
    if (this.over || this.held) return;
    this.held = true;
    // A connection that is still being made has to read, for the sake of TLS.
    if (this.sent) this.connection?.pause();
  }

  resume(): void {
    if (!this.held) return;
    this.held = false;
    if (this.sent && !this.over) this.connection?.resume();
  }

  /** The reply is complete. */
  end(): void {
    this.connection = undefined;
    if (this.over) return;
    this.over = true;
    try {
      this.reply.end();
    } catch (error) {
      this.reply.fail({ sent: true, error: error as Error });
    }
  }

  fail(error: Error): void {
    this.connection = undefined;
    if (this.over) return;
    this.over = true;
    this.reply.fail({ sent: this.sent, error });
  }
}

export interface ConnectionEvents {
  /** It can take another request for so many milliseconds. */
  free(connection: Connection, keep: number): void;
  closed(connection: Connection): void;
}

/** How a socket hands over what it reads, to be given to it when it is made. */
export interface Reading {
  readonly buffer: () => Buffer;
  readonly callback: (count: number, buffer: Uint8Array) => boolean;
}

/** A connection to a server, with one exchange at a time. */
export class Connection {
  private readonly socket: Socket;
  private readonly encrypted: boolean;
  private exchange: Exchange | undefined;
  /** Undefined until the head of the reply has come. */
  private head: Head | undefined;
  private left = 0;
  private chunks: ChunkedBody | undefined;
  /** Where the rest of the body goes, if whoever wants it gave us the room. */
  private place: Buffer | undefined;
  /** What was read but cannot be taken yet: half a head, or what came while the reply was held up. */
  private kept: Buffer | undefined;
  /** Whether the last read took all there was. Of TLS it cannot be told: each record that came is a read of its own. */
  private drained = true;
  private ended = false;
  /** When it may no longer be used, while it is free. */
  until = 0;

  constructor(
    first: Exchange,
    private readonly events: ConnectionEvents,
    open: (reading: Reading, ready: () => void) => Socket,
    connectTimeout: number,
  ) {
    this.exchange = first;
    first.connection = this;
    const reading: Reading = {
      buffer: () => this.place ?? INBOX,
      callback: (count, buffer) => {
        this.drained = !this.encrypted && count < buffer.length;
        this.take(buffer as Buffer, 0, count);
        return true;
      },
    };
    this.socket = open(reading, () => {
      clearTimeout(timer);
      if (this.exchange) this.send(this.exchange);
    });
    this.encrypted = this.socket instanceof TLSSocket;
    const timer = setTimeout(
      () => this.destroy(new HttpError('ETIMEDOUT', 'no connection within the time for one')),
      connectTimeout,
    );
    this.socket.on('error', (error) => this.destroy(error));
    this.socket.on('end', () => {
      this.ended = true;
      // A reset that comes with the last bytes is told as an end. Only after a real one there still is another side.
      if (this.socket.remoteAddress === undefined) this.destroy();
      else if (!this.exchange?.held) this.conclude();
    });
    this.socket.on('close', () => {
      clearTimeout(timer);
      // All of the reply may have come, and wait to be taken.
      if (!this.ended || !this.exchange?.held) this.destroy();
    });
  }

  /** Begins another exchange on a free connection. */
  begin(exchange: Exchange): void {
    this.exchange = exchange;
    exchange.connection = this;
    this.send(exchange);
  }

  destroy(error?: Error): void {
    const { exchange } = this;
    this.exchange = undefined;
    // At once: nobody may be given what is about to go.
    this.events.closed(this);
    this.socket.destroy();
    exchange?.fail(error ?? new HttpError('ECONNRESET', 'the connection ended before the reply did'));
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    const { kept } = this;
    this.kept = undefined;
    // First, because the reply may end here, and the next one must not find the socket held up.
    this.socket.resume();
    this.drained = false;
    if (kept) this.take(kept, 0, kept.length);
    if (this.ended && this.exchange && !this.exchange.held) this.conclude();
  }

  private send(exchange: Exchange): void {
    atEndOfTurn(() => {
      if (this.exchange === exchange) this.write(exchange);
    });
  }

  private write(exchange: Exchange): void {
    exchange.sent = true;
    const { head, body } = exchange;
    if (!body) this.socket.write(head, 'latin1');
    else if (body.length <= ONE_PIECE) this.socket.write(head + body.toString('latin1'), 'latin1');
    else {
      this.socket.cork();
      this.socket.write(head, 'latin1');
      this.socket.write(body);
      this.socket.uncork();
    }
    if (exchange.held) this.socket.pause();
  }

  /** Takes what was read. The memory is not ours to keep. */
  private take(source: Buffer, from: number, end: number): void {
    const { exchange } = this;
    let at = from;
    try {
      if (source === this.place) {
        this.placed(end);
        return;
      }
      while (at < end) {
        // Nobody asked for this: whoever asks next must not get it.
        if (!this.exchange?.sent) {
          this.destroy();
          return;
        }
        if (this.exchange.held) {
          this.keep(source, at, end);
          return;
        }
        at = this.head ? this.takeBody(source, at, end) : this.takeHead(source, at, end);
      }
    } catch (error) {
      // Where the exchange is over there is nobody left to be told.
      if (!exchange || exchange !== this.exchange) throw error;
      this.destroy(error as Error);
    }
  }

  private keep(source: Buffer, from: number, end: number): void {
    const more = source.subarray(from, end);
    this.kept = Buffer.concat(this.kept ? [this.kept, more] : [more]);
  }

  private takeHead(given: Buffer, from: number, to: number): number {
    const seen = this.kept?.length ?? 0;
    let source = given;
    let at = from;
    let end = to;
    if (this.kept) {
      this.keep(given, from, to);
      source = this.kept;
      at = 0;
      end = source.length;
    }
    // A line end that was cut in two begins before what is new.
    const headEnd = source.indexOf(HEAD_END, at + Math.max(0, seen - HEAD_END.length));
    const whole = headEnd >= 0 && headEnd + HEAD_END.length <= end;
    if ((whole ? headEnd : end) - at > HEAD_LIMIT) throw new HttpSyntaxError('the head of the reply is too long');
    if (!whole) {
      checkHeadBegun(source, at, end, seen);
      if (source === given) this.keep(given, from, to);
      return to;
    }
    this.kept = undefined;
    const head = readHead(source.toString('latin1', at, headEnd));
    const body = to - (end - headEnd - HEAD_END.length);
    if (head.status === 101) throw new HttpSyntaxError('the reply changes the protocol, which was not asked for');
    // What goes before the reply is of no use here.
    if (head.status < 200) return body;
    this.begun(head, to - body);
    return body;
  }

  private begun(head: Head, had: number): void {
    this.head = head;
    this.exchange!.reply.start(head.status, head.headers);
    if (head.length === 0) this.finish(had === 0);
    else if (head.length === CHUNKED) this.chunks = new ChunkedBody();
    else if (head.length > 0) this.left = head.length;
  }

  private takeBody(source: Buffer, at: number, end: number): number {
    const { chunks, head } = this;
    if (chunks) {
      const stopped = chunks.read(source, at, end);
      if (chunks.from < stopped) this.hand(source, chunks.from, stopped);
      else if (chunks.over) this.finish(stopped === end);
      return stopped;
    }
    if (head!.length === TO_THE_END) {
      this.hand(source, at, end);
      return end;
    }
    const to = Math.min(end, at + this.left);
    const count = to - at;
    if (count < this.left && this.left === head!.length) this.place = this.exchange!.reply.room?.(this.left);
    if (this.place) {
      source.copy(this.place, 0, at, to);
      this.placed(count, to === end);
      return to;
    }
    this.left -= count;
    this.hand(source, at, to);
    if (this.left === 0) this.finish(to === end);
    return to;
  }

  /** So many bytes more of the body stand in their place. */
  private placed(count: number, clean = true): void {
    const part = this.place!.subarray(0, count);
    this.left -= count;
    this.place = this.left > 0 ? this.place!.subarray(count) : undefined;
    this.exchange?.reply.data(part);
    if (this.left === 0) this.finish(clean);
  }

  private hand(source: Buffer, from: number, to: number): void {
    const part = Buffer.allocUnsafe(to - from);
    source.copy(part, 0, from, to);
    this.exchange?.reply.data(part);
  }

  /** The reply is complete; `clean` says that nothing came behind it. */
  private finish(clean: boolean): void {
    const { exchange, socket } = this;
    // Aborted at its last byte.
    if (!exchange) return;
    const { keep } = this.head!;
    this.exchange = undefined;
    this.head = undefined;
    this.chunks = undefined;
    this.left = 0;
    // It was held up at its last byte; the next reply is not.
    if (exchange.held) socket.resume();
    if (!clean || keep === 0 || this.ended) this.destroy();
    else if (this.drained && socket.writableLength === 0) this.events.free(this, keep);
    else this.freeOnceSettled(keep);
    exchange.end();
  }

  /**
   * More may lie behind the reply than was read: if so it comes now, and must not be taken for the next reply. And TLS
   * says a little late that all was written; what is not by then is a request that was answered too early.
   */
  private freeOnceSettled(keep: number): void {
    const settled = (): void => {
      if (this.socket.destroyed) return;
      if (this.socket.writableLength > 0) this.destroy();
      else this.events.free(this, keep);
    };
    // Twice: the first may come before the loop has looked at a socket that was held up until now.
    setImmediate(() => setImmediate(settled));
  }

  /** The server sends no more, and what it sent was taken. */
  private conclude(): void {
    if (this.head?.length === TO_THE_END) this.finish(true);
    else this.destroy();
  }
}
