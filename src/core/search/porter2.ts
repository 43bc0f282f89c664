/**
 * The English stemmer Porter2 (snowballstem.org/algorithms/english): "connections" and "connected" become "connect".
 * Words are lower-case ASCII letters and apostrophes; any other word is returned unchanged.
 */

const EXCEPTIONS = new Map([
  ['skis', 'ski'],
  ['skies', 'sky'],
  ['dying', 'die'],
  ['lying', 'lie'],
  ['tying', 'tie'],
  ['idly', 'idl'],
  ['gently', 'gentl'],
  ['ugly', 'ugli'],
  ['early', 'earli'],
  ['only', 'onli'],
  ['singly', 'singl'],
]);
const INVARIANT = new Set(['sky', 'news', 'howe', 'atlas', 'cosmos', 'bias', 'andes']);
/** Words that no step after step 1a changes. */
const INVARIANT_AFTER_1A = new Set([
  'inning',
  'outing',
  'canning',
  'herring',
  'earring',
  'proceed',
  'exceed',
  'succeed',
  'evening',
]);

const VOWEL = /[aeiouy]/;
const DOUBLE = /(?:bb|dd|ff|gg|mm|nn|pp|rr|tt)$/;
/** A short syllable at the end of a word. */
const SHORT_SYLLABLE = /(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$/;

const STEP_2: readonly (readonly [suffix: string, stem: string])[] = [
  ['ization', 'ize'],
  ['ational', 'ate'],
  ['fulness', 'ful'],
  ['ousness', 'ous'],
  ['iveness', 'ive'],
  ['tional', 'tion'],
  ['biliti', 'ble'],
  ['lessli', 'less'],
  ['entli', 'ent'],
  ['ation', 'ate'],
  ['alism', 'al'],
  ['ogist', 'og'],
  ['aliti', 'al'],
  ['ousli', 'ous'],
  ['iviti', 'ive'],
  ['fulli', 'ful'],
  ['enci', 'ence'],
  ['anci', 'ance'],
  ['abli', 'able'],
  ['izer', 'ize'],
  ['ator', 'ate'],
  ['alli', 'al'],
  ['bli', 'ble'],
];
const STEP_3: readonly (readonly [suffix: string, stem: string])[] = [
  ['ational', 'ate'],
  ['tional', 'tion'],
  ['alize', 'al'],
  ['icate', 'ic'],
  ['iciti', 'ic'],
  ['ical', 'ic'],
  ['ness', ''],
  ['ful', ''],
];
const STEP_4 = /(?:ement|ance|ence|able|ible|ment|ant|ent|ism|ate|iti|ous|ive|ize|al|er|ic)$/;

export function stem(word: string): string {
  if (word.length < 3 || !/^[a-z']+$/.test(word)) return word;
  const known = EXCEPTIONS.get(word);
  if (known !== undefined) return known;
  if (INVARIANT.has(word)) return word;
  let text = word.replace(/^'/, '').replace(/^y|([aeiouy])y/g, (_, vowel: string | undefined) => `${vowel ?? ''}Y`);
  const [r1, r2] = regions(text);
  text = text.replace(/'(?:s'?)?$/, '');
  text = step1a(text);
  if (INVARIANT_AFTER_1A.has(text)) return text;
  text = step1b(text, r1);
  if (/.[^aeiouy][yY]$/.test(text)) text = `${text.slice(0, -1)}i`;
  text = step2(text, r1);
  text = step3(text, r1, r2);
  text = step4(text, r2);
  text = step5(text, r1, r2);
  return text.toLowerCase();
}

/**
 * The beginnings of the regions R1 and R2. R1 follows the first non-vowel after a vowel in the word; R2 follows the
 * first non-vowel after a vowel in R1.
 */
function regions(text: string): [number, number] {
  const prefix = /^(?:gener|commun|arsen|past|univers|later|emerg|organ|inter)/.exec(text);
  const r1 = prefix ? prefix[0].length : after(text, 0);
  return [r1, after(text, r1)];
}

function after(text: string, from: number): number {
  const found = /[aeiouy][^aeiouy]/.exec(text.slice(from));
  return found ? from + found.index + 2 : text.length;
}

function step1a(text: string): string {
  if (text.endsWith('sses')) return text.slice(0, -2);
  if (/ie[ds]$/.test(text)) return text.slice(0, text.length > 4 ? -2 : -1);
  if (/(?:us|ss)$/.test(text)) return text;
  if (text.endsWith('s') && VOWEL.test(text.slice(0, -2))) return text.slice(0, -1);
  return text;
}

function step1b(text: string, r1: number): string {
  const eed = /eed(?:ly)?$/.exec(text);
  if (eed) return eed.index >= r1 ? `${text.slice(0, eed.index)}ee` : text;
  const found = /(?:ed|ing)(?:ly)?$/.exec(text);
  if (!found || !VOWEL.test(text.slice(0, found.index))) return text;
  const rest = text.slice(0, found.index);
  if (/(?:at|bl|iz)$/.test(rest)) return `${rest}e`;
  if (DOUBLE.test(rest)) return /^[aeo](?:bb|dd|ff|gg|mm|nn|pp|rr|tt)$/.test(rest) ? rest : rest.slice(0, -1);
  return r1 >= rest.length && SHORT_SYLLABLE.test(rest) ? `${rest}e` : rest;
}

function step2(text: string, r1: number): string {
  for (const [suffix, replacement] of STEP_2) {
    if (text.endsWith(suffix)) return replaced(text, suffix, replacement, r1);
  }
  if (text.endsWith('logi')) return replaced(text, 'ogi', 'og', r1);
  if (/[cdeghkmnrt]li$/.test(text)) return replaced(text, 'li', '', r1);
  return text;
}

function step3(text: string, r1: number, r2: number): string {
  for (const [suffix, replacement] of STEP_3) {
    if (text.endsWith(suffix)) return replaced(text, suffix, replacement, r1);
  }
  return text.endsWith('ative') ? replaced(text, 'ative', '', r2) : text;
}

function step4(text: string, r2: number): string {
  const found = STEP_4.exec(text);
  if (found) return found.index >= r2 ? text.slice(0, found.index) : text;
  return /[st]ion$/.test(text) && text.length - 3 >= r2 ? text.slice(0, -3) : text;
}

function step5(text: string, r1: number, r2: number): string {
  const end = text.length - 1;
  if (text.endsWith('e')) {
    return end >= r2 || (end >= r1 && !SHORT_SYLLABLE.test(text.slice(0, -1))) ? text.slice(0, -1) : text;
  }
  return text.endsWith('ll') && end >= r2 ? text.slice(0, -1) : text;
}

/** Replaces a suffix if the suffix lies completely in the region that begins at `from`. */
function replaced(text: string, suffix: string, replacement: string, from: number): string {
  const start = text.length - suffix.length;
  return start >= from ? text.slice(0, start) + replacement : text;
}
