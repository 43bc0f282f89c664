import type { CallContext, CallResult } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import { readTrace, type SpanReference, writeTrace } from '../core/trace-context.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { ATTRIBUTES as A, EXECUTE_TOOL, INVOKE_AGENT, spanName, TOOL_ERROR } from '../telemetry/tracing/names.js';
import { type FinishedSpan, newSpanId, newTraceId, type Tracing } from '../telemetry/tracing/spans.js';
import { bounded, MOST_NAME, targetName } from './call-log.js';
import { counted } from './counted-events.js';
import { hasTrace } from './trace-id.js';

/** The end of a call: its result or its error, and for a stream how it ended. */
interface End {
  readonly result?: CallResult;
  readonly error?: unknown;
  readonly events?: number | undefined;
  readonly left?: boolean;
}

type Finish = (end: End) => CallResult | undefined;

/**
 * The span toward the client, around all other steps. Its parent is the span of the client, or for a later round of a
 * call and for the calls about a task the span of the first call: all rounds are one trace, on every replica.
 */
export function serverSpans(tracing: Tracing | undefined): Interceptor | undefined {
  if (!tracing) return undefined;
  return (context, next) => {
    if (context.caller.principal === GATEWAY.principal) return next(context);
    // A message to an agent that is part of another call of the same caller, which has a span.
    if (context.protocol === 'a2a' && context.call.nested) return next(context);
    const began = context.began;
    const { parent, link } = parents(context);
    const traceId = parent?.traceId ?? newTraceId();
    const span: SpanReference = {
      traceId,
      spanId: newSpanId(),
      sampled: tracing.sampled(traceId, parent?.sampled),
      ...(parent?.state !== undefined && { state: parent.state }),
    };
    const { notes } = context;
    notes.traceId = traceId;
    notes.span = span;
    return around(context, next, (end) => {
      const type = errorType(context, end, span.sampled);
      if (span.sampled || (type !== undefined && tracing.exportErrors)) {
        const given = spanOf(context, 'server', span, parent, began, end, type);
        tracing.finished({ ...given, links: link ? [link] : [] });
        // The spans toward the server were kept until the outcome was known.
        if (!span.sampled) for (const child of notes.unsampled ?? []) tracing.finished(child() as FinishedSpan);
      }
      return withTrace(end.result, span);
    });
  };
}

/** The span toward the server or agent, next to it. The upstream gets it as its parent. */
export function clientSpans(tracing: Tracing | undefined): Interceptor | undefined {
  if (!tracing) return undefined;
  return (context, next) => {
    const { target, notes } = context;
    if (!target || target.kind === 'catalog') return next(context);
    const parent = notes.span ?? (hasTrace(context) ? readTrace(context.trace) : undefined);
    if (!parent) return next(context);
    const span: SpanReference = { ...parent, spanId: newSpanId() };
    const began = performance.now();
    const sent = context.withTrace(writeTrace(span));
    return around(sent, next, (end) => {
      const type = errorType(context, end, span.sampled);
      const given = (): FinishedSpan => spanOf(context, 'client', span, parent, began, end, type);
      if (span.sampled) tracing.finished(given());
      else if (notes.span && tracing.exportErrors) {
        const ended = performance.now();
        notes.unsampled ??= [];
        if (notes.unsampled.length < MOST_KEPT) notes.unsampled.push(() => ({ ...given(), ended }));
      }
      return end.result;
    });
  };
}

/** Spans that one unsampled call keeps until its outcome is known. */
const MOST_KEPT = 8;

/** The parent of a call's span, and the span of the client if the parent is that of an earlier round. */
function parents(context: CallContext): { parent: SpanReference | undefined; link: SpanReference | undefined } {
  const given = hasTrace(context) ? readTrace(context.trace) : undefined;
  const earlier = context.earlierTrace;
  const first = earlier === undefined ? undefined : readTrace({ traceparent: earlier });
  if (!first) return { parent: given, link: undefined };
  return { parent: first, link: given && given.spanId !== first.spanId ? given : undefined };
}

function around(context: CallContext, next: Next, finish: Finish): ReturnType<Next> {
  const end = (result: CallResult): CallResult => {
    if (result.kind !== 'stream') return finish({ result }) ?? result;
    const events = counted(result.events, (over, count) => {
      if (typeof over === 'string') finish({ result, events: count, left: over === 'left' });
      else finish({ error: over, events: count });
    });
    return { ...result, events };
  };
  let result: ReturnType<Next>;
  try {
    result = next(context);
  } catch (error) {
    finish({ error });
    throw error;
  }
  if (!(result instanceof Promise)) return end(result);
  return result.then(end, (error: unknown) => {
    finish({ error });
    throw error;
  });
}

/** The state of a question contains the trace, so that the next round continues it, on whatever replica. */
function withTrace(result: CallResult | undefined, span: SpanReference): CallResult | undefined {
  if (result?.kind !== 'input_required' || !result.state) return result;
  return { ...result, state: { ...result.state, trace: writeTrace(span).traceparent } };
}

/** The type of the failure; undefined for a success. The result of a tool is looked at for exported spans only. */
function errorType(context: CallContext, { result, error }: End, exported: boolean): string | undefined {
  const failure = result?.kind === 'error' ? result.error : error;
  if (failure === undefined) {
    if (!exported || result?.kind !== 'complete' || context.method !== 'tools/call') return undefined;
    return result.result.get('isError') === true ? TOOL_ERROR : undefined;
  }
  if (failure instanceof ProtocolError) return failure.reason;
  return failure instanceof UpstreamRpcError ? String(failure.code) : 'internal';
}

function spanOf(
  context: CallContext,
  kind: 'server' | 'client',
  { traceId, spanId, state }: SpanReference,
  parent: SpanReference | undefined,
  began: number,
  end: End,
  error: string | undefined,
): FinishedSpan {
  const { target } = context;
  const named = target && (target.kind === 'tool' || target.kind === 'prompt' || target.kind === 'agent');
  return {
    name: spanName(bounded(context.method, MOST_NAME), named ? targetName(target) : undefined),
    kind,
    traceId,
    spanId,
    state,
    parent: parent?.spanId,
    remoteParent: kind === 'server',
    links: [],
    began,
    ended: performance.now(),
    attributes: { ...attributesOf(context, kind, end), ...(error !== undefined && { [A.errorType]: error }) },
    error,
  };
}

type Attributes = Record<string, string | number | boolean>;

function attributesOf(context: CallContext, kind: 'server' | 'client', end: End): Attributes {
  const { target, caller, call } = context;
  const { result, error, events } = end;
  const failure = result?.kind === 'error' ? result.error : error;
  const attributes: Attributes = { [A.requestId]: context.requestId };
  if (kind === 'server') {
    attributes[A.caller] = caller.principal.key;
    if (call.id !== undefined) attributes[A.rpcId] = bounded(String(call.id), MOST_NAME);
  }
  if (failure instanceof UpstreamRpcError) attributes[A.rpcStatus] = String(failure.code);
  if (context.protocol === 'mcp') {
    attributes[A.method] = bounded(context.method, MOST_NAME);
    attributes[A.success] = failure === undefined;
    if (kind === 'server') {
      attributes[A.revision] = caller.revision.date;
      attributes[A.transport] = context.call.header ? 'tcp' : 'pipe';
    }
    if (result) attributes[A.outcome] = result.kind;
    if (target?.server !== undefined) attributes[A.server] = target.server;
    if (target?.kind === 'tool') {
      attributes[A.tool] = targetName(target);
      attributes[A.operation] = EXECUTE_TOOL;
    } else if (target?.kind === 'prompt') attributes[A.prompt] = targetName(target);
    else if (target?.kind === 'resource') attributes[A.resource] = targetName(target);
    return attributes;
  }
  attributes[A.a2aMethod] = context.method;
  attributes[A.a2aSuccess] = failure === undefined;
  if (kind === 'server') attributes[A.a2aVersion] = context.call.dialect;
  if (events !== undefined) attributes[A.a2aEvents] = events;
  attributes[A.a2aStream] = events !== undefined;
  if (end.left) attributes[A.a2aLeft] = true;
  if (target?.kind === 'agent') {
    attributes[A.a2aAgent] = targetName(target);
    attributes[A.agent] = targetName(target);
    attributes[A.operation] = INVOKE_AGENT;
  }
  return attributes;
}
