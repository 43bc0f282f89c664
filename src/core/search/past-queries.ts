import { ConfirmedSuggestions } from './confirmed-suggestions.js';
import type { KeptOutcome } from './outcomes.js';
import type { OutcomesByTerm, Reader } from './outcomes-by-term.js';
import { hashOf } from './tokenize.js';
import type { Rarity } from './tool-key.js';

/** The most searches of one caller that vote, and the most other callers that vote. */
const VOTES_PER_CALLER = 5;
const MOST_CALLERS = 20;
/** The lowest similarity (cosine of the terms, weighted by rarity) of a search that votes. */
const LOWEST = 0.35;

/**
 * Finds the successful searches that are most similar to a new search. Each votes for the tool that was called after
 * it.
 */
export class PastQueries {
  constructor(private readonly byTerm: OutcomesByTerm) {}

  /**
   * The votes of the most similar searches. Of equally similar searches, the latest count. `except` is a search that is
   * left out, because a replay repeats it.
   */
  support(terms: readonly string[], rarity: Rarity, reader: Reader, except?: number): ConfirmedSuggestions {
    const shared = new Map<KeptOutcome, number>();
    let length = 0;
    for (const term of new Set(terms)) {
      const hash = hashOf(term);
      const weight = rarity(term) ** 2;
      length += weight;
      for (const outcome of this.byTerm.outcomes(hash, reader)) {
        if (outcome.query !== except) shared.set(outcome, (shared.get(outcome) ?? 0) + weight);
      }
    }
    const near: (readonly [KeptOutcome, number])[] = [];
    for (const [outcome, weight] of shared) {
      // This first test excludes most outcomes without the length of their query, which is costly to compute. That
      // length could only lower the similarity.
      if (weight / length < LOWEST * LOWEST) continue;
      const similarity = weight / Math.sqrt(length * lengthOf(outcome, rarity));
      if (similarity >= LOWEST) near.push([outcome, similarity]);
    }
    near.sort((a, b) => b[1] - a[1]);
    const support = new ConfirmedSuggestions();
    const votes = new Map<string, number>();
    let callers = 0;
    for (const [outcome, similarity] of near) {
      const cast = votes.get(outcome.caller) ?? 0;
      const another = cast === 0 && outcome.caller !== reader.caller;
      if (another) callers += 1;
      // Each caller has the same limited number of votes, so that no caller outvotes the others.
      if (cast >= VOTES_PER_CALLER || (another && callers > MOST_CALLERS)) continue;
      votes.set(outcome.caller, cast + 1);
      support.add(outcome, similarity ** 2);
    }
    return support;
  }
}

function lengthOf({ terms }: KeptOutcome, rarity: Rarity): number {
  return terms.reduce((sum, term) => sum + rarity(term) ** 2, 0);
}
