/**
 * Ranks short texts by their relevance to a message: BM25 over weighted words, cheap enough to run for every message.
 */

/**
 * One text to rank, such as a skill. The words of a field with a higher weight count as if they occurred more often.
 */
export interface Passage<T> {
  readonly key: T;
  readonly fields: readonly { readonly text: string; readonly weight: number }[];
}

export interface Ranked<T> {
  readonly key: T;
  readonly score: number;
}

const K1 = 1.2;
const B = 0.5;

/** Stop words: words that occur in any request and do not distinguish skills. */
const EMPTY_WORDS = new Set(
  (
    'a about after all also am an and any are as at be been but by can could did do does for from get give had has have ' +
    'hello help hey hi how i if in into is it its just let like make me my need no not now of on one or our out please ' +
    'should show so some something tell than thank thanks that the their them then there these they thing this those to ' +
    'too up us use using want was we were what when where which who why will with would you your'
  ).split(' '),
);

interface Indexed<T> {
  readonly key: T;
  readonly words: ReadonlyMap<string, number>;
  readonly length: number;
}

export class Ranking<T> {
  private readonly passages: readonly Indexed<T>[];
  private readonly spread = new Map<string, number>();
  private readonly usual: number;

  constructor(passages: readonly Passage<T>[]) {
    this.passages = passages.map(({ key, fields }) => {
      const words = new Map<string, number>();
      let length = 0;
      for (const { text, weight } of fields) {
        for (const word of wordsOf(text)) {
          words.set(word, (words.get(word) ?? 0) + weight);
          length += weight;
        }
      }
      for (const word of words.keys()) this.spread.set(word, (this.spread.get(word) ?? 0) + 1);
      return { key, words, length };
    });
    const total = this.passages.reduce((sum, { length }) => sum + length, 0);
    this.usual = total / Math.max(1, this.passages.length) || 1;
  }

  /**
   * The texts, best first. Texts with equal scores keep their order. A text without a word of the query has the score
   * 0.
   */
  rank(query: string): Ranked<T>[] {
    const wanted = new Set(wordsOf(query));
    const ranked = this.passages.map(({ key, words, length }) => {
      let score = 0;
      for (const word of wanted) {
        const count = words.get(word);
        if (count === undefined) continue;
        const damped = (count * (K1 + 1)) / (count + K1 * (1 - B + (B * length) / this.usual));
        score += this.rarity(word) * damped;
      }
      return { key, score };
    });
    return ranked.sort((a, b) => b.score - a.score);
  }

  /** The weight of a word: high if one passage has it, close to 0 if all have it. */
  private rarity(word: string): number {
    const having = this.spread.get(word) ?? 0;
    return Math.log(1 + (this.passages.length - having + 0.5) / (having + 0.5));
  }
}

/** The words of a text without stop words, normalized: case, accents and common English endings are ignored. */
export function wordsOf(text: string): string[] {
  const words = text
    .replace(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu);
  return (words ?? []).filter((word) => !EMPTY_WORDS.has(word)).map(stem);
}

function stem(word: string): string {
  if (word.length > 4 && word.endsWith('ies')) return `${word.slice(0, -3)}y`;
  if (word.length > 5 && word.endsWith('ing')) return dropDouble(word.slice(0, -3));
  if (word.length > 4 && word.endsWith('ed')) return dropDouble(word.slice(0, -2));
  if (word.length > 4 && /(?:ch|sh|[sxz])es$/.test(word)) return word.slice(0, -2);
  if (word.length > 3 && word.endsWith('s') && !word.endsWith('ss')) return dropE(word.slice(0, -1));
  return dropE(word);
}

// Makes `booking`, `booked` and `book` equal, also `planning` and `plan`, `translating` and `translate`.
const dropDouble = (word: string): string => word.replace(/([bdgmnprt])\1$/, '$1');
const dropE = (word: string): string => (word.length > 4 && word.endsWith('e') ? word.slice(0, -1) : word);
