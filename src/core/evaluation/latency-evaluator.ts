import type { Evaluator } from './evaluator.js';

/** The evaluator `latency`: 1 for a call within the objective in milliseconds, less the longer the call takes. */
export const latencyEvaluator = (objective: number): Evaluator => ({
  // Failed calls have no score, because many failures are fast.
  evaluate: ({ outcome, ms }) => (outcome === 'ok' ? { score: Math.min(1, objective / ms) } : { score: null }),
});
