import type { WebSocket } from 'ws';
import type { Principal } from '../../../core/caller.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { lengthOf } from '../../../protocol/jsonrpc/json-pieces.js';
import type { ResponseReader, UnreadBytes } from '../../http/unread-bytes.js';
import { DuplexClient, type DuplexClientOptions } from '../duplex-client.js';

/** Status codes of a closed WebSocket (RFC 6455 §7.4.1, and the registry of IANA for 1013). */
export const CLOSE = { goingAway: 1001, policy: 1008, tryAgainLater: 1013 } as const;

/** The maximum number of unread bytes for one client; beyond it the connection is closed (fault 13). */
const MOST_UNREAD = 1024 * 1024;
/** While more bytes wait for the client, its messages are not read. */
const PAUSE_ABOVE = 256 * 1024;
/**
 * Milliseconds between two checks whether a paused client has read its answers, so that its messages are read again.
 */
const RESUME_EVERY = 50;
/** Milliseconds for a client to answer a close, before its connection is cut. */
const CLOSE_TIME = 2_000;

export interface WebSocketConnectionOptions extends Omit<DuplexClientOptions, 'write' | 'ended'> {
  /** Milliseconds between two pings. A client that has not answered the previous ping is disconnected. */
  readonly ping: number;
  readonly unread: UnreadBytes;
  /** The caller of the next message, whose credential may have been revoked since the connection was opened. */
  authenticate(): Principal | Promise<Principal>;
}

/**
 * One client over a WebSocket: each text frame is one message of JSON-RPC, or a batch. The connection ends with its
 * session, after an unanswered ping, with too many unread bytes, when its credential is revoked, and when the gateway
 * stops.
 */
export class WebSocketConnection implements ResponseReader {
  private readonly client: DuplexClient;
  private readonly pinging: NodeJS.Timeout;
  private resuming: NodeJS.Timeout | undefined;
  private answered = true;
  /** Messages that arrived while the caller of an earlier message is authenticated. */
  private readonly waiting: Buffer[] = [];
  private authenticating = false;
  private leaving = false;
  /** One message may be larger than the limit of unread bytes; it is sent if no other bytes wait. */
  private allowance = 0;

  constructor(
    private readonly socket: WebSocket,
    private readonly options: WebSocketConnectionOptions,
  ) {
    this.client = new DuplexClient({
      ...options,
      write: (message) => this.write(message),
      ended: () => this.end(CLOSE.goingAway, 'The session ended'),
    });
    this.pinging = setInterval(() => this.ping(), options.ping).unref();
    socket.on('pong', () => {
      this.answered = true;
    });
    // After an error the library closes the connection and reports the close, so nothing is left to do.
    socket.on('error', () => {});
    socket.on('message', (data, binary) => this.received(data as Buffer, binary));
    socket.on('close', () => this.closed());
  }

  /** Whether a call runs. */
  get busy(): boolean {
    return this.client.busy > 0;
  }

  get unread(): number {
    return this.socket.bufferedAmount;
  }

  /** Closes the connection with a reason for the client. */
  end(code: number, reason: string): void {
    this.socket.close(code, reason);
    setTimeout(() => this.socket.terminate(), CLOSE_TIME).unref();
  }

  /**
   * Called when the gateway is about to stop. The client moves to another replica as soon as none of its calls runs.
   */
  leave(): void {
    this.leaving = true;
    if (!this.busy) this.stop();
  }

  /** Closes the connection, and tells the client which calls end without an answer. */
  stop(): void {
    this.client.end();
    this.end(CLOSE.goingAway, 'The gateway is stopping');
  }

  destroy(): void {
    this.socket.terminate();
  }

  private closed(): void {
    clearInterval(this.pinging);
    clearTimeout(this.resuming);
    this.options.unread.gone(this);
    this.waiting.length = 0;
    this.client.close();
  }

  private ping(): void {
    if (!this.answered) {
      this.socket.terminate();
      return;
    }
    this.answered = false;
    this.socket.ping();
  }

  private received(data: Buffer, binary: boolean): void {
    if (this.socket.readyState !== this.socket.OPEN) return;
    if (binary)
      this.client.refuse(new ProtocolError('invalid_request', 'A message must be a text frame, not a binary one'));
    else if (this.authenticating || this.waiting.length > 0) this.waiting.push(data);
    else this.message(data);
  }

  /** Handles messages in their order, even if the authentication of a message has to wait for the database. */
  private message(data: Buffer): void {
    void this.client
      .receive(data, () => this.principal())
      .then(() => {
        if (this.leaving && !this.busy) this.stop();
      });
  }

  private principal(): Principal | Promise<Principal> {
    const given = this.options.authenticate();
    if (!(given instanceof Promise)) return given;
    this.authenticating = true;
    this.socket.pause();
    return given.finally(() => this.authenticated());
  }

  private authenticated(): void {
    this.authenticating = false;
    if (this.resuming === undefined) this.socket.resume();
    // The first message is handled before this queue, because its promise was resolved earlier.
    setImmediate(() => {
      while (!this.authenticating && this.waiting.length > 0) this.message(this.waiting.shift()!);
    });
  }

  private write(message: readonly Buffer[]): void {
    const { socket } = this;
    if (socket.readyState !== socket.OPEN) return;
    const size = lengthOf(message);
    this.allowance = Math.max(this.allowance, size);
    socket.send(message.length === 1 ? message[0]! : Buffer.concat(message, size), { binary: false });
    const unread = socket.bufferedAmount;
    if (unread === 0) return;
    if (unread > MOST_UNREAD + this.allowance) {
      socket.terminate();
      return;
    }
    this.options.unread.waits(this);
    if (unread > PAUSE_ABOVE && this.resuming === undefined) this.pause();
  }

  /** A client that does not read its answers cannot send further calls. */
  private pause(): void {
    this.socket.pause();
    const look = (): void => {
      this.resuming = undefined;
      if (this.socket.bufferedAmount > PAUSE_ABOVE) this.pause();
      else if (!this.authenticating) this.socket.resume();
    };
    this.resuming = setTimeout(look, RESUME_EVERY).unref();
  }
}
