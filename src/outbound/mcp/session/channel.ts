import type { Caller } from '../../../core/caller.js';
import type { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import type { GappedText } from '../../../protocol/jsonrpc/gapped.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';

/** A request under way, as the channel sees it. */
export interface Ticket {
  readonly done: boolean;
  /** The last event id of its reply stream: from there the stream can be resumed. */
  lastEventId: string | undefined;
  /** The server closed the reply stream to be asked again later, which the channel does. */
  polling(retry: number): void;
}

export interface ChannelEvents {
  /** A message came in; `ticket` is the request on whose own stream it came, where the transport tells. */
  message(text: Buffer | GappedText, ticket: Ticket | undefined): void;
  /** A request will not be answered on this channel. */
  lost(ticket: Ticket, error: ProtocolError | UpstreamRpcError): void;
  /** The server no longer knows the session: nothing sent on it was accepted from here on (HL-14). */
  expired(ticket: Ticket | undefined): void;
  /** The channel is gone, with everything on it. */
  closed(why: string): void;
  /** Unsolicited messages may have been missed. */
  gap(): void;
}

/** One way to carry the messages of a handshake-era session. */
export interface Channel {
  /** Whether replies carry the request they belong to; otherwise only one interactive call may be under way. */
  readonly correlates: boolean;
  /** Whether messages that belong to no request would arrive at the moment. */
  readonly hears: boolean;
  open(events: ChannelEvents): Promise<void>;
  /**
   * `taken` is called when the server has the message, or never will. Where the transport carries credentials, the message
   * carries the one of `caller`; without `caller`, the one of any caller of the session.
   */
  send(message: Buffer, ticket?: Ticket, taken?: () => void, caller?: Caller): void;
  /** A caller uses the session from here on, beside those before. */
  admit?(caller: Caller): void;
  /** Sends what must be taken before anything that follows, where the transport does not keep the order itself. */
  sendFirst?(message: Buffer): Promise<void>;
  /** The handshake is over: from here on the channel names the session and its version. */
  established(revision: Revision): void;
  /**
   * Starts to receive messages that belong to no request, where that takes a step of its own. Resolves when the server has
   * agreed or refused, and does not wait for long.
   */
  listen(): Promise<void>;
  /** Stops to receive them for so many milliseconds, and goes on with calls; absent where calls share their connection. */
  pauseListening?(milliseconds: number): void;
  /** Ends the connection because of what the server did: whoever opens it anew waits a while. */
  giveUp?(why: string): void;
  /** Nobody waits for this request any more; a server that was told so never ends its reply. */
  drop?(ticket: Ticket): void;
  /** The session as another process can speak on it, and this one without ending it. */
  readonly portable?: { readonly session: string | undefined; readonly credential: string; leave(): void };
  close(): Promise<void>;
}

export class ChannelClosed extends Error {
  override readonly name = 'ChannelClosed';
}
