/** The HTTP request of an operation, from the arguments of a tool call. */
import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Operation, OperationBody, OperationParameter } from './operations.js';

export interface EncodedRequest {
  /** The path below the base URL, without a leading slash. */
  readonly path: string;
  readonly query: string;
  /** Flat pairs. */
  readonly headers: readonly string[];
  readonly body: Buffer | undefined;
}

/**
 * Maximum number of levels of a value in the style `deepObject`. Each level repeats the names of the levels above it.
 */
const DEEPEST = 10;

/** Encodes the arguments. Throws `invalid_arguments` for arguments that no request can carry. */
export function encodeRequest({ path, parameters, body }: Operation, args: JsonObject): EncodedRequest {
  const known = new Set([...parameters.map(({ argument }) => argument), ...(body ? [body.argument] : [])]);
  const extra = Object.keys(args).find((name) => !known.has(name));
  if (extra !== undefined) throw wrong(extra, 'is not an argument of this tool');
  const given = (argument: string, required: boolean): JsonValue | undefined => {
    const value = Object.hasOwn(args, argument) ? args[argument] : undefined;
    if (value === undefined && required) throw wrong(argument, 'is required');
    return value;
  };
  const segments = new Map<string, string>();
  const query: string[] = [];
  const headers: string[] = ['Accept', 'application/json, text/*;q=0.9, */*;q=0.5'];
  for (const parameter of parameters) {
    const value = given(parameter.argument, parameter.required);
    if (value === undefined || (value === null && !parameter.required)) continue;
    if (parameter.in === 'path') segments.set(parameter.name, segmentOf(parameter, value));
    else if (parameter.in === 'query') query.push(...queryOf(parameter, value));
    else headers.push(parameter.name, headerOf(parameter, value));
  }
  const content = body && given(body.argument, body.required);
  const bytes = body && content !== undefined ? bodyOf(body, content) : undefined;
  if (body && bytes) headers.push('Content-Type', body.type);
  return {
    path: path.slice(1).replace(/\{([^}]*)\}/g, (_, name: string) => segments.get(name) ?? ''),
    query: query.join('&'),
    headers,
    body: bytes,
  };
}

const wrong = (argument: string, problem: string): ProtocolError =>
  new ProtocolError('invalid_arguments', `The argument "${argument}" ${problem}`, { outcome: 'not_executed' });

/** A value of a URL or header as text. */
function plain(argument: string, value: JsonValue | undefined): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'object') throw wrong(argument, 'contains nested lists or objects');
  return String(value);
}

/** The style `simple`: `a,b`, and for objects `k,v` or with explode `k=v`. */
function simple(
  { argument, explode, json }: OperationParameter,
  value: JsonValue,
  encode: (text: string) => string,
): string {
  if (json) return encode(JSON.stringify(value));
  if (Array.isArray(value)) return value.map((each) => encode(plain(argument, each))).join(',');
  if (!isObject(value)) return encode(plain(argument, value));
  return Object.entries(value)
    .map(([key, each]) => `${encode(key)}${explode ? '=' : ','}${encode(plain(argument, each))}`)
    .join(',');
}

/** One segment of a path. It cannot lead to another path: an empty value, dots and slashes are refused. */
function segmentOf(parameter: OperationParameter, value: JsonValue): string {
  const text = simple(parameter, value, component);
  if (text === '') throw wrong(parameter.argument, 'is empty, but is a part of the path');
  if (/^(?:\.|%2e){1,2}$/i.test(text) || /%2f|%5c|%00/i.test(text))
    throw wrong(parameter.argument, 'is a part of the path: it must not be "." or "..", nor contain slashes');
  return text;
}

function queryOf(parameter: OperationParameter, value: JsonValue): string[] {
  const { name, argument, style, explode, json } = parameter;
  const pair = (key: string, text: string): string => `${component(key)}=${text}`;
  if (json) return [pair(name, component(JSON.stringify(value)))];
  if (style === 'deepObject') return deepPairs(argument, name, value).map(([key, text]) => pair(key, component(text)));
  if (Array.isArray(value)) {
    const texts = value.map((each) => component(plain(argument, each)));
    if (explode && style === 'form') return texts.map((text) => pair(name, text));
    const separator = { spaceDelimited: '%20', pipeDelimited: '%7C' }[style as string] ?? ',';
    return [pair(name, texts.join(separator))];
  }
  if (!isObject(value)) return [pair(name, component(plain(argument, value)))];
  const entries = Object.entries(value).map(([key, each]) => [key, component(plain(argument, each))] as const);
  if (explode) return entries.map(([key, text]) => pair(key, text));
  return [pair(name, entries.map(([key, text]) => `${component(key)},${text}`).join(','))];
}

/** A header value in visible ASCII, so that it can neither add a header nor end the head. */
function headerOf(parameter: OperationParameter, value: JsonValue): string {
  const text = simple(parameter, value, (part) => part).trim();
  if (!/^[\x20-\x7e]*$/.test(text)) throw wrong(parameter.argument, 'has characters that no header can carry');
  return text;
}

/**
 * The style `deepObject`: `name[key]=value`. The specification does not define deeper levels and lists, so they are
 * written as most servers expect them.
 */
function deepPairs(
  argument: string,
  name: string,
  value: JsonValue | undefined,
  depth = 0,
): [name: string, text: string][] {
  if (value === null || value === undefined) return [];
  if (typeof value !== 'object') return [[name, String(value)]];
  if (depth >= DEEPEST) throw wrong(argument, `has more than ${DEEPEST} levels`);
  return Object.entries(value).flatMap(([key, each]) => deepPairs(argument, `${name}[${key}]`, each, depth + 1));
}

function bodyOf({ argument, kind, deep }: OperationBody, value: JsonValue): Buffer {
  if (kind === 'json') return Buffer.from(JSON.stringify(value));
  if (kind === 'text') {
    if (typeof value !== 'string') throw wrong(argument, 'must be a text');
    return Buffer.from(value);
  }
  if (!isObject(value)) throw wrong(argument, 'must be an object');
  const fields = new URLSearchParams();
  for (const [key, each] of Object.entries(value))
    if (deep?.has(key)) for (const [name, text] of deepPairs(argument, key, each)) fields.append(name, text);
    else
      for (const one of Array.isArray(each) ? each : [each])
        if (one !== null && one !== undefined)
          fields.append(key, typeof one === 'object' ? JSON.stringify(one) : String(one));
  return Buffer.from(fields.toString());
}

/** Percent-encoding of everything that has a meaning in a URL. */
function component(text: string): string {
  // A lone surrogate has no UTF-8 form.
  const whole = text.replace(/\p{Surrogate}/gu, '\ufffd');
  return encodeURIComponent(whole).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
