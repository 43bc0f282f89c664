import { describe, expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import { McpContext } from '../core/call.js';
import type { Item } from '../core/catalog/server-list-cache.js';
import { complete } from '../core/gateway.js';
import type { JsonObject } from '../protocol/jsonrpc/raw.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { type Log, SILENT } from '../telemetry/log.js';
import { ArgumentSchema } from './argument-schema.js';
import { argumentValidation, type ValidationMode } from './argument-validation.js';

const problems = (schema: JsonObject, args: JsonObject) => ArgumentSchema.compile(schema)?.problems(args);
const pointers = (schema: JsonObject, args: JsonObject) => problems(schema, args)?.map(({ pointer }) => pointer);

describe('S1-25: an input schema', () => {
  const PLACE: JsonObject = {
    type: 'object',
    properties: {
      city: { type: 'string', pattern: '^[A-Z]', minLength: 2 },
      days: { type: 'integer', maximum: 7 },
      at: { $ref: '#/$defs/point' },
      unit: { enum: ['c', 'f'] },
      tags: { type: 'array', uniqueItems: true },
    },
    required: ['city'],
    additionalProperties: false,
    $defs: { point: { type: 'object', properties: { 'x/y': { type: 'number' } }, required: ['x/y'] } },
  };

  test.each([
    [{ city: 'Rome', days: 2, at: { 'x/y': 1 }, unit: 'c', tags: ['a', 'b'] }, []],
    [{}, ['']],
    [{ city: 7 }, ['/city']],
    [{ city: 'rome' }, ['/city']],
    [{ city: 'Rome', days: 7.5 }, ['/days', '/days']],
    [{ city: 'Rome', at: { 'x/y': 'one' } }, ['/at/x~1y']],
    [{ city: 'Rome', unit: 'k' }, ['/unit']],
    [{ city: 'Rome', tags: ['a', 'a'] }, ['/tags']],
    [{ city: 'Rome', more: 1 }, ['']],
  ])('checks %j: %j', (args, expected) => {
    expect(pointers(PLACE, args)).toEqual(expected);
  });

  test.each<[string, JsonObject, unknown, unknown]>([
    ['type', { type: 'boolean' }, true, 'true'],
    ['type, of several', { type: ['string', 'null'] }, null, 1],
    ['enum', { enum: ['a', 1] }, 1, 'b'],
    ['const', { const: { a: [1] } }, { a: [1] }, { a: [2] }],
    ['minimum', { minimum: 2 }, 2, 1.9],
    ['maximum', { maximum: 2 }, 2, 2.1],
    ['exclusiveMinimum', { exclusiveMinimum: 2 }, 2.1, 2],
    ['exclusiveMaximum', { exclusiveMaximum: 2 }, 1.9, 2],
    ['multipleOf', { multipleOf: 5 }, 10, 12],
    ['minLength', { minLength: 2 }, '漢字', 'x'],
    ['maxLength', { maxLength: 2 }, '🎈🎈', 'xyz'],
    ['pattern', { pattern: '^a+$' }, 'aa', 'ab'],
    ['minItems', { minItems: 1 }, [0], []],
    ['maxItems', { maxItems: 1 }, [0], [0, 0]],
    ['uniqueItems', { uniqueItems: true }, [1, '1'], [1, 1]],
    ['items', { items: { type: 'string' } }, ['a'], ['a', 1]],
    ['prefixItems', { prefixItems: [{ type: 'string' }] }, ['a', 1], [1]],
    ['contains', { contains: { const: 7 } }, [1, 7], [1]],
    ['required', { required: ['b'] }, { b: 1 }, {}],
    ['minProperties', { minProperties: 1 }, { b: 1 }, {}],
    ['maxProperties', { maxProperties: 1 }, { b: 1 }, { b: 1, c: 1 }],
    ['additionalProperties', { properties: { b: {} }, additionalProperties: false }, { b: 1 }, { c: 1 }],
    ['propertyNames', { propertyNames: { maxLength: 1 } }, { b: 1 }, { bb: 1 }],
    ['dependentRequired', { dependentRequired: { b: ['c'] } }, { b: 1, c: 1 }, { b: 1 }],
    ['allOf', { allOf: [{ minimum: 1 }, { maximum: 3 }] }, 2, 4],
    ['anyOf', { anyOf: [{ type: 'string' }, { minimum: 3 }] }, 3, 2],
    ['oneOf', { oneOf: [{ type: 'string' }, { type: 'number' }] }, 'x', true],
    ['oneOf, that two match', { oneOf: [{ minimum: 1 }, { maximum: 3 }] }, 0, 2],
    ['not', { not: { type: 'string' } }, 1, 'x'],
    ['if, else', { if: { type: 'string' }, else: { minimum: 2 } }, 'a', 1],
    ['if, then', JSON.parse('{"if":{"type":"string"},"then":{"minLength":2}}'), 'ab', 'a'],
    ['$ref', { $ref: '#/$defs/one' }, 1, 2],
  ])('accepts a matching value and refuses another one for the keyword %s', (_, schema, right, wrong) => {
    const whole = { type: 'object', properties: { a: schema }, $defs: { one: { const: 1 } } } as JsonObject;
    expect(problems(whole, { a: right } as JsonObject)).toEqual([]);
    expect(pointers(whole, { a: wrong } as JsonObject)?.[0]).toMatch(/^\/a/);
  });

  test('reports one problem for `anyOf`, and names the pattern that a text does not match', () => {
    const schema = { properties: { a: { anyOf: [{ type: 'string' }, { type: 'number' }] } } };
    expect(problems(schema, { a: [] })).toEqual([{ pointer: '/a', message: expect.stringContaining('any') }]);
    expect(problems({ properties: { a: { pattern: '^x+$' } } }, { a: 'y' })?.[0]?.message).toContain('pattern "^x+$"');
  });

  test('accepts more values, never fewer, where a keyword cannot be checked in linear time', () => {
    const lookahead = { properties: { a: { pattern: '^(?=x)y', type: 'string' } }, not: { required: ['b'] } };
    expect(problems(lookahead, { a: 'z', b: 1 })).toEqual([]);
    expect(pointers(lookahead, { a: 1 })).toEqual(['/a']);
    const named = { patternProperties: { '^x-': { type: 'string' } }, additionalProperties: false, required: ['a'] };
    expect(problems(named, { 'x-a': 1, a: 1 })).toEqual([]);
    expect(pointers(named, {})).toEqual(['']);
    const one = { oneOf: [{ properties: { a: { pattern: '(?=x)' } } }, { properties: { a: { type: 'string' } } }] };
    expect(problems(one, { a: 'x' })).toEqual([]);
  });

  test('is not used if it refers to another document, has a cycle, or needs too many steps', () => {
    const read = (schema: JsonObject, args: JsonObject = { a: 1 }) => problems(schema, args);
    expect(read({ $ref: 'https://example.com/schema.json' })).toBeUndefined();
    expect(read({ $ref: '#' })).toBeUndefined();
    const $defs: JsonObject = { d30: {} };
    for (let at = 0; at < 30; at++)
      $defs[`d${at}`] = { allOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] };
    expect(read({ $defs, $ref: '#/$defs/d0' })).toBeUndefined();
    const long = { a: Array.from({ length: 5_000 }, () => 1) };
    expect(read({ properties: { a: { uniqueItems: true } } }, long)).toBeUndefined();
    const backtracking = { properties: { a: { pattern: '^(a+)+$' } } };
    expect(read(backtracking, { a: `${'a'.repeat(50_000)}!` })).toMatchObject([{ pointer: '/a' }]);
    let deep: JsonObject = {};
    for (let level = 0; level < 100; level++) deep = { properties: { a: deep } };
    expect(ArgumentSchema.compile(deep)).toBeUndefined();
    expect(ArgumentSchema.compile({ properties: { a: 'text' } })).toBeUndefined();
  });
});

describe('a call', () => {
  const definition = { name: 'forecast', inputSchema: { type: 'object', required: ['city'] } };
  const item: Item = { key: 'forecast', own: 'forecast', value: definition, mirrored: [] };
  const run = (mode: ValidationMode, args: JsonObject, log: Log = SILENT, shown: Item | undefined = item) => {
    const target = { server: 'weather', kind: 'tool', name: 'forecast' } as const;
    const call = toolCall({ name: 'forecast', arguments: args });
    const route = { target, item: shown, forward: async () => complete(RawObject.from({})) };
    const context = new McpContext(callerNamed('ada'), call, route, 0);
    return argumentValidation({ modeOf: () => mode, log })(context, () => 'passed' as never);
  };

  test('S1-25: with wrong arguments is refused in strict mode, with the place of the problem', () => {
    expect(() => run('strict', {})).toThrow(
      expect.objectContaining({
        reason: 'invalid_arguments',
        message: expect.stringMatching(/^The arguments of tool "forecast" do not match its input schema\. .*"city"/),
        data: expect.objectContaining({
          outcome: 'not_executed',
          problems: [{ pointer: '', message: expect.any(String) }],
        }),
      }),
    );
    expect(run('strict', { city: 'Rome' })).toBe('passed');
  });

  test('passes with a log line in warn mode, and without a check if the mode is off or the tool has no schema', () => {
    const lines: object[] = [];
    const log = { ...SILENT, warn: (fields: object) => void lines.push(fields) } as Log;
    expect(run('warn', {}, log)).toBe('passed');
    expect(lines).toEqual([{ server: 'weather', tool: 'forecast', problems: [expect.anything()] }]);
    expect([run('off', {}, log), run('strict', {}, log, { ...item, value: { name: 'forecast' } })]).toEqual([
      'passed',
      'passed',
    ]);
    expect(lines).toHaveLength(1);
  });
});
