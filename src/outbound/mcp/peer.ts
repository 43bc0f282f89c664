import type { Caller } from '../../core/caller.js';
import type { Outcome, ParkedCall } from '../../core/gateway.js';
import type { ServerOutput, UpstreamCall, WatchEvent } from '../../core/upstream.js';
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { ServerDescription, SubscriptionFilter } from '../../protocol/mcp/model.js';
import type { Evidence } from '../../protocol/mcp/probe.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';

export interface OpenWatch {
  readonly honoured: SubscriptionFilter;
  close(): void;
}

/** A server as one era reaches it. */
export interface Peer {
  request(caller: Caller, call: UpstreamCall): Promise<Outcome>;
  describe(): Promise<ServerDescription>;
  /** Opens one watch; `lost` tells that it ended unasked. */
  listen(
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    lost: (why: string) => void,
  ): Promise<OpenWatch>;
  /** Whether what the server says unasked is heard at the moment, where that does not take a watch of its own. */
  readonly hears?: boolean;
  /** See `Upstream.adopt`. */
  adopt?(call: JsonValue): ParkedCall | undefined;
  close(): Promise<void>;
}

/** How a server is reached: over HTTP, or as a process. */
export interface Link {
  /** Asks `server/discover` in a way that harms nobody. */
  probe(revision: Revision): Promise<Evidence>;
  modern(revision: Revision): Peer;
  legacy(offer: Revision): Peer;
  /**
   * Where holding a watch open costs a running process: changes that are heard of while it runs anyway. A watch that
   * only keeps a cache fresh uses these and does not keep the process alive.
   */
  readonly overheard?: (deliver: (event: WatchEvent) => void) => void;
  /** Whether the server is a program that is not running because nobody uses it. */
  readonly paused?: boolean;
  /** The roots of a client changed. */
  rootsChanged?(session: string): void;
  /** A client's session is over; what was dedicated to it can go. */
  release?(session: string): void;
  /** `down` where the link knows by itself that the server is not there, such as a process that ended. */
  health(): { readonly detail?: string; readonly cause?: string; readonly down?: boolean };
  /** What its process wrote last, where it is one. */
  output?(): Omit<ServerOutput, 'replica'>;
  close(): Promise<void>;
}
