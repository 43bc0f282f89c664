import type { DialectId } from '../../protocol/a2a/dialect.js';
import type { Operation } from '../../protocol/a2a/model.js';
import type { Id } from '../../protocol/jsonrpc/message.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Caller } from '../caller.js';
import type { Events, Exchange, Passed } from './agent.js';

/** One A2A request in 1.0 words, whichever endpoint it came in by. */
export interface AgentCall {
  /** By which the log lines and errors of one request belong together; made where the request comes in. */
  readonly requestId?: string;
  /** The id of the client's message, where its binding has one: for the log. */
  readonly id?: Id;
  /** The agent it is for; undefined where the routing agent is to find one (G-4). */
  readonly agent: string | undefined;
  readonly operation: Operation;
  readonly request: Passed<JsonObject>;
  /** How the caller writes: a task or a push configuration made now is remembered to be of this dialect. */
  readonly dialect: DialectId;
  readonly exchange: Exchange;
  /** When the client stops waiting, by `performance.now()`, where its transport says so. */
  readonly deadline?: number;
  /** The gateway makes it on the way of another call of the same caller, which interceptors have seen already. */
  readonly nested?: true;
}

export type AgentAnswer = {
  /** The dialect that created the task this is about: what answers a client that does not say how it reads. */
  readonly createdIn?: DialectId;
  /** Extensions that were used for this request. */
  readonly extensions?: readonly string[];
} & (
  | { readonly kind: 'result'; readonly result: Passed<JsonValue> }
  | { readonly kind: 'stream'; readonly events: Events }
);

/** What every A2A endpoint calls. Throws `ProtocolError` and `UpstreamRpcError`. */
export interface AgentGateway {
  handle(caller: Caller, call: AgentCall): Promise<AgentAnswer>;
}
