import { type ASTNode, serialize } from '@marcbachmann/cel-js';
import { expect, test } from 'vitest';
import { principalOf } from '../../core/caller.js';
import { beginEvaluation, newDecision } from './evaluation-cost.js';
import { Failure } from './failure.js';
import { fastComparison } from './fast-comparisons.js';
import { matchesPattern, requiredStart } from './linear-regex.js';
import { Facts } from './policy-question.js';
import { ENVIRONMENT, LINEAR_MATCHES } from './variables.js';

const OPERATORS = ['==', '!=', '<', '<=', '>', '>='];
const LITERALS = ['3', '0', '-0.0', '3.0', '3.5', '9007199254740993', '"3"', '""', '"ab"', 'true', 'null'];
const SEARCHES = ['startsWith', 'endsWith', LINEAR_MATCHES, 'contains'];
const VALUES = [3, 0, -0, 3.5, 2 ** 53, 1e300, '3', '', 'ab', 'abc', 'cab', true, false, null, [], [3], {}, { x: 3 }];
const SHAPES: readonly unknown[] = [{}, [], null, 'text', 3, { x: { y: 1 } }, { y: {} }, { __proto__: { x: 3 } }];

const FACTS = new Facts({
  principal: principalOf({ subject: 'ada', roles: ['staff'] }),
  protocol: 'mcp',
  method: 'tools/call',
  subject: { kind: 'tool', server: 's', name: 'abc' },
});
const { tool, server, kind, protocol, method, caller, mcp, a2a } = FACTS;
const FIXED = { tool, server, kind, protocol, method, caller, mcp, a2a };

/** The value, or the text of the error. */
function resultOf(evaluate: (values: Record<string, unknown>) => unknown, args: unknown): unknown {
  beginEvaluation(newDecision());
  try {
    const value = evaluate({ args, arguments: args, jwt: args, annotations: args, ...FIXED });
    return value instanceof Failure ? `failed: ${value.message}` : value;
  } catch (error) {
    return `failed: ${(error as Error).message.split('\n')[0]}`;
  }
}

const sources = [
  ...OPERATORS.flatMap((operator) => LITERALS.map((literal) => `args.x ${operator} ${literal}`)),
  ...OPERATORS.flatMap((operator) => LITERALS.map((literal) => `args.x.y ${operator} ${literal}`)),
  ...SEARCHES.flatMap((search) => ['""', '"a"', '"b$"', '"^ab"'].map((literal) => `arguments.x.${search}(${literal})`)),
  ...['args.x', 'args["x"]', 'args["x"].y', 'jwt.x', 'jwt.x.y', 'annotations.x', 'annotations.__proto__', 'true'],
  ...['args', 'args.x', 'args.x.y', 'args.x.y.z', 'args.__proto__', 'jwt.x', 'annotations.x.y'].map(
    (at) => `has(${at})`,
  ),
  ...['args.x', 'args.x.y', 'jwt.x', 'tool', 'caller.subject', 'args.toString'].flatMap((at) =>
    ['["ab", "b"]', '["abc"]', '[]', '["ab", 3]', '[args.x]', 'args.x', 'caller.roles'].map(
      (list) => `${at} in ${list}`,
    ),
  ),
  ...['args.x', 'args.x.y', 'args', 'caller.roles', 'jwt.x'].flatMap((list) =>
    ['"ab"', '"staff"', '""', '3', 'true', 'tool'].map((item) => `${item} in ${list}`),
  ),
  ...[
    'tool',
    'server',
    'kind',
    'protocol',
    'method',
    'caller.subject',
    'caller.tenant',
    'mcp.tool',
    'a2a.agent',
  ].flatMap((at) => [`${at} == "abc"`, `"s" != ${at}`, `${at}.contains("a")`, `${at}.startsWith("t")`, `${at} < "b"`]),
  ...[
    '"ab" == args.x',
    '3 == args.x',
    '3 != args.x.y',
    'true == args.x',
    'null == args.x',
    'caller["subject"] == "ada"',
  ],
  ...['3 < args.x', 'args["x"] == 3', 'args == 3', 'args == "text"', 'args.x == args.y', 'size(args.x) > 0'],
];

test('every part has the value or the error that the library gives it', () => {
  let direct = 0;
  for (const source of sources) {
    const parsed = ENVIRONMENT.parse(source);
    // The types of the literal and the operator do not fit: no condition contains such a part.
    if (!parsed.check().valid) continue;
    let asked = 0;
    const fast = fastComparison(parsed.ast as ASTNode, (values) => {
      asked++;
      return parsed(values);
    });
    const inputs = [...SHAPES, ...VALUES.flatMap((value) => [{ x: value }, { x: { y: value } }])];
    for (const args of inputs)
      expect(resultOf(fast, args), `${serialize(parsed.ast as ASTNode)} of ${JSON.stringify(args)}`).toEqual(
        resultOf(parsed, args),
      );
    if (asked < inputs.length) direct++;
  }
  // Most of the parts are evaluated without the library for some values.
  expect(direct).toBeGreaterThan(50);
});

test.each([
  ['^/etc/.*$', '/etc/'],
  ['^/etc/?x', '/etc'],
  ['^a*b', ''],
  ['^ab{2}', 'a'],
  ['^ab+', 'a'],
  ['^ab|cd', ''],
  ['^(?i)ab', ''],
  ['^ab(?:c|d)', ''],
  ['(?m)^ab', ''],
  ['ab', ''],
  ['^a\\.b', 'a'],
  ['^', ''],
])('texts that match %s begin with "%s"', (pattern, start) => {
  expect(requiredStart(pattern)).toBe(start);
});

test('a text that does not begin with the required characters still counts and is limited (S10)', () => {
  beginEvaluation(newDecision());
  expect(() => matchesPattern('x'.repeat(1_000_001), '^/etc/')).toThrow('takes at most');
  expect(() => {
    for (let i = 0; i < 1_000; i++) matchesPattern('x'.repeat(50_000), '^/etc/');
  }).toThrow('the patterns of a condition take at most');
});
