import {
  type Admission,
  type ItemTarget,
  knownBy,
  sees,
  seesAll,
  type Target,
  unknownAgent,
} from '../core/admission.js';
import type { CallContext } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import { ProtocolError } from '../protocol/errors.js';

/**
 * Refuses calls that the caller may not make; a hidden target gets the error of an absent one. A call without a target
 * fails in `forward`, and the gateway itself is always admitted.
 */
export function admitting(admission: Admission): Interceptor {
  return (context, next) => {
    if (!isResolved(context) || context.caller.principal === GATEWAY.principal) return next(context);
    const { caller, target } = context;
    if (target.kind === 'catalog' || seesAll(admission, caller)) return admitted(admission, context, next);
    return Promise.resolve(sees(admission, caller, knownBy(target))).then((seen) => {
      if (seen) return admitted(admission, context, next);
      throw unknown(context, target);
    });
  };
}

type Resolved = CallContext & { readonly target: Target };

function admitted(admission: Admission, context: Resolved, next: Next): ReturnType<Next> {
  const waiting = admission.admit(context);
  return waiting === undefined ? next(context) : waiting.then(() => next(context));
}

const isResolved = (context: CallContext): context is Resolved => context.target !== undefined;

/** The error for an absent target. */
function unknown({ method }: CallContext, { kind, server, name, offered = name }: ItemTarget): ProtocolError {
  switch (kind) {
    case 'tool':
      return new ProtocolError('tool_not_found', `Unknown tool: ${offered}`, { data: { name: offered, server } });
    case 'prompt':
      return new ProtocolError('prompt_not_found', `Unknown prompt: ${name}`, { data: { name } });
    case 'resource':
      return new ProtocolError('resource_not_found', `Resource not found: ${name}`, { data: { uri: name } });
    case 'task':
      return new ProtocolError('task_not_found', 'Unknown task');
    case 'method':
      return new ProtocolError('method_not_found', `Method not found: ${method}`);
    case 'agent':
      return unknownAgent(name);
    case 'server':
      return new ProtocolError('not_found', `There is no server "${name}"`);
  }
}
