/** An OpenAPI document: reading, and references inside it. */
import { parse as parseYaml, YAMLParseError } from 'yaml';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';

/**
 * Maximum size of a document and of a YAML document, in bytes. Parsing blocks the process, and YAML takes ten times as
 * long as JSON.
 */
export const MOST_DOCUMENT = 16 * 1024 * 1024;
const MOST_YAML = 1024 * 1024;
/** Maximum nesting depth of lists and maps. The YAML parser is slow for deep nesting. */
const DEEPEST = 500;
/** Maximum length of a chain of references, each of which leads to the next. */
const MOST_HOPS = 20;
/**
 * Maximum number of characters of a reference. A document may repeat a reference any number of times, and each
 * repetition costs as much as the reference is long.
 */
const LONGEST_REFERENCE = 1_000;
/** Maximum number of YAML aliases. Each alias may stand for a large part of the document. */
const MOST_ALIASES = 100;
/** A YAML merge key, which copies the members of another map. The parser does not count it as an alias. */
const MERGE_KEY = /<<["']?\s*:/g;

/** A problem of a document that its operator can solve. */
export class DocumentProblem extends Error {}

/** Parses JSON or YAML. Throws a `DocumentProblem`. */
export function readDocument(given: string): JsonObject {
  // Some programs write a byte order mark.
  const text = given.replace(/^\uFEFF/, '');
  const json = /^\s*\{/.test(text);
  if (!json && text.length > MOST_YAML)
    throw new DocumentProblem(`is YAML of more than ${MOST_YAML} bytes; convert it to JSON`);
  if (depthOf(text) > DEEPEST) throw new DocumentProblem(`has more than ${DEEPEST} levels`);
  if (!json && (text.match(MERGE_KEY) ?? []).length > MOST_ALIASES)
    throw new DocumentProblem(`has more than ${MOST_ALIASES} YAML merge keys (<<); convert it to JSON`);
  let value: unknown;
  try {
    // Warnings of the parser quote the document.
    const options = { maxAliasCount: MOST_ALIASES, merge: true, logLevel: 'error' } as const;
    value = json ? JSON.parse(text) : parseYaml(text, options);
  } catch (error) {
    throw new DocumentProblem(`is neither JSON nor YAML${placeOf(error, text)}`);
  }
  if (!isObject(value)) throw new DocumentProblem('is not an OpenAPI document');
  if (value['swagger'] !== undefined) throw new DocumentProblem('is Swagger 2.0; convert it to OpenAPI 3');
  const version = value['openapi'];
  // Without quotes, YAML reads a number.
  if ((typeof version !== 'string' && typeof version !== 'number') || !/^3(?:\.\d|$)/.test(String(version)))
    throw new DocumentProblem('is not an OpenAPI 3 document: it has no "openapi" with a version 3');
  return value;
}

/** The kind and line of a syntax error. Its message could contain the text of a secret file. */
function placeOf(error: unknown, text: string): string {
  if (error instanceof YAMLParseError) {
    const line = error.linePos?.[0].line;
    const kind = error.code.toLowerCase().replaceAll('_', ' ');
    return `: ${kind}${line === undefined ? '' : ` in line ${line}`}`;
  }
  const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
  return position === undefined ? '' : `: an error in line ${text.slice(0, Number(position)).split('\n').length}`;
}

/**
 * The object at a place of the document, behind local references. Undefined for a reference to another document, which
 * is never fetched, and for a reference that leads nowhere or in a circle.
 */
export function resolved(document: JsonObject, value: JsonValue | undefined): JsonObject | undefined {
  let found: JsonValue | undefined = value;
  for (let hop = 0; hop < MOST_HOPS; hop++) {
    if (!isObject(found)) return undefined;
    const reference = found['$ref'];
    if (typeof reference !== 'string') return found;
    found = at(document, reference);
  }
  return undefined;
}

/** The values of references, by document: any number of places may name the same long reference. */
const known = new WeakMap<JsonObject, Map<string, JsonValue | undefined>>();

/** The value of a local JSON pointer. */
export function at(document: JsonObject, reference: string): JsonValue | undefined {
  if (!reference.startsWith('#/') || reference.length > LONGEST_REFERENCE) return undefined;
  const values = known.get(document) ?? new Map<string, JsonValue | undefined>();
  known.set(document, values);
  if (!values.has(reference)) values.set(reference, valueAt(document, reference));
  return values.get(reference);
}

function valueAt(document: JsonObject, reference: string): JsonValue | undefined {
  let value: JsonValue | undefined = document;
  for (const part of reference.slice(2).split('/')) {
    const key = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~');
    if (Array.isArray(value)) value = value[Number(key)];
    else if (isObject(value)) value = Object.hasOwn(value, key) ? value[key] : undefined;
    else return undefined;
  }
  return value;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** An upper bound of the nesting depth: brackets inside strings count too. */
function depthOf(text: string): number {
  let depth = 0;
  let most = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === OPENING[0] || code === OPENING[1]) {
      depth += 1;
      if (depth > most) most = depth;
    } else if ((code === CLOSING[0] || code === CLOSING[1]) && depth > 0) depth -= 1;
  }
  return most;
}

const OPENING = [0x5b, 0x7b] as const;
const CLOSING = [0x5d, 0x7d] as const;

/** The known weights of objects and lists. Any number of operations may refer to the same large object. */
const weights = new WeakMap<object, number>();

/** The approximate length of a value as JSON. Infinite for a value with too many levels. */
export function weightOf(value: JsonValue | undefined, depth = 0): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 5;
  const known = weights.get(value);
  if (known !== undefined) return known;
  if (depth > DEEPEST) return Number.POSITIVE_INFINITY;
  // Aliases of YAML can make a list contain itself.
  weights.set(value, Number.POSITIVE_INFINITY);
  let weight = 2;
  if (Array.isArray(value)) for (const each of value) weight += weightOf(each, depth + 1) + 1;
  else for (const key of Object.keys(value)) weight += key.length + 4 + weightOf(value[key], depth + 1);
  weights.set(value, weight);
  return weight;
}
