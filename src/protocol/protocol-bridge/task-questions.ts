/** Translates between a task that waits for its client and a tool that asks its client (a2a.md 4.1, 4.2). */
import type { Message, Part, Task } from '../a2a/model.js';
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import { type InputRequest, isObject } from '../mcp/model.js';
import { textOf } from './parts-and-content.js';

const PRIMITIVES: ReadonlySet<JsonValue> = new Set(['string', 'number', 'integer', 'boolean']);
const ANSWER = 'response';
const PLAIN: JsonObject = {
  type: 'object',
  properties: { [ANSWER]: { type: 'string', title: 'Answer' } },
  required: [ANSWER],
};

/** A form without fields: the user authenticates elsewhere, and forms must not ask for secrets (ELI-03). */
const CONFIRM: JsonObject = { type: 'object', properties: {} };

/** The question of a task in INPUT_REQUIRED or AUTH_REQUIRED, as an elicitation. */
export function questionOf(task: Task): InputRequest {
  const { status } = task;
  const parts = status.message?.parts ?? [];
  const message = textOf(parts) || 'The agent needs more information.';
  if (status.state === 'TASK_STATE_AUTH_REQUIRED') {
    const url = linkIn(parts);
    const asked = url === undefined ? { mode: 'form', requestedSchema: CONFIRM } : { mode: 'url', url };
    return { method: 'elicitation/create', params: { ...asked, message } };
  }
  return { method: 'elicitation/create', params: { mode: 'form', message, requestedSchema: schemaIn(parts) ?? PLAIN } };
}

/** The key of a question, unique within a task (TSKX-07). */
export const questionKey = (task: Task): string => task.status.message?.messageId ?? task.status.timestamp ?? task.id;

function linkIn(parts: readonly Part[]): string | undefined {
  for (const { url, data, text } of parts) {
    const given = url ?? (isObject(data) ? data['url'] : undefined) ?? /https?:\/\/\S+/.exec(text ?? '')?.[0];
    if (typeof given === 'string' && /^https?:/.test(given)) return given;
  }
  return undefined;
}

/** A form can contain only flat, simple values (ELI-04). Other schemas become a question in plain text. */
function schemaIn(parts: readonly Part[]): JsonObject | undefined {
  for (const { data } of parts) {
    const schema = isObject(data) ? (isObject(data['requestedSchema']) ? data['requestedSchema'] : data) : undefined;
    const properties = schema?.['type'] === 'object' ? schema['properties'] : undefined;
    if (!schema || !isObject(properties)) continue;
    const simple = Object.values(properties).every((each) => isObject(each) && PRIMITIVES.has(each['type'] ?? null));
    if (simple && Object.keys(properties).length > 0) return schema;
  }
  return undefined;
}

/** A user's answer as the parts of the next message to the task; undefined to cancel the task. */
export function answerParts(answer: JsonObject): Part[] | undefined {
  const { action, content } = answer;
  if (action === 'cancel') return undefined;
  if (action !== 'accept') return [{ data: { action: 'decline' }, mediaType: 'application/json' }];
  if (!isObject(content) || Object.keys(content).length === 0) return [{ text: 'accepted' }];
  const only = content[ANSWER];
  if (typeof only === 'string' && Object.keys(content).length === 1) return [{ text: only }];
  return [{ text: sentence(content) }, { data: content, mediaType: 'application/json' }];
}

const sentence = (content: JsonObject): string =>
  Object.entries(content)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join('\n');

/** A tool's question as the parts of a status message: text for people first, then data for programs. */
export function questionParts(key: string, request: InputRequest): Part[] {
  const { params = {} } = request;
  const message = typeof params['message'] === 'string' ? params['message'] : `The tool asks for ${request.method}`;
  if (request.method !== 'elicitation/create') {
    return [{ text: message }, { data: { key, method: request.method, params }, mediaType: 'application/json' }];
  }
  const { mode, url, requestedSchema } = params;
  if (mode === 'url' && typeof url === 'string') {
    return [{ text: `${message}\n${url}` }, { data: { key, url }, mediaType: 'application/json' }];
  }
  return [{ text: message }, { data: { key, requestedSchema: requestedSchema ?? {} }, mediaType: 'application/json' }];
}

/**
 * Reads the answers to a task's questions from a message. An answer is one of: data with the key of the question, data
 * or JSON text with the content, or plain text if the form has one field.
 */
export function answersIn(
  message: Message,
  asked: Readonly<Record<string, InputRequest>>,
): Record<string, JsonObject> | undefined {
  const keys = Object.keys(asked);
  const answers: Record<string, JsonObject> = {};
  for (const value of valuesIn(message.parts)) {
    if (!isObject(value)) continue;
    const { action } = value;
    if (action === 'decline' || action === 'cancel') return Object.fromEntries(keys.map((key) => [key, { action }]));
    const named = keys.filter((key) => isObject(value[key]));
    if (named.length > 0) {
      for (const key of named) answers[key] = accepted(value[key] as JsonObject);
    } else {
      const { key: chosen, content } = value;
      const key = typeof chosen === 'string' && keys.includes(chosen) ? chosen : keys[0];
      if (key !== undefined) answers[key] ??= accepted(isObject(content) ? content : value);
    }
  }
  const text = textOf(message.parts);
  for (const key of keys) answers[key] ??= fromText(asked[key]!, text) as JsonObject;
  return keys.every((key) => answers[key] !== undefined) ? answers : undefined;
}

const accepted = (content: JsonObject): JsonObject =>
  typeof content['action'] === 'string' ? content : { action: 'accept', content };

function fromText({ method, params = {} }: InputRequest, text: string): JsonObject | undefined {
  if (method !== 'elicitation/create') return undefined;
  if (params['mode'] === 'url') return { action: 'accept' };
  const schema = params['requestedSchema'];
  const properties = isObject(schema) && isObject(schema['properties']) ? schema['properties'] : {};
  const names = Object.keys(properties);
  if (names.length === 0) return { action: 'accept', content: {} };
  const required = isObject(schema) && Array.isArray(schema['required']) ? schema['required'] : names;
  const [name] = required.length === 1 ? (required as string[]) : names;
  if (text === '' || name === undefined || required.length > 1) return undefined;
  const value = typed(properties[name], text);
  return value === undefined ? undefined : { action: 'accept', content: { [name]: value } };
}

function typed(schema: JsonValue | undefined, text: string): JsonValue | undefined {
  switch (isObject(schema) ? schema['type'] : 'string') {
    case 'number':
    case 'integer': {
      const number = Number(text);
      return Number.isFinite(number) ? number : undefined;
    }
    case 'boolean':
      return /^(y|yes|true|ok|1)$/i.test(text) ? true : /^(n|no|false|0)$/i.test(text) ? false : undefined;
    default:
      return text;
  }
}

/** The values of data parts, and of text that is JSON. */
export function valuesIn(parts: readonly Part[]): JsonValue[] {
  return parts.flatMap((part) => {
    if ('data' in part && part.data !== undefined) return [part.data];
    if (part.text === undefined || !/^\s*[{[]/.test(part.text)) return [];
    try {
      return [JSON.parse(part.text) as JsonValue];
    } catch {
      return [];
    }
  });
}
