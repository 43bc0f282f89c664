import type { JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import type { MirroredParam } from '../protocol/mcp/headers.js';
import type {
  ClientCapabilities,
  ListKind,
  LogLevel,
  Notification,
  ServerDescription,
  SubscriptionFilter,
} from '../protocol/mcp/model.js';
import type { Caller, Cancellation } from './caller.js';
import type { Outcome, ParkedCall } from './gateway.js';

/** A request to one upstream, under the names the upstream gave. */
export interface UpstreamCall {
  readonly method: string;
  readonly params: RawObject;
  readonly wantsProgress: boolean;
  readonly logLevel: LogLevel | undefined;
  readonly cancellation: Cancellation;
  /**
   * What to do where the server can answer with a task: not let it, hand the task on, or follow it to its end. A server
   * of 2025-11-25 is asked for a task by the `task` parameter, and such a task is always followed.
   */
  readonly tasks: 'none' | 'relay' | 'follow';
  /** The times of this call, where they are not those of its server. */
  readonly timeouts?: { readonly call: number; readonly callMax: number };
  /** Elicitations the server asked to finish first: the call waits a while for word that they are. */
  readonly after?: readonly string[];
  /** Arguments this tool wants repeated in headers. */
  readonly mirrored: readonly MirroredParam[];
  notify(notification: Notification): void;
  /** Throws where the call may no longer be run; asked right before a process is given the call. */
  permit?(): void;
  /** The server closed its reply to be asked again; a client that knows such replies may be let go meanwhile. */
  polling?(retry: number): void;
}

export type WatchEvent =
  | {
      readonly kind: ListKind;
      /** Nothing is known to have changed, but a change may have gone unnoticed. */
      readonly lapsed?: true;
      /** The client capabilities of the session it was heard on; undefined where lists of all sessions are meant. */
      readonly for?: ClientCapabilities;
    }
  | { readonly kind: 'resourceUpdated'; readonly uri: string }
  | { readonly kind: 'task'; readonly params: Notification['params'] };

/**
 * How the gateway learns that a list changed: the server announces it, the gateway has to ask, or neither, because the
 * server is a program that is stopped while nobody uses it.
 */
export type ListNews = 'pushed' | 'polled' | 'paused';

export interface Watch {
  /** The part of the filter the upstream confirmed. */
  readonly honoured: SubscriptionFilter;
  close(): void;
}

export type UpstreamStatus = 'unknown' | 'up' | 'down';

export interface UpstreamHealth {
  readonly status: UpstreamStatus;
  /** The revisions it was found to speak. */
  readonly speaks: readonly string[];
  /** What is wrong, in words that callers may read. */
  readonly detail?: string;
  /** What is wrong, for operators only: it names commands and paths, and quotes what the server wrote. */
  readonly cause?: string;
}

/** One line that a process of a server wrote to stderr or, where it is no message, to stdout; or, of `process`, a line of its life. */
export interface OutputLine {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly pid: number;
  readonly stream: 'stderr' | 'stdout' | 'process';
  readonly text: string;
}

/** The output of a server that is a process, for operators: it may hold whatever the server logs. */
export interface ServerOutput {
  /** The replica that runs the process; the gateway itself where it is alone. */
  readonly replica: string;
  readonly state: string;
  readonly problem?: string;
  readonly lines: readonly OutputLine[];
}

/** One configured server, whatever it speaks. */
export interface Upstream {
  readonly name: string;
  /** What the server says of itself; asked once and remembered while the connection lasts. */
  describe(): Promise<ServerDescription>;
  /** A list is that for clients with the caller's capabilities. */
  request(caller: Caller, call: UpstreamCall): Promise<Outcome>;
  /** Gives up what the server's own state stands for: the question it came with is not going to be answered. */
  abandon?(caller: Caller, state: string): void;
  /** Watches for changes, for a caller or for the gateway itself. Resolves once the watch is live; one of two watchers leaving never silences the other. */
  watch(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void, caller?: Caller): Promise<Watch>;
  /** Hears of changed lists to keep a cache fresh, without keeping anything alive for it. Never fails. */
  keepWatching(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<unknown>;
  /** How changes of a list become known at the moment, where it was asked for with these client capabilities. */
  listNews(kind: ListKind, capabilities: ClientCapabilities): ListNews;
  /** Goes on with a call that another process parked, from what `ParkedCall.portable` gave. */
  adopt?(call: JsonValue, caller: Caller): ParkedCall | undefined;
  /** The roots of the client with this session changed. */
  rootsChanged(session: string): void;
  /** The client whose session this was is gone. */
  release(session: string): void;
  health(): UpstreamHealth;
  /** What its process wrote last; undefined where the server is not a process. */
  output?(): Promise<ServerOutput> | undefined;
  /** The revision in which requests of this caller are sent, where it is known. */
  revisionFor?(caller: Caller): string | undefined;
  close(): Promise<void>;
}
