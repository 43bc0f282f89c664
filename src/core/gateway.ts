import type { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import type { Id } from '../protocol/jsonrpc/message.js';
import type { JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
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
import type { View } from './view.js';

export { ALL_SERVERS, oneServer, View } from './view.js';

/** One request, in the newest revision's words. The names in it are those the caller saw in its view. */
export interface Call {
  /** By which the log lines and errors of one request belong together; made where the request comes in. */
  readonly requestId?: string;
  /** The id of the client's message, where it has one: for the log. */
  readonly id?: Id;
  readonly method: string;
  readonly params: RawObject;
  readonly view: View;
  readonly wantsProgress: boolean;
  readonly logLevel: LogLevel | undefined;
  readonly cancellation: Cancellation;
  /** When the client stops waiting, by `performance.now()`, where its transport says so. */
  readonly deadline?: number;
  /** The caller wants a task it can come back to, for so long if it says. */
  readonly task?: { readonly ttl: number | undefined };
  /** Where the call goes on, where the request answers the questions of an earlier outcome. Its params hold the answers. */
  readonly state?: CallState | undefined;
  /** All items of a list in one answer: the gateway itself asks, and needs no cursors. */
  readonly whole?: true;
  /** A message to an agent made of tools leads to this call: its caller is counted for the message. */
  readonly nested?: true;
  /** The HTTP headers of the request, where it came with some: arguments may be mirrored there. */
  readonly header: ((name: string) => string | undefined) | undefined;
  /** Takes a notification that belongs to this request: `notifications/progress` or `notifications/message`. */
  notify(notification: Notification): void;
  /** The server closed its reply to be asked again; a client that knows such replies may be let go meanwhile. */
  polling?(retry: number): void;
}

/** A request that wants nothing beside its answer. */
export const plainCall = (
  method: string,
  params: RawObject,
  view: View,
  more: Partial<Pick<Call, 'requestId' | 'id' | 'cancellation' | 'header'>> = {},
): Call => ({
  method,
  params,
  view,
  wantsProgress: false,
  logLevel: undefined,
  cancellation: more.cancellation ?? new Cancellation(),
  header: more.header,
  notify: () => {},
  ...(more.requestId !== undefined && { requestId: more.requestId }),
  ...(more.id !== undefined && { id: more.id }),
});

/** A call that stopped in the middle to ask its caller something. It is resumed with the answers, never sent again. */
export interface ParkedCall {
  /** Answers what is asked; keys left out stay asked. Resolves with what the call says next. */
  resume(call: Pick<Call, 'notify' | 'cancellation'>, answers: InputResponses): Promise<Outcome>;
  /** Settles when the call is over, however it ended. */
  readonly over: Promise<void>;
  /** Gives up: what is asked is answered as cancelled, and the call is cancelled upstream. */
  abandon(reason: string): void;
  /** All another process needs to go on with the call; undefined where only this one can. From then on it may be kept. */
  portable?(): JsonValue | undefined;
}

export type Outcome =
  | { readonly kind: 'complete'; readonly result: RawObject }
  | {
      readonly kind: 'input_required';
      readonly inputRequests: InputRequests | undefined;
      /** The upstream's own state, to be given back to it. */
      readonly requestState?: string | undefined;
      /** Where the call goes on once the questions are answered. An adapter seals it before a client gets it. */
      readonly state?: CallState;
      /** The upstream call that waits for the answers, where it cannot be repeated to carry them. */
      readonly parked?: ParkedCall;
    }
  | { readonly kind: 'task'; readonly result: RawObject }
  | { readonly kind: 'error'; readonly error: ProtocolError | UpstreamRpcError };

/** An open subscription of a caller. */
export interface Subscription {
  /** The part of the filter that is really watched. */
  readonly honoured: SubscriptionFilter;
  close(): void;
}

/** Why a server's part of an answer is not there. */
export interface Missing {
  readonly server: string;
  readonly reason: string;
}

/** What a view offers. */
export interface Description {
  readonly capabilities: ServerCapabilities;
  readonly instructions: string | undefined;
  /** The servers that have not answered yet. */
  readonly missing: readonly Missing[];
}

/** Takes a notification of a subscription; of a changed list also the server whose list it is. */
export type Deliver = (notification: Notification, server?: string) => void;

/**
 * What every inbound adapter for MCP calls. All of it goes through the interceptors. `call` gives failures as outcomes, the
 * other methods throw `ProtocolError` and `UpstreamRpcError`.
 */
export interface Gateway {
  call(caller: Caller, call: Call): Promise<Outcome>;
  /** What the view of the call offers, in the modern vocabulary. */
  describe(caller: Caller, call: Call): Promise<Description>;
  /** Resolves once the upstream watches are live. */
  listen(caller: Caller, call: Call, filter: SubscriptionFilter, deliver: Deliver): Promise<Subscription>;
  /** Does something with a task of the gateway's own, or with all of them; for revisions that have other words for tasks. */
  onTask<T>(caller: Caller, call: Call, taskId: string | undefined, work: () => Promise<T>): Promise<T>;
}

export const complete = (result: RawObject): Outcome => ({ kind: 'complete', result });
export const failed = (error: ProtocolError | UpstreamRpcError): Outcome => ({ kind: 'error', error });
