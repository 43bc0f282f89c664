import type { Caller } from '../../core/caller.js';
import type { Outcome, ParkedCall } from '../../core/gateway.js';
import type { ListNews, ServerOutput, UpstreamCall, WatchEvent } from '../../core/upstream.js';
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, ServerDescription, SubscriptionFilter } from '../../protocol/mcp/model.js';
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
  /**
   * Opens one watch; `lost` tells that it ended unasked. Where a key is given, the watch is refused if the credential of
   * the caller has another one by now.
   */
  listen(
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    lost: (why: string) => void,
    caller: Caller,
    key?: string,
  ): Promise<OpenWatch>;
  /** See `Upstream.adopt`. */
  adopt?(call: JsonValue, caller: Caller): ParkedCall | undefined;
  close(): Promise<void>;
}

/** How a server is reached: over HTTP, or as a process. */
export interface Link {
  /** Asks `server/discover` in a way that harms nobody. */
  probe(revision: Revision): Promise<Evidence>;
  modern(revision: Revision): Peer;
  legacy(offer: Revision): Peer;
  /**
   * Whether holding a watch open costs a running process. A watch that only keeps a cache fresh is not opened then: what
   * is overheard while the process runs anyway has to do.
   */
  readonly watchCosts: boolean;
  /** The key of the credential of a caller's requests; the same for all where it is left out. */
  credentialKey?(caller: Caller): string | Promise<string>;
  /** Tells of changed lists that are heard of beside any watch, with the capabilities of the session they are heard on. */
  overhear(deliver: (event: WatchEvent) => void): void;
  /** How changes of lists become known beside any watch. */
  listNews(era: Revision['era'], capabilities: ClientCapabilities): ListNews;
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
