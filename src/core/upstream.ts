import type { JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import type { MirroredParam } from '../protocol/mcp/mirrored-headers.js';
import type {
  ClientCapabilities,
  ListKind,
  LogLevel,
  Notification,
  ServerDescription,
  SubscriptionFilter,
} from '../protocol/mcp/model.js';
import type { Caller, Cancellation } from './caller.js';
import type { BreakerHealth } from './circuit-breaker.js';
import type { Outcome, ParkedCall } from './gateway.js';
import type { TraceContext } from './trace-context.js';

/** A request to one upstream, with the upstream's own names. */
export interface UpstreamCall {
  readonly method: string;
  readonly params: RawObject;
  readonly wantsProgress: boolean;
  readonly logLevel: LogLevel | undefined;
  readonly cancellation: Cancellation;
  /**
   * How to treat a server that can answer with a task: forbid the task (`none`), return the task to the caller
   * (`relay`), or follow the task to its end (`follow`). If the request has the `task` parameter, the gateway always
   * follows the task.
   */
  readonly tasks: 'none' | 'relay' | 'follow';
  /** The time limits of this call, if they differ from those of its server. */
  readonly timeouts?: { readonly call: number; readonly callMax: number };
  /**
   * URL elicitations that must complete before the call. The call waits a limited time for their completion
   * notifications.
   */
  readonly after?: readonly string[];
  /** The arguments of this tool that are repeated in headers. */
  readonly mirrored: readonly MirroredParam[];
  /** The trace context of the request; absent if `_meta` contains it or the call is not traced. */
  readonly trace?: TraceContext | undefined;
  notify(notification: Notification): void;
  /** Throws if the call may no longer run. Called right before the call is written to a process. */
  permit?(): void;
  /**
   * Called when the server closed its stream and expects a reconnect after `retry` milliseconds. The client's stream
   * may close too if the client can resume.
   */
  polling?(retry: number): void;
}

export type WatchEvent =
  | {
      readonly kind: ListKind;
      /** Set if the watch was interrupted and the list may have changed unnoticed. */
      readonly lapsed?: true;
      /**
       * The client capabilities of the session that reported the change; undefined if the change concerns the lists of
       * all sessions.
       */
      readonly for?: ClientCapabilities;
    }
  | { readonly kind: 'resourceUpdated'; readonly uri: string }
  | { readonly kind: 'task'; readonly params: Notification['params'] };

/**
 * How the gateway learns that a list changed: the server notifies (`pushed`), the gateway polls (`polled`), or neither,
 * because the server is a process that is stopped while it is idle (`paused`).
 */
export type ListNews = 'pushed' | 'polled' | 'paused';

export interface Watch {
  /** The part of the filter that the upstream confirmed. */
  readonly honoured: SubscriptionFilter;
  close(): void;
}

/** `login_required`: the server answers only callers that signed in at it, and none has used it yet. */
export type UpstreamStatus = 'unknown' | 'up' | 'down' | 'login_required';

export interface UpstreamHealth {
  readonly status: UpstreamStatus;
  /** The revisions that the server speaks, as far as the gateway found out. */
  readonly speaks: readonly string[];
  /** The problem, in a text that callers may read. */
  readonly detail?: string;
  /** The problem, in a text for operators only: it contains commands, paths and the server's own output. */
  readonly cause?: string;
  /** Present while calls are refused because the server could not be reached. */
  readonly breaker?: BreakerHealth;
  /** The last probe: milliseconds since 1970, and its duration in milliseconds. */
  readonly probed?: { readonly at: number; readonly took: number };
  /** A problem of a server that is up, in a text that callers may read. */
  readonly warning?: string;
  /** The equivalent servers behind this upstream, for operators only. */
  readonly replicas?: readonly ReplicaHealth[];
}

/** The state of one of several equivalent servers. */
export interface ReplicaHealth {
  /** The position of the replica in the configuration, from 1. */
  readonly position: number;
  /** The URL of the replica without secrets. */
  readonly url: string;
  readonly status: UpstreamStatus;
  readonly detail?: string;
  /** Present while the replica gets no calls because it failed. */
  readonly breaker?: BreakerHealth;
  readonly inFlight: number;
  /** Calls and failures since the start of the process. */
  readonly calls: number;
  readonly failures: number;
  /** The expected reward of a call, from 0 to 1; absent until known. */
  readonly expected?: number;
  /** How the tools of the replica differ from those that the gateway lists; absent if they do not. */
  readonly differs?: string;
}

/**
 * One line that a server's process wrote to stderr, or to stdout if the line is not a message. Lines of `process`
 * report the start and the end of the process.
 */
export interface OutputLine {
  /** The time of the line, in milliseconds since 1970. */
  readonly at: number;
  readonly pid: number;
  readonly stream: 'stderr' | 'stdout' | 'process';
  readonly text: string;
}

/**
 * The output of a server that is a process. For operators only: the output may contain anything that the server logs.
 */
export interface ServerOutput {
  /** The replica that runs the process. */
  readonly replica: string;
  readonly state: string;
  readonly problem?: string;
  readonly lines: readonly OutputLine[];
}

/** One HTTP request to a server with a URL, which the gateway passes on without reading its content. */
export interface RawRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** A path below the URL of the server, without a leading slash; empty for the URL itself. */
  readonly path: string;
  /** The query, without its question mark. */
  readonly query: string;
  /** Headers as flat pairs, without a credential. */
  readonly headers: readonly string[];
  readonly body: Buffer | undefined;
  readonly cancellation: Cancellation;
  /** Called when the reply begins. */
  start(status: number, headers: readonly string[], flow: ReplyFlow): void;
  data(chunk: Buffer): void;
}

/** Stops and continues the reading of a reply, for readers that are slower than the server. */
export interface ReplyFlow {
  pause(): void;
  resume(): void;
}

/** One configured server of any revision. */
export interface Upstream {
  readonly name: string;
  /**
   * Whether each caller has its own account at the server. The gateway then has no credential of its own: it reads
   * descriptions and lists with the credential of each caller, and for that caller only (S27).
   */
  readonly personal?: boolean;
  /** The server's description of itself, for one caller of a personal server; read once per connection. */
  describe(caller?: Caller): Promise<ServerDescription>;
  /** Sends a request. The caller's capabilities decide which list a server returns. */
  request(caller: Caller, call: UpstreamCall): Promise<Outcome>;
  /** Releases the resources behind a server's `requestState`, because the client will not answer its question. */
  abandon?(caller: Caller, state: string): void;
  /**
   * Watches for changes, for a caller or for the gateway itself. Resolves once the watch is live. Closing one of
   * several watches does not affect the others.
   */
  watch(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void, caller?: Caller): Promise<Watch>;
  /**
   * Watches for changed lists to keep a cache fresh. Keeps no connection or process alive for the watch. Never fails.
   */
  keepWatching(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<unknown>;
  /** How the gateway learns of changes of the list that the server returns for these client capabilities. */
  listNews(kind: ListKind, capabilities: ClientCapabilities): ListNews;
  /** Continues a call that another process parked, from the data of `ParkedCall.portable`. */
  adopt?(call: JsonValue, caller: Caller): ParkedCall | undefined;
  /** Called when the roots of the client with this session changed. */
  rootsChanged(session: string): void;
  /** Called when the client with this session is gone. */
  release(session: string): void;
  health(): UpstreamHealth;
  /**
   * Passes an HTTP request on, with the credential of the caller. Resolves when the reply is complete. Absent if the
   * server has no URL.
   */
  raw?(caller: Caller, request: RawRequest): Promise<void>;
  /**
   * Finds out whether the server answers, without a session and without the credential of a user. Never fails; `health`
   * has the result. Absent or without effect if the state is known by other means, as for a process. `interval` is the
   * time between two checks in milliseconds: a server that answered within it need not be asked.
   */
  checkHealth?: ((interval?: number) => Promise<void>) | undefined;
  /** The latest output of the server's process; undefined if the server is not a process. */
  output?(): Promise<ServerOutput> | undefined;
  /** The revision of requests for this caller, if known. */
  revisionFor?(caller: Caller): string | undefined;
  close(): Promise<void>;
}
