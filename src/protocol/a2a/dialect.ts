/**
 * A dialect is one way of writing A2A: a version, and for 0.3 one of the two JSON shapes its peers use. Each reads its
 * wire into the 1.0 model and writes the model onto its wire; nothing outside of `versions/` knows what a wire looks like.
 */
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import type { AgentCard, Binding, Operation, RequestOf, ResultOf, StreamResponse, Task } from './model.js';

export const VERSIONS = ['1.0', '0.3', '0.2', '0.1'] as const;
export type Version = (typeof VERSIONS)[number];

/** The HTTP and gRPC statuses of errors changed within 1.0; the newest first. */
export const ERROR_PROFILES = ['1.0.1', '1.0.0'] as const;
export type ErrorProfile = (typeof ERROR_PROFILES)[number];

/** `0.3-proto` is the ProtoJSON of the 0.3 proto, which REST peers of that version speak beside `0.3`. */
export type DialectId = Version | '0.3-proto';

/** The dialect of the model itself. */
export const NATIVE: DialectId = '1.0';

/** Writes one stream for a client. Stateful: artifact indices and the `final` mark depend on what went before. */
export interface EventWriter {
  /** `last` where the stream is known to end with this event. */
  write(event: StreamResponse, last: boolean): JsonValue[];
  /** The stream ended; what the version still has to say, if the last event did not say it. */
  end(): JsonValue[];
}

/** Reads one stream of an agent. */
export interface EventReader {
  read(wire: JsonValue): StreamResponse[];
  /** True once the agent has said that its stream is over, whether it closes it or not. */
  readonly ended: boolean;
}

/** What a reader or writer of a stream must know of the request that opened it. */
export interface StreamContext {
  /** The task, where it is known before the first event. */
  readonly taskId?: string;
  readonly contextId?: string;
}

export interface Dialect {
  readonly id: DialectId;
  readonly version: Version;

  /** The spelling of an operation in JSON-RPC; undefined where the version has none. */
  method(operation: Operation): string | undefined;

  // Toward clients.
  /** Throws `invalid_params` with what is wrong. */
  readRequest<O extends Operation>(operation: O, params: JsonObject): RequestOf<O>;
  /** `context` is what the request named: 0.1 answers with the task that its client named, even where there is none. */
  writeResult<O extends Operation>(operation: O, result: ResultOf<O>, context?: StreamContext): JsonValue;
  eventWriter(context: StreamContext): EventWriter;
  writeError(error: unknown): { code: number; message: string; data?: JsonValue };
  /** The body of a webhook for a configuration that was registered in this dialect. */
  writeNotification(event: StreamResponse, task: Task): { readonly body: JsonValue; readonly contentType: string };

  // Toward agents.
  writeRequest<O extends Operation>(operation: O, request: RequestOf<O>): JsonObject;
  /** Throws `invalid_agent_response` where the wire cannot be read even with good will. */
  readResult<O extends Operation>(operation: O, wire: JsonValue): ResultOf<O>;
  eventReader(context: StreamContext): EventReader;
  /** What the agent's error means: a `ProtocolError` of our table, or an `UpstreamRpcError` that carries its own. */
  readError(error: JsonValue, status?: number): Error;
  /** The body of a webhook that an agent of this dialect posted. */
  readNotification(body: JsonValue): StreamResponse[];

  // Cards.
  readCard(card: JsonObject): AgentCard;
  writeCard(card: AgentCard): JsonObject;
}

/** One interface of an agent as its card offers it, in 1.0 words. */
export interface OfferedInterface {
  readonly url: string;
  readonly binding: Binding;
  readonly version: Version;
  readonly tenant: string | undefined;
}
