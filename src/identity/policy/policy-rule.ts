import { Condition, ConditionError } from './condition.js';
import type { Effect, Rule } from './policy.js';

/** A rule as an operator writes it. */
export interface WrittenRule {
  readonly name: string;
  readonly when: string;
  readonly effect: Effect;
}

/** A condition that cannot be read, with its place in the source. */
export interface RuleProblem {
  readonly message: string;
  readonly line: number;
  readonly column: number;
}

/** Parses a condition, or returns what is wrong with it. */
export function readCondition(source: string): Condition | RuleProblem {
  try {
    return Condition.parse(source);
  } catch (error) {
    if (!(error instanceof ConditionError)) throw error;
    const before = source.slice(0, error.at).split('\n');
    return { message: error.message, line: before.length, column: before.at(-1)!.length + 1 };
  }
}

export const isProblem = (read: Condition | RuleProblem): read is RuleProblem => !(read instanceof Condition);

/** The rules of a checked configuration. */
export const rulesOf = (written: readonly WrittenRule[]): Rule[] =>
  written.map(({ name, when, effect }) => ({ name, effect, when: Condition.parse(when) }));
