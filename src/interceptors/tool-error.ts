import type { CallContext, CallResult } from '../core/call.js';

/** Whether the result of a tool reports a failure. Reads one member, and does not parse the rest of the result. */
export const isToolError = (context: CallContext, result: CallResult | undefined): boolean =>
  context.method === 'tools/call' && result?.kind === 'complete' && result.result.get('isError') === true;
