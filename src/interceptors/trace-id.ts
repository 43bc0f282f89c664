import type { CallContext } from '../core/call.js';

const TRACEPARENT_KEY = Buffer.from('"traceparent"');

/** Whether the call may have a trace context. Most clients send none, and `_meta` is parsed only if it may have one. */
export const hasTrace = (context: CallContext): boolean =>
  context.protocol === 'a2a' ||
  context.call.header?.('traceparent') !== undefined ||
  context.call.params.mentions('_meta', TRACEPARENT_KEY);

/** The W3C format `version-traceid-spanid-flags`. A text in another format is ignored. */
const TRACEPARENT = /^[\da-f]{2}-([\da-f]{32})-[\da-f]{16}-[\da-f]{2}/;

/** The id of the trace that a call belongs to: the trace of the gateway, otherwise that of the client. */
export function traceIdOf(context: CallContext): string | undefined {
  const { span } = context.notes;
  if (span) return span.traceId;
  const traceparent = hasTrace(context) ? context.trace?.traceparent : undefined;
  return traceparent === undefined ? undefined : TRACEPARENT.exec(traceparent)?.[1];
}
