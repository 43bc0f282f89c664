import type { Evaluator } from './evaluator.js';

/**
 * The evaluator `latency`. The score is 1 for a call within the objective, in milliseconds, and falls as calls take
 * longer.
 */
export const latencyEvaluator = (objective: number): Evaluator => ({
  // Failed calls have no score, because many failures are fast.
  evaluate: ({ outcome, ms }) => (outcome === 'ok' ? { score: Math.min(1, objective / ms) } : { score: null }),
});
