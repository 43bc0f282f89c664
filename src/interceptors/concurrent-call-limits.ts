import { type CallContext, isPartOfSameAgent } from '../core/call.js';
import type { CallSlots } from '../core/call-slots.js';
import { GATEWAY } from '../core/caller.js';
import type { Release } from '../core/count-and-byte-limit.js';
import type { Interceptor, Next } from '../core/pipeline.js';

/**
 * Limits the calls in flight of each caller, session, and server or agent, and the bytes of their requests. A call
 * beyond a limit is refused and reaches no upstream. A call counts until it is answered; tasks, parked calls and
 * streams of agents have limits of their own.
 */
export function callLimits(slots: CallSlots): Interceptor {
  return (context, next) => {
    const { caller, session, target } = context;
    if (caller.principal === GATEWAY.principal) return next(context);
    const server = target?.server;
    // A call of an agent as a tool, or of a tool as an agent, is one call of its caller and counts once.
    if (context.call.nested)
      return isPartOfSameAgent(context)
        ? next(context)
        : releasing(slots.take({ caller: undefined, session: undefined, server }), context, next);
    return releasing(slots.take({ caller: caller.principal.key, session, server }, context.bytes), context, next);
  };
}

/** Continues a call and calls `release` when the call is over. */
export function releasing(release: Release, context: CallContext, next: Next): ReturnType<Next> {
  let result: ReturnType<Next>;
  try {
    result = next(context);
  } catch (error) {
    release();
    throw error;
  }
  // A handler costs less than `finally`, which adds promises to every call.
  if (result instanceof Promise)
    return result.then(
      (given) => {
        release();
        return given;
      },
      (error: unknown) => {
        release();
        throw error;
      },
    );
  release();
  return result;
}
