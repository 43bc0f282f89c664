import type { JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import type { AgentAnswer, AgentCall } from './a2a/gateway.js';
import type { Target } from './admission.js';
import type { Caller, Cancellation } from './caller.js';
import type { Item } from './catalog/listing.js';
import type { Call, Outcome } from './gateway.js';
import { newRequestId } from './request-id.js';

/** W3C trace context as it arrived. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** What interceptors know of a call of either protocol. Nothing of it is parsed or computed before it is read. */
export interface CallDescription {
  /** The one id of the request, in log lines and errors; a new one for a call that the gateway makes by itself. */
  readonly requestId: string;
  readonly caller: Caller;
  /** The method of MCP, or the operation of A2A 1.0. */
  readonly method: string;
  /** Undefined where the call names nothing that exists for its caller: forwarding it fails with the reason. */
  readonly target: Target | undefined;
  /** The arguments of a tool or a prompt, and all parameters of any other call. */
  readonly arguments: JsonValue | undefined;
  /** When the call came in, by `performance.now()`. */
  readonly began: number;
  /** When the client stops waiting, by `performance.now()`, where its transport says so. */
  readonly deadline: number | undefined;
  readonly trace: TraceContext | undefined;
  readonly cancellation: Cancellation;
  /** The session of the client, where it has one. */
  readonly session: string | undefined;
}

/** The outcome of an MCP request; `value` is what the gateway itself provides, for an adapter to write in its own way. */
export type McpResult = Outcome | { readonly kind: 'value'; readonly value: unknown };

/** Where an MCP request goes. */
export interface McpRoute {
  readonly target: Target | undefined;
  /** The tool as its server lists it, where that is known. */
  readonly item?: Item | undefined;
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

  get deadline(): number | undefined {
    return this.call.deadline;
  }

  /** OTEL-02: that of the request itself, else that of the HTTP request it came with. */
  get trace(): TraceContext | undefined {
    const { params, header } = this.call;
    const meta = params.object('_meta');
    return traceOf((name) => meta?.get(name)) ?? (header ? traceOf((name) => header(name)) : undefined);
  }

  get cancellation(): Cancellation {
    return this.call.cancellation;
  }

  get session(): string | undefined {
    return this.caller.session;
  }

  /** The same call with other parameters. Its target stays. */
  withParams(params: RawObject): McpContext {
    const changed = new McpContext(this.caller, { ...this.call, params }, this.route, this.began);
    changed.id = this.requestId;
    return changed;
  }

  forward(): Promise<McpResult> {
    return this.route.forward(this);
  }
}

/** Where an A2A request goes. */
export interface A2aRoute {
  readonly target: Target | undefined;
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

  get deadline(): number | undefined {
    return this.call.deadline;
  }

  get trace(): TraceContext | undefined {
    const { forward } = this.call.exchange;
    return traceOf((name) => forward[name]);
  }

  get cancellation(): Cancellation {
    return this.call.exchange.cancellation;
  }

  get session(): string | undefined {
    return this.caller.session;
  }

  forward(): Promise<AgentAnswer> {
    return this.route.forward(this);
  }
}

function traceOf(read: (name: string) => JsonValue | undefined): TraceContext | undefined {
  const traceparent = read('traceparent');
  if (typeof traceparent !== 'string' || traceparent === '') return undefined;
  const tracestate = read('tracestate');
  return { traceparent, ...(typeof tracestate === 'string' && tracestate !== '' && { tracestate }) };
}

/** A call on its way through the gateway. */
export type CallContext = McpContext | A2aContext;

/** What became of it. MCP has failures among its outcomes; of A2A they are thrown. */
export type CallResult = McpResult | AgentAnswer;
