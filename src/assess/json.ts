/** Reading unknown JSON of a server under examination. */

export type Json = Record<string, unknown>;

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const asObject = (value: unknown): Json => (isObject(value) ? value : {});

export const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export const isText = (value: unknown): value is string => typeof value === 'string' && value.length > 0;

export const isInteger = (value: unknown): value is number => Number.isInteger(value);

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Text with keys in order, to compare two values. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    isObject(each) ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1))) : each,
  );
}

const NOTHING: ReadonlySet<string> = new Set();

/** Nesting deeper than this is not examined. */
const MAX_DEPTH = 40;

/** Calls `visit` for every object inside a value, apart from the values of the keys `without`. */
export function eachObject(
  value: unknown,
  visit: (object: Json) => void,
  without: ReadonlySet<string> = NOTHING,
  depth = 0,
): void {
  if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) visit(value as Json);
  for (const [key, inner] of Object.entries(value)) if (!without.has(key)) eachObject(inner, visit, without, depth + 1);
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

export const isBase64 = (value: unknown): boolean =>
  typeof value === 'string' && value.length % 4 === 0 && BASE64.test(value);

/** The parts of JSON Schema that show whether a value conforms: types, required keys, properties, items, enums. */
export function conforms(value: unknown, schema: unknown, depth = 0): boolean {
  if (!isObject(schema) || depth > MAX_DEPTH) return schema !== false;
  const { type, required, properties, items, prefixItems } = schema;
  if (type !== undefined && !(Array.isArray(type) ? type : [type]).some((each) => hasType(value, each))) return false;
  if ('const' in schema && canonical(schema['const']) !== canonical(value)) return false;
  if (Array.isArray(schema['enum']) && !schema['enum'].some((each) => canonical(each) === canonical(value)))
    return false;
  if (Array.isArray(value)) {
    const first = asList(prefixItems);
    return value.every((each, i) => conforms(each, i < first.length ? first[i] : items, depth + 1));
  }
  if (!isObject(value)) return true;
  if (asList(required).some((key) => typeof key === 'string' && !Object.hasOwn(value, key))) return false;
  return Object.entries(asObject(properties)).every(
    ([key, inner]) => !Object.hasOwn(value, key) || conforms(value[key], inner, depth + 1),
  );
}

function hasType(value: unknown, type: unknown): boolean {
  switch (type) {
    case 'object':
      return isObject(value);
    case 'array':
      return Array.isArray(value);
    case 'integer':
      return isInteger(value);
    case 'null':
      return value === null;
    case 'string':
    case 'number':
    case 'boolean':
      return typeof value === type;
    default:
      return true;
  }
}
