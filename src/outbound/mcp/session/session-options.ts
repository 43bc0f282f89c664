import type { WatchEvent } from '../../../core/upstream.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, InputRequest, Notification } from '../../../protocol/mcp/model.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';
import type { UpstreamContext } from '../upstream-context.js';
import type { Channel } from './channel.js';

/** Events of a session for the code that opened it. */
export interface SessionEvents {
  /** A list or a resource changed at the server. */
  changed(event: WatchEvent): void;
  /** Changes may have been missed. */
  gap(): void;
  /** The session ended. A new one must be opened. */
  ended(why: string): void;
  /** The server sent a question that belongs to no call. Present only if the session serves a single client. */
  unsolicited?(request: InputRequest): Promise<JsonObject>;
  /** The server sent a log message that belongs to no call. */
  logged?(notification: Notification): void;
  /** An elicitation in URL mode is complete. */
  completed?(elicitationId: string): void;
}

export interface SessionOptions {
  readonly context: UpstreamContext;
  readonly channel: Channel;
  /** Client capabilities to declare at the handshake, in the modern form. */
  readonly capabilities: ClientCapabilities;
  readonly offer: Revision;
  /** Time limit of the handshake, if it differs from that of a call. */
  readonly handshakeTime?: number;
  /** Whether to receive messages that belong to no request. */
  readonly listen: boolean;
  readonly events: SessionEvents;
}
