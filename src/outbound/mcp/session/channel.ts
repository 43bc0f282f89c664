import type { Caller } from '../../../core/caller.js';
import type { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import type { GappedText } from '../../../protocol/jsonrpc/gapped-message.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';

/** The part of a pending request that the channel uses. */
export interface Ticket {
  readonly done: boolean;
  /** The last event id of the reply stream. The stream can be resumed after it. */
  lastEventId: string | undefined;
  /** The server closed the reply stream for now. The channel resumes it after `retry` milliseconds. */
  polling(retry: number): void;
}

export interface ChannelEvents {
  /**
   * A message arrived. `ticket` is the request whose reply stream carried the message, if the transport has reply
   * streams.
   */
  message(text: Buffer | GappedText, ticket: Ticket | undefined): void;
  /** The channel will deliver no answer to this request. */
  lost(ticket: Ticket, error: ProtocolError | UpstreamRpcError): void;
  /** The server no longer knows the session and did not accept this request (HL-14). */
  expired(ticket: Ticket | undefined): void;
  /** The connection ended, and with it all requests under way. */
  closed(why: string): void;
  /** Unsolicited messages may have been missed. */
  gap(): void;
}

/** A transport for the messages of a legacy session. */
export interface Channel {
  /**
   * Whether each message shows the request that it belongs to. If false, only one interactive call may run at a time.
   */
  readonly correlates: boolean;
  /** Whether messages that belong to no request can arrive at the moment. */
  readonly hears: boolean;
  open(events: ChannelEvents): Promise<void>;
  /**
   * Calls `taken` when the server has accepted the message, and also when sending fails. On a transport with
   * credentials, the message carries the credential of `caller`. Without `caller`, the message carries the credential
   * of any caller of the session.
   */
  send(message: Buffer, ticket?: Ticket, taken?: () => void, caller?: Caller): void;
  /** Adds a caller to the session. */
  admit?(caller: Caller): void;
  /**
   * Sends a message and waits until the server has accepted it. Present if the transport does not keep the order of
   * messages.
   */
  sendFirst?(message: Buffer): Promise<void>;
  /** The handshake is complete: later messages carry the session id and the protocol version. */
  established(revision: Revision): void;
  /**
   * Starts receiving messages that belong to no request, if the transport has a separate stream for them. Resolves when
   * the server has accepted or refused the stream, or after a short time.
   */
  listen(): Promise<void>;
  /**
   * Stops receiving messages that belong to no request for a time. Calls continue. Absent if calls use the same
   * connection.
   */
  pauseListening?(milliseconds: number): void;
  /** Ends the connection because the server misbehaves. A new connection is opened only after a pause. */
  giveUp?(why: string): void;
  /** Closes the reply stream of a cancelled request. Servers do not end the reply to such a request. */
  drop?(ticket: Ticket): void;
  /**
   * The state with which another process can continue the session. `leave` closes the connections and keeps the session
   * open.
   */
  readonly portable?: { readonly session: string | undefined; readonly credential: string; leave(): void };
  close(): Promise<void>;
}

export class ChannelClosed extends Error {
  override readonly name = 'ChannelClosed';
}
