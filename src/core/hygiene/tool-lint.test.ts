import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { ServerLint } from './server-lint.js';
import { lintTool } from './tool-lint.js';

const GOOD = { description: 'Adds two numbers.', inputSchema: { type: 'object', properties: { a: {} } } };
const rulesOf = (definition: JsonObject, name = 'add') => lintTool(definition, name).map(({ rule }) => rule);

describe('S4-16: the lint of a tool', () => {
  test.each<[string, JsonObject, string[]]>([
    ['add', GOOD, []],
    ['read file', GOOD, ['name_characters']],
    ['a.b', GOOD, ['name_characters']],
    ['x'.repeat(65), GOOD, ['name_length']],
    ['add', { inputSchema: GOOD.inputSchema }, ['description_missing']],
    ['add', { ...GOOD, description: ' ' }, ['description_missing']],
    ['add', { ...GOOD, description: 'x'.repeat(1_025) }, ['description_length']],
    ['add', { description: 'x' }, ['schema_missing']],
    ['add', { ...GOOD, inputSchema: {} }, ['schema_type']],
    ['add', { ...GOOD, inputSchema: { type: 'object', oneOf: [] } }, ['schema_choice']],
    ['add', { ...GOOD, inputSchema: { type: 'object', properties: { 'a b': {} } } }, ['property_name']],
  ])('%s %j: %j', (name, definition, expected) => expect(rulesOf(definition, name)).toEqual(expected));

  test('reports a deep schema, and stops reading a huge one', () => {
    let deep: JsonObject = {};
    for (let level = 0; level < 11; level++) deep = { type: 'object', properties: { a: deep } };
    expect(rulesOf({ ...GOOD, inputSchema: deep })).toEqual(['schema_size']);
    const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`p${at}`, {}]));
    expect(rulesOf({ ...GOOD, inputSchema: { type: 'object', properties: wide } })).toEqual(['schema_size']);
  });
});

describe('S4-17: the lint of a server', () => {
  test('reports a tool without a description; strict mode withholds the tool and names the reason', () => {
    const bad = { inputSchema: { type: 'object' } };
    const warn = new ServerLint('warn');
    expect([warn.check(bad, 'a'), warn.check(GOOD, 'b')]).toEqual([undefined, undefined]);
    expect(warn.done()).toMatch(/^1 tool\(s\) are hard to use for models \(a: the tool has no description/);
    expect(warn.findings).toEqual([
      expect.objectContaining({ tool: 'a', rule: 'description_missing', withheld: false }),
    ]);
    const strict = new ServerLint('strict');
    expect(strict.check(bad, 'a')).toContain('no description');
    expect([strict.done(), strict.findings]).toEqual([undefined, [expect.objectContaining({ withheld: true })]]);
    const off = new ServerLint('off');
    expect([off.check(bad, 'a'), off.done(), off.findings]).toEqual([undefined, undefined, []]);
  });
});
