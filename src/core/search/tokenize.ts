import { translatedTerms } from './chinese.js';
import { stem } from './porter2.js';

/**
 * Words of a need that say nothing about the tool: articles, pronouns, auxiliary verbs, prepositions and words of
 * request. Verbs of tools ("get", "find", "create") are no stop words: their document frequency already lowers their
 * weight.
 */
const STOP_WORDS = new Set(
  `a about all also am an and any are as at be been being but by can could did do does doing done for from further had has
   have having he her here hers him his how i if in into is it its itself just kindly let like may me might mine more most
   must my need needs of on once or our ours out over own please shall she should so some such than that the their theirs
   them then there these they this those to too under until up us very want was we were what when where which while who
   whom whose why will with would you your yours s t d ll m re ve hi hello thanks thank im id`
    .split(/\s+/)
    .filter((word) => word !== ''),
);

const UNSPACED_SCRIPTS = '\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}';
/** One character of a script without spaces between words, or a run of letters and digits of another script. */
const PIECE = new RegExp(`[${UNSPACED_SCRIPTS}]|(?:(?![${UNSPACED_SCRIPTS}])[\\p{L}\\p{M}\\p{N}])+`, 'gu');
const CAMEL = /(\p{Ll}|\p{N})(?=\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu;
const ASCII_PIECE = /[a-z0-9]+/g;
const ASCII_CAMEL = /([a-z0-9])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g;
const ASCII = /^[\x00-\x7f]*$/;
const HAN = /\p{Script=Han}/u;
const DIGITS = /^\d+$/;
const MOST_CACHED = 20_000;
const LONGEST_WORD = 40;

const stems = new Map<string, string>();

function stemOf(word: string): string {
  let found = stems.get(word);
  if (found === undefined) {
    // A copy, because a substring would keep the whole text in memory (V8).
    const own = Buffer.from(word).toString();
    found = stem(own);
    // Words from clients and servers must not fill the memory.
    if (stems.size >= MOST_CACHED) stems.clear();
    stems.set(own, found);
  }
  return found;
}

/**
 * The terms of a text, in order. Identifiers such as `getUserName` and `get_user_name` are split. Terms are lower case;
 * stop words and plain numbers are removed; English words are stemmed. Each character of Chinese, Japanese and Thai is
 * one term. Known Chinese words also give English terms.
 */
export function termsOf(text: string): string[] {
  // Most texts are ASCII, for which the short patterns are several times faster.
  const ascii = ASCII.test(text);
  const pieces = ascii
    ? text.replace(ASCII_CAMEL, '$1$2 ').toLowerCase().match(ASCII_PIECE)
    : text.normalize('NFKC').replace(CAMEL, '$1$2 ').toLowerCase().match(PIECE);
  const terms: string[] = [];
  for (const piece of pieces ?? []) {
    // A number in a need is an argument of the call and says nothing about the tool.
    if (piece.length <= LONGEST_WORD && !STOP_WORDS.has(piece) && !DIGITS.test(piece)) terms.push(stemOf(piece));
  }
  if (!ascii && HAN.test(text)) terms.push(...translatedTerms(text));
  return terms;
}

/** Pairs of neighbouring terms. */
export function bigramsOf(terms: readonly string[]): string[] {
  const pairs: string[] = [];
  for (let index = 1; index < terms.length; index += 1) pairs.push(`${terms[index - 1]} ${terms[index]}`);
  return pairs;
}

/** A 32-bit hash (FNV-1a): the index and the stored outcomes contain hashes, not words. */
export function hashOf(term: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < term.length; index += 1) {
    hash = Math.imul(hash ^ term.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
