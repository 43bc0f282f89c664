import type { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import type { Id } from '../protocol/jsonrpc/message.js';
import type { JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import type {
  InputRequests,
  InputResponses,
  LogLevel,
  Notification,
  SubscriptionFilter,
} from '../protocol/mcp/model.js';
import type { Target } from './admission.js';
import type { CallState } from './bridge/call-state.js';
import type { Caller, Cancellation } from './caller.js';

/** Which part of the catalogue a door shows: all servers under prefixed names, or one under its own. */
export interface View {
  readonly server: string | undefined;
}

export const ALL_SERVERS: View = { server: undefined };

/** One request, in the newest revision's words. The names in it are those the caller saw in its view. */
export interface Call {
  /** The id of the client's request, where it has one: for the log. */
  readonly requestId?: Id;
  readonly method: string;
  readonly params: RawObject;
  readonly view: View;
  readonly wantsProgress: boolean;
  readonly logLevel: LogLevel | undefined;
  readonly cancellation: Cancellation;
  /** The caller wants a task it can come back to, for so long if it says. */
  readonly task?: { readonly ttl: number | undefined };
  /** Where the call goes on, where the request answers the questions of an earlier outcome. Its params hold the answers. */
  readonly state?: CallState | undefined;
  /** All items of a list in one answer: the gateway itself asks, and needs no cursors. */
  readonly whole?: true;
  /** The HTTP headers of the request, where it came with some: arguments may be mirrored there. */
  readonly header: ((name: string) => string | undefined) | undefined;
  /** Takes a notification that belongs to this request: `notifications/progress` or `notifications/message`. */
  notify(notification: Notification): void;
  /** The server closed its reply to be asked again; a client that knows such replies may be let go meanwhile. */
  polling?(retry: number): void;
  /** Takes the target, once it is known. Set by a step around the call that wants to know it. */
  routed?: (target: Target) => void;
}

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

export interface Gateway {
  call(caller: Caller, call: Call): Promise<Outcome>;
  /** Resolves once the upstream watches are live. */
  listen(
    caller: Caller,
    view: View,
    filter: SubscriptionFilter,
    deliver: (notification: Notification) => void,
  ): Promise<Subscription>;
}

export const complete = (result: RawObject): Outcome => ({ kind: 'complete', result });
export const failed = (error: ProtocolError | UpstreamRpcError): Outcome => ({ kind: 'error', error });
