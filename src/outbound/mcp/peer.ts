import type { Caller } from '../../core/caller.js';
import type { Outcome, ParkedCall } from '../../core/gateway.js';
import type { ListNews, RawRequest, ServerOutput, UpstreamCall, WatchEvent } from '../../core/upstream.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, ServerDescription, SubscriptionFilter } from '../../protocol/mcp/model.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import type { Evidence } from '../../protocol/mcp/server-version.js';

export interface OpenWatch {
  readonly honoured: SubscriptionFilter;
  close(): void;
}

/** The connection to a server in one era. */
export interface Peer {
  request(caller: Caller, call: UpstreamCall): Promise<Outcome>;
  /** With a caller, the request carries the credential of that caller. */
  describe(caller?: Caller): Promise<ServerDescription>;
  /**
   * Opens one watch. `lost` is called when the server ends the watch. With a key, the watch is refused if the
   * credential of the caller has a different key.
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

/** The link to a server: over HTTP, or to its process. */
export interface Link {
  /** Sends `server/discover` without effect on calls under way. */
  probe(revision: Revision, caller: Caller): Promise<Evidence>;
  modern(revision: Revision): Peer;
  legacy(offer: Revision): Peer;
  /**
   * Whether an open watch keeps a process running. If true, the gateway opens no watch only to keep a cache fresh. It
   * then learns of changes while other work keeps the process running.
   */
  readonly watchCosts: boolean;
  /** How often the server has answered so far. A result without an answer in between comes from this process. */
  readonly answers: number;
  /** The key of a caller's credential. Absent if all callers have the same credential. */
  credentialKey?(caller: Caller): string | Promise<string>;
  /** The credential of a caller's next request. Absent if requests carry no credential. */
  credential?(caller: Caller): Credential | Promise<Credential>;
  /**
   * Delivers list changes that arrive outside of any watch, with the capabilities of the session that received them.
   */
  overhear(deliver: (event: WatchEvent) => void): void;
  /** How the gateway learns of list changes without a watch: the server reports them, or the gateway polls. */
  listNews(era: Revision['era'], capabilities: ClientCapabilities): ListNews;
  /** See `Upstream.raw`. */
  raw?(caller: Caller, request: RawRequest): Promise<void>;
  /** Tells the link that the roots of a client changed. */
  rootsChanged?(session: string): void;
  /** A client's session ended. Closes the sessions that only this client used. */
  release?(session: string): void;
  /** `down` is true if the link knows that the server cannot be used, for example after its process ended. */
  health(): { readonly detail?: string; readonly cause?: string; readonly down?: boolean };
  /** The last output of the process. Absent if the server is not a process. */
  output?(): Omit<ServerOutput, 'replica'>;
  close(): Promise<void>;
}
