import type { CallContext, CallResult, McpResult } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { onStreamEnd } from './on-stream-end.js';

/** A call that is over, as its observers see it. */
export class EndedCall {
  /** Milliseconds since the arrival of the call. */
  readonly ms: number;
  /** The fields of the log line, built by the first observer that needs them. */
  line: Readonly<Record<string, unknown>> | undefined;
  private size: number | undefined;

  constructor(
    readonly context: CallContext,
    /** `ok`, `error`, `cancelled`, `input_required`, `task`, or for a stream also `left`. */
    readonly outcome: string,
    /** The error, if the outcome is `error`. */
    readonly error: unknown,
    readonly result: CallResult | undefined,
    /** The number of events of a stream. */
    readonly events: number | undefined,
  ) {
    this.ms = performance.now() - context.began;
  }

  /** The reason of a failure: a reason of the gateway, or the code of the server. */
  get reason(): string | number | undefined {
    const { error } = this;
    if (this.outcome !== 'error') return undefined;
    if (error instanceof ProtocolError) return error.reason;
    return error instanceof UpstreamRpcError ? error.code : 'internal';
  }

  /** The size of an MCP result. */
  get bytes(): number | undefined {
    const { result } = this;
    if (result?.kind !== 'complete') return undefined;
    this.size ??= result.result.size;
    return this.size;
  }
}

/** Watches calls of clients. An observer cannot change calls, and must not throw. */
export interface CallObserver {
  /** Whether the observer wants calls now. */
  active(): boolean;
  began?(context: CallContext): void;
  ended(call: EndedCall): void;
}

/** Reports each call of a client to all observers when the call is over, and a stream when the stream has ended. */
export function observed(given: readonly (CallObserver | undefined)[]): Interceptor | undefined {
  const observers = given.filter((observer) => observer !== undefined);
  if (observers.length === 0) return undefined;

  const report = (
    context: CallContext,
    outcome: string,
    error: unknown,
    result?: CallResult,
    events?: number,
  ): void => {
    const call = new EndedCall(context, outcome, error, result, events);
    for (const observer of observers) if (observer.active()) observer.ended(call);
  };
  const end = (context: CallContext, result: CallResult): CallResult => {
    if (context.protocol === 'mcp') {
      const error = result.kind === 'error' ? result.error : undefined;
      report(context, outcomeOf(context, result as McpResult), error, result);
      return result;
    }
    if (result.kind !== 'stream') {
      report(context, 'ok', undefined, result);
      return result;
    }
    const events = onStreamEnd(result.events, (over, count) => {
      if (typeof over === 'string') report(context, over, undefined, result, count);
      else report(context, 'error', over, undefined, count);
    });
    return { ...result, events };
  };
  const fail = (context: CallContext, error: unknown): void =>
    report(context, context.protocol === 'mcp' && context.cancellation.cancelled ? 'cancelled' : 'error', error);

  return (context, next) => {
    if (context.caller.principal === GATEWAY.principal) return next(context);
    // A message to an agent as part of another call of the same caller: the outer call is observed.
    if (context.protocol === 'a2a' && context.call.nested) return next(context);
    let wanted = false;
    for (const observer of observers) wanted ||= observer.active();
    if (!wanted) return next(context);
    for (const observer of observers) observer.began?.(context);
    return run(context, next, end, fail);
  };
}

function run(
  context: CallContext,
  next: Next,
  end: (context: CallContext, result: CallResult) => CallResult,
  fail: (context: CallContext, error: unknown) => void,
): ReturnType<Next> {
  let result: ReturnType<Next>;
  try {
    result = next(context);
  } catch (error) {
    fail(context, error);
    throw error;
  }
  if (!(result instanceof Promise)) return end(context, result);
  // Handlers cost less than an async function, which adds promises to every call.
  return result.then(
    (given) => end(context, given),
    (error: unknown) => {
      fail(context, error);
      throw error;
    },
  );
}

function outcomeOf(context: CallContext, result: McpResult): string {
  if (context.cancellation.cancelled) return 'cancelled';
  return result.kind === 'complete' || result.kind === 'value' ? 'ok' : result.kind;
}
