import { absentTarget } from '../core/absent-target.js';
import { type Admission, type ItemTarget, knownBy, sees, seesAll, type Target } from '../core/admission.js';
import type { CallContext } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import type { Interceptor, Next } from '../core/pipeline.js';

/**
 * Refuses calls that the caller may not make; a hidden target gets the error of an absent one. A call without a target
 * fails in `forward`, and the gateway itself is always admitted.
 */
export function admitting(admission: Admission): Interceptor {
  return (context, next) => {
    if (!isResolved(context) || context.caller.principal === GATEWAY.principal) return next(context);
    const { caller, target } = context;
    // The principal of resumed work has no roles. A rule about roles would therefore refuse work that was admitted
    // before.
    if (context.protocol === 'a2a' && context.call.resumed) return next(context);
    if (target.kind === 'catalog' || seesAll(admission, caller)) return admitted(admission, context, next);
    const known = knownBy(described(context, target));
    const decide = (seen: boolean): ReturnType<Next> => {
      if (seen) return admitted(admission, context, next);
      const rule = admission.hiddenBy?.(caller, known);
      context.notes.decision = { decision: 'denied', ...(rule !== undefined && { rule }) };
      throw absentTarget(context.method, target);
    };
    const seen = sees(admission, caller, known);
    return seen instanceof Promise ? seen.then(decide) : decide(seen);
  };
}

type Resolved = CallContext & { readonly target: Target };

function admitted(admission: Admission, context: Resolved, next: Next): ReturnType<Next> {
  const waiting = admission.admit(context);
  return waiting === undefined ? next(context) : waiting.then(() => next(context));
}

const isResolved = (context: CallContext): context is Resolved => context.target !== undefined;

/** The target with the definition of its tool, if the call knows it. */
function described(context: CallContext, target: ItemTarget): ItemTarget {
  const definition = context.protocol === 'mcp' ? context.item?.value : undefined;
  return definition === undefined ? target : { ...target, definition };
}
