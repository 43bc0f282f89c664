/**
 * A dialect is one way of writing A2A: a version, and for 0.3 one of the two JSON shapes its peers use. Each dialect
 * translates between its wire format and the 1.0 model; only `versions/` knows the wire formats.
 */
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import type { AgentCard, Binding, Operation, RequestOf, ResultOf, StreamResponse, Task } from './model.js';

export const VERSIONS = ['1.0', '0.3', '0.2', '0.1'] as const;
export type Version = (typeof VERSIONS)[number];

/** A2A changed the HTTP and gRPC statuses of errors within 1.0. The newest profile comes first. */
export const ERROR_PROFILES = ['1.0.1', '1.0.0'] as const;
export type ErrorProfile = (typeof ERROR_PROFILES)[number];

/** `0.3-proto` is the ProtoJSON of the 0.3 proto. REST peers of 0.3 write either `0.3-proto` or `0.3`. */
export type DialectId = Version | '0.3-proto';

/** The dialect that needs no translation, because the model has its form. */
export const NATIVE: DialectId = '1.0';

/** Writes one stream for a client. Stateful: artifact indices and the `final` mark depend on the earlier events. */
export interface EventWriter {
  /** `last` is true if the caller knows that the stream ends with this event. */
  write(event: StreamResponse, last: boolean): JsonValue[];
  /** The stream ended. Returns the closing events that the version requires and that the last event did not provide. */
  end(): JsonValue[];
}

/** Reads one stream of an agent. */
export interface EventReader {
  read(wire: JsonValue): StreamResponse[];
  /** True once the agent declared its stream finished, even if the connection stays open. */
  readonly ended: boolean;
}

/** The facts about the opening request that a reader or writer of its stream needs. */
export interface StreamContext {
  /** The task's id, if known before the first event. */
  readonly taskId?: string;
  readonly contextId?: string;
}

export interface Dialect {
  readonly id: DialectId;
  readonly version: Version;

  /** The name of an operation in JSON-RPC; undefined if the version does not have it. */
  method(operation: Operation): string | undefined;

  // Methods for requests of clients and for the answers to them.
  /** Throws `invalid_params` with the cause. */
  readRequest<O extends Operation>(operation: O, params: JsonObject): RequestOf<O>;
  /**
   * `context` holds the ids that the request named: 0.1 answers with the task id its client chose, even if there is no
   * task.
   */
  writeResult<O extends Operation>(operation: O, result: ResultOf<O>, context?: StreamContext): JsonValue;
  eventWriter(context: StreamContext): EventWriter;
  writeError(error: unknown): { code: number; message: string; data?: JsonValue };
  /** The body of a webhook for a configuration that was registered in this dialect. */
  writeNotification(event: StreamResponse, task: Task): { readonly body: JsonValue; readonly contentType: string };

  // Methods for requests to agents and for the answers to them.
  writeRequest<O extends Operation>(operation: O, request: RequestOf<O>): JsonObject;
  /** Throws `invalid_agent_response` if even the tolerant reader cannot read the value. */
  readResult<O extends Operation>(operation: O, wire: JsonValue): ResultOf<O>;
  eventReader(context: StreamContext): EventReader;
  /**
   * Translates an agent's error to a `ProtocolError` from the gateway's table, or to an `UpstreamRpcError` that keeps
   * the agent's code.
   */
  readError(error: JsonValue, status?: number): Error;
  /** The body of a webhook that an agent of this dialect posted. */
  readNotification(body: JsonValue): StreamResponse[];

  // Methods for cards.
  readCard(card: JsonObject): AgentCard;
  writeCard(card: AgentCard): JsonObject;
}

/** One interface of an agent as its card offers it, in the terms of 1.0. */
export interface OfferedInterface {
  readonly url: string;
  readonly binding: Binding;
  readonly version: Version;
  readonly tenant: string | undefined;
}
