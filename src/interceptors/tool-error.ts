import type { CallContext, CallResult } from '../core/call.js';

/** Whether a tool reports its failure in its result. Reads one member; nothing else of the result is parsed. */
export const isToolError = (context: CallContext, result: CallResult | undefined): boolean =>
  context.method === 'tools/call' && result?.kind === 'complete' && result.result.get('isError') === true;
