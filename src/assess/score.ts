/**
 * The score. Category = passed / applicable requirements. Score = sum of weight × category over the categories with an
 * applicable requirement, divided by the sum of their weights, times 100. Failures of MUST cap the score. Requirements
 * of the level MAY are shown and do not count.
 */
import type { Category } from './profiles.js';
import type { Check } from './run.js';

export interface CategoryScore {
  readonly name: string;
  readonly weight: number;
  readonly passed: number;
  readonly applicable: number;
  /** From 0 to 10; null if no requirement of the category applies. */
  readonly score: number | null;
  /** The ids of the requirements that count. */
  readonly ids: readonly string[];
}

export interface Score {
  readonly score: number;
  readonly grade: string;
  /** The score before the cap. */
  readonly uncapped: number;
  readonly mustFailures: number;
  readonly categories: readonly CategoryScore[];
}

/** The highest score with this many failures of MUST. */
export const CAPS: readonly { readonly failures: number; readonly highest: number }[] = [
  { failures: 1, highest: 89 },
  { failures: 3, highest: 79 },
  { failures: 10, highest: 59 },
];

export const GRADES: readonly (readonly [number, string])[] = [
  [95, 'A'],
  [85, 'B'],
  [70, 'C'],
  [50, 'D'],
  [0, 'F'],
];

export const gradeOf = (score: number): string => GRADES.find(([least]) => score >= least)![1];

const round = (value: number): number => Math.round(value * 10) / 10;

export function scoreOf(checks: readonly Check[], categories: readonly Category[]): Score {
  const counted = checks.filter(
    ({ requirement, outcome }) => requirement.level !== 'MAY' && (outcome === 'pass' || outcome === 'fail'),
  );
  const scores = categories.map(({ name, weight, has }): CategoryScore => {
    const own = counted.filter(({ requirement }) => has(requirement));
    const passed = own.filter(({ outcome }) => outcome === 'pass').length;
    const score = own.length === 0 ? null : round((10 * passed) / own.length);
    return { name, weight, passed, applicable: own.length, score, ids: own.map(({ requirement }) => requirement.id) };
  });
  const applicable = scores.filter(({ score }) => score !== null);
  const weights = applicable.reduce((sum, { weight }) => sum + weight, 0);
  const sum = applicable.reduce((all, { weight, passed, applicable: of }) => all + (weight * passed) / of, 0);
  const uncapped = weights === 0 ? 0 : round((100 * sum) / weights);
  const mustFailures = counted.filter(
    ({ requirement, outcome }) => outcome === 'fail' && requirement.level === 'MUST' && inAny(requirement.id, scores),
  ).length;
  const cap = CAPS.findLast(({ failures }) => mustFailures >= failures)?.highest ?? 100;
  const score = Math.min(uncapped, cap);
  return { score, grade: gradeOf(score), uncapped, mustFailures, categories: scores };
}

const inAny = (id: string, scores: readonly CategoryScore[]): boolean => scores.some(({ ids }) => ids.includes(id));
