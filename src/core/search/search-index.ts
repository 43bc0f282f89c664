import type { SearchDocument, SearchServer } from './document.js';
import { needsOf } from './needs.js';
import { type Place, Postings } from './postings.js';
import { Scores } from './scores.js';
import { alike, Segment } from './segment.js';
import { synonymsOf } from './synonyms.js';
import { bigramsOf, termsOf } from './tokenize.js';
import type { LearnedScores, ToolKey } from './tool-key.js';

export interface SearchOptions {
  readonly limit: number;
  /** Whether the caller may use this tool. Search shows no other. */
  readonly allowed?: (tool: ToolKey) => boolean;
  readonly learned?: LearnedScores | undefined;
}

export interface RankOptions extends SearchOptions {
  /** The message from which the needs come. Its terms count a little for each of them. */
  readonly message?: string;
}

export interface Hit extends ToolKey {
  /** Relative to the best match of the words: 1 for the best, and more only by what was learned. */
  readonly score: number;
  readonly stuffed: boolean;
  /** Tools with nearly the same text and a lower score. */
  readonly duplicates: readonly ToolKey[];
}

export interface RankedServer {
  readonly server: string;
  readonly score: number;
}

/** Characters that are read of a query. */
const LONGEST_QUERY = 4_000;
/** Terms that are read of one need. */
const MOST_TERMS = 64;
const BIGRAM_WEIGHT = 0.5;
const SYNONYM_WEIGHT = 0.2;
/** A need with more terms than this says enough without synonyms. */
const MOST_EXPANDED = 16;
/** The weight of the terms of the message around a need. */
const CONTEXT_WEIGHT = 0.2;
/** The share of the whole query in a score, when the query has several needs; the rest is the best-matching need. */
const WHOLE_SHARE = 0.7;
const MOST_DUPLICATES = 10;
/** The shares of a server's best tools in the score of the server. */
const TOOL_SHARES = [1, 0.25, 0.15];

/** BM25F over the tools of many servers. One instance serves all callers; each query says what its caller may use. */
export class SearchIndex {
  private readonly postings = new Postings();
  private readonly sum = new Scores();
  private readonly synonyms = new Scores();
  private readonly needs = new Scores();
  private readonly rarity = (term: string): number => this.postings.rarity(term);

  /** The number of tools. */
  get size(): number {
    return this.postings.size;
  }

  /** Replaces the tools of a server. No other server's part changes. */
  set(server: SearchServer, documents: readonly SearchDocument[]): void {
    this.postings.add(new Segment(server, documents));
  }

  delete(server: string): void {
    this.postings.remove(server);
  }

  /**
   * The tools that fit a need, best first. Nearly equal tools are one hit. The need is a text, or its terms if it is an
   * earlier one.
   */
  search(query: string | readonly string[], options: SearchOptions): Hit[] {
    const scores = this.scored(query, options.learned);
    const hits: { place: Place; score: number; duplicates: ToolKey[] }[] = [];
    for (const document of scores.best(2 * options.limit + MOST_DUPLICATES, this.accepts(options))) {
      const place = this.postings.place(document);
      const original = hits.find((hit) => alike(hit.place, place));
      if (!original) {
        if (hits.length < options.limit) hits.push({ place, score: scores.of(document), duplicates: [] });
      } else if (original.duplicates.length < MOST_DUPLICATES) original.duplicates.push(keyOf(place));
    }
    return hits.map(({ place, score, duplicates }) => ({
      ...keyOf(place),
      score,
      stuffed: place.segment.stuffed[place.index]!,
      duplicates,
    }));
  }

  /**
   * The servers that fit a message, best first. `needs` are the steps of a plan, if there is one: each is a query of its
   * own, and a server counts by the step that it fits best.
   */
  rankServers(needs: readonly string[], options: RankOptions): RankedServer[] {
    const found = new Map<string, number>();
    const context = options.message === undefined ? [] : this.contextOf(options.message);
    for (const need of needs) {
      const servers = this.serversOf(this.scored(need, options.learned, context), options);
      const highest = Math.max(...servers.values());
      for (const [server, score] of servers) found.set(server, Math.max(found.get(server) ?? 0, score / highest));
    }
    const ranked = [...found].map(([server, score]) => ({ server, score }));
    return ranked.sort((a, b) => b.score - a.score).slice(0, options.limit);
  }

  private contextOf(message: string): string[] {
    return [...new Set(termsOf(message.slice(0, LONGEST_QUERY)))].slice(0, MOST_TERMS);
  }

  private serversOf(scores: Scores, options: SearchOptions): Map<string, number> {
    const counted = new Map<string, number>();
    const found = new Map<string, number>();
    for (const document of scores.best(MOST_TOOLS_OF_SERVERS, this.accepts(options))) {
      const { name } = this.postings.place(document).segment.server;
      const count = counted.get(name) ?? 0;
      counted.set(name, count + 1);
      found.set(name, (found.get(name) ?? 0) + (TOOL_SHARES[count] ?? 0) * scores.of(document));
    }
    return found;
  }

  private accepts({ allowed }: SearchOptions): (document: number) => boolean {
    return allowed ? (document) => allowed(keyOf(this.postings.place(document))) : () => true;
  }

  /** The scores of a query, valid until the next one. */
  private scored(
    query: string | readonly string[],
    learned: LearnedScores | undefined,
    context: readonly string[] = [],
  ): Scores {
    const { sum, needs } = this;
    const text = typeof query === 'string' ? query.slice(0, LONGEST_QUERY) : undefined;
    const parts = text === undefined ? [] : needsOf(text);
    needs.reset(this.size);
    if (parts.length > 1) {
      for (const part of parts) {
        const highest = this.scoreNeed(termsOf(part), learned, context);
        if (highest > 0) needs.raiseAll(sum, (1 - WHOLE_SHARE) / highest);
      }
    }
    const terms = text === undefined ? (query as readonly string[]) : termsOf(text);
    const highest = this.scoreNeed(terms, learned, context);
    if (highest > 0) needs.addAll(sum, (parts.length > 1 ? WHOLE_SHARE : 1) / highest);
    return needs;
  }

  /** Leaves the scores of one need in `sum`, and returns the highest score of the words alone. */
  private scoreNeed(all: readonly string[], learned: LearnedScores | undefined, context: readonly string[]): number {
    const { sum, synonyms, postings } = this;
    sum.reset(this.size);
    const terms = all.length > MOST_TERMS ? all.slice(0, MOST_TERMS) : all;
    const distinct = new Set(terms);
    for (const term of distinct) {
      const others = distinct.size > MOST_EXPANDED ? [] : synonymsOf(term);
      if (others.length === 0) {
        postings.score(sum, term, 1);
        continue;
      }
      // A document counts by the term or by its best synonym, not by all of them.
      synonyms.reset(this.size);
      postings.score(synonyms, term, 1, true);
      for (const other of others) if (!distinct.has(other)) postings.score(synonyms, other, SYNONYM_WEIGHT, true);
      sum.addAll(synonyms, 1);
    }
    for (const pair of new Set(bigramsOf(terms))) postings.score(sum, pair, BIGRAM_WEIGHT);
    for (const term of context) if (!distinct.has(term)) postings.score(sum, term, CONTEXT_WEIGHT);
    const highest = sum.highest();
    if (learned) this.addLearned(learned, terms, highest || 1);
    return highest;
  }

  private addLearned(learned: LearnedScores, terms: readonly string[], highest: number): void {
    for (const { tool, share } of learned.suggestions(terms, this.rarity)) {
      const document = this.postings.find(tool.server, tool.name);
      if (document !== undefined) this.sum.add(document, share * highest);
    }
  }
}

/** Tools that are looked at to rank servers. */
const MOST_TOOLS_OF_SERVERS = 100;

const keyOf = ({ segment, index }: Place): ToolKey => ({ server: segment.server.name, name: segment.names[index]! });
