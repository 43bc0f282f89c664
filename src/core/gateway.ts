import type { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import type { Id } from '../protocol/jsonrpc/message.js';
import type { JsonObject, JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import type {
  InputRequests,
  InputResponses,
  LogLevel,
  Notification,
  ServerCapabilities,
  SubscriptionFilter,
} from '../protocol/mcp/model.js';
import { type Caller, Cancellation } from './caller.js';
import type { CallState } from './era-bridge/call-state.js';
import type { TraceContext } from './trace-context.js';
import type { View } from './view.js';

export { ALL_SERVERS, oneServer, View } from './view.js';

/** One request in the newest revision's form. Its names are those of the caller's view. */
export interface Call {
  /** The id that log lines and errors of this request share; the inbound adapter sets it. */
  readonly requestId?: string;
  /** The network address of the client, for the audit trail; undefined if the client has none. */
  readonly address?: string | undefined;
  /** The id of the client's message, for the log; absent if the message has none. */
  readonly id?: Id;
  readonly method: string;
  readonly params: RawObject;
  readonly view: View;
  readonly wantsProgress: boolean;
  readonly logLevel: LogLevel | undefined;
  readonly cancellation: Cancellation;
  /** The time at which the client stops waiting, by `performance.now()`, if its transport says so. */
  readonly deadline?: number;
  /** Set if the caller asks for a task; `ttl` is the requested lifetime, if any. */
  readonly task?: { readonly ttl: number | undefined };
  /** The state of an earlier outcome whose questions this request answers. The params contain the answers. */
  readonly state?: CallState | undefined;
  /** Returns all items of a list at once. The gateway sets this for its own requests, which need no cursors. */
  readonly whole?: true;
  /**
   * Set if a message to a tool agent caused this call. The call limits have already counted that message for the
   * caller.
   */
  readonly nested?: true;
  /**
   * The trace context for the server, if the gateway traces the call. Otherwise the client's trace context passes
   * unchanged.
   */
  trace?: TraceContext | undefined;
  /** Reads an HTTP header of the request, if it came over HTTP: arguments may be mirrored in headers. */
  readonly header: ((name: string) => string | undefined) | undefined;
  /** Takes a notification that belongs to this request: `notifications/progress` or `notifications/message`. */
  notify(notification: Notification): void;
  /**
   * Called when the server closed its stream and expects a reconnect after `retry` milliseconds. The client's stream
   * may close too if the client can resume.
   */
  polling?(retry: number): void;
  /** Applied to the result of a call that became a task, because the task ends after the interceptors have returned. */
  finished?(outcome: Outcome): Promise<Outcome>;
}

/** A request without progress, log messages or a task. */
export const plainCall = (
  method: string,
  params: RawObject,
  view: View,
  more: Partial<Pick<Call, 'requestId' | 'address' | 'id' | 'cancellation' | 'header'>> = {},
): Call => ({
  method,
  params,
  view,
  wantsProgress: false,
  logLevel: undefined,
  cancellation: more.cancellation ?? new Cancellation(),
  header: more.header,
  notify: () => {},
  address: more.address,
  ...(more.requestId !== undefined && { requestId: more.requestId }),
  ...(more.id !== undefined && { id: more.id }),
});

/** A call that waits for answers from its caller. The answers resume it; it is never sent again. */
export interface ParkedCall {
  /**
   * Answers the open questions; a question without an answer stays open. Resolves with the next outcome of the call.
   */
  resume(call: Pick<Call, 'notify' | 'cancellation'>, answers: InputResponses): Promise<Outcome>;
  /** Settles when the call is over, whether it succeeded or failed. */
  readonly over: Promise<void>;
  /** Answers the open questions as cancelled, and cancels the call at the server. */
  abandon(reason: string): void;
  /**
   * The data with which another process can continue the call; undefined if only this process can. The caller may then
   * store the call.
   */
  portable?(): JsonValue | undefined;
}

export type Outcome =
  | { readonly kind: 'complete'; readonly result: RawObject }
  | {
      readonly kind: 'input_required';
      readonly inputRequests: InputRequests | undefined;
      /** The server's own `requestState`, to be returned to it. */
      readonly requestState?: string | undefined;
      /**
       * The state with which the call continues after the answers. An inbound adapter seals it before a client gets it.
       */
      readonly state?: CallState;
      /** The call that waits at the server, if answers cannot be sent by repeating the call. */
      readonly parked?: ParkedCall;
    }
  | { readonly kind: 'task'; readonly result: RawObject }
  | { readonly kind: 'error'; readonly error: ProtocolError | UpstreamRpcError };

/** An open subscription of a caller. */
export interface Subscription {
  /** The part of the filter that upstreams confirmed. */
  readonly honoured: SubscriptionFilter;
  close(): void;
}

/** The reason why a server's part is missing from an answer. */
export interface Missing {
  readonly server: string;
  readonly reason: string;
}

/** Capabilities and instructions of a view. */
export interface Description {
  readonly capabilities: ServerCapabilities;
  readonly instructions: string | undefined;
  /** The servers that have not answered yet. */
  readonly missing: readonly Missing[];
}

/**
 * Takes a notification of a subscription. For a changed list, `server` is the server of the list; `owner` is the key of
 * the only principal whose list changed, if it is one caller's own.
 */
export type Deliver = (notification: Notification, server?: string, owner?: string) => void;

/**
 * The interface that every inbound MCP adapter calls. All of its methods pass the interceptors. `call` returns failures
 * as outcomes; the other methods throw `ProtocolError` and `UpstreamRpcError`.
 */
export interface Gateway {
  call(caller: Caller, call: Call): Promise<Outcome>;
  /** Capabilities and instructions of the call's view, in the newest revision's vocabulary. */
  describe(caller: Caller, call: Call): Promise<Description>;
  /** Resolves once the upstream watches are live. */
  listen(caller: Caller, call: Call, filter: SubscriptionFilter, deliver: Deliver): Promise<Subscription>;
  /** Runs `work` on one task that the gateway hosts, or on all of them, for revisions with other task methods. */
  onTask<T>(caller: Caller, call: Call, taskId: string | undefined, work: () => Promise<T>): Promise<T>;
}

/** The items of one server in a list, under the server's own names. */
export interface ServerItems {
  readonly server: string;
  readonly items: readonly JsonObject[];
}

/** A list by server, and the servers without an answer. */
export interface ListByServer {
  readonly lists: readonly ServerItems[];
  readonly missing: readonly Missing[];
}

/** The gateway for inbound adapters whose clients address servers instead of one merged catalog. */
export interface ServerGateway extends Gateway {
  /** The list that the call's method names. A view of one server waits for that server and gets its failure. */
  listByServer(caller: Caller, call: Call): Promise<ListByServer>;
  /**
   * Runs `work` for a request to one server that is not an MCP message. The method of the call describes the request.
   */
  atServer<T>(caller: Caller, call: Call, server: string, work: () => Promise<T>): Promise<T>;
}

export const complete = (result: RawObject): Outcome => ({ kind: 'complete', result });
export const failed = (error: ProtocolError | UpstreamRpcError): Outcome => ({ kind: 'error', error });
