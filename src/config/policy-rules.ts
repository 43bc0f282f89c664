import { isProblem, readCondition } from '../identity/policy/policy-rule.js';
import { type Origin, type Problems, show } from './problem.js';
import type { WrittenConfig } from './schema.js';

/** The place of a key, or of the nearest parent key in the file. */
type At = (key: string) => Origin | undefined;

/**
 * Parses every condition, so that a wrong condition stops the start of the gateway. At a reload, the rules in effect
 * stay.
 */
export function checkConditions({ policy, limits }: WrittenConfig, problems: Problems, at: At): void {
  for (const list of ['rules', 'proposed'] as const) {
    const names = new Map<string, number>();
    for (const [index, { name, when }] of (policy[list] as readonly Partial<Rule>[]).entries()) {
      const key = `policy.${list}[${index}]`;
      if (name !== undefined) {
        const before = names.get(name);
        if (before === undefined) names.set(name, index);
        else {
          const message = `${show(name)} is also the name of another rule`;
          problems.error(
            'duplicate',
            `${key}.name`,
            message,
            `change it here or in policy.${list}[${before}]`,
            at(`${key}.name`),
          );
        }
      }
      if (when !== undefined) check(`${key}.when`, `rule ${show(name ?? index)}`, when, problems, at);
    }
  }
  for (const [index, { when, requests, concurrent, per }] of limits.rates.entries()) {
    const key = `limits.rates[${index}]`;
    if (when !== undefined) check(`${key}.when`, 'the condition', when, problems, at);
    if (requests === undefined && concurrent === undefined)
      problems.error('required', key, 'has neither requests nor concurrent', 'give at least one of them', at(key));
    if (new Set(per).size < per.length)
      problems.error('duplicate', `${key}.per`, 'names the same thing twice', 'name each once', at(`${key}.per`));
  }
}

type Rule = WrittenConfig['policy']['rules'][number];

function check(key: string, subject: string, when: string, problems: Problems, at: At): void {
  const read = readCondition(when);
  if (!isProblem(read)) return;
  const { message, line, column } = read;
  const place = when.includes('\n') ? `line ${line}, column ${column}` : `column ${column}`;
  problems.error('condition', key, `${subject}: ${message} (${place})`, FIX, at(key));
}

const FIX = 'correct the condition; docs/policy.md lists the variables';
