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
 * A value of the 1.0 model and, where it came as 1.0 JSON and nothing of it was changed, the text it came as: what nobody
 * changes is passed on as it was written. Whoever changes the value leaves the text behind.
 */
export interface Passed<T> {
  readonly value: T;
  readonly text?: string;
}

/** What belongs to one request beside its body. */
export interface Exchange {
  readonly cancellation: Cancellation;
  /** The extensions the caller asked for. */
  readonly extensions: readonly string[];
  /** Headers that go on with the request: trace context and language, nothing that names or proves the caller. */
  readonly forward: Readonly<Record<string, string>>;
}

/** Events of a task, in order. Leaving the loop lets go of the stream, never of the task. */
export type Events = AsyncIterable<Passed<StreamResponse>>;

export type SignatureVerdict = 'unsigned' | 'verified' | 'unverified' | 'invalid';

/** What is known of an agent. */
export interface AgentFacts {
  /** The agent's own card in 1.0 words; its URLs and signatures are the agent's, not ours. */
  readonly card: AgentCard;
  /** The card as it came, and what became of its signatures. */
  readonly original: { readonly text: string; readonly signature: SignatureVerdict; readonly why?: string };
  /** What the agent can do by itself; the gateway provides the rest (G-40 to G-42). */
  readonly can: { readonly stream: boolean; readonly push: boolean; readonly subscribe: boolean };
}

export interface AgentHealth {
  readonly status: 'unknown' | 'up' | 'down';
  readonly detail?: string;
}

/**
 * One agent, whatever it speaks and wherever it is: ids in here are the agent's own. Every method throws a
 * `ProtocolError` or an `UpstreamRpcError`; a stream throws before its first event what a plain call would have thrown.
 */
export interface Agent {
  readonly name: string;
  facts(): Promise<AgentFacts>;
  /** The facts that this caller may know, where they differ from one caller to another. */
  factsFor?(caller: Caller): Promise<AgentFacts>;
  /** The facts as far as they are known without asking. */
  known(): AgentFacts | undefined;
  /** Calls `listener` when the card has changed. */
  onChanged(listener: () => void): () => void;
  send(caller: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Passed<SendMessageResponse>>;
  stream(caller: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Events>;
  getTask(caller: Caller, request: GetTaskRequest, exchange: Exchange): Promise<Passed<Task>>;
  cancelTask(caller: Caller, request: CancelTaskRequest, exchange: Exchange): Promise<Passed<Task>>;
  subscribe(caller: Caller, request: SubscribeToTaskRequest, exchange: Exchange): Promise<Events>;
  /** Asks the agent to post news of a task to us. */
  setCallback(caller: Caller, config: TaskPushNotificationConfig, exchange: Exchange): Promise<void>;
  health(): AgentHealth;
  close(): Promise<void>;
}
