/** The vocabulary of the newest revision, the only one used inside the gateway. */
import type { JsonObject } from '../jsonrpc/raw.js';

export const META = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  logLevel: 'io.modelcontextprotocol/logLevel',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
  relatedTask: 'io.modelcontextprotocol/related-task',
  progressToken: 'progressToken',
} as const;

/** Request `_meta` keys that describe one hop: removed at the endpoint and written anew for the next hop (GW-08). */
export const HOP_META: ReadonlySet<string> = new Set<string>([
  META.protocolVersion,
  META.clientInfo,
  META.clientCapabilities,
  META.logLevel,
  META.subscriptionId,
  META.relatedTask,
  META.progressToken,
]);

export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

export type ListMethod = 'tools/list' | 'resources/list' | 'resources/templates/list' | 'prompts/list';

/** The member of a list result that holds its items. */
export const LIST_MEMBER: Readonly<Record<ListMethod, 'tools' | 'resources' | 'resourceTemplates' | 'prompts'>> = {
  'tools/list': 'tools',
  'resources/list': 'resources',
  'resources/templates/list': 'resourceTemplates',
  'prompts/list': 'prompts',
};

export const LIST_METHODS = Object.keys(LIST_MEMBER) as ListMethod[];

export const isListMethod = (method: string): method is ListMethod => Object.hasOwn(LIST_MEMBER, method);

/** Methods whose result may be `input_required` (MRTR-01). */
export const INTERACTIVE_METHODS: readonly string[] = ['tools/call', 'prompts/get', 'resources/read'];

export const TASK_METHODS: readonly string[] = ['tasks/get', 'tasks/update', 'tasks/cancel'];

const LOG_LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const isLogLevel = (value: unknown): value is LogLevel => LOG_LEVELS.includes(value as LogLevel);

export const atLeast = (level: LogLevel, minimum: LogLevel): boolean =>
  LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(minimum);

export interface Implementation extends JsonObject {
  name: string;
  version: string;
}

export interface ClientCapabilities extends JsonObject {
  experimental?: JsonObject;
  roots?: JsonObject;
  sampling?: JsonObject;
  elicitation?: JsonObject;
  extensions?: JsonObject;
}

export interface ServerCapabilities extends JsonObject {
  experimental?: JsonObject;
  logging?: JsonObject;
  completions?: JsonObject;
  prompts?: JsonObject;
  resources?: JsonObject;
  tools?: JsonObject;
  extensions?: JsonObject;
}

/** A server's description of itself, from `initialize` or `server/discover`. */
export interface ServerDescription {
  readonly capabilities: ServerCapabilities;
  readonly serverInfo?: Implementation;
  readonly instructions?: string;
  /** The server accepts calls as tasks, in the form of its revision. */
  readonly tasks?: boolean;
  /** The revision negotiated with a server of the legacy era. */
  readonly revision?: string;
}

export interface SubscriptionFilter extends JsonObject {
  toolsListChanged?: boolean;
  promptsListChanged?: boolean;
  resourcesListChanged?: boolean;
  resourceSubscriptions?: string[];
  taskIds?: string[];
}

export type ListKind = 'toolsListChanged' | 'promptsListChanged' | 'resourcesListChanged';

export const LIST_CHANGED: Readonly<Record<ListKind, string>> = {
  toolsListChanged: 'notifications/tools/list_changed',
  promptsListChanged: 'notifications/prompts/list_changed',
  resourcesListChanged: 'notifications/resources/list_changed',
};

export const LIST_KINDS = Object.keys(LIST_CHANGED) as ListKind[];

export interface InputRequest extends JsonObject {
  method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list';
  params?: JsonObject;
}

export type InputRequests = Record<string, InputRequest>;
export type InputResponses = Record<string, JsonObject>;

/**
 * An input response that reports a failed question. No revision defines one inside `inputResponses`. Clients of the
 * legacy era answer with an error, which is passed to servers of that era.
 */
export const INPUT_FAILURE = 'parley/failure';

export interface Notification {
  readonly method: string;
  readonly params: JsonObject;
}

export { isObject } from '../jsonrpc/raw.js';
