import type {
  AgentCard,
  CancelTaskRequest,
  GetTaskRequest,
  SendMessageRequest,
  SendMessageResponse,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
  TaskPushNotificationConfig,
} from '../../protocol/a2a/model.js';
import type { Caller, Cancellation } from '../caller.js';

/**
 * A value of the 1.0 model. `text` is its original 1.0 JSON, kept only while the value is unchanged: the gateway then
 * passes the original bytes on. Code that changes the value drops the text.
 */
export interface Passed<T> {
  readonly value: T;
  readonly text?: string;
}

/** The properties of a request besides its body. */
export interface Exchange {
  readonly cancellation: Cancellation;
  /** The extensions that the caller asks for. */
  readonly extensions: readonly string[];
  /** Headers to pass on with the request: trace context and language, never identity or credentials. */
  readonly forward: Readonly<Record<string, string>>;
}

/** Events of a task, in order. Leaving the loop closes the stream and does not affect the task. */
export type Events = AsyncIterable<Passed<StreamResponse>>;

export type SignatureVerdict = 'unsigned' | 'verified' | 'unverified' | 'invalid';

/** The gateway's knowledge of an agent. */
export interface AgentFacts {
  /** The agent's own card in 1.0 form. Its URLs and signatures are the agent's, not the gateway's. */
  readonly card: AgentCard;
  /** The card as received, and the verdict on its signatures. */
  readonly original: { readonly text: string; readonly signature: SignatureVerdict; readonly why?: string };
  /** The features that the agent supports itself. The gateway emulates the other features (G-40 to G-42). */
  readonly can: { readonly stream: boolean; readonly push: boolean; readonly subscribe: boolean };
}

export interface AgentHealth {
  readonly status: 'unknown' | 'up' | 'down';
  readonly detail?: string;
}

/**
 * One agent of any version, local or remote. Ids here are the agent's own. Every method throws a `ProtocolError` or an
 * `UpstreamRpcError`. If a plain call would fail with an error, the corresponding stream throws that error before its
 * first event.
 */
export interface Agent {
  readonly name: string;
  facts(): Promise<AgentFacts>;
  /** The facts for this caller, if they differ between callers. */
  factsFor?(caller: Caller): Promise<AgentFacts>;
  /** The facts that are known without a request. */
  known(): AgentFacts | undefined;
  /** Calls `listener` when the card has changed. */
  onChanged(listener: () => void): () => void;
  send(caller: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Passed<SendMessageResponse>>;
  stream(caller: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Events>;
  getTask(caller: Caller, request: GetTaskRequest, exchange: Exchange): Promise<Passed<Task>>;
  cancelTask(caller: Caller, request: CancelTaskRequest, exchange: Exchange): Promise<Passed<Task>>;
  subscribe(caller: Caller, request: SubscribeToTaskRequest, exchange: Exchange): Promise<Events>;
  /** Asks the agent to post updates of a task to the gateway. */
  setCallback(caller: Caller, config: TaskPushNotificationConfig, exchange: Exchange): Promise<void>;
  health(): AgentHealth;
  close(): Promise<void>;
}
