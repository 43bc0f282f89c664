import type { KeptOutcome, OutcomeListener } from './outcomes.js';
import { hashOf } from './tokenize.js';

/** The most outcomes of one caller that are read for one term. Further ones have no effect. */
const MOST_PER_CALLER = 20;
/** The callers that are read for one term. */
const MOST_CALLERS = 30;

/**
 * Finds outcomes by the hashes of their terms, separately for each caller, so that the outcomes of one caller never
 * displace those of another.
 */
export class OutcomesByTerm implements OutcomeListener {
  private readonly byTerm = new Map<number, Map<string, Set<KeptOutcome>>>();

  added(outcome: KeptOutcome): void {
    for (const term of outcome.terms) {
      const hash = hashOf(term);
      const callers = this.byTerm.get(hash) ?? new Map<string, Set<KeptOutcome>>();
      this.byTerm.set(hash, callers);
      const own = callers.get(outcome.caller);
      if (own) own.add(outcome);
      else callers.set(outcome.caller, new Set([outcome]));
    }
  }

  removed(outcome: KeptOutcome): void {
    for (const term of outcome.terms) {
      const hash = hashOf(term);
      const callers = this.byTerm.get(hash);
      const own = callers?.get(outcome.caller);
      own?.delete(outcome);
      if (own?.size === 0) callers!.delete(outcome.caller);
      if (callers?.size === 0) this.byTerm.delete(hash);
    }
  }

  *outcomes(term: number): Generator<KeptOutcome> {
    let callers = 0;
    for (const own of this.byTerm.get(term)?.values() ?? []) {
      callers += 1;
      if (callers > MOST_CALLERS) return;
      let read = 0;
      for (const outcome of own) {
        read += 1;
        if (read > MOST_PER_CALLER) break;
        yield outcome;
      }
    }
  }
}
