import type { Dictionary, Field, Fields, Group, List, Scalar } from './field.js';
import { Refusal } from './field.js';
import { emptyMap, type Raw, type RawMap } from './parsed-file.js';
import { nearest, type Origin, type Problems, show } from './problem.js';

export interface Reading {
  readonly problems: Problems;
  /** The base of relative paths that come from no file, such as defaults. */
  readonly workingDirectory: string;
  /** The origin of each key, for rules that combine several keys. */
  readonly origins: Map<string, Origin>;
}

/**
 * Validates and converts the parsed file. Every problem is reported. If there is an error, the value must not be used.
 */
export function readField(field: Field, raw: Raw | undefined, key: string, reading: Reading): unknown {
  if (raw !== undefined) reading.origins.set(key, raw.origin);
  // A key without a value (`hosts:`) counts as missing.
  const written = raw?.kind === 'scalar' && raw.value === null ? undefined : raw;
  switch (field.kind) {
    case 'scalar':
      return readScalar(field, written, key, reading);
    case 'list':
      return readList(field, written, key, reading);
    case 'map':
      return readMap(field, written, key, reading);
    case 'group':
      return readGroup(field, written, key, reading);
  }
}

export function join(key: string, part: string): string {
  return key === '' ? part : `${key}.${part}`;
}

function readScalar(field: Scalar<unknown>, raw: Raw | undefined, key: string, reading: Reading): unknown {
  const { problems, workingDirectory } = reading;
  const fallback = (): unknown =>
    field.default === undefined || field.default === null
      ? undefined
      : field.read(field.default, { directory: workingDirectory });
  if (raw === undefined || (raw.kind === 'scalar' && raw.value === null)) {
    if (field.required && !problems.has(key)) {
      const at = reading.origins.get(key.slice(0, Math.max(0, key.lastIndexOf('.'))));
      problems.error('required', key, 'is missing', `add ${key}: ${field.description}`, at);
    }
    return fallback();
  }
  if (raw.kind !== 'scalar') {
    const found = raw.kind === 'list' ? 'a list' : 'a map';
    problems.error('type', key, `must be a single value, not ${found}`, `write ${article(field.type)}`, raw.origin);
    return fallback();
  }
  const value = raw.value ?? '';
  const result = field.read(value, { directory: raw.origin.directory ?? workingDirectory });
  if (!(result instanceof Refusal)) return result;
  problems.error('type', key, `${show(value, field.secret)} ${result.what}`, result.fix, raw.origin);
  // Continue with the default, so that the later rules report their problems too.
  return fallback();
}

function readList(field: List<Field>, raw: Raw | undefined, key: string, reading: Reading): unknown[] {
  if (raw === undefined) {
    return field.default.map((value) => readField(field.item, { kind: 'scalar', value, origin: {} }, key, reading));
  }
  // A single value in the place of a list becomes a list with this value.
  const items = raw.kind === 'list' ? raw.items : raw.kind === 'scalar' ? [raw] : undefined;
  if (items === undefined) {
    reading.problems.error('type', key, 'must be a list, not a map', 'write a list: [a, b]', raw.origin);
    return [];
  }
  return items.map((item, index) => readField(field.item, item, `${key}[${index}]`, reading));
}

function readMap(field: Dictionary<Field>, raw: Raw | undefined, key: string, reading: Reading): object {
  // An object without a prototype, because a server may be called `constructor`.
  const result: Record<string, unknown> = Object.create(null);
  const map = asMap(raw, key, reading.problems);
  for (const [name, { node, origin }] of map.entries) {
    if (node.kind === 'scalar' && node.value === null) {
      if (field.dropsNull || reading.problems.has(join(key, name))) continue;
      reading.problems.error('required', join(key, name), 'has no value', 'give it a value or remove the key', origin);
      continue;
    }
    result[name] = readField(field.item, node, join(key, name), reading);
  }
  return result;
}

function readGroup(field: Group<Fields>, raw: Raw | undefined, key: string, reading: Reading): object {
  const map = asMap(raw, key, reading.problems);
  for (const [name, entry] of map.entries) {
    if (Object.hasOwn(field.fields, name)) continue;
    const near = nearest(name, Object.keys(field.fields));
    const elsewhere = near === undefined ? deeperKey(name, field.fields, key) : join(key, near);
    const fix =
      elsewhere === undefined
        ? `remove it; the keys here are ${Object.keys(field.fields).join(', ')}`
        : `did you mean ${elsewhere}?`;
    reading.problems.error('unknown_key', join(key, name), 'is not a known key', fix, entry.origin);
  }
  const result: Record<string, unknown> = {};
  for (const [name, child] of Object.entries(field.fields)) {
    const value = readField(child, map.entries.get(name)?.node, join(key, name), reading);
    if (value !== undefined) result[name] = value;
  }
  return result;
}

function asMap(raw: Raw | undefined, key: string, problems: Problems): RawMap {
  if (raw === undefined) return emptyMap();
  if (raw.kind === 'map') return raw;
  const found = raw.kind === 'list' ? 'a list' : show(raw.value);
  const what = key === '' ? 'the configuration' : key;
  problems.error('type', key, `must be a map, not ${found}`, `write ${what} as a map of keys and values`, raw.origin);
  return emptyMap(raw.origin);
}

/** The path of a key that was written one level too high: `timeouts.callMax` for `callMax` at the top. */
function deeperKey(name: string, fields: Fields, key: string): string | undefined {
  for (const [section, field] of Object.entries(fields)) {
    if (field.kind === 'group' && Object.hasOwn(field.fields, name)) return `${join(key, section)}.${name}`;
  }
  return undefined;
}

function article(type: string): string {
  return /^[aeio]/.test(type)
    ? `an ${type}`
    : type.startsWith('`')
      ? `one of ${type.replaceAll('\\', '')}`
      : `a ${type}`;
}
