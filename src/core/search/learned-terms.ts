import { ConfirmedSuggestions } from './confirmed-suggestions.js';
import type { KeptOutcome } from './outcomes.js';
import type { OutcomesByTerm, Reader } from './outcomes-by-term.js';
import { hashOf } from './tokenize.js';
import type { Rarity } from './tool-key.js';

/** A term counts for a tool after this many distinct successful searches with it. */
const DISTINCT_QUERIES = 2;

/**
 * Search terms of past searches that led to a successful call of a tool. They are an additional field of the tool,
 * which its server did not write. Terms are stored as hashes of stems.
 */
export class LearnedTerms {
  constructor(private readonly byTerm: OutcomesByTerm) {}

  /**
   * For each tool, the share of the need's terms that past searches link to the tool, weighted by rarity. `except` is a
   * search that is left out.
   */
  support(terms: readonly string[], rarityOf: Rarity, reader: Reader, except?: number): ConfirmedSuggestions {
    const support = new ConfirmedSuggestions();
    const distinct = [...new Set(terms)];
    const rarity = distinct.map(rarityOf);
    const all = rarity.reduce((sum, value) => sum + value, 0);
    if (all === 0) return support;
    for (const [index, term] of distinct.entries()) {
      for (const teachers of this.teachersOf(hashOf(term), reader, except)) {
        // Each caller adds the same amount, whatever the number of the caller's searches.
        const callers = new Map(teachers.map((outcome) => [outcome.caller, outcome]));
        for (const outcome of callers.values()) support.add(outcome, rarity[index]! / all);
      }
    }
    return support;
  }

  /** The outcomes whose searches contain the term, grouped by tool. Skips tools with too few distinct searches. */
  private *teachersOf(term: number, reader: Reader, except: number | undefined): Generator<KeptOutcome[]> {
    const tools = new Map<string, KeptOutcome[]>();
    for (const outcome of this.byTerm.outcomes(term, reader)) {
      if (outcome.query === except) continue;
      const id = `${outcome.tool.server}\n${outcome.tool.name}`;
      const known = tools.get(id);
      if (known) known.push(outcome);
      else tools.set(id, [outcome]);
    }
    for (const outcomes of tools.values()) {
      if (new Set(outcomes.map(({ query }) => query)).size >= DISTINCT_QUERIES) yield outcomes;
    }
  }
}
