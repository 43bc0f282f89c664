import type { AgentAnswer } from './a2a/gateway.js';
import type { A2aContext, CallContext, CallResult, McpContext, McpResult } from './call.js';

/** Continues a call. May throw or reject. */
export type Next = (context: CallContext) => CallResult | Promise<CallResult>;

/**
 * A step around every call of both protocols, between the resolution of its target and the upstream. It refuses a call
 * by throwing a `ProtocolError`, and continues by calling `next` with the given context or a changed one.
 */
export type Interceptor = (context: CallContext, next: Next) => CallResult | Promise<CallResult>;

/** The interceptors, composed once. The first interceptor sees a call first and its outcome last. */
export class Pipeline {
  private readonly chain: Next;

  /** An element is undefined if the configuration leaves the interceptor nothing to do. */
  constructor(interceptors: readonly (Interceptor | undefined)[]) {
    this.chain = interceptors.reduceRight<Next>(
      (next, interceptor) => (interceptor ? (context) => interceptor(context, next) : next),
      (context) => context.forward(),
    );
  }

  /** Adds no promise of its own, so interceptors that do not wait cost no event-loop turn. */
  run(context: McpContext): McpResult | Promise<McpResult>;
  run(context: A2aContext): AgentAnswer | Promise<AgentAnswer>;
  run(context: CallContext): CallResult | Promise<CallResult> {
    return this.chain(context);
  }
}
