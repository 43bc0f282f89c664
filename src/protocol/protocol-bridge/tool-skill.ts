/** MCP tools as the skills of an A2A agent: the card, and the tool that a message selects (a2a.md 4.2). */
import { type AgentSkill, type Message, PARLEY, type Part, ROUTE, type SendMessageRequest } from '../a2a/model.js';
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import { isObject } from '../mcp/model.js';
import { textOf } from './parts-and-content.js';
import { valuesIn } from './task-questions.js';

/** The extension in which a card publishes the input schemas of its tools. */
export const TOOLS_EXTENSION = `${PARLEY}/ext/mcp-tools/v1`;

export interface Tool {
  readonly name: string;
  readonly definition: JsonObject;
}

export function skillOf({ name, definition }: Tool): AgentSkill {
  const { title, description, annotations } = definition;
  const hints = isObject(annotations) ? Object.keys(annotations).filter((hint) => annotations[hint] === true) : [];
  const takes = argumentsOf(definition);
  const about = typeof description === 'string' && description !== '' ? description : `The tool ${name}.`;
  return {
    id: name,
    name: typeof title === 'string' && title !== '' ? title : name,
    description: takes.length > 0 ? `${about}\nArguments: ${takes.join(', ')}` : about,
    tags: ['mcp', ...hints],
    examples: [JSON.stringify({ tool: name, arguments: exampleOf(definition) })],
    inputModes: [...new Set(['application/json', 'text/plain', ...fileModes(definition)])],
    outputModes: ['text/plain', ...('outputSchema' in definition ? ['application/json'] : [])],
  };
}

/** The media types of the files that fill an argument. */
const fileModes = (definition: JsonObject): string[] =>
  Object.values(propertiesOf(definition)).flatMap((schema) => {
    if (!isObject(schema) || (!takesFile(schema, { raw: '' }) && !takesFile(schema, { url: '' }))) return [];
    const { contentMediaType: type } = schema;
    return [typeof type === 'string' && type !== '' ? type : '*/*'];
  });

export function schemasOf(tools: readonly Tool[]): JsonObject {
  return Object.fromEntries(
    tools.map(({ name, definition: { inputSchema, outputSchema } }) => [
      name,
      { ...(inputSchema !== undefined && { inputSchema }), ...(outputSchema !== undefined && { outputSchema }) },
    ]),
  );
}

function propertiesOf(definition: JsonObject): JsonObject {
  const schema = definition['inputSchema'];
  const properties = isObject(schema) ? schema['properties'] : undefined;
  return isObject(properties) ? properties : {};
}

function requiredOf(definition: JsonObject): string[] {
  const schema = definition['inputSchema'];
  const required = isObject(schema) ? schema['required'] : undefined;
  return Array.isArray(required) ? required.filter((name): name is string => typeof name === 'string') : [];
}

function argumentsOf(definition: JsonObject): string[] {
  const required = requiredOf(definition);
  return Object.entries(propertiesOf(definition)).map(([name, schema]) => {
    const type = isObject(schema) && typeof schema['type'] === 'string' ? ` (${schema['type']})` : '';
    return `${name}${required.includes(name) ? '' : '?'}${type}`;
  });
}

const EXAMPLES: Readonly<Record<string, JsonValue>> = { number: 1, integer: 1, boolean: true, array: [], object: {} };

function exampleOf(definition: JsonObject): JsonObject {
  const properties = propertiesOf(definition);
  return Object.fromEntries(
    requiredOf(definition).map((name) => {
      const schema = properties[name];
      return [name, EXAMPLES[isObject(schema) ? String(schema['type']) : ''] ?? '…'];
    }),
  );
}

/** The tool that a message selects, if any, and the arguments it contains. */
export interface ToolSelection {
  readonly tool: Tool | undefined;
  readonly args: JsonObject;
}

/**
 * Selects the tool by the first match: the hint, data that names a tool, text with such data, the only tool. Arguments
 * in the message override those `given` before.
 */
export function selectTool(
  { message, metadata }: SendMessageRequest,
  tools: readonly Tool[],
  given: JsonObject = {},
): ToolSelection {
  const hint = skillHint(message.metadata, metadata);
  const named = (name: JsonValue | undefined): Tool | undefined =>
    typeof name === 'string' ? (tools.find((tool) => tool.name === name) ?? alike(tools, name)) : undefined;
  let tool = named(hint);
  let args = given;
  for (const value of valuesIn(message.parts).filter(isObject)) {
    const called = named(value['tool']) ?? named(value['skill']) ?? named(value['name']);
    tool ??= called;
    if (called || isObject(value['arguments']))
      args = { ...args, ...(isObject(value['arguments']) ? value['arguments'] : {}) };
    else args = { ...args, ...value };
  }
  const [only] = tools;
  if (!tool && tools.length === 1) tool = only;
  return { tool, args: tool ? withTexts(tool, args, message) : args };
}

/** The skill that the metadata of a request or of its message names. */
export const skillHint = (message: JsonObject | undefined, request: JsonObject | undefined): JsonValue | undefined =>
  hintIn(request) ?? hintIn(message);

function hintIn(metadata: JsonObject | undefined): JsonValue | undefined {
  const route = metadata?.[ROUTE];
  return isObject(route) ? route['skillId'] : undefined;
}

/**
 * Accepts `forecast` for `weather__forecast` if no other tool matches, and `desk.weather__forecast`, the name on the
 * gateway card.
 */
function alike(tools: readonly Tool[], name: string): Tool | undefined {
  const found = tools.filter((tool) => name.endsWith(`.${tool.name}`) || tool.name.endsWith(`__${name}`));
  return found.length === 1 ? found[0] : undefined;
}

/** Plain text fills the only missing string argument; files fill arguments that hold a URI or encoded bytes. */
function withTexts(tool: Tool, given: JsonObject, message: Message): JsonObject {
  const properties = propertiesOf(tool.definition);
  const args = { ...given };
  const open = Object.keys(properties).filter((name) => !(name in args));
  const isType = (name: string, type: string): boolean => {
    const schema = properties[name];
    return isObject(schema) && schema['type'] === type;
  };
  for (const file of message.parts.filter(({ raw, url }) => raw !== undefined || url !== undefined)) {
    const name = open.find((each) => isType(each, 'string') && takesFile(properties[each], file));
    if (name !== undefined) args[name] = file.raw ?? file.url ?? '';
  }
  const text = textOf(message.parts.filter((part) => part.text === undefined || !/^\s*[{[]/.test(part.text)));
  const required = requiredOf(tool.definition).filter((name) => !(name in args));
  const candidates = required.length > 0 ? required : Object.keys(properties).length === 1 ? open : [];
  const [name] = candidates;
  if (text !== '' && name !== undefined && candidates.length === 1 && isType(name, 'string')) args[name] = text;
  return args;
}

const takesFile = (schema: JsonValue | undefined, { raw }: Part): boolean =>
  isObject(schema) && (raw === undefined ? schema['format'] === 'uri' : schema['contentEncoding'] === 'base64');

/** The missing arguments and the arguments of a wrong type. The server performs the deeper checks. */
export function problemsWith(tool: Tool, args: JsonObject): string[] {
  const properties = propertiesOf(tool.definition);
  const missing = requiredOf(tool.definition)
    .filter((name) => !(name in args))
    .map((name) => `"${name}" is missing`);
  const wrong = Object.entries(args).flatMap(([name, value]) => {
    const schema = properties[name];
    const type = isObject(schema) ? schema['type'] : undefined;
    return typeof type !== 'string' || isOfType(value, type) ? [] : [`"${name}" must be of type ${type}`];
  });
  return [...missing, ...wrong];
}

function isOfType(value: JsonValue | undefined, type: string): boolean {
  switch (type) {
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
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
