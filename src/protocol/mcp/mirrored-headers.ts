/** The headers of Streamable HTTP that mirror the body (HDR-01..13, XMH-01..07). */
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import { isObject } from './model.js';

export const HEADER = {
  version: 'mcp-protocol-version',
  method: 'mcp-method',
  name: 'mcp-name',
  session: 'mcp-session-id',
  lastEventId: 'last-event-id',
} as const;

const NAME_SOURCE: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};

/** The parameter that `Mcp-Name` mirrors for this method, if any. */
export const nameParameter = (method: string): string | undefined => NAME_SOURCE[method];

const OPEN = '=?base64?';
const CLOSE = '?=';
const isSentinel = (text: string): boolean =>
  text.startsWith(OPEN) && text.endsWith(CLOSE) && text.length >= OPEN.length + CLOSE.length;

/**
 * Header values are visible ASCII with inner spaces. Other values, and values that look encoded, are encoded (HDR-04).
 */
export function encodeHeaderValue(text: string): string {
  const plain = /^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$/.test(text) && !isSentinel(text);
  return plain ? text : `${OPEN}${Buffer.from(text, 'utf8').toString('base64')}${CLOSE}`;
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The decoded text of a header; undefined if its encoding is invalid (HDR-07). */
export function decodeHeaderValue(value: string): string | undefined {
  const text = value.trim();
  if (!isSentinel(text)) return text;
  const inner = text.slice(OPEN.length, -CLOSE.length);
  if (!BASE64.test(inner)) return undefined;
  const bytes = Buffer.from(inner, 'base64');
  const decoded = bytes.toString('utf8');
  return Buffer.from(decoded, 'utf8').equals(bytes) ? decoded : undefined;
}

/** A tool argument that HTTP clients repeat in a header: its path and the header's name. */
export interface MirroredParam {
  readonly header: string;
  readonly path: readonly string[];
  readonly type: 'string' | 'integer' | 'boolean';
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const MIRRORED_TYPES: readonly unknown[] = ['string', 'integer', 'boolean'];

export type MirroredParams = { readonly params: readonly MirroredParam[] } | { readonly invalid: string };

/** Reads the `x-mcp-header` annotations of a tool's input schema, or returns the problem with an invalid one. */
export function mirroredParams(inputSchema: JsonValue | undefined): MirroredParams {
  const params: MirroredParam[] = [];
  const seen = new Set<string>();
  const walk = (schema: JsonValue | undefined, path: readonly string[]): string | undefined => {
    if (!isObject(schema)) return undefined;
    for (const [key, value] of Object.entries(schema)) {
      if (key === 'x-mcp-header') {
        if (path.length === 0) return '"x-mcp-header" is not on a property';
        const problem = annotation(value, schema, path, seen, params);
        if (problem) return problem;
      } else if (key === 'properties' && isObject(value)) {
        for (const [name, property] of Object.entries(value)) {
          const problem = walk(property, [...path, name]);
          if (problem) return problem;
        }
      } else if (!DATA_KEYWORDS.has(key) && holdsAnnotation(value)) {
        return `"x-mcp-header" must be reachable through "properties" alone (found under "${key}")`;
      }
    }
    return undefined;
  };
  const invalid = walk(inputSchema, []);
  return invalid ? { invalid } : { params };
}

/** Keywords whose values are data, not schemas. */
const DATA_KEYWORDS = new Set(['const', 'enum', 'default', 'examples', 'required', 'type', 'description', 'title']);

function annotation(
  value: JsonValue | undefined,
  schema: JsonObject,
  path: readonly string[],
  seen: Set<string>,
  params: MirroredParam[],
): string | undefined {
  if (typeof value !== 'string' || !TOKEN.test(value))
    return `"x-mcp-header" is not a header token: ${JSON.stringify(value)}`;
  const type = schema['type'];
  if (!MIRRORED_TYPES.includes(type))
    return `"x-mcp-header" needs type string, integer or boolean, not ${JSON.stringify(type)}`;
  const header = value.toLowerCase();
  if (seen.has(header)) return `two properties share the header ${value}`;
  seen.add(header);
  params.push({ header: value, path, type: type as MirroredParam['type'] });
  return undefined;
}

function holdsAnnotation(value: JsonValue | undefined): boolean {
  if (Array.isArray(value)) return value.some(holdsAnnotation);
  if (!isObject(value)) return false;
  return 'x-mcp-header' in value || Object.values(value).some(holdsAnnotation);
}

function valueAt(args: JsonValue | undefined, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const key of path) {
    if (!isObject(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

function headerText(value: JsonValue | undefined): string | undefined {
  switch (typeof value) {
    case 'string':
      return value;
    case 'boolean':
      return String(value);
    case 'number':
      return Number.isSafeInteger(value) ? String(value) : undefined;
    default:
      return undefined;
  }
}

/** The `Mcp-Param-*` headers of a call, as flat name/value pairs (XMH-05). */
export function paramHeaders(params: readonly MirroredParam[], args: JsonValue | undefined): string[] {
  const headers: string[] = [];
  for (const param of params) {
    const text = headerText(valueAt(args, param.path));
    if (text !== undefined) headers.push(`Mcp-Param-${param.header}`, encodeHeaderValue(text));
  }
  return headers;
}

/** The problem with a request's `Mcp-Param-*` headers; undefined if there is none (XMH-06). */
export function paramMismatch(
  params: readonly MirroredParam[],
  args: JsonValue | undefined,
  header: (name: string) => string | undefined,
): string | undefined {
  for (const param of params) {
    const name = `Mcp-Param-${param.header}`;
    const sent = header(name.toLowerCase());
    const text = headerText(valueAt(args, param.path));
    if (text === undefined) {
      if (sent !== undefined) return `${name} has no matching argument in the body`;
      continue;
    }
    if (sent === undefined) return `${name} is missing`;
    const decoded = decodeHeaderValue(sent);
    if (decoded === undefined) return `${name} is not validly encoded`;
    if (!sameValue(decoded, text, param.type)) return `${name} differs from the body`;
  }
  return undefined;
}

function sameValue(header: string, body: string, type: MirroredParam['type']): boolean {
  if (header === body) return true;
  // HDR-08: 007 and 7 are the same integer.
  return type === 'integer' && /^-?\d+$/.test(header) && Number(header) === Number(body);
}
