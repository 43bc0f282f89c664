/**
 * The vocabulary of A2A 1.0, as its ProtoJSON. These are plain objects: members beyond those named here are kept and
 * passed on.
 */
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';

interface Open {
  [unknown: string]: JsonValue | undefined;
}

export const TASK_STATES = [
  'TASK_STATE_UNSPECIFIED',
  'TASK_STATE_SUBMITTED',
  'TASK_STATE_WORKING',
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED',
] as const;
export type TaskState = (typeof TASK_STATES)[number];

const TERMINAL: ReadonlySet<TaskState> = new Set([
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_REJECTED',
]);
const INTERRUPTED: ReadonlySet<TaskState> = new Set(['TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED']);

/** The task does not change any more. */
export const isTerminal = (state: TaskState): boolean => TERMINAL.has(state);
/** The task waits for its client. */
export const isInterrupted = (state: TaskState): boolean => INTERRUPTED.has(state);
/** A blocking SendMessage returns in these states. */
export const isSettled = (state: TaskState): boolean => isTerminal(state) || isInterrupted(state);

export type Role = 'ROLE_UNSPECIFIED' | 'ROLE_USER' | 'ROLE_AGENT';

/** Exactly one of `text`, `raw` (base64), `url` and `data` is present; `data` may be any JSON value, including null. */
export interface Part extends Open {
  text?: string;
  raw?: string;
  url?: string;
  data?: JsonValue;
  metadata?: JsonObject;
  filename?: string;
  mediaType?: string;
}

export interface Message extends Open {
  messageId: string;
  role: Role;
  parts: Part[];
  contextId?: string;
  taskId?: string;
  metadata?: JsonObject;
  extensions?: string[];
  referenceTaskIds?: string[];
}

export interface Artifact extends Open {
  artifactId: string;
  parts: Part[];
  name?: string;
  description?: string;
  metadata?: JsonObject;
  extensions?: string[];
}

export interface TaskStatus extends Open {
  state: TaskState;
  message?: Message;
  timestamp?: string;
}

export interface Task extends Open {
  id: string;
  status: TaskStatus;
  contextId?: string;
  artifacts?: Artifact[];
  history?: Message[];
  metadata?: JsonObject;
}

export interface TaskStatusUpdateEvent extends Open {
  taskId: string;
  contextId: string;
  status: TaskStatus;
  metadata?: JsonObject;
}

export interface TaskArtifactUpdateEvent extends Open {
  taskId: string;
  contextId: string;
  artifact: Artifact;
  append?: boolean;
  lastChunk?: boolean;
  metadata?: JsonObject;
}

/** Exactly one of the four members is present. */
export interface StreamResponse extends Open {
  task?: Task;
  message?: Message;
  statusUpdate?: TaskStatusUpdateEvent;
  artifactUpdate?: TaskArtifactUpdateEvent;
}

/** Exactly one of the two members is present. */
export interface SendMessageResponse extends Open {
  task?: Task;
  message?: Message;
}

export interface AuthenticationInfo extends Open {
  scheme: string;
  credentials?: string;
}

export interface TaskPushNotificationConfig extends Open {
  url: string;
  tenant?: string;
  id?: string;
  taskId?: string;
  token?: string;
  authentication?: AuthenticationInfo;
}

export interface SendMessageConfiguration extends Open {
  acceptedOutputModes?: string[];
  taskPushNotificationConfig?: TaskPushNotificationConfig;
  historyLength?: number;
  returnImmediately?: boolean;
}

export interface SendMessageRequest extends Open {
  message: Message;
  tenant?: string;
  configuration?: SendMessageConfiguration;
  metadata?: JsonObject;
}

export interface GetTaskRequest extends Open {
  id: string;
  tenant?: string;
  historyLength?: number;
}

export interface ListTasksRequest extends Open {
  tenant?: string;
  contextId?: string;
  status?: TaskState;
  pageSize?: number;
  pageToken?: string;
  historyLength?: number;
  statusTimestampAfter?: string;
  includeArtifacts?: boolean;
}

export interface ListTasksResponse extends Open {
  tasks: Task[];
  nextPageToken: string;
  pageSize: number;
  totalSize: number;
}

export interface CancelTaskRequest extends Open {
  id: string;
  tenant?: string;
  metadata?: JsonObject;
}

export interface SubscribeToTaskRequest extends Open {
  id: string;
  tenant?: string;
}

/** Identifies a push configuration. Old clients may omit `id` if a task has only one configuration. */
export interface PushConfigRequest extends Open {
  taskId: string;
  id?: string;
  tenant?: string;
}

export interface ListPushConfigsRequest extends Open {
  taskId: string;
  tenant?: string;
  pageSize?: number;
  pageToken?: string;
}

export interface ListPushConfigsResponse extends Open {
  configs: TaskPushNotificationConfig[];
  nextPageToken: string;
}

export interface AgentInterface extends Open {
  url: string;
  protocolBinding: string;
  protocolVersion: string;
  tenant?: string;
}

export interface AgentExtension extends Open {
  uri: string;
  description?: string;
  required?: boolean;
  params?: JsonObject;
}

export interface AgentCapabilities extends Open {
  streaming?: boolean;
  pushNotifications?: boolean;
  extensions?: AgentExtension[];
  extendedAgentCard?: boolean;
}

export interface AgentSkill extends Open {
  id: string;
  name: string;
  description: string;
  tags: string[];
  examples?: string[];
  inputModes?: string[];
  outputModes?: string[];
  securityRequirements?: JsonObject[];
}

export interface AgentCardSignature extends Open {
  protected: string;
  signature: string;
  header?: JsonObject;
}

export interface AgentCard extends Open {
  name: string;
  description: string;
  supportedInterfaces: AgentInterface[];
  version: string;
  capabilities: AgentCapabilities;
  defaultInputModes: string[];
  defaultOutputModes: string[];
  skills: AgentSkill[];
  provider?: { url: string; organization: string };
  documentationUrl?: string;
  iconUrl?: string;
  securitySchemes?: JsonObject;
  securityRequirements?: JsonObject[];
  signatures?: AgentCardSignature[];
}

/**
 * The request and the result of each operation, in the terms of 1.0. The result of a streaming operation is one of its
 * events.
 */
export interface Operations {
  SendMessage: [SendMessageRequest, SendMessageResponse];
  SendStreamingMessage: [SendMessageRequest, StreamResponse];
  GetTask: [GetTaskRequest, Task];
  ListTasks: [ListTasksRequest, ListTasksResponse];
  CancelTask: [CancelTaskRequest, Task];
  SubscribeToTask: [SubscribeToTaskRequest, StreamResponse];
  CreateTaskPushNotificationConfig: [TaskPushNotificationConfig, TaskPushNotificationConfig];
  GetTaskPushNotificationConfig: [PushConfigRequest, TaskPushNotificationConfig];
  ListTaskPushNotificationConfigs: [ListPushConfigsRequest, ListPushConfigsResponse];
  DeleteTaskPushNotificationConfig: [PushConfigRequest, null];
  GetExtendedAgentCard: [{ tenant?: string }, AgentCard];
}
export type Operation = keyof Operations;
export type RequestOf<O extends Operation> = Operations[O][0];
export type ResultOf<O extends Operation> = Operations[O][1];

export type Streaming = 'SendStreamingMessage' | 'SubscribeToTask';
export const isStreaming = (operation: Operation): operation is Streaming =>
  operation === 'SendStreamingMessage' || operation === 'SubscribeToTask';

export type Binding = 'JSONRPC' | 'HTTP+JSON' | 'GRPC';

/** The prefix of all metadata keys and extension URIs of the gateway. */
export const PARLEY = 'https://parley.dev/a2a';
/** Request metadata: the gateways that a message passed through (G-6). */
export const HOPS = `${PARLEY}/hops/v1`;
/**
 * Request or message metadata: `{ agent?, skillId? }`, the caller's choice on an endpoint with several agents (G-4).
 */
export const ROUTE = `${PARLEY}/route/v1`;
