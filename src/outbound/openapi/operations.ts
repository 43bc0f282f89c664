/** The operations of an OpenAPI document as tools. */
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import { resolved } from './document.js';
import { SchemaConverter } from './schemas.js';

export type OperationMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
type Style = 'simple' | 'form' | 'spaceDelimited' | 'pipeDelimited' | 'deepObject';

/** One parameter, and the argument of the tool that holds its value. */
export interface OperationParameter {
  readonly argument: string;
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly style: Style;
  readonly explode: boolean;
  /** The value is sent as JSON text. */
  readonly json: boolean;
  readonly required: boolean;
}

export interface OperationBody {
  readonly argument: string;
  readonly kind: 'json' | 'form' | 'text';
  /** The media type to send. */
  readonly type: string;
  readonly required: boolean;
  /** The fields of a form whose lists and objects are sent as `field[key]=value`; the others are sent as JSON. */
  readonly deep?: ReadonlySet<string>;
}

export interface Operation {
  readonly name: string;
  /** The tool as `tools/list` shows it. */
  readonly tool: JsonObject;
  readonly method: OperationMethod;
  /** The path with its parameters in braces. */
  readonly path: string;
  readonly parameters: readonly OperationParameter[];
  readonly body: OperationBody | undefined;
}

export interface Operations {
  /**
   * The base URL as the document writes it, with the default values of its variables. Undefined if the document names
   * no base URL.
   */
  readonly server: string | undefined;
  readonly operations: readonly Operation[];
  /** Operations that cannot be tools, each with its reason. */
  readonly skipped: readonly string[];
}

const METHODS: Readonly<Record<string, OperationMethod>> = {
  ...{ get: 'GET', post: 'POST', put: 'PUT', patch: 'PATCH', delete: 'DELETE' },
};
/**
 * Maximum number of tools of one document, and also of reported operations that cannot be tools. Further operations are
 * ignored.
 */
const MOST_OPERATIONS = 1_000;
/** Maximum number of schemas in all tools of one document. Operations beyond this number are left out. */
const MOST_SCHEMAS = 100_000;
/**
 * Maximum number of characters of the schemas in all tools of one document. Operations beyond this number are left out.
 */
const MOST_CHARACTERS = 16 * 1024 * 1024;
const MOST_PARAMETERS = 100;
/** Maximum number of media types of a body that are read. */
const MOST_TYPES = 50;
/** Maximum number of characters of a path, of other texts, of the name of a tool or argument, and of a description. */
const LONGEST_PATH = 2_000;
const LONGEST_TEXT = 500;
const LONGEST_NAME = 64;
const LONGEST_DESCRIPTION = 2_000;
const STYLES: Readonly<Record<OperationParameter['in'], readonly Style[]>> = {
  path: ['simple'],
  query: ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'],
  header: ['simple'],
};
/**
 * Headers that no argument sets: credentials are those of the gateway, and the rest belongs to the connection, to the
 * content, or to the gateway itself.
 */
const OWN_HEADER =
  /^(?:accept|content-.*|authorization|cookie2?|host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|origin|referer|forwarded|x-forwarded-.*|via|traceparent|tracestate|proxy-.*|sec-.*)$/i;
/** The characters of a header name. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;

/** An operation that cannot be a tool. */
class Skipped extends Error {}

export function operationsOf(document: JsonObject): Operations {
  const operations: Operation[] = [];
  const skipped: string[] = [];
  const names = new Set<string>();
  let size = 0;
  let characters = 0;
  const paths = isObject(document['paths']) ? document['paths'] : {};
  let server = serverOf(document);
  for (const [path, written] of Object.entries(paths)) {
    const item = resolved(document, written);
    if (!item) continue;
    for (const [key, method] of Object.entries(METHODS)) {
      const operation = isObject(item[key]) ? item[key] : undefined;
      if (!operation) continue;
      const shown = `${method} ${path.slice(0, LONGEST_TEXT)}`;
      const full = size >= MOST_SCHEMAS || characters >= MOST_CHARACTERS;
      if (full || Math.max(operations.length, skipped.length) >= MOST_OPERATIONS) {
        const most = `at most ${MOST_OPERATIONS} operations and ${MOST_SCHEMAS} schemas with ${MOST_CHARACTERS} characters`;
        skipped.push(`${shown} and others: a document may have ${most}`);
        return { server, operations, skipped };
      }
      const schemas = new SchemaConverter(document);
      try {
        const own = serverOf(operation) ?? serverOf(item);
        server ??= own;
        if (own !== undefined && own !== server)
          throw new Skipped('it has a base URL of its own; add another server with its operations and "url"');
        operations.push(operationOf(document, schemas, { path, method, operation, shared: item['parameters'], names }));
      } catch (error) {
        if (!(error instanceof Skipped)) throw error;
        skipped.push(`${shown}: ${error.message}`);
      }
      size += schemas.size;
      characters += schemas.characters;
    }
  }
  return { server, operations, skipped };
}

/** The first server of a document, path or operation, with the default values of its variables. */
function serverOf({ servers }: JsonObject): string | undefined {
  const [first] = Array.isArray(servers) ? servers : [];
  const { url, variables } = isObject(first) ? first : {};
  if (typeof url !== 'string' || url.length > LONGEST_PATH) return undefined;
  return url.replace(/\{([^{}]*)\}/g, (whole, name: string) => {
    const variable = isObject(variables) && Object.hasOwn(variables, name) ? variables[name] : undefined;
    const value = isObject(variable) ? variable['default'] : undefined;
    return typeof value === 'string' && value.length <= LONGEST_TEXT ? value : whole;
  });
}

interface Found {
  readonly path: string;
  readonly method: OperationMethod;
  readonly operation: JsonObject;
  /** The `parameters` of the path item. They apply to every operation of the path. */
  readonly shared: JsonValue | undefined;
  /** The names in use. */
  readonly names: Set<string>;
}

function operationOf(
  document: JsonObject,
  schemas: SchemaConverter,
  { path, method, operation, shared, names }: Found,
): Operation {
  if (path.length > LONGEST_PATH) throw new Skipped('its path is too long');
  if (!/^\/[\x21-\x7e]*$/.test(path) || /[?#\\]|%2f|%5c|\/\.{1,2}(?:\/|$)/i.test(path))
    throw new Skipped('its path has characters or segments that are not allowed');
  const properties: JsonObject = Object.create(null);
  const required: string[] = [];
  const parameters: OperationParameter[] = [];
  const add = (argument: string, schema: JsonValue, needed: boolean): void => {
    properties[argument] = schema;
    if (needed) required.push(argument);
  };
  for (const parameter of parametersOf(document, [shared, operation['parameters']])) {
    const read = parameterOf(parameter, (wanted) => !(wanted in properties));
    if (!read) continue;
    add(read.argument, described(schemas.convert(schemaOf(parameter)), parameter['description']), read.required);
    parameters.push(read);
  }
  for (const [, name] of path.matchAll(/\{([^}]*)\}/g))
    if (!parameters.some((parameter) => parameter.in === 'path' && parameter.name === name))
      throw new Skipped(`its path contains "{${name}}", but the document declares no path parameter "${name}"`);
  const content = bodyOf(document, operation, (wanted) => !(wanted in properties));
  if (content) add(content.body.argument, schemas.convert(content.schema), content.body.required);
  if (schemas.exceeded) throw new Skipped('its schemas are too large');
  const { operationId } = operation;
  const name = nameOf(typeof operationId === 'string' ? operationId : `${method.toLowerCase()}_${path}`, names);
  const inputSchema: JsonObject = {
    type: 'object',
    properties: { ...properties },
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
  const { defs } = schemas;
  if (Object.keys(defs).length > 0) inputSchema['$defs'] = defs;
  const title = textOf(operation['summary'], 200);
  return {
    name,
    method,
    path,
    parameters,
    body: content?.body,
    tool: {
      name,
      ...(title !== undefined && { title }),
      description: descriptionOf(operation, method, path),
      inputSchema,
      annotations: annotationsOf(method, title),
    },
  };
}

/** The parameters of an operation; those of the operation replace those of its path. */
function parametersOf(document: JsonObject, lists: readonly (JsonValue | undefined)[]): JsonObject[] {
  const found = new Map<string, JsonObject>();
  for (const list of lists)
    for (const written of Array.isArray(list) ? list.slice(0, MOST_PARAMETERS) : []) {
      const parameter = resolved(document, written);
      const { name, in: place } = parameter ?? {};
      if (!parameter || typeof name !== 'string' || typeof place !== 'string')
        throw new Skipped('a parameter cannot be read');
      if (name.length > LONGEST_TEXT || place.length > LONGEST_TEXT)
        throw new Skipped('the name of a parameter is too long');
      found.set(`${place} ${name}`, parameter);
    }
  return [...found.values()];
}

/** Undefined for a parameter that the gateway does not let a caller set. */
function parameterOf(parameter: JsonObject, free: (argument: string) => boolean): OperationParameter | undefined {
  const name = String(parameter['name']);
  const place = parameter['in'];
  const required = parameter['required'] === true || place === 'path';
  if (place !== 'path' && place !== 'query' && place !== 'header') {
    if (required) throw new Skipped(`it needs the ${String(place)} parameter "${name}", which no argument sets`);
    return undefined;
  }
  if (place === 'header' && (OWN_HEADER.test(name) || !HEADER_NAME.test(name))) return undefined;
  const json = parameter['schema'] === undefined && isObject(parameter['content']);
  const style = (parameter['style'] ?? (place === 'query' ? 'form' : 'simple')) as Style;
  if (!STYLES[place].includes(style)) {
    if (required) throw new Skipped(`the style ${styleName(style)} of "${name}" is not supported`);
    return undefined;
  }
  const explode = typeof parameter['explode'] === 'boolean' ? parameter['explode'] : style === 'form';
  const argument = argumentOf([name, `${place}_${name}`], free);
  return { argument, name, in: place, style, explode, json, required };
}

const styleName = (style: unknown): string =>
  typeof style === 'string' ? `"${style.slice(0, LONGEST_NAME)}"` : 'that is not a text';

/** The first free name, in characters that every model provider accepts in property names. */
function argumentOf(wanted: readonly string[], free: (argument: string) => boolean): string {
  const clean = wanted.map((name) => name.replace(/[^A-Za-z0-9_.-]/g, '_').slice(0, LONGEST_NAME) || '_');
  const found = clean.find((name) => name !== '__proto__' && free(name));
  if (found !== undefined) return found;
  for (let n = 2; ; n++) {
    const numbered = `${clean[0]!.slice(0, LONGEST_NAME - 5)}_${n}`;
    if (free(numbered)) return numbered;
  }
}

/** The schema of a parameter: its own, or that of its one media type. */
function schemaOf(parameter: JsonObject): JsonValue | undefined {
  if (parameter['schema'] !== undefined) return parameter['schema'];
  const { content } = parameter;
  const type = isObject(content) ? typesOf(content)[0] : undefined;
  const media = isObject(content) && type !== undefined ? content[type] : undefined;
  return isObject(media) ? media['schema'] : undefined;
}

interface Content {
  readonly body: OperationBody;
  readonly schema: JsonValue | undefined;
}

function bodyOf(document: JsonObject, operation: JsonObject, free: (argument: string) => boolean): Content | undefined {
  const written = resolved(document, operation['requestBody']);
  const content = written && isObject(written['content']) ? written['content'] : undefined;
  if (!written || !content) return undefined;
  const required = written['required'] === true;
  const types = typesOf(content);
  const base = (type: string): string => type.split(';', 1)[0]!.trim().toLowerCase();
  const kinds: readonly (readonly [OperationBody['kind'], (type: string) => boolean])[] = [
    ['json', (type) => type === 'application/json'],
    ['json', (type) => type.endsWith('+json') || type === '*/*' || type === 'application/*'],
    ['form', (type) => type === 'application/x-www-form-urlencoded'],
    ['text', (type) => type.startsWith('text/')],
  ];
  for (const [kind, fits] of kinds) {
    const type = types.find((each) => fits(base(each)));
    if (type === undefined) continue;
    const media = content[type];
    const sent = type.includes('*') ? 'application/json' : type;
    if (!/^[\x20-\x7e]+$/.test(sent)) continue;
    const argument = argumentOf(['body', 'request_body'], free);
    const schema = isObject(media) ? media['schema'] : undefined;
    const deep = kind === 'form' && isObject(media) ? deepFields(media) : undefined;
    return {
      body: { argument, kind, type: sent, required, ...(deep && { deep }) },
      schema: kind === 'text' ? { type: 'string' } : schema,
    };
  }
  if (required)
    throw new Skipped(
      types[0] === undefined
        ? 'its body has no media type'
        : `its body has the type ${types[0]}, which no argument can hold`,
    );
  return undefined;
}

/** The fields of a form with the style `deepObject`. */
function deepFields({ encoding }: JsonObject): ReadonlySet<string> | undefined {
  if (!isObject(encoding)) return undefined;
  const names = Object.keys(encoding).filter((name) => {
    const each = encoding[name];
    return isObject(each) && each['style'] === 'deepObject';
  });
  return names.length > 0 ? new Set(names) : undefined;
}

/** The first media types of each body, computed once per body: many operations may share a body with many types. */
const knownTypes = new WeakMap<JsonObject, readonly string[]>();

function typesOf(content: JsonObject): readonly string[] {
  const known = knownTypes.get(content);
  if (known) return known;
  const types = Object.keys(content)
    .slice(0, MOST_TYPES)
    .filter((type) => type.length <= LONGEST_TEXT);
  knownTypes.set(content, types);
  return types;
}

/** A name of letters, digits, underscores and dashes that no other tool of the server has. */
function nameOf(wanted: string, names: Set<string>): string {
  const clean = wanted
    .slice(0, LONGEST_TEXT)
    .replace(/[^A-Za-z0-9_-]+/g, '_')
    // Two underscores separate the server from the tool.
    .replace(/_{2,}/g, '_')
    .replace(/^_+|_+$/g, '')
    .slice(0, LONGEST_NAME - 5);
  const base = clean === '' ? 'operation' : clean;
  let name = base;
  for (let n = 2; names.has(name.toLowerCase()); n++) name = `${base}_${n}`;
  names.add(name.toLowerCase());
  return name;
}

/** The beginning of a text. Only twice as many characters are read, because many operations may share a long text. */
function textOf(value: JsonValue | undefined, longest: number): string | undefined {
  if (typeof value !== 'string') return undefined;
  const text = value.slice(0, 2 * longest).trim();
  return text === '' ? undefined : text.slice(0, longest);
}

function descriptionOf(operation: JsonObject, method: OperationMethod, path: string): string {
  const summary = textOf(operation['summary'], 200);
  const description = textOf(operation['description'], LONGEST_DESCRIPTION);
  const texts = [summary, description === summary ? undefined : description].filter((text) => text !== undefined);
  const deprecated = operation['deprecated'] === true ? ['Deprecated.'] : [];
  return [...deprecated, ...(texts.length > 0 ? texts : [`${method} ${path}`])].join('\n\n');
}

/** The hints for a tool that follow from the HTTP method (RFC 9110 §9.2). */
function annotationsOf(method: OperationMethod, title: string | undefined): JsonObject {
  const readOnly = method === 'GET';
  return {
    ...(title !== undefined && { title }),
    readOnlyHint: readOnly,
    ...(!readOnly && { destructiveHint: method !== 'POST', idempotentHint: method === 'PUT' || method === 'DELETE' }),
  };
}

const described = (schema: JsonValue, description: JsonValue | undefined): JsonValue => {
  const text = textOf(description, LONGEST_DESCRIPTION);
  return isObject(schema) && text !== undefined ? { ...schema, description: text } : schema;
};
