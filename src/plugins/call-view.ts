/** A call as plugins see it. */
import type { ItemTarget } from '../core/admission.js';
import type { CallContext } from '../core/call.js';
import type { Caller, Principal } from '../core/caller.js';
import { isObject, type JsonObject } from '../protocol/jsonrpc/raw.js';
import type { PluginCall, PluginCaller, PluginResponse } from './api.js';

/** The account of the request of a principal at a server or agent, as `PluginCall.account` defines it. */
export type AccountOf = (principal: Principal, server: string | undefined) => string;

/** Whether the caller may know that the target exists. */
export type Sees = (caller: Caller, target: ItemTarget) => boolean | Promise<boolean>;

/** A value as JSON text, which is written when somebody reads it. */
export interface Written {
  /** The size of the text, for a bound. */
  readonly size: number;
  text(): string;
}

export function written(value: unknown): Written {
  const text = JSON.stringify(value);
  return { size: text.length, text: () => text };
}

/** Tools as text. The catalog keeps the objects. */
const TOOLS = new WeakMap<object, Written>();

/** The facts of one call, computed on their first read and shared by all plugins of the call. */
export class CallView {
  private parsed: JsonObject | undefined;
  private identity: PluginCaller | undefined;
  private paramsText: Written | undefined;
  private definition: { readonly tool: JsonObject | undefined } | undefined;

  constructor(
    readonly context: CallContext,
    readonly accountOf: AccountOf = () => '',
    readonly visible: Sees = () => true,
  ) {}

  get caller(): PluginCaller {
    const { key, issuer, subject, roles, groups, scopes, tenant } = this.context.caller.principal;
    this.identity ??= { key, issuer, subject, roles, groups, scopes, tenant };
    return this.identity;
  }

  /** A copy: the gateway goes on with its own objects. */
  get params(): JsonObject {
    this.parsed ??= parsedParams(this.context);
    return this.parsed;
  }

  get writtenParams(): Written {
    this.paramsText ??= writtenParams(this.context);
    return this.paramsText;
  }

  get writtenTool(): Written | undefined {
    const { context } = this;
    const value = context.protocol === 'mcp' ? context.item?.value : undefined;
    if (value === undefined) return undefined;
    let text = TOOLS.get(value);
    if (!text) {
      text = written(value);
      TOOLS.set(value, text);
    }
    return text;
  }

  get tool(): JsonObject | undefined {
    const { context } = this;
    this.definition ??= { tool: context.protocol === 'mcp' ? copied(context.item?.value) : undefined };
    return this.definition.tool;
  }

  /** The call for one run of a hook. */
  forHook(): HookCall {
    return new HookCall(this);
  }
}

export class HookCall implements PluginCall {
  private controller: AbortController | undefined;
  private over = false;

  constructor(private readonly view: CallView) {}

  get protocol(): 'mcp' | 'a2a' {
    return this.view.context.protocol;
  }

  get method(): string {
    return this.view.context.method;
  }

  get requestId(): string {
    return this.view.context.requestId;
  }

  get caller(): PluginCaller {
    return this.view.caller;
  }

  get account(): string {
    return this.view.accountOf(this.view.context.caller.principal, this.server);
  }

  get server(): string | undefined {
    return this.view.context.target?.server;
  }

  get kind(): string | undefined {
    return this.view.context.target?.kind;
  }

  get name(): string | undefined {
    return this.view.context.target?.name;
  }

  get tool(): JsonObject | undefined {
    return this.view.tool;
  }

  async sees(server: string, tool: string): Promise<boolean> {
    return this.view.visible(this.view.context.caller, { server, kind: 'tool', name: tool });
  }

  get params(): JsonObject {
    return this.view.params;
  }

  get writtenParams(): Written {
    return this.view.writtenParams;
  }

  get writtenTool(): Written | undefined {
    return this.view.writtenTool;
  }

  get began(): number {
    return this.view.context.began;
  }

  get signal(): AbortSignal {
    if (!this.controller) {
      const controller = new AbortController();
      this.controller = controller;
      if (this.over) controller.abort();
      else this.view.context.cancellation.onCancel(() => controller.abort());
    }
    return this.controller.signal;
  }

  /** The hook has no more time. */
  end(): void {
    this.over = true;
    this.controller?.abort();
  }
}

function parsedParams(context: CallContext): JsonObject {
  if (context.protocol === 'a2a') return copied(context.call.request.value) ?? {};
  return JSON.parse(context.call.params.bytes().toString('utf8')) as JsonObject;
}

function writtenParams(context: CallContext): Written {
  if (context.protocol === 'a2a') return written(context.call.request.value ?? {});
  const { params } = context.call;
  return { size: params.size, text: () => params.bytes().toString('utf8') };
}

const copied = (value: JsonObject | undefined): JsonObject | undefined =>
  value === undefined ? undefined : (JSON.parse(JSON.stringify(value)) as JsonObject);

/** A result whose value is parsed, or copied, on the first read. */
export class LazyResponse implements PluginResponse {
  private known: JsonObject | undefined;

  constructor(
    private readonly measure: () => number,
    private readonly write: () => string,
  ) {}

  get size(): number {
    return this.measure();
  }

  get result(): JsonObject {
    this.known ??= JSON.parse(this.write()) as JsonObject;
    return this.known;
  }

  /** The result as text, for a plugin in another thread. */
  text(): string {
    return this.write();
  }

  /** A result that a plugin returned. */
  static of(result: JsonObject): LazyResponse {
    const response = LazyResponse.ofText(() => JSON.stringify(result));
    response.known = result;
    return response;
  }

  /** An A2A result; undefined if the answer is not an object. */
  static ofValue(value: unknown, text: string | undefined): LazyResponse | undefined {
    return isObject(value) ? LazyResponse.ofText(() => text ?? JSON.stringify(value)) : undefined;
  }

  private static ofText(write: () => string): LazyResponse {
    let text: string | undefined;
    const json = (): string => {
      text ??= write();
      return text;
    };
    return new LazyResponse(() => Buffer.byteLength(json()), json);
  }
}
