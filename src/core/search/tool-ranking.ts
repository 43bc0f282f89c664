import { type Place, Postings, type VisibleTools } from './postings.js';
import { ScoreArray } from './score-array.js';
import { alike, Segment } from './segment.js';
import { needsOf } from './split-needs.js';
import { synonymsOf } from './synonyms.js';
import { bigramsOf, termsOf } from './tokenize.js';
import type { LearnedScores, ToolKey } from './tool-key.js';
import type { Similarities } from './tool-vectors.js';
import type { SearchDocument, SearchServer } from './weighted-fields.js';

export interface SearchOptions {
  readonly limit: number;
  /**
   * The tools that the caller sees; absent if the caller sees all tools. A tool that the caller does not see changes no
   * score.
   */
  readonly visible?: VisibleTools | undefined;
  /** Whether the caller may use this tool. Search shows no other tools. */
  readonly allowed?: (tool: ToolKey) => boolean;
  readonly learned?: LearnedScores | undefined;
  /** Similarities by vectors, added to the score of the words. */
  readonly similar?: Similarities | undefined;
}

export interface RankOptions extends SearchOptions {
  /** The message that contains the needs. Its terms have a small weight for each need. */
  readonly message?: string;
  /** The similarities by vectors for each need, like `similar` for a search. */
  readonly similarNeeds?: readonly (Similarities | undefined)[];
}

export interface Hit extends ToolKey {
  /** The score relative to the best result, whose score is 1. */
  readonly score: number;
  readonly stuffed: boolean;
  /** Tools with nearly the same text and a lower score. */
  readonly duplicates: readonly ToolKey[];
}

export interface RankedServer {
  readonly server: string;
  readonly score: number;
}

/** The number of characters that are read of a query. */
export const LONGEST_QUERY = 4_000;
/** The number of terms that are read of one need, and the number of distinct terms that count. */
const MOST_READ = 256;
const MOST_TERMS = 64;
/**
 * A need with more distinct terms than `USUAL_TERMS` is a long message. Of the terms of a long message that a tool
 * contains, only the `MOST_MATCHED` rarest count for the tool. A tool that lists many words fits a long message by
 * chance; this limit keeps its score low.
 */
const USUAL_TERMS = 32;
const MOST_MATCHED = 8;
const RAISE = { raise: true } as const;
export const BIGRAM_WEIGHT = 0.5;
export const SYNONYM_WEIGHT = 0.2;
/** Synonyms are used only for needs with at most this many terms. */
const MOST_EXPANDED = 16;
/** The weight of the terms of the message around a need. */
const CONTEXT_WEIGHT = 0.2;
/**
 * The share of the whole query in a score, if the query has several needs. The rest is the share of the need that fits
 * best.
 */
const WHOLE_SHARE = 0.7;
const MOST_DUPLICATES = 10;
/**
 * The exponent of a server's scores before the scores of the steps are added. With exponent 1, many weak matches
 * outweigh a good match. With a very large exponent only the best step counts, and the best servers of all steps have
 * equal scores.
 */
const STEP_POWER = 4;
/** The weights of a server's best tools in the score of the server, best tool first. */
export const TOOL_SHARES = [1, 0.25, 0.15];

/**
 * A BM25F ranking of the tools of many servers. One instance serves all callers; each query says which tools its caller
 * sees and may use. Callers see the scores, so a tool that the caller does not see affects neither the best score nor
 * the rarity of a term.
 */
export class ToolRanking {
  private readonly postings = new Postings();
  private readonly sum = new ScoreArray();
  private readonly synonyms = new ScoreArray();
  private readonly needs = new ScoreArray();
  /** The documents that were visible in the last query. */
  private seen = this.postings.seen(undefined);
  private readonly rarityOf = (term: string): number => this.postings.rarity(term, this.seen);

  /** The number of tools. */
  get size(): number {
    return this.postings.size;
  }

  /** Replaces the tools of a server. No other server's part changes. */
  set(server: SearchServer, documents: readonly SearchDocument[]): void {
    this.postings.add(new Segment(server, documents));
  }

  /** How much a term distinguishes the tools that were visible in the last query. */
  rarity(term: string): number {
    return this.rarityOf(term);
  }

  /** The amount that a term adds to the score of a tool in the last query; 0 if the tool does not have the term. */
  worth({ server, name }: ToolKey, term: string): number {
    const document = this.postings.find(server, name);
    return document === undefined ? 0 : this.postings.worth(document, term, this.seen);
  }

  /**
   * The distinct terms of a need that count, and how many of them count for one tool. All terms of a usual need count.
   * Of a long message only the rarest terms count, rarest first, because the request itself is often not at the
   * beginning. Rarity is measured among the tools that were visible in the last query.
   */
  countedTerms(all: readonly string[]): { readonly terms: ReadonlySet<string>; readonly most: number } {
    const terms = new Set(readOf(all));
    if (terms.size <= USUAL_TERMS) return { terms, most: Number.POSITIVE_INFINITY };
    const counted = [...terms].map((term) => ({ term, frequency: this.postings.frequency(term, this.seen) }));
    const known = counted.filter(({ frequency }) => frequency > 0).sort((a, b) => a.frequency - b.frequency);
    return { terms: new Set(known.slice(0, MOST_TERMS).map(({ term }) => term)), most: MOST_MATCHED };
  }

  delete(server: string): void {
    this.postings.remove(server);
  }

  /**
   * The tools that fit a need, best first. Nearly equal tools are one hit. `query` is the text of the need, or the
   * stored terms of an earlier search.
   */
  search(query: string | readonly string[], options: SearchOptions): Hit[] {
    const scores = this.scored(query, options);
    if (options.similar) this.addSimilar(scores, options.similar, options);
    const hits: { place: Place; score: number; duplicates: ToolKey[] }[] = [];
    for (const document of scores.best(2 * options.limit + MOST_DUPLICATES, this.accepts(options))) {
      const place = this.postings.place(document);
      const original = hits.find((hit) => alike(hit.place, place));
      if (!original) {
        if (hits.length < options.limit) hits.push({ place, score: scores.of(document), duplicates: [] });
      } else if (original.duplicates.length < MOST_DUPLICATES) original.duplicates.push(keyOf(place));
    }
    // The score is relative to the best result, because an absolute score could reveal a better tool that the caller
    // may not use.
    const best = hits[0]?.score ?? 1;
    return hits.map(({ place, score, duplicates }) => ({
      ...keyOf(place),
      score: score / best,
      stuffed: place.segment.stuffed[place.index]!,
      duplicates,
    }));
  }

  /**
   * The servers that fit a message, best first. `needs` are the steps of the message, and each is a separate query. The
   * step that a server fits best decides most of its score; the other steps add a little.
   */
  rankServers(needs: readonly string[], options: RankOptions): RankedServer[] {
    const found = new Map<string, number>();
    const context = options.message === undefined ? [] : this.contextOf(options.message);
    for (const [number, need] of needs.entries()) {
      const scores = this.scored(need, options, context);
      const similar = options.similarNeeds?.[number];
      if (similar) this.addSimilar(scores, similar, options);
      const servers = this.serversOf(scores, options);
      const highest = Math.max(...servers.values());
      for (const [server, score] of servers)
        found.set(server, (found.get(server) ?? 0) + (score / highest) ** STEP_POWER);
    }
    const best = Math.max(...found.values());
    const ranked = [...found].map(([server, sum]) => ({ server, score: (sum / best) ** (1 / STEP_POWER) }));
    return ranked.sort((a, b) => b.score - a.score).slice(0, options.limit);
  }

  private contextOf(message: string): string[] {
    return [...new Set(termsOf(message.slice(0, LONGEST_QUERY)))].slice(0, MOST_TERMS);
  }

  private serversOf(scores: ScoreArray, options: SearchOptions): Map<string, number> {
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

  /** The scores of a query, valid until the next query. */
  private scored(
    query: string | readonly string[],
    { learned, visible }: SearchOptions,
    context: readonly string[] = [],
  ): ScoreArray {
    const { sum, needs } = this;
    const text = typeof query === 'string' ? query.slice(0, LONGEST_QUERY) : undefined;
    const parts = text === undefined ? [] : needsOf(text);
    needs.reset(this.size);
    this.seen = this.postings.seen(visible);
    const terms = text === undefined ? (query as readonly string[]) : termsOf(text);
    if (parts.length > 1) {
      for (const part of parts) {
        const own = termsOf(part);
        const highest = this.scoreWords(own, context);
        if (highest === 0) continue;
        if (learned) this.addLearned(sum, learned, own, highest);
        needs.raiseAll(sum, (1 - WHOLE_SHARE) / highest);
      }
    }
    const highest = this.scoreWords(terms, context);
    if (learned) this.addLearned(sum, learned, terms, highest || 1);
    if (highest > 0) needs.addAll(sum, (parts.length > 1 ? WHOLE_SHARE : 1) / highest);
    return needs;
  }

  /** Writes the scores of one need to `sum`, and returns the highest score from words alone. */
  private scoreWords(all: readonly string[], context: readonly string[]): number {
    const { sum, synonyms, postings, seen } = this;
    sum.reset(this.size);
    const terms = readOf(all);
    const { terms: distinct, most } = this.countedTerms(all);
    for (const term of distinct) {
      const others = distinct.size > MOST_EXPANDED ? [] : synonymsOf(term);
      if (others.length === 0) {
        postings.score(sum, term, 1, seen, { most });
        continue;
      }
      // Either the term or its best synonym counts for a document, never several of them.
      synonyms.reset(this.size);
      postings.score(synonyms, term, 1, seen, RAISE);
      for (const other of others)
        if (!distinct.has(other)) postings.score(synonyms, other, SYNONYM_WEIGHT, seen, RAISE);
      sum.addAll(synonyms, 1);
    }
    for (const pair of new Set(bigramsOf(terms))) postings.score(sum, pair, BIGRAM_WEIGHT, seen);
    for (const term of context) if (!distinct.has(term)) postings.score(sum, term, CONTEXT_WEIGHT, seen);
    return sum.highest();
  }

  /**
   * Replaces the scores by a weighted sum of word scores and similarities. First divides the word scores by the best
   * score among the tools that the caller may use. The highest similarity is 1 already.
   */
  private addSimilar(scores: ScoreArray, { weight, tools }: Similarities, options: SearchOptions): void {
    const [best] = scores.best(1, this.accepts(options));
    if (weight === 1) scores.reset(this.size);
    else if (best !== undefined) scores.scale((1 - weight) / scores.of(best));
    for (const [{ server, name }, similarity] of tools) {
      const document = this.postings.find(server, name);
      if (document === undefined || similarity <= 0) continue;
      const { segment, index } = this.postings.place(document);
      const amount = weight * similarity * segment.trusts[index]!;
      if (amount > 0) scores.add(document, amount);
    }
  }

  private addLearned(scores: ScoreArray, learned: LearnedScores, all: readonly string[], highest: number): void {
    const terms = all.length > MOST_TERMS ? all.slice(0, MOST_TERMS) : all;
    for (const { tool, share } of learned.suggestions(terms, this.rarityOf)) {
      const document = this.postings.find(tool.server, tool.name);
      if (document !== undefined) scores.add(document, share * highest);
    }
  }
}

/** The most tools that are used to rank servers. */
const MOST_TOOLS_OF_SERVERS = 100;

const readOf = (terms: readonly string[]): readonly string[] =>
  terms.length > MOST_READ ? terms.slice(0, MOST_READ) : terms;

const keyOf = ({ segment, index }: Place): ToolKey => ({ server: segment.server.name, name: segment.names[index]! });
