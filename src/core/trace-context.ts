/** The W3C trace context of a request, as headers and `_meta` carry it. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** A reference to a span, for its child spans and for the next round of its call. */
export interface SpanReference {
  /** The id of the trace: 32 hexadecimal digits. */
  readonly traceId: string;
  /** The id of the span: 16 hexadecimal digits. */
  readonly spanId: string;
  /** Whether the spans of this trace are exported. */
  readonly sampled: boolean;
  /** The state of other tracing systems, passed on unchanged. */
  readonly state?: string | undefined;
}

const TRACEPARENT = /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-|$)/;
const ZEROS = /^0+$/;
/** Limit of the W3C recommendation; a longer state is left out. */
const MOST_STATE = 512;

/** Undefined if the text is not a valid trace context. Such a text is treated as absent, as W3C demands. */
export function readTrace(context: TraceContext | undefined): SpanReference | undefined {
  const match = context && TRACEPARENT.exec(context.traceparent);
  if (!match) return undefined;
  const [, traceId = '', spanId = '', flags = ''] = match;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  const state = context.tracestate;
  const sampled = (Number.parseInt(flags, 16) & 1) === 1;
  return {
    traceId,
    spanId,
    sampled,
    ...(state !== undefined && state !== '' && state.length <= MOST_STATE && { state }),
  };
}

export function writeTrace({ traceId, spanId, sampled, state }: SpanReference): TraceContext {
  const traceparent = `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
  return state === undefined ? { traceparent } : { traceparent, tracestate: state };
}
