import type { DialectId } from '../../protocol/a2a/dialect.js';
import type { Operation } from '../../protocol/a2a/model.js';
import type { Id } from '../../protocol/jsonrpc/message.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Caller } from '../caller.js';
import type { Events, Exchange, Passed } from './agent.js';

/** One A2A request in 1.0 form, from any endpoint. */
export interface AgentCall {
  /** The id that log lines and errors of this request share; the inbound adapter sets it. */
  readonly requestId?: string;
  /** The network address of the client, for the audit trail; undefined if the client has none. */
  readonly address?: string | undefined;
  /** The id of the client's message, for the log; undefined if its binding has no ids. */
  readonly id?: Id;
  /** The agent for the request; undefined if the routing agent chooses one (G-4). */
  readonly agent: string | undefined;
  readonly operation: Operation;
  readonly request: Passed<JsonObject>;
  /** The size of the request as the client sent it. */
  readonly bytes?: number;
  /** The caller's dialect. The gateway stores it with each task and push configuration that this call creates. */
  readonly dialect: DialectId;
  readonly exchange: Exchange;
  /** The time at which the client stops waiting, by `performance.now()`, if its transport says so. */
  readonly deadline?: number;
  /**
   * The gateway makes this call as part of an outer call of the same caller. The outer call has already passed the
   * interceptors.
   */
  readonly nested?: true;
  /** The outer call went to the routing agent, so only this inner call names the chosen agent. */
  readonly routed?: true;
  /** The gateway continues work of a caller that is not connected. The caller was admitted when the work began. */
  readonly resumed?: true;
}

export type AgentAnswer = {
  /** The dialect of the call that created the task: used for the answer to a client that does not name its dialect. */
  readonly createdIn?: DialectId;
  /** The extensions that this request used. */
  readonly extensions?: readonly string[];
} & (
  | { readonly kind: 'result'; readonly result: Passed<JsonValue> }
  | { readonly kind: 'stream'; readonly events: Events }
);

/** The interface that every A2A endpoint calls. Throws `ProtocolError` and `UpstreamRpcError`. */
export interface AgentGateway {
  handle(caller: Caller, call: AgentCall): Promise<AgentAnswer>;
}
