import type { Admission, Target } from '../core/admission.js';
import type { CallContext } from '../core/call.js';
import type { Interceptor } from '../core/pipeline.js';

/** Stops the calls that their caller may not make. A call that is for nothing fails by itself. */
export function admitting(admission: Admission): Interceptor {
  return (context, next) => {
    if (!isResolved(context)) return next(context);
    const admitted = admission.admit(context);
    return admitted === undefined ? next(context) : admitted.then(() => next(context));
  };
}

const isResolved = (context: CallContext): context is CallContext & { readonly target: Target } =>
  context.target !== undefined;
