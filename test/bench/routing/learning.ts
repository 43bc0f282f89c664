/**
 * Measures the search after it has learned from outcomes: queries of the train split with their labels, as successful
 * calls.
 */
import { Learning } from '../../../src/core/search/learning.js';
import { hashOf, termsOf } from '../../../src/core/search/tokenize.js';
import type { ToolRanking } from '../../../src/core/search/tool-ranking.js';
import { byWords, measure, type Row } from './search-quality.js';
import type { Query, RoutingSet } from './sets.js';

const OUTCOMES = 1_000;

/** 1,000 queries in a shuffled order, which is the same in every run. */
const spread = (queries: readonly Query[]): Query[] =>
  [...queries].sort((a, b) => hashOf(a.id) - hashOf(b.id)).slice(0, OUTCOMES);

export interface LearnedRow extends Row {
  readonly weights: string;
}

/**
 * `callers` share the outcomes. With one caller, that caller searches: it has learned from its own calls. With several,
 * a caller without calls of its own searches.
 */
export async function measureLearned(
  set: RoutingSet,
  index: ToolRanking,
  seen: readonly Query[],
  queries: readonly Query[],
  callers: number,
  confirmations: number,
): Promise<LearnedRow> {
  const learning = new Learning({ confirmations });
  const owners = new Map(set.tools.map(({ id, server }) => [id, server ?? '']));
  for (const [number, { query, relevant }] of spread(seen).entries()) {
    for (const [name] of relevant as readonly (readonly [string])[]) {
      const tool = { server: owners.get(name)!, name };
      learning.record({ caller: `caller-${number % callers}`, terms: termsOf(query), tool });
    }
  }
  learning.replay(index);
  const { terms, votes } = learning.weights;
  const searcher = callers === 1 ? 'caller-0' : 'newcomer';
  const label = `${set.name}, ${Math.min(seen.length, OUTCOMES)} seen, ${callers} caller${callers === 1 ? '' : `s, ${confirmations} agree`}`;
  return {
    ...(await measure(label, queries, byWords(index, learning.for(searcher)))),
    weights: `terms ${terms}, votes ${votes}`,
  };
}
