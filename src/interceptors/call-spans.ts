import type { CallContext, CallResult } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import { readTrace, type SpanReference, writeTrace } from '../core/trace-context.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { type FinishedSpan, newSpanId, newTraceId, type Tracing } from '../telemetry/tracing/finished-span.js';
import { ATTRIBUTES as A, EXECUTE_TOOL, INVOKE_AGENT, spanName, TOOL_ERROR } from '../telemetry/tracing/names.js';
import { bounded, MOST_NAME, targetName } from './call-log.js';
import { onStreamEnd } from './on-stream-end.js';
import { isToolError } from './tool-error.js';
import { hasTrace } from './trace-id.js';

/** The end of a call: its result or its error, and for a stream how it ended. */
interface End {
  readonly result?: CallResult;
  readonly error?: unknown;
  readonly events?: number | undefined;
  readonly left?: boolean;
}

/**
 * The span of a call by a client. Most of these spans are not exported and have no exported child, so the id is made
 * only when it is read.
 */
class ServerSpan implements SpanReference {
  private id: string | undefined;

  constructor(
    readonly traceId: string,
    readonly sampled: boolean,
    readonly state: string | undefined,
  ) {}

  get spanId(): string {
    this.id ??= newSpanId();
    return this.id;
  }
}

/** The span of a call that still runs, with the facts that the exported span is built from when the call ends. */
class OpenSpan {
  /** The end of a span that is exported only if its call fails. */
  private end: End | undefined;
  private ended = 0;

  constructor(
    readonly context: CallContext,
    readonly kind: 'server' | 'client',
    readonly span: SpanReference,
    readonly parent: SpanReference | undefined,
    readonly began: number,
    readonly link: SpanReference | undefined,
  ) {}

  keep(end: End): void {
    this.end = end;
    this.ended = performance.now();
  }

  exportKept(tracing: Tracing): void {
    const { context, end, ended } = this;
    if (end) tracing.finished(spanOf(this, end, errorType(context, end), ended));
  }
}

/** Called at the end of a span. Returns the result of the call, if the call has one. */
type Finish = (open: OpenSpan, end: End) => CallResult | undefined;

/**
 * Makes the span of a client's call, around all other steps. Its parent is the span of the client. In a later round of
 * a call, and in a call about a task, the parent is the span of the first call: all rounds are one trace, on every
 * replica.
 */
export function serverSpans(tracing: Tracing | undefined): Interceptor | undefined {
  if (!tracing) return undefined;
  const finish: Finish = (open, end) => {
    const { context, span } = open;
    const type = errorType(context, end);
    if (span.sampled || (type !== undefined && tracing.exportErrors)) {
      tracing.finished(spanOf(open, end, type, performance.now()));
      // The spans of calls to servers were kept until the outcome of the client's call was known.
      for (const child of (context.notes.unsampled as OpenSpan[] | undefined) ?? []) child.exportKept(tracing);
    }
    return withTrace(end.result, span);
  };
  return (context, next) => {
    if (context.caller.principal === GATEWAY.principal) return next(context);
    // A message to an agent as part of another call of the same caller: the outer call has the span.
    if (context.protocol === 'a2a' && context.call.nested) return next(context);
    const { parent, link } = parents(context);
    const traceId = parent?.traceId ?? newTraceId();
    const span = new ServerSpan(traceId, tracing.sampled(traceId, parent?.sampled), parent?.state);
    context.notes.span = span;
    return around(new OpenSpan(context, 'server', span, parent, context.began, link), context, next, finish);
  };
}

/**
 * Makes the span of a call to a server or agent, as the last step before it. The upstream gets this span as its parent.
 */
export function clientSpans(tracing: Tracing | undefined): Interceptor | undefined {
  if (!tracing) return undefined;
  const finish: Finish = (open, end) => {
    const { context, span } = open;
    const { notes } = context;
    if (span.sampled) tracing.finished(spanOf(open, end, errorType(context, end), performance.now()));
    else if (notes.span && tracing.exportErrors) {
      open.keep(end);
      if (!notes.unsampled) notes.unsampled = [open];
      else if (notes.unsampled.length < MOST_KEPT) notes.unsampled.push(open);
    }
    return end.result;
  };
  return (context, next) => {
    const { target, notes } = context;
    if (!target || target.kind === 'catalog') return next(context);
    const parent = notes.span ?? (hasTrace(context) ? readTrace(context.trace) : undefined);
    if (!parent) return next(context);
    const { traceId, sampled, state } = parent;
    const span: SpanReference = { traceId, spanId: newSpanId(), sampled, state };
    const open = new OpenSpan(context, 'client', span, parent, performance.now(), undefined);
    return around(open, context.withTrace(writeTrace(span)), next, finish);
  };
}

/** Spans that one unsampled call keeps until its outcome is known. */
const MOST_KEPT = 8;

const NO_PARENTS = { parent: undefined, link: undefined };

/**
 * The parent of a call's span. If the parent is the span of an earlier round, `link` is the span that the client sent.
 */
function parents(context: CallContext): { parent: SpanReference | undefined; link: SpanReference | undefined } {
  const given = hasTrace(context) ? readTrace(context.trace) : undefined;
  const earlier = context.earlierTrace;
  const first = earlier === undefined ? undefined : readTrace({ traceparent: earlier });
  if (!first) return given ? { parent: given, link: undefined } : NO_PARENTS;
  return { parent: first, link: given && given.spanId !== first.spanId ? given : undefined };
}

function around(open: OpenSpan, context: CallContext, next: Next, finish: Finish): ReturnType<Next> {
  let result: ReturnType<Next>;
  try {
    result = next(context);
  } catch (error) {
    finish(open, { error });
    throw error;
  }
  if (!(result instanceof Promise)) return ended(open, result, finish);
  return result.then(
    (given) => ended(open, given, finish),
    (error: unknown) => {
      finish(open, { error });
      throw error;
    },
  );
}

function ended(open: OpenSpan, result: CallResult, finish: Finish): CallResult {
  if (result.kind !== 'stream') return finish(open, { result }) ?? result;
  const events = onStreamEnd(result.events, (over, count) => {
    if (typeof over === 'string') finish(open, { result, events: count, left: over === 'left' });
    else finish(open, { error: over, events: count });
  });
  return { ...result, events };
}

/** The state of a question contains the trace, so that the next round continues the trace on any replica. */
function withTrace(result: CallResult | undefined, span: SpanReference): CallResult | undefined {
  if (result?.kind !== 'input_required' || !result.state) return result;
  return { ...result, state: { ...result.state, trace: writeTrace(span).traceparent } };
}

/** The type of the failure; undefined for a success. */
function errorType(context: CallContext, { result, error }: End): string | undefined {
  const failure = result?.kind === 'error' ? result.error : error;
  if (failure === undefined) return isToolError(context, result) ? TOOL_ERROR : undefined;
  if (failure instanceof ProtocolError) return failure.reason;
  return failure instanceof UpstreamRpcError ? String(failure.code) : 'internal';
}

function spanOf(
  { context, kind, span, parent, began, link }: OpenSpan,
  end: End,
  error: string | undefined,
  ended: number,
): FinishedSpan {
  const { target } = context;
  const named = target && (target.kind === 'tool' || target.kind === 'prompt' || target.kind === 'agent');
  return {
    name: spanName(bounded(context.method, MOST_NAME), named ? targetName(target) : undefined),
    kind,
    traceId: span.traceId,
    spanId: span.spanId,
    state: span.state,
    parent: parent?.spanId,
    remoteParent: kind === 'server',
    links: link ? [link] : [],
    began,
    ended,
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
  if (failure !== undefined) attributes[A.outcome] = 'error';
  else if (result) attributes[A.outcome] = result.kind;
  if (context.protocol === 'mcp') {
    attributes[A.method] = bounded(context.method, MOST_NAME);
    attributes[A.success] = failure === undefined;
    if (kind === 'server') {
      attributes[A.revision] = caller.revision.date;
      attributes[A.transport] = context.call.header ? 'tcp' : 'pipe';
    }
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
  const { route } = context.notes;
  if (route && kind === 'server') {
    attributes[A.routeWhy] = route.why;
    if (route.skill !== undefined) attributes[A.routeSkill] = bounded(route.skill, MOST_NAME);
    if (route.unsure !== undefined) attributes[A.routeUnsure] = route.unsure;
    if (route.next) {
      attributes[A.routeNext] = bounded(route.next.agent, MOST_NAME);
      attributes[A.routeNextScore] = route.next.score;
    }
  }
  if (target?.kind === 'agent') {
    attributes[A.a2aAgent] = targetName(target);
    attributes[A.agent] = targetName(target);
    attributes[A.operation] = INVOKE_AGENT;
  }
  return attributes;
}
