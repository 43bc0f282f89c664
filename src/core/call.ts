import type { JsonObject, JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import type { AgentAnswer, AgentCall } from './a2a/gateway.js';
import type { Target } from './admission.js';
import type { CallNotes } from './audit-trail.js';
import type { Caller, Cancellation } from './caller.js';
import type { Item } from './catalog/server-list-cache.js';
import type { Call, Outcome } from './gateway.js';
import { newRequestId } from './request-id.js';
import type { TraceContext } from './trace-context.js';

export type { TraceContext } from './trace-context.js';

/** The properties of a call that interceptors read, for both protocols. Each is parsed or computed on first read. */
export interface CallDescription {
  /** The id of the request in log lines and errors. A call that the gateway starts itself gets a new id. */
  readonly requestId: string;
  readonly caller: Caller;
  /** The MCP method, or the A2A 1.0 operation. */
  readonly method: string;
  /**
   * The target of the call. Undefined if the caller sees no target of this name; `forward` then fails with the reason.
   */
  readonly target: Target | undefined;
  /** The arguments of a tool or a prompt; all parameters of any other call. */
  readonly arguments: JsonValue | undefined;
  /** The arrival time of the call, by `performance.now()`. */
  readonly began: number;
  /** The time at which the client stops waiting, by `performance.now()`, if its transport says so. */
  readonly deadline: number | undefined;
  /** W3C trace context of the incoming request. */
  readonly trace: TraceContext | undefined;
  /** The `traceparent` of an earlier call that this one continues: of an earlier round, or of the task. */
  readonly earlierTrace: string | undefined;
  readonly cancellation: Cancellation;
  /** The client's session, if it has one. */
  readonly session: string | undefined;
  /** Facts about the call that steps of the pipeline add, for the audit trail. */
  readonly notes: CallNotes;
}

/** The outcome of an MCP request. `value` is an answer of the gateway itself that the inbound adapter encodes. */
export type McpResult = Outcome | { readonly kind: 'value'; readonly value: unknown };

/** The destination of an MCP request. */
export interface McpRoute {
  readonly target: Target | undefined;
  /** The tool as its server lists it, if known. */
  readonly item?: Item | undefined;
  /** The `traceparent` of the call that began the task of this request. */
  readonly trace?: string | undefined;
  forward(context: McpContext): Promise<McpResult>;
}

export class McpContext implements CallDescription {
  readonly protocol = 'mcp';
  private parsed: { readonly value: JsonValue | undefined } | undefined;
  private id: string | undefined;

  constructor(
    readonly caller: Caller,
    readonly call: Call,
    readonly route: McpRoute,
    readonly began: number,
    readonly notes: CallNotes = {},
  ) {}

  get requestId(): string {
    this.id ??= this.call.requestId ?? newRequestId();
    return this.id;
  }

  get method(): string {
    return this.call.method;
  }

  get target(): Target | undefined {
    return this.route.target;
  }

  get item(): Item | undefined {
    return this.route.item;
  }

  get arguments(): JsonValue | undefined {
    if (!this.parsed) {
      const { method, params } = this.call;
      const named = method === 'tools/call' || method === 'prompts/get';
      this.parsed = { value: named ? params.get('arguments') : params.value() };
    }
    return this.parsed.value;
  }

  /** The size of the request. */
  get bytes(): number {
    return this.call.params.size;
  }

  get deadline(): number | undefined {
    return this.call.deadline;
  }

  /** OTEL-02: the trace context in `_meta`, otherwise the one in the HTTP headers. */
  get trace(): TraceContext | undefined {
    const { params, header } = this.call;
    const meta = params.object('_meta');
    return traceOf((name) => meta?.get(name)) ?? (header ? traceOf((name) => header(name)) : undefined);
  }

  get earlierTrace(): string | undefined {
    return this.call.state?.trace ?? this.route.trace;
  }

  get cancellation(): Cancellation {
    return this.call.cancellation;
  }

  get session(): string | undefined {
    return this.caller.session;
  }

  /** The same call and target with other parameters. */
  withParams(params: RawObject): McpContext {
    return this.with({ ...this.call, params });
  }

  /** The same call with another `notify` or `finished` function. */
  withSinks(sinks: Partial<Pick<Call, 'notify' | 'finished'>>): McpContext {
    return this.with({ ...this.call, ...sinks });
  }

  /** The same call with this trace context for the server. Copies the call only if it already has a trace context. */
  withTrace(trace: TraceContext): McpContext {
    if (this.call.trace) return this.with({ ...this.call, trace });
    // This line runs for every traced call, sampled or not. A copy would cost more than the rest of the span.
    this.call.trace = trace;
    return this;
  }

  private with(call: Call): McpContext {
    const changed = new McpContext(this.caller, call, this.route, this.began, this.notes);
    changed.id = this.requestId;
    return changed;
  }

  forward(): Promise<McpResult> {
    this.notes.forwarded = true;
    return this.route.forward(this);
  }
}

/** The destination of an A2A request. */
export interface A2aRoute {
  readonly target: Target | undefined;
  /** The `traceparent` of the call that began the task of this request. */
  readonly trace?: string | undefined;
  forward(context: A2aContext): Promise<AgentAnswer>;
}

export class A2aContext implements CallDescription {
  readonly protocol = 'a2a';
  private id: string | undefined;

  constructor(
    readonly caller: Caller,
    readonly call: AgentCall,
    readonly route: A2aRoute,
    readonly began: number,
    readonly notes: CallNotes = {},
  ) {}

  get requestId(): string {
    this.id ??= this.call.requestId ?? newRequestId();
    return this.id;
  }

  get method(): string {
    return this.call.operation;
  }

  get target(): Target | undefined {
    return this.route.target;
  }

  get arguments(): JsonValue | undefined {
    return this.call.request.value;
  }

  /** The size of the request. */
  get bytes(): number {
    return this.call.bytes ?? 0;
  }

  get deadline(): number | undefined {
    return this.call.deadline;
  }

  get trace(): TraceContext | undefined {
    const { forward } = this.call.exchange;
    return traceOf((name) => forward[name]);
  }

  get earlierTrace(): string | undefined {
    return this.route.trace;
  }

  get cancellation(): Cancellation {
    return this.call.exchange.cancellation;
  }

  get session(): string | undefined {
    return this.caller.session;
  }

  /** The same call and agent with another request. */
  withRequest(value: JsonObject): A2aContext {
    return this.with({ ...this.call, request: { value } });
  }

  /** The same call with this trace context for the agent. */
  withTrace(trace: TraceContext): A2aContext {
    const { exchange } = this.call;
    const { tracestate: _, ...forward } = exchange.forward;
    return this.with({ ...this.call, exchange: { ...exchange, forward: { ...forward, ...trace } } });
  }

  private with(call: AgentCall): A2aContext {
    const changed = new A2aContext(this.caller, call, this.route, this.began, this.notes);
    changed.id = this.requestId;
    return changed;
  }

  forward(): Promise<AgentAnswer> {
    this.notes.forwarded = true;
    return this.route.forward(this);
  }
}

function traceOf(read: (name: string) => JsonValue | undefined): TraceContext | undefined {
  const traceparent = read('traceparent');
  if (typeof traceparent !== 'string' || traceparent === '') return undefined;
  const tracestate = read('tracestate');
  return { traceparent, ...(typeof tracestate === 'string' && tracestate !== '' && { tracestate }) };
}

/** A call on its way through the pipeline. */
export type CallContext = McpContext | A2aContext;

/** Whether this call is part of an outer call that was already counted and recorded for the same agent. */
export const isPartOfSameAgent = (context: CallContext): boolean =>
  context.protocol === 'a2a' && context.call.nested === true && context.call.routed !== true;

/** The result of a call. An MCP failure is an outcome; an A2A failure is thrown. */
export type CallResult = McpResult | AgentAnswer;
