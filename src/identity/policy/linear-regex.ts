import { RE2JS } from 're2js';
import { matchSteps } from './evaluation-cost.js';

/** The longest pattern, in characters. */
const MAX_PATTERN = 1_000;
/** The largest product of the program's size and the length of the text: the steps of one match (S10). */
const MAX_STEPS = 1_000_000;
/** Patterns that come from data are compiled once each; beyond this number the oldest is dropped. */
const MAX_COMPILED = 200;

const compiled = new Map<string, RE2JS>();

/** Compiles a pattern in RE2 syntax, which has no backtracking. Throws for a wrong or too large pattern. */
export function compilePattern(pattern: string): RE2JS {
  const known = compiled.get(pattern);
  if (known) return known;
  if (pattern.length > MAX_PATTERN) throw new Error(`a pattern may have at most ${MAX_PATTERN} characters`);
  const made = RE2JS.compile(pattern);
  if (compiled.size >= MAX_COMPILED) compiled.delete(compiled.keys().next().value!);
  compiled.set(pattern, made);
  return made;
}

/** Whether the pattern occurs in the text, in time linear in both (S10). Throws if the text is too long for it. */
export const matchesPattern = (text: string, pattern: string): boolean => matcherOf(pattern)(text);

const matchers = new WeakMap<RE2JS, (text: string) => boolean>();

/** Returns a function that says whether this pattern occurs in a text. */
export function matcherOf(pattern: string): (text: string) => boolean {
  const regex = compilePattern(pattern);
  const known = matchers.get(regex);
  if (known) return known;
  const size = regex.programSize();
  const longest = Math.floor(MAX_STEPS / size);
  const start = requiredStart(pattern);
  const made = (text: string): boolean => {
    if (text.length > longest)
      throw new Error(`the text has ${text.length} characters, and this pattern takes at most ${longest}`);
    matchSteps(size * text.length);
    return text.startsWith(start) && regex.test(text);
  };
  matchers.set(regex, made);
  return made;
}

/** A pattern that begins with `^`, followed by characters that have no special meaning. */
const ANCHORED = /^\^([\w/ :@=-]*)(.?)/;

/**
 * The characters with which every match begins the text. This comparison alone refuses most texts that do not match.
 */
export function requiredStart(pattern: string): string {
  // Each alternative of a pattern with `|` may begin with other characters.
  if (pattern.includes('|')) return '';
  const [, start = '', next = ''] = ANCHORED.exec(pattern) ?? [];
  // A quantifier applies to the last character, so this character does not count as required.
  return /[?*+{]/.test(next) ? start.slice(0, -1) : start;
}
