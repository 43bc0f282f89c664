import type { SharedLearning } from '../core/search/shared-learning.js';
import type { CallObserver } from './observed-calls.js';

/**
 * Reports successful calls of tools to the learning search. The result is read only if the caller searched before the
 * call.
 */
export function searchOutcomes(learning: SharedLearning): CallObserver {
  return {
    active: () => learning.active,
    ended: ({ context, outcome, result }) => {
      const { target } = context;
      if (outcome !== 'ok' || target?.kind !== 'tool' || context.method !== 'tools/call') return;
      const tool = { server: target.server, name: target.offered ?? target.name };
      learning.called(
        context.caller.principal,
        tool,
        () => result?.kind === 'complete' && result.result.get('isError') !== true,
      );
    },
  };
}
