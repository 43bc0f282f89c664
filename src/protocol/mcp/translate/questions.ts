/** Questions to the client and their answers, translated between the revisions (mcp.md 4.2, 4.5). */
import { ProtocolError } from '../../errors.js';
import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { type ClientCapabilities, type InputRequest, isObject } from '../model.js';
import type { Expresses, Revision } from '../revisions/index.js';

const METHODS: readonly string[] = ['elicitation/create', 'sampling/createMessage', 'roots/list'];

/** A server's request in the modern form. Undefined for a request that no client can be asked. */
export function decodeInputRequest(method: string, params: JsonObject): InputRequest | undefined {
  if (!METHODS.includes(method)) return undefined;
  const { _meta: _, task: __, ...rest } = params;
  switch (method) {
    case 'elicitation/create': {
      const { elicitationId: ___, ...question } = rest;
      return { method, params: { mode: 'form', ...question } };
    }
    case 'sampling/createMessage': {
      // The question must not give this server the context of other servers (mcp.md 4.10, 13).
      const { includeContext: ___, ...question } = rest;
      return { method, params: question };
    }
    default:
      return { method: 'roots/list' };
  }
}

/** A server of the legacy era may name its question with this key; in the modern era every question has a name. */
const QUESTION_NAME = 'parley/inputKey';

export function questionName(params: JsonObject): string | undefined {
  const meta = params['_meta'];
  const name = isObject(meta) ? meta[QUESTION_NAME] : undefined;
  return typeof name === 'string' && name !== '' ? name : undefined;
}

/** The capability that a client needs for this question, as a declaration that satisfies it (MRTR-03). */
export function requiredCapability(request: InputRequest): ClientCapabilities {
  switch (request.method) {
    case 'elicitation/create':
      return request.params?.['mode'] === 'url' ? { elicitation: { url: {} } } : { elicitation: { form: {} } };
    case 'sampling/createMessage':
      return request.params?.['tools'] !== undefined || request.params?.['toolChoice'] !== undefined
        ? { sampling: { tools: {} } }
        : { sampling: {} };
    case 'roots/list':
      return { roots: {} };
  }
}

/** Whether everything in `required` is declared. An empty `elicitation` object declares form mode (ELI-01). */
export function declares(declared: ClientCapabilities, required: ClientCapabilities): boolean {
  for (const [name, parts] of Object.entries(required)) {
    const have = declared[name];
    if (!isObject(have)) return false;
    if (!isObject(parts)) continue;
    for (const part of Object.keys(parts)) {
      const implied = name === 'elicitation' && part === 'form' && Object.keys(have).length === 0;
      if (!(part in have) && !implied) return false;
    }
  }
  return true;
}

/** The error for a caller that lacks a capability which the server needs. */
export function lacksCapability(server: string, requiredCapabilities: ClientCapabilities): ProtocolError {
  const names = Object.entries(requiredCapabilities).flatMap(([name, parts]) => {
    const modes = isObject(parts) ? Object.keys(parts) : [];
    return modes.length > 0 ? modes.map((mode) => `${name}.${mode}`) : [name];
  });
  return new ProtocolError(
    'missing_capability',
    `Server "${server}" needs a client that declares ${names.join(' and ')}`,
    {
      data: { requiredCapabilities, server },
    },
  );
}

/** Whether a client with these capabilities can answer any question. */
export const isInteractive = (capabilities: ClientCapabilities): boolean =>
  isObject(capabilities.elicitation) || isObject(capabilities.sampling) || isObject(capabilities.roots);

/** A client's answer in the form of the server's revision. */
export function encodeInputResponse(method: string, response: JsonObject, to: Revision): JsonObject {
  if (method !== 'sampling/createMessage' || to.expresses.samplingTools) return response;
  const content = response['content'];
  return Array.isArray(content) ? { ...response, content: content[0] ?? { type: 'text', text: '' } } : response;
}

/** The response to a server whose question will not be answered. */
export function refusalOf(
  method: string,
  reason: string,
): { result: JsonObject } | { error: { code: number; message: string } } {
  switch (method) {
    case 'elicitation/create':
      return { result: { action: 'cancel' } };
    case 'sampling/createMessage':
      return { error: { code: -1, message: reason } };
    default:
      return { error: { code: -32603, message: reason } };
  }
}

/** A question in the form of the client's revision, or the feature that this revision lacks. */
export function encodeInputRequest(
  request: InputRequest,
  to: Revision,
  elicitationId: string,
): { readonly params: JsonObject | undefined } | { readonly impossible: string } {
  const params = request.params ?? {};
  switch (request.method) {
    case 'elicitation/create':
      return encodeElicitation(params, to, elicitationId);
    case 'sampling/createMessage':
      return encodeSampling(params, to.expresses);
    case 'roots/list':
      return { params: undefined };
  }
}

function encodeElicitation(
  params: JsonObject,
  to: Revision,
  elicitationId: string,
): { readonly params: JsonObject } | { readonly impossible: string } {
  const { elicitation, richForms } = to.expresses;
  if (params['mode'] === 'url') {
    if (!elicitation.includes('url')) return { impossible: 'elicitation in URL mode' };
    return { params: { ...params, elicitationId } };
  }
  if (!elicitation.includes('form')) return { impossible: 'elicitation' };
  if (richForms) return { params };
  const { mode: _, ...rest } = params;
  const schema = rest['requestedSchema'];
  if (!isObject(schema) || !isObject(schema['properties'])) return { params: rest };
  const properties: JsonObject = {};
  for (const [name, property] of Object.entries(schema['properties'])) {
    const plain = plainProperty(property);
    if (plain === undefined) return { impossible: `elicitation with several choices in "${name}"` };
    properties[name] = plain;
  }
  const { $schema: __, ...base } = schema;
  return { params: { ...rest, requestedSchema: { ...base, properties } } };
}

/**
 * A form field of 2025-06-18: enums use `enum` with `enumNames`, only booleans have defaults, and there are no lists.
 */
function plainProperty(property: JsonValue | undefined): JsonValue | undefined {
  if (!isObject(property)) return property;
  if (property['type'] === 'array') return undefined;
  const out: JsonObject = { ...property };
  if (property['type'] !== 'boolean') delete out['default'];
  const { oneOf } = property;
  if (Array.isArray(oneOf)) {
    delete out['oneOf'];
    const choices = oneOf.filter(isObject);
    out['enum'] = choices.map((choice) => choice['const'] ?? null);
    out['enumNames'] = choices.map((choice) => choice['title'] ?? choice['const'] ?? null);
  }
  return out;
}

function encodeSampling(
  params: JsonObject,
  to: Expresses,
): { readonly params: JsonObject } | { readonly impossible: string } {
  if (to.samplingTools) return { params };
  if (params['tools'] !== undefined || params['toolChoice'] !== undefined) return { impossible: 'sampling with tools' };
  const messages: JsonValue[] = [];
  for (const message of Array.isArray(params['messages']) ? params['messages'] : []) {
    const content = isObject(message) ? message['content'] : undefined;
    const blocks = Array.isArray(content) ? content : [content];
    for (const block of blocks) {
      const type = isObject(block) ? block['type'] : undefined;
      if (type === 'tool_use' || type === 'tool_result') return { impossible: 'sampling with tools' };
      if (type === 'audio' && !to.audio) return { impossible: 'sampling with audio' };
      messages.push(isObject(message) ? { ...message, content: block ?? null } : (message ?? null));
    }
  }
  return { params: { ...params, messages } };
}
