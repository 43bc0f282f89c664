import { needsOf } from './split-needs.js';
import { synonymsOf } from './synonyms.js';
import { bigramsOf, termsOf } from './tokenize.js';
import type { ToolKey } from './tool-key.js';
import {
  BIGRAM_WEIGHT,
  type Hit,
  LONGEST_QUERY,
  type RankedServer,
  type SearchOptions,
  SYNONYM_WEIGHT,
  type ToolRanking,
} from './tool-ranking.js';

/**
 * A term of the query that a tool has, and the part of the tool's score for the whole query that comes from this term.
 */
export interface ExplainedTerm {
  readonly term: string;
  /** The word of the tool that stands for the term, if the tool does not have the term itself. */
  readonly synonym?: string;
  /**
   * The weight of the word in the tool, from 0 to 1. The weight times the rarity of the word is its part of the score.
   */
  readonly weight: number;
  readonly worth: number;
}

export interface ExplainedHit extends Hit {
  readonly terms: readonly ExplainedTerm[];
  /** The amount that earlier outcomes add, as a share of the best score from words alone. */
  readonly learned: number;
  /** The rank by words alone, from 1; undefined if it is beyond the results. */
  readonly plainRank: number | undefined;
}

export interface Explanation {
  /** The separate needs in the query, if there are several. Each is ranked by itself. */
  readonly needs: readonly string[];
  /** The terms of the query. `rarity` says how much the term distinguishes tools. */
  readonly terms: readonly { readonly term: string; readonly rarity: number }[];
  readonly hits: readonly ExplainedHit[];
  /** The servers that fit the whole query, by their best tools. */
  readonly servers: readonly RankedServer[];
}

const MOST_EXPLAINED = 32;

/** Explains why a search ranks its results in this order. `options.learned` counts as if learning were on. */
export function explain(index: ToolRanking, query: string, options: SearchOptions): Explanation {
  const { learned, ...words } = options;
  const text = query.slice(0, LONGEST_QUERY);
  const all = termsOf(text);
  const plain = index.search(text, words);
  const counted = index.countedTerms(all);
  const terms = [...counted.terms].slice(0, MOST_EXPLAINED);
  const pairs = [...new Set(bigramsOf(all))].slice(0, MOST_EXPLAINED);
  const shares = learned?.suggestions(all, (term) => index.rarity(term)) ?? [];
  const isSame = (a: ToolKey, b: ToolKey): boolean => a.server === b.server && a.name === b.name;
  const hits = index.search(text, options).map((hit): ExplainedHit => {
    const found = [
      ...terms.flatMap((term) => explainedTerm(index, hit, term)).slice(0, counted.most),
      ...pairs.map((term) => explained(index, hit, term, BIGRAM_WEIGHT)),
    ];
    const rank = plain.findIndex((other) => isSame(other, hit));
    return {
      ...hit,
      terms: found.filter(({ worth }) => worth > 0).sort((a, b) => b.worth - a.worth),
      learned: shares.filter(({ tool }) => isSame(tool, hit)).reduce((sum, { share }) => sum + share, 0),
      plainRank: rank < 0 ? undefined : rank + 1,
    };
  });
  const needs = needsOf(text);
  return {
    needs: needs.length > 1 ? needs : [],
    terms: terms.map((term) => ({ term, rarity: index.rarity(term) })),
    hits,
    servers: index.rankServers([text], { ...options, similarNeeds: [options.similar] }),
  };
}

function explainedTerm(index: ToolRanking, tool: ToolKey, term: string): ExplainedTerm[] {
  const others = synonymsOf(term).map((synonym) => ({
    ...explained(index, tool, synonym, SYNONYM_WEIGHT),
    ...{ term, synonym },
  }));
  const best = [explained(index, tool, term, 1), ...others].reduce((a, b) => (b.worth > a.worth ? b : a));
  return best.worth > 0 ? [best] : [];
}

function explained(index: ToolRanking, tool: ToolKey, term: string, factor: number): ExplainedTerm {
  const worth = factor * index.worth(tool, term);
  return { term, weight: worth === 0 ? 0 : worth / index.rarity(term), worth };
}
