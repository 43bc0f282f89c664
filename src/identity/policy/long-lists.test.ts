import { describe, expect, test } from 'vitest';
import { visible } from '../../core/admission.js';
import { type Caller, principalOf } from '../../core/caller.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { SILENT } from '../../telemetry/log.js';
import { type Effect, Policy } from './policy.js';
import { PolicyAdmission } from './policy-admission.js';
import { visibilityOf } from './policy-question.js';
import { rulesOf, type WrittenRule } from './policy-rule.js';

const RULES = 50;
const ADA = principalOf({ subject: 'ada', roles: ['staff'] });

const toolsOf = (count: number): readonly JsonObject[] =>
  Array.from({ length: count }, (_, index) => ({ name: `tool${index}`, annotations: { readOnlyHint: true } }));

const rulesWith = (when: (index: number) => string): WrittenRule[] =>
  Array.from({ length: RULES }, (_, index) => ({
    name: `rule ${index}`,
    effect: (index === RULES - 1 ? 'allow' : 'deny') as Effect,
    when: index === RULES - 1 ? 'true' : when(index),
  }));

const targetOf = (definition: JsonObject) =>
  ({ server: 's', kind: 'tool', name: definition['name'] as string, definition }) as const;

describe('a long list with 50 rules', () => {
  test.each([
    // The interpreter of the library evaluates these conditions.
    ['of the tool', 5_000, (i: number) => `tool.size() > ${100 + i} || tool.lowerAscii() == "x${i}"`],
    ['of the tool and the caller', 5_000, (i: number) => `tool.size() > caller.subject.size() + ${100 + i}`],
    // The evaluation of these conditions fails for every tool.
    ['that fail', 1_000, (i: number) => `size(annotations.absent${i}) > 5 && tool == "none"`],
  ])('lets other work run in between: rules %s', async (_, count, when) => {
    const settings = { rules: rulesWith(when), mode: 'enforce', proposed: [] } as const;
    const admission = new PolicyAdmission({ settings, log: SILENT, someItem: () => true });
    let longest = 0;
    let last = performance.now();
    const look = (): void => {
      const now = performance.now();
      longest = Math.max(longest, now - last);
      last = now;
    };
    const began = last;
    const looking = setInterval(look, 1);
    const caller = { principal: ADA } as Caller;
    const shown = await visible(admission, caller, toolsOf(count), targetOf);
    look();
    clearInterval(looking);
    expect(shown.length).toBe(count);
    // One pause is far shorter than the whole list.
    expect(longest).toBeLessThan((performance.now() - began) / 4);
  });

  test.each([
    ['of the caller', () => 'jwt.email == "a@example.com"', 'true'],
    ['that fail for every tool', (i: number) => `annotations.absent${i} == "x"`, 'annotations.readOnlyHint'],
  ])('costs at most 20 times as much as with one rule: rules %s', (_, when, single) => {
    const tools = toolsOf(1_000);
    const cost = (rules: WrittenRule[]): number => {
      let best = Number.POSITIVE_INFINITY;
      for (let round = 0; round < 5; round++) {
        const policy = new Policy(rulesOf(rules));
        const { user, system } = process.cpuUsage();
        for (const tool of tools) policy.couldBe(visibilityOf(ADA, targetOf(tool)));
        const after = process.cpuUsage();
        best = Math.min(best, after.user + after.system - user - system);
      }
      return best;
    };
    const one = cost([
      { name: 'one', effect: 'deny', when: `!(${single})` },
      { name: 'all', effect: 'allow', when: 'size(tool) < 100' },
    ]);
    // These rules need no interpreter. With the interpreter, and an exception for each rule and tool, the factor was
    // some hundred.
    expect(cost(rulesWith(when))).toBeLessThan(20 * one);
  });

  test('a part of a condition that reads only the tool is evaluated once for all callers', () => {
    const rules = rulesWith((i) => `["a", "b${i}", "c"].exists(start, tool.startsWith(start))`);
    const tools = toolsOf(200);
    const cost = (policy: Policy, subject: string): number => {
      const principal = principalOf({ subject });
      const began = performance.now();
      for (const tool of tools) policy.couldBe(visibilityOf(principal, targetOf(tool)));
      return performance.now() - began;
    };
    const callers = ['a', 'b', 'c', 'd', 'e'];
    const first = Math.min(...callers.map((subject) => cost(new Policy(rulesOf(rules)), subject)));
    const policy = new Policy(rulesOf(rules));
    cost(policy, 'first');
    expect(Math.min(...callers.map((subject) => cost(policy, subject)))).toBeLessThan(first / 3);
  });
});
