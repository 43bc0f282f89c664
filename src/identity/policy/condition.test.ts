import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { principalOf } from '../../core/caller.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { Condition, ConditionError, type Truth } from './condition.js';
import { Failure } from './failure.js';
import { Facts, type Question } from './policy-question.js';
import { isProblem, readCondition } from './policy-rule.js';

const ADA = principalOf({ subject: 'ada', roles: ['staff'], groups: ['eng'], claims: { email: 'ada@example.com' } });

const asking = (more: Partial<Question> & { args?: JsonObject } = {}): Question => {
  const { args = {}, ...rest } = more;
  return {
    principal: ADA,
    protocol: 'mcp',
    method: 'tools/call',
    subject: { kind: 'tool', server: 'weather', name: 'forecast' },
    arguments: () => args,
    ...rest,
  };
};

const evaluate = (source: string, more: Partial<Question> & { args?: JsonObject } = {}): Truth =>
  Condition.parse(source).evaluate(new Facts(asking(more)));

describe('a condition', () => {
  test.each([
    ['server == "weather" && tool == "forecast"', true],
    ['mcp.server == server && mcp.tool == tool', true],
    ['caller.subject == "ada" && caller.id == "ada" && caller.issuer == "parley"', true],
    ['"staff" in caller.roles && "eng" in caller.groups && caller.scopes.size() == 0', true],
    ['caller.tenant == ""', true],
    ['jwt.email.endsWith("@example.com")', true],
    ['kind == "tool" && protocol == "mcp" && method == "tools/call"', true],
    ['args.city == "Oslo" && arguments.days <= 3', true],
    ['int(args.days) % 2 == 1', true],
    ['args.tags.exists(t, t == "b")', true],
    ['has(args.country)', false],
    ['args.?country.orValue("NO") == "NO"', true],
    ['annotations.readOnlyHint', false],
    ['annotations.destructiveHint && annotations.openWorldHint && !annotations.idempotentHint', true],
    ['time > timestamp("2020-01-01T00:00:00Z")', true],
    ['tool.matches("^fore.*t$")', true],
    ['false ? tool == "x" : server == "weather"', true],
    ['!(tool == "x") && (tool == "y" || tool == "forecast")', true],
  ])('%s is %s', (source, expected) => {
    expect(evaluate(source, { args: { city: 'Oslo', days: 3, tags: ['a', 'b'] } })).toBe(expected);
  });

  test.each([
    ['foo == 1', 'unknown variable: foo', 1],
    ['tool == "x" && callr.subject == "ada"', 'unknown variable: callr', 16],
    ['caller.rolez == "x"', 'no such key: rolez', 8],
    ['tool == 5', 'no such overload: string == int', 1],
    ['tool ==', 'unexpected token: EOF', 8],
    ['tool', 'is a string instead of a bool', 1],
    ['tool.matches("(?=a)")', 'error parsing regexp', 14],
    [`tool.matches("${'a'.repeat(1_001)}")`, 'at most 1000 characters', 14],
  ])('%s is refused with its column', (source, message, column) => {
    const read = readCondition(source);
    expect(isProblem(read)).toBe(true);
    expect(read).toMatchObject({ message: expect.stringContaining(message), line: 1, column });
  });

  test('names the line of a wrong part', () => {
    expect(readCondition('tool == "a" &&\n  foo')).toMatchObject({ line: 2, column: 3 });
  });

  test('is bounded in size and depth', () => {
    expect(() => Condition.parse(`${'!'.repeat(2_000)}true`)).toThrow(ConditionError);
    expect(() => Condition.parse(`"${'a'.repeat(11_000)}" == tool`)).toThrow('more than 10000');
    expect(() => Condition.parse(`tool in [${'"a",'.repeat(1_100)}"b"]`)).toThrow(ConditionError);
  });

  test.each([
    'args.a.all(x, args.b.exists(y, x == y))',
    'args.a.all(x, x in args.b)',
    'args.a.all(x, !args.text.contains("absent"))',
    'args.a.all(x, args.a.filter(y, y > x).size() >= 0)',
    'args.a.map(x, args.a).all(l, l.all(y, y >= 0.0))',
    'args.a.all(x, args.word.matches("^([a-z]+ ?)*$"))',
    'args.map.all(x, args.map.all(y, x != "" && y != ""))',
  ])('S10: fails instead of blocking the process: %s', (source) => {
    const a = Array.from({ length: 30_000 }, (_, i) => i);
    const map = Object.fromEntries(a.map((i) => [`k${i}`, 1]));
    // Almost a match at every sixth character, so that no processor searches 30,000 times within the limit.
    const text = 'absen '.repeat(200_000);
    const args = { a, b: [...a].reverse(), map, text, word: 'many words '.repeat(100) };
    const began = performance.now();
    expect(evaluate(source, { args })).toBeInstanceOf(Failure);
    // Without a limit these evaluations take minutes.
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  test('visits the elements of long lists and maps', () => {
    const a = Array.from({ length: 3_000 }, (_, i) => i);
    const map = Object.fromEntries(a.slice(0, 1_000).map((i) => [`k${i}`, 1]));
    expect(evaluate('args.a.all(x, x >= 0.0)', { args: { a } })).toBe(true);
    expect(evaluate('args.a.exists_one(x, x == 7.0)', { args: { a } })).toBe(true);
    expect(evaluate('args.a.filter(x, x > 9.0).map(x, x + 1.0).size() == 2990', { args: { a } })).toBe(true);
    expect(evaluate('args.map.exists(k, k == "k999")', { args: { map } })).toBe(true);
  });

  test('fails on missing keys and wrong types, unless another part decides', () => {
    expect(evaluate('args.missing == 1')).toBeInstanceOf(Failure);
    expect(evaluate('args.n.startsWith("a")', { args: { n: 1 } })).toBeInstanceOf(Failure);
    expect(evaluate('args.n', { args: { n: 1 } })).toBeInstanceOf(Failure);
    expect(evaluate('args.missing == 1 && tool == "x"')).toBe(false);
    expect(evaluate('args.missing == 1 || tool == "forecast"')).toBe(true);
    expect(evaluate('args.__proto__ == 1 || args.constructor == 1')).toBeInstanceOf(Failure);
  });

  test('about a tool says nothing about a prompt', () => {
    const subject = { kind: 'prompt', server: 'weather', name: 'ask' } as const;
    expect(evaluate('tool != "x"', { subject })).toBe('absent');
    expect(evaluate('!(tool == "x")', { subject })).toBe('absent');
    expect(evaluate('server == "weather" || tool == "x"', { subject })).toBe(true);
    expect(evaluate('kind != "tool" || tool == "x"', { subject })).toBe(true);
    expect(evaluate('mcp.prompt == "ask"', { subject })).toBe(true);
    expect(evaluate('annotations.readOnlyHint', { subject })).toBe('absent');
  });

  test('is unknown while the arguments are left open, unless another part decides', () => {
    const { arguments: _, ...open } = asking();
    const truth = (source: string): Truth => Condition.parse(source).evaluate(new Facts(open));
    expect(truth('args.n > 5')).toBe('unknown');
    expect(truth('args.n > 5 && tool == "x"')).toBe(false);
    expect(truth('args.n > 5 || tool == "forecast"')).toBe(true);
    expect(truth('annotations.readOnlyHint')).toBe('unknown');
  });

  test('that is reduced for a caller and a target has the same value', () => {
    const leaf = fc.constantFrom(
      ...[
        'tool == "forecast"',
        'server == "x"',
        'args.n > 2',
        'args.missing',
        'mcp.prompt == "p"',
        '"staff" in caller.roles',
      ],
      ...['jwt.none == 1', 'args.s == "a"'],
    );
    const { tree } = fc.letrec<{ tree: string }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.tuple(tie('tree'), tie('tree')).map(([a, b]) => `(${a} && ${b})`),
        fc.tuple(tie('tree'), tie('tree')).map(([a, b]) => `(${a} || ${b})`),
        tie('tree').map((a) => `!(${a})`),
        fc.tuple(tie('tree'), tie('tree'), tie('tree')).map(([a, b, c]) => `((${a}) ? (${b}) : (${c}))`),
      ),
    }));
    const kindOf = (truth: Truth): unknown => (truth instanceof Failure ? 'failure' : truth);
    fc.assert(
      fc.property(tree, fc.constantFrom<JsonObject>({}, { n: 1 }, { n: 3, s: 'a' }), (source, args) => {
        const condition = Condition.parse(source);
        const facts = new Facts(asking({ args }));
        const reduced = condition.reduced(facts);
        const value = reduced instanceof Condition ? reduced.evaluate(facts) : reduced;
        expect(kindOf(value)).toBe(kindOf(condition.evaluate(facts)));
      }),
      { numRuns: 500 },
    );
  });
});

describe('S10: matches', () => {
  const EVIL = '(a+)+$';
  const TEXT = `${'a'.repeat(30)}!`;

  test.each([
    ['a plain call', 'args.t.matches(args.p)'],
    ['a constant pattern', `args.t.matches("${EVIL}")`],
    ['a macro', `args.l.exists(x, x.matches("${EVIL}"))`],
    ['a nested macro', `args.l.all(y, !args.l.exists(x, x.matches("${EVIL}")))`],
    ['a bound value', `cel.bind(z, args.t, z.matches("${EVIL}"))`],
    ['a map and a list', `{"a": [args.t.matches("${EVIL}")]}.a[0]`],
    ['a choice', `true ? args.t.matches("${EVIL}") : false`],
    ['an optional value', `args.?t.orValue("").matches("${EVIL}")`],
    ['blanks', `args.t . matches ( "${EVIL}" )`],
  ])('in %s takes at most a fixed multiple of the time for a harmless pattern', (_, source) => {
    const condition = Condition.parse(source);
    const time = (text: string): number => {
      const facts = new Facts(asking({ args: { t: text, p: EVIL, l: [text] } }));
      condition.evaluate(facts);
      const began = performance.now();
      for (let i = 0; i < 20; i++) condition.evaluate(facts);
      return performance.now() - began;
    };
    // A backtracking engine needs 2^30 steps for this text.
    expect(time(TEXT)).toBeLessThan(1_000 * Math.max(time('a!'), 0.01));
  });

  test('fails for a text that is too long for the pattern, and for a large pattern from data', () => {
    expect(evaluate('args.t.matches("a{100}b")', { args: { t: 'a'.repeat(200_000) } })).toBeInstanceOf(Failure);
    expect(evaluate('tool.matches(args.p)', { args: { p: 'a'.repeat(5_000) } })).toBeInstanceOf(Failure);
    expect(evaluate('tool.matches(args.p)', { args: { p: '(' } })).toBeInstanceOf(Failure);
  });
});
