import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { UnreadBytes } from './unread-bytes.js';

/** A connection that a client and a route take over for another protocol. */
export interface TakenConnection {
  readonly message: IncomingMessage;
  readonly socket: Socket;
  /** Bytes that arrived after the head of the request. */
  readonly head: Buffer;
  /** Limits the bytes that wait for clients, together with the waiting bytes of responses. */
  readonly unread: UnreadBytes;
}

/** The part of the gateway that serves a connection after it was taken over. */
export interface ConnectionTaker {
  /** Whether the client only waits for messages, so that nothing is lost if it connects again. */
  readonly listens: boolean;
  /** Called when the credential of the caller is no longer valid. */
  end(): void;
}

/** The request for another protocol, as its route sees it. */
export interface Upgrade {
  /** See `ConnectionTaker.listens`. */
  readonly listens: boolean;
  /** Takes the connection over. Afterwards no response can be sent. */
  take(taker: ConnectionTaker): TakenConnection;
}
