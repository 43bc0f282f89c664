// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is the syntax under test
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { JsonSchema } from './field.js';
import { configJsonSchema, renderJsonSchema } from './json-schema.js';
import { SCHEMA } from './schema.js';

const file = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

test('docs/parley.schema.json matches the schema (run scripts/generate-config-reference.mjs)', () => {
  expect(file('docs/parley.schema.json')).toBe(renderJsonSchema());
});

test('every key of the configuration has a description for editors', () => {
  const missing: string[] = [];
  const walk = (schema: JsonSchema, key: string): void => {
    if (key !== '' && typeof schema['description'] !== 'string') missing.push(key);
    for (const [name, child] of Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>))
      walk(child, `${key}.${name}`);
    const inner = schema['additionalProperties'];
    if (typeof inner === 'object' && inner !== null && 'properties' in inner) walk(inner as JsonSchema, `${key}.*`);
  };
  walk(configJsonSchema(), '');
  expect(missing).toEqual([]);
  expect(Object.keys(configJsonSchema()['properties'] as object)).toEqual(['$schema', ...Object.keys(SCHEMA.fields)]);
});

/** Judges the keywords that the generator writes; any other keyword fails the test. */
function problems(schema: JsonSchema, value: unknown, root: JsonSchema, at = ''): string[] {
  const found: string[] = [];
  const known = ['$schema', '$defs', 'title', 'description', 'default'];
  for (const [keyword, rule] of Object.entries(schema)) {
    if (known.includes(keyword)) continue;
    if (keyword === '$ref') {
      const target = (root['$defs'] as Record<string, JsonSchema>)[String(rule).replace('#/$defs/', '')];
      found.push(...problems(target!, value, root, at));
    } else if (keyword === 'type') {
      const kind = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
      const names = [rule].flat() as string[];
      if (!names.includes(kind) && !(names.includes('integer') && Number.isInteger(value))) found.push(`${at}: type`);
    } else if (keyword === 'enum') {
      if (!(rule as unknown[]).includes(value)) found.push(`${at}: enum`);
    } else if (keyword === 'pattern') {
      if (typeof value === 'string' && !new RegExp(String(rule)).test(value)) found.push(`${at}: pattern`);
    } else if (keyword === 'minimum' || keyword === 'maximum') {
      const wrong = keyword === 'minimum' ? Number(value) < Number(rule) : Number(value) > Number(rule);
      if (typeof value === 'number' && wrong) found.push(`${at}: ${keyword}`);
    } else if (keyword === 'anyOf') {
      const every = (rule as JsonSchema[]).map((each) => problems(each, value, root, at));
      if (every.every((each) => each.length > 0)) found.push(...(every[0] ?? []));
    } else if (keyword === 'items') {
      if (Array.isArray(value))
        for (const [i, item] of value.entries()) found.push(...problems(rule as JsonSchema, item, root, `${at}[${i}]`));
    } else if (keyword === 'properties' || keyword === 'additionalProperties' || keyword === 'required') {
      if (keyword !== 'properties' || typeof value !== 'object' || value === null) continue;
    } else throw new Error(`the test does not know the keyword ${keyword}`);
  }
  if (schema['type'] === 'object' && typeof value === 'object' && value !== null) {
    const properties = (schema['properties'] ?? {}) as Record<string, JsonSchema>;
    const rest = schema['additionalProperties'];
    for (const [name, inner] of Object.entries(value)) {
      const child = properties[name] ?? (typeof rest === 'object' ? (rest as JsonSchema) : undefined);
      if (child === undefined) found.push(`${at}.${name}: unknown`);
      else found.push(...problems(child, inner, root, `${at}.${name}`));
    }
    for (const name of (schema['required'] ?? []) as string[])
      if (!Object.hasOwn(value, name)) found.push(`${at}.${name}: required`);
  }
  return found;
}

describe('files against the published schema', () => {
  const schema = configJsonSchema();
  const judge = (text: string): string[] => problems(schema, parse(text), schema);

  test('the quickstart is valid', () => {
    expect(judge(file('examples/quickstart.yaml'))).toEqual([]);
  });

  test('references, single values in the place of lists, and unset variables are valid', () => {
    const text = [
      '$schema: ./parley.schema.json',
      'listen: 4600',
      'hosts: gateway.example.com',
      'limits: { body: 4MiB, pageSize: "${PAGE:-100}" }',
      'timeouts: { call: "${CALL_TIME}" }',
      'mcp: { sse: "${SSE:-true}" }',
      'servers: { files: { command: npx, args: [-y, 1], env: { KEY: "${KEY}", DEBUG: true, UNSET: null } } }',
    ].join('\n');
    expect(judge(text)).toEqual([]);
  });

  test('unknown keys, wrong values and values out of range are found', () => {
    const text = 'lisen: 1\nlimits: { pageSize: 0 }\ntimeouts: { call: 60 }\nnaming: { separator: "+" }\n';
    expect(judge(text)).toEqual([
      '.lisen: unknown',
      '.limits.pageSize: minimum',
      '.timeouts.call: type',
      '.naming.separator: enum',
    ]);
  });
});
