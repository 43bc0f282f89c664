import type { WatchEvent } from '../../../core/upstream.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, InputRequest, Notification } from '../../../protocol/mcp/model.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';
import type { UpstreamContext } from '../context.js';
import type { Channel } from './channel.js';

/** What a session tells those who opened it. */
export interface SessionEvents {
  /** Something changed at the server. */
  changed(event: WatchEvent): void;
  /** Changes may have been missed. */
  gap(): void;
  /** The session is over; a new one has to be opened. */
  ended(why: string): void;
  /** The server asks something that belongs to no call. Answered only where the session serves one client alone. */
  unsolicited?(request: InputRequest): Promise<JsonObject>;
  /** The server logs something that belongs to no call. */
  logged?(notification: Notification): void;
  /** What a client was asked to open is over. */
  completed?(elicitationId: string): void;
}

/** What a session is opened with. */
export interface SessionOptions {
  readonly context: UpstreamContext;
  readonly channel: Channel;
  /** What is declared at the handshake, in the modern vocabulary. */
  readonly capabilities: ClientCapabilities;
  readonly offer: Revision;
  /** How long the handshake may take, where that is not as long as a call. */
  readonly handshakeTime?: number;
  /** Whether messages that belong to no request are wanted. */
  readonly listen: boolean;
  readonly events: SessionEvents;
}
