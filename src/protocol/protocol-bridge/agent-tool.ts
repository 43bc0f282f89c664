/**
 * An agent's skills as MCP tools: the tool list, the translation of a call to a message, and the tool result (a2a.md
 * 4.1).
 */
import type { AgentCard, AgentSkill, Message, Part, SendMessageRequest, Task } from '../a2a/model.js';
import { isInterrupted, isTerminal, ROUTE } from '../a2a/model.js';
import { ProtocolError } from '../errors.js';
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import { isObject } from '../mcp/model.js';
import { contentOf, textOf } from './parts-and-content.js';
import { TOOLS_EXTENSION } from './tool-skill.js';

/** The tool for a message without a particular skill. */
const CONVERSATION = 'send_message';

const TEXT_LIMIT = 4_000;

export interface AgentTool {
  readonly name: string;
  /** The skill of this tool; undefined for plain messages. */
  readonly skill: string | undefined;
  /**
   * The tool takes the arguments of the skill's own schema from the card. Otherwise it takes a message to the agent.
   */
  readonly typed: boolean;
  readonly definition: JsonObject;
}

const FILE = {
  type: 'object',
  properties: {
    uri: { type: 'string', description: 'URL of the file' },
    base64: { type: 'string', description: 'Content of the file, instead of a uri' },
    name: { type: 'string' },
    mimeType: { type: 'string' },
  },
};

/**
 * The descriptions state that one of the first three members is required: model APIs refuse a schema that begins with
 * `anyOf`.
 */
const INPUT_SCHEMA = {
  type: 'object',
  properties: {
    message: { type: 'string', description: 'Text for the agent; message, data or files is required' },
    data: { description: 'Structured input for the agent: any JSON value' },
    files: { type: 'array', items: FILE, description: 'Files for the agent' },
    contextId: { type: 'string', description: 'Continues an earlier conversation' },
    taskId: { type: 'string', description: 'Answers a task that asked for input' },
    referenceTaskIds: { type: 'array', items: { type: 'string' }, description: 'Tasks this refers to' },
  },
};

const OUTPUT_SCHEMA = {
  type: 'object',
  properties: {
    state: { type: 'string', description: 'State of the task; "message" for a reply without a task' },
    taskId: { type: 'string' },
    contextId: { type: 'string' },
    text: { type: 'string' },
    data: { type: 'array', description: 'The structured parts of the reply' },
    artifacts: { type: 'array', items: { type: 'object' } },
  },
  required: ['state'],
};

/** The tools for an agent's card, in the order of its skills. */
export function toolsOf(card: AgentCard): AgentTool[] {
  const taken = new Set<string>();
  const schemas = schemasIn(card);
  const tools = card.skills.map((skill): AgentTool => {
    const name = freeName(skill.id, taken);
    const schema = schemas[skill.id];
    const definition = definitionOf(name, skill.name, describe(skill, card), schema);
    return { name, skill: skill.id, typed: schema !== undefined, definition };
  });
  const name = freeName(CONVERSATION, taken);
  const about = `Sends a message to the agent ${card.name}. ${card.description}`;
  const definition = definitionOf(name, `Message to ${card.name}`, about);
  return [...tools, { name, skill: undefined, typed: false, definition }];
}

/** The input schemas of the skills, if the agent's card publishes them. */
function schemasIn({ capabilities }: AgentCard): Readonly<Record<string, JsonObject>> {
  const extension = capabilities?.extensions?.find(({ uri }) => uri === TOOLS_EXTENSION);
  const tools = isObject(extension?.params) ? extension.params['tools'] : undefined;
  const found: Record<string, JsonObject> = {};
  for (const [skill, tool] of Object.entries(isObject(tools) ? tools : {})) {
    const schema = isObject(tool) ? tool['inputSchema'] : undefined;
    if (isObject(schema) && schema['type'] === 'object') found[skill] = schema;
  }
  return found;
}

function definitionOf(name: string, title: string, description: string, schema?: JsonObject): JsonObject {
  return {
    name,
    title,
    description: description.slice(0, TEXT_LIMIT),
    inputSchema: schema ?? (INPUT_SCHEMA as unknown as JsonObject),
    outputSchema: OUTPUT_SCHEMA as unknown as JsonObject,
    // The behavior of an agent is unknown, so no other hint is given.
    annotations: { openWorldHint: true },
    execution: { taskSupport: 'optional' },
  };
}

function describe(skill: AgentSkill, card: AgentCard): string {
  const examples = skill.examples?.length ? `\nExamples: ${skill.examples.map((each) => `"${each}"`).join(', ')}` : '';
  const modes = skill.outputModes?.length ? `\nReplies with: ${skill.outputModes.join(', ')}` : '';
  return `${skill.description}\nA skill of the agent ${card.name}.${examples}${modes}`;
}

function freeName(id: string, taken: Set<string>): string {
  const plain = id.replace(/[^A-Za-z0-9_.-]+/g, '_').slice(0, 100) || 'skill';
  let name = plain;
  for (let n = 2; taken.has(name); n++) name = `${plain}_${n}`;
  taken.add(name);
  return name;
}

/**
 * Translates a call's arguments to a message. Throws `invalid_arguments` that names the argument, so that the model can
 * correct the call.
 */
export function requestOf(tool: AgentTool, given: JsonObject, messageId: string): SendMessageRequest {
  const args: JsonObject = tool.typed ? { data: given } : given;
  const { message, data, files, contextId, taskId, referenceTaskIds } = args;
  const parts: Part[] = [
    ...(isText('message', message) ? [{ text: message }] : []),
    ...(data !== undefined ? [{ data, mediaType: 'application/json' }] : []),
    ...filesOf(files),
  ];
  if (parts.length === 0)
    throw new ProtocolError('invalid_arguments', 'One of "message", "data" and "files" is required');
  if (referenceTaskIds !== undefined && !isTexts(referenceTaskIds))
    throw new ProtocolError('invalid_arguments', '"referenceTaskIds" must be a list of strings');
  const wish = tool.skill === undefined ? {} : { metadata: { [ROUTE]: { skillId: tool.skill } } };
  return {
    message: {
      messageId,
      role: 'ROLE_USER',
      parts,
      ...(isText('contextId', contextId) && { contextId }),
      ...(isText('taskId', taskId) && { taskId }),
      ...(referenceTaskIds !== undefined && { referenceTaskIds }),
      ...wish,
    },
    ...wish,
  };
}

function isText(name: string, value: JsonValue | undefined): value is string {
  if (value === undefined || typeof value === 'string') return value !== undefined;
  throw new ProtocolError('invalid_arguments', `"${name}" must be a string`);
}

const isTexts = (value: JsonValue): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string');

function filesOf(files: JsonValue | undefined): Part[] {
  if (files === undefined) return [];
  if (!Array.isArray(files)) throw new ProtocolError('invalid_arguments', '"files" must be a list');
  return files.map((file) => {
    const { uri, base64, name, mimeType } = isObject(file) ? file : {};
    const described = {
      ...(typeof name === 'string' && { filename: name }),
      ...(typeof mimeType === 'string' && { mediaType: mimeType }),
    };
    if (typeof base64 === 'string') return { raw: base64, ...described };
    if (typeof uri === 'string') return { url: uri, ...described };
    throw new ProtocolError('invalid_arguments', 'Each of "files" needs a "uri" or "base64"');
  });
}

/** The `_meta` key under which every result names its task. */
const META_KEY = 'parley/a2a';

/** The result for a direct message of an agent, without a task. */
export function replyResult(agent: string, message: Message): JsonObject {
  return resultOf(agent, {
    state: 'message',
    said: [message.parts],
    contextId: message.contextId,
    content: contentOf(message.parts, { agent, task: undefined, artifact: message.messageId }),
  });
}

/** The result for a task in its current state: artifacts first, in order (a2a.md 4.1). */
export function taskResult(agent: string, task: Task, tool?: AgentTool): JsonObject {
  const { status, artifacts = [] } = task;
  const speaks = artifacts.length === 0 || status.state !== 'TASK_STATE_COMPLETED';
  const said = speaks ? (status.message?.parts ?? []) : [];
  const content = [
    ...artifacts.flatMap(({ artifactId, parts }) => contentOf(parts, { agent, task: task.id, artifact: artifactId })),
    ...contentOf(said, { agent, task: task.id, artifact: 'status' }),
  ];
  return resultOf(agent, {
    state: wordOf(status.state),
    said: [...artifacts.map(({ parts }) => parts), said],
    contextId: task.contextId,
    taskId: task.id,
    artifacts: artifacts.map(({ artifactId, name, description }) => ({
      artifactId,
      ...(name !== undefined && { name }),
      ...(description !== undefined && { description }),
    })),
    content: content.length > 0 ? content : [{ type: 'text', text: `The task is ${wordOf(status.state)}.` }],
    // A question is not an error: a further call with the task id answers it.
    isError: isTerminal(status.state) && status.state !== 'TASK_STATE_COMPLETED',
    ...(isInterrupted(status.state) && { answerBy: tool?.typed ? `the tool ${CONVERSATION}` : 'this tool again' }),
  });
}

interface Said {
  readonly state: string;
  /** The parts of each artifact or message. A streaming agent may split one text into many parts. */
  readonly said: readonly (readonly Part[])[];
  readonly contextId: string | undefined;
  readonly taskId?: string;
  readonly artifacts?: JsonObject[];
  readonly content: JsonObject[];
  readonly isError?: boolean;
  /** The tool that answers a task which needs input. */
  readonly answerBy?: string;
}

function resultOf(agent: string, said: Said): JsonObject {
  const { state, contextId, taskId, artifacts, content, isError, answerBy } = said;
  const ids = { ...(taskId !== undefined && { taskId }), ...(contextId !== undefined && { contextId }) };
  const text = said.said.flatMap((parts) => textOf(parts, '') || []).join('\n');
  const data = said.said.flat().flatMap((part) => ('data' in part && part.data !== undefined ? [part.data] : []));
  return {
    content: answerBy
      ? [...content, { type: 'text', text: `To answer, call ${answerBy} with taskId "${taskId}".` }]
      : content,
    structuredContent: {
      state,
      ...ids,
      ...(text !== '' && { text }),
      ...(data.length > 0 && { data }),
      ...(artifacts !== undefined && artifacts.length > 0 && { artifacts }),
    },
    ...(isError && { isError: true }),
    _meta: { [META_KEY]: { agent, ...ids, state } },
  };
}

/** The state in the spelling for messages: `TASK_STATE_INPUT_REQUIRED` becomes `input-required`. */
export const wordOf = (state: string): string =>
  state
    .replace(/^TASK_STATE_/, '')
    .toLowerCase()
    .replaceAll('_', '-');
