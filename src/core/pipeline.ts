import type { AgentAnswer } from './a2a/gateway.js';
import type { A2aContext, CallContext, CallResult, McpContext, McpResult } from './call.js';

/** Goes on with a call. It may throw as well as reject. */
export type Next = (context: CallContext) => CallResult | Promise<CallResult>;

/**
 * A step around every call of both protocols, between the resolution of its target and its way to the server or agent. It
 * refuses a call by throwing a `ProtocolError`, and goes on by calling `next`, with the context it was given or a changed one.
 */
export type Interceptor = (context: CallContext, next: Next) => CallResult | Promise<CallResult>;

/** The interceptors in their order, composed once; the first sees a call first and its outcome last. */
export class Pipeline {
  private readonly chain: Next;

  /** A place is empty where the configuration leaves an interceptor nothing to do. */
  constructor(interceptors: readonly (Interceptor | undefined)[]) {
    this.chain = interceptors.reduceRight<Next>(
      (next, interceptor) => (interceptor ? (context) => interceptor(context, next) : next),
      (context) => context.forward(),
    );
  }

  /** Adds no promise of its own: a call without interceptors that wait costs what forwarding it costs. */
  run(context: McpContext): McpResult | Promise<McpResult>;
  run(context: A2aContext): AgentAnswer | Promise<AgentAnswer>;
  run(context: CallContext): CallResult | Promise<CallResult> {
    return this.chain(context);
  }
}
