import { describe, expect, test } from 'vitest';
import { principalOf } from '../../core/caller.js';
import { ROUTE } from '../../protocol/a2a/model.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type Effect, Policy } from './policy.js';
import type { Question } from './policy-question.js';
import { rulesOf, type WrittenRule } from './policy-rule.js';

const ADA = principalOf({ subject: 'ada', roles: ['staff'] });
const failures: string[] = [];

const policyOf = (...rules: [effect: Effect, when: string][]): Policy =>
  new Policy(
    rulesOf(rules.map(([effect, when], index): WrittenRule => ({ name: `r${index}`, effect, when }))),
    ({ name }) => failures.push(name),
  );

const calling = (tool: string, args: JsonObject = {}, more: Partial<Question> = {}): Question => ({
  principal: ADA,
  protocol: 'mcp',
  method: 'tools/call',
  subject: { kind: 'tool', server: 's', name: tool },
  arguments: () => args,
  ...more,
});

const decided = (policy: Policy, question: Question): string => {
  const { effect, rule } = policy.decide(question);
  return `${effect} ${rule?.name ?? '-'}`;
};

const open = (question: Question): Question => {
  const { arguments: _, ...rest } = question;
  return rest;
};

describe('a policy', () => {
  test('takes the first rule that matches, and denies if no rule matches', () => {
    const policy = policyOf(['deny', 'tool == "drop"'], ['approve', 'args.n > 5'], ['allow', 'server == "s"']);
    expect(decided(policy, calling('drop', { n: 1 }))).toBe('deny r0');
    expect(decided(policy, calling('put', { n: 9 }))).toBe('approve r1');
    expect(decided(policy, calling('put', { n: 1 }))).toBe('allow r2');
    expect(decided(policyOf(['allow', 'tool == "x"']), calling('y'))).toBe('deny -');
  });

  test('counts a failed rule as no match for allow, a match for deny, and asks for approval if a later rule allows', () => {
    failures.length = 0;
    expect(decided(policyOf(['allow', 'args.none == 1']), calling('x'))).toBe('deny -');
    expect(decided(policyOf(['deny', 'args.none == 1'], ['allow', 'true']), calling('x'))).toBe('deny r0');
    expect(decided(policyOf(['approve', 'args.none == 1'], ['allow', 'true']), calling('x'))).toBe('approve r0');
    expect(decided(policyOf(['approve', 'args.none == 1'], ['deny', 'true']), calling('x'))).toBe('deny r1');
    expect(failures).toEqual(['r0', 'r0', 'r0', 'r0']);
  });

  test('decides every call anew if it depends on the arguments', () => {
    const policy = policyOf(['allow', 'tool == "put" && args.n < 3']);
    for (const [n, expected] of [
      [1, 'allow r0'],
      [5, 'deny -'],
      [2, 'allow r0'],
    ] as const)
      expect(decided(policy, calling('put', { n }))).toBe(expected);
  });

  test('reads the skill of every message anew', () => {
    const policy = policyOf(['deny', 'a2a.skill == "wipe"'], ['allow', 'a2a.agent == "one"']);
    const message = (skillId?: string): Question =>
      calling('one', skillId === undefined ? {} : { message: { metadata: { [ROUTE]: { skillId } } } }, {
        ...{ protocol: 'a2a', method: 'SendMessage' },
        subject: { kind: 'agent', server: 'one', name: 'one' },
      });
    expect(decided(policy, message())).toBe('allow r1');
    expect(decided(policy, message('wipe'))).toBe('deny r0');
    expect(decided(policy, message('read'))).toBe('allow r1');
  });

  test('S10: limits the work of all rules together', () => {
    const a = Array.from({ length: 30_000 }, (_, i) => i);
    const args = { a, b: [...a].reverse(), text: 'a '.repeat(40_000) };
    const slow = (rules: number, when: (i: number) => string): number => {
      const all = Array.from({ length: rules }, (_, i): ['allow', string] => ['allow', when(i)]);
      const policy = policyOf(...all);
      const began = performance.now();
      expect(decided(policy, calling('x', args))).toBe('deny -');
      return performance.now() - began;
    };
    const macro = (): string => '!args.a.all(x, x in args.b)';
    expect(slow(6, macro)).toBeLessThan(3 * slow(1, macro));
    // The patterns of the last rules have no steps left, and a `deny` rule that cannot be evaluated denies.
    const searching = Array.from({ length: 60 }, (_, i): ['allow', string] => ['allow', `args.text.matches("b${i}$")`]);
    expect(decided(policyOf(...searching.slice(0, 5), ['allow', 'true']), calling('x', args))).toBe('allow r5');
    expect(
      decided(policyOf(...searching, ['deny', 'args.text.matches("c$")'], ['allow', 'true']), calling('x', args)),
    ).toBe('deny r60');
  });

  test('does not parse arguments that no rule reads', () => {
    const policy = policyOf(['deny', 'tool == "x" && args.n > 1'], ['allow', 'server == "s"']);
    const unread = {
      arguments: () => {
        throw new Error('parsed');
      },
    };
    expect(decided(policy, calling('y', {}, unread))).toBe('allow r1');
    expect(decided(policy, calling('y', {}, unread))).toBe('allow r1');
  });

  test('decides anew after the definition of a tool has changed', () => {
    const policy = policyOf(['allow', 'annotations.readOnlyHint']);
    const listed = (annotations: JsonObject): Question =>
      calling('t', {}, { subject: { kind: 'tool', server: 's', name: 't', definition: { annotations } } });
    expect(decided(policy, listed({ readOnlyHint: true }))).toBe('allow r0');
    expect(decided(policy, listed({ readOnlyHint: false }))).toBe('deny -');
    expect(decided(policy, calling('t'))).toBe('deny -');
  });

  test('keeps callers and targets apart', () => {
    const policy = policyOf(['allow', 'caller.subject == "ada" && tool == "x"']);
    const bob = { principal: principalOf({ subject: 'bob' }) };
    expect(decided(policy, calling('x'))).toBe('allow r0');
    expect(decided(policy, calling('x', {}, bob))).toBe('deny -');
    expect(decided(policy, calling('y'))).toBe('deny -');
    expect(decided(policy, calling('x'))).toBe('allow r0');
  });
});

describe('visibility', () => {
  test('of a tool: could be allowed with some arguments', () => {
    const policy = policyOf(
      ['deny', 'tool == "hidden"'],
      ['deny', 'args.path.startsWith("/etc")'],
      ['allow', 'args.n > 3'],
    );
    expect(policy.couldBe(open(calling('x'))).effect).toBe('allow');
    expect(policy.couldBe(open(calling('hidden'))).effect).toBe('deny');
    expect(policyOf(['deny', 'args.n > 3']).couldBe(open(calling('x'))).effect).toBe('deny');
  });

  test('of a server: certain, or only if the server has a suitable item', () => {
    const server = open(calling('s', {}, { method: undefined, subject: { kind: 'server', server: 's', name: 's' } }));
    expect(policyOf(['allow', 'server == "s"']).couldBe(server)).toEqual({ effect: 'allow', rule: expect.anything() });
    expect(policyOf(['allow', 'tool == "x"']).couldBe(server)).toMatchObject({ effect: 'allow', partly: true });
    expect(policyOf(['allow', 'server == "t" && tool == "x"']).couldBe(server).effect).toBe('deny');
    expect(policyOf(['deny', 'server == "s"'], ['allow', 'true']).couldBe(server).effect).toBe('deny');
  });
});

test('lists are refused only by a deny rule that names methods', () => {
  const listing = open(
    calling('', {}, { method: 'tools/list', subject: { kind: 'server', server: undefined, name: '' } }),
  );
  expect(policyOf(['deny', 'true']).refusesMethod(listing)).toBeUndefined();
  expect(policyOf(['allow', 'tool == "x"']).refusesMethod(listing)).toBeUndefined();
  expect(policyOf(['deny', 'method == "tools/list"']).refusesMethod(listing)).toMatchObject({ effect: 'deny' });
  expect(
    policyOf(['allow', 'caller.subject == "ada"'], ['deny', 'method == "tools/list"']).refusesMethod(listing),
  ).toBeUndefined();
});

test('an explanation shows every rule up to the deciding one, with the values of its parts', () => {
  const policy = policyOf(['deny', 'tool == "x" && args.n > 3'], ['allow', 'server == "s"'], ['allow', 'true']);
  const { decision, rules } = policy.explain(calling('x', { n: 1 }));
  expect(decision).toMatchObject({ effect: 'allow', rule: { name: 'r1' } });
  expect(rules).toEqual([
    {
      ...{ name: 'r0', effect: 'deny', value: false, decides: false },
      parts: [
        { text: 'tool == "x"', value: true },
        { text: 'args.n > 3', value: false },
      ],
    },
    { name: 'r1', effect: 'allow', value: true, decides: true, parts: [{ text: 'server == "s"', value: true }] },
  ]);
});

test('a decision with 50 rules costs a small multiple of one with a single rule', () => {
  const many = (count: number): Policy =>
    policyOf(
      ...Array.from({ length: count - 1 }, (_, i): [Effect, string] => [
        i % 2 ? 'deny' : 'allow',
        `server == "s${i}" && tool.startsWith("a") && "role${i}" in caller.roles && args.n > ${i}`,
      ]),
      ['allow', 'args.n > 0'],
    );
  const time = (policy: Policy): number => {
    const question = calling('x', { n: 1 });
    let best = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 7; round++) {
      const began = performance.now();
      for (let i = 0; i < 5_000; i++) policy.decide(question);
      best = Math.min(best, performance.now() - began);
    }
    return best;
  };
  const one = time(many(1));
  expect(time(many(50))).toBeLessThan(5 * one);
});
