/** The requests of every operation, as each version and binding writes them. */
import type { Json } from '../json.js';

/** The versions, in the order of their letters: A is the first. */
export const A2A_VERSIONS = ['0.1', '0.2', '0.3', '1.0'] as const;
export type A2aVersion = (typeof A2A_VERSIONS)[number];
export type A2aBinding = 'JSONRPC' | 'HTTP+JSON' | 'GRPC';

export type Operation =
  | 'send'
  | 'stream'
  | 'get'
  | 'list'
  | 'cancel'
  | 'subscribe'
  | 'createPush'
  | 'getPush'
  | 'listPush'
  | 'deletePush'
  | 'extendedCard';

/** The values of a request, whatever their names on the wire. */
export interface OperationInput {
  /** The id of the task. */
  readonly id?: unknown;
  readonly configId?: unknown;
  /** The address of a webhook. */
  readonly url?: string;
  /** The message and its configuration, as `messageOf` writes them. */
  readonly body?: Json;
  readonly historyLength?: number;
  readonly pageSize?: number;
  readonly pageToken?: string;
  readonly includeArtifacts?: boolean;
  /** Members that no version defines. */
  readonly more?: Json;
}

/** The names of the operations in 1.0; gRPC uses them too. */
export const OPERATION_NAMES = {
  send: 'SendMessage',
  stream: 'SendStreamingMessage',
  get: 'GetTask',
  list: 'ListTasks',
  cancel: 'CancelTask',
  subscribe: 'SubscribeToTask',
  createPush: 'CreateTaskPushNotificationConfig',
  getPush: 'GetTaskPushNotificationConfig',
  listPush: 'ListTaskPushNotificationConfigs',
  deletePush: 'DeleteTaskPushNotificationConfig',
  extendedCard: 'GetExtendedAgentCard',
} as const satisfies Readonly<Record<Operation, string>>;

const NAMES_0_3: Readonly<Record<Operation, string>> = {
  send: 'message/send',
  stream: 'message/stream',
  get: 'tasks/get',
  list: 'tasks/list',
  cancel: 'tasks/cancel',
  subscribe: 'tasks/resubscribe',
  createPush: 'tasks/pushNotificationConfig/set',
  getPush: 'tasks/pushNotificationConfig/get',
  listPush: 'tasks/pushNotificationConfig/list',
  deletePush: 'tasks/pushNotificationConfig/delete',
  extendedCard: 'agent/getAuthenticatedExtendedCard',
};

/** The names of the operations in JSON-RPC. */
export const RPC_METHODS: Readonly<Record<A2aVersion, Readonly<Record<Operation, string>>>> = {
  '1.0': OPERATION_NAMES,
  '0.3': NAMES_0_3,
  '0.2': NAMES_0_3,
  '0.1': {
    ...NAMES_0_3,
    send: 'tasks/send',
    stream: 'tasks/sendSubscribe',
    createPush: 'tasks/pushNotification/set',
    getPush: 'tasks/pushNotification/get',
  },
};

const FIRST = ['send', 'stream', 'get', 'cancel', 'subscribe', 'createPush', 'getPush'] as const;
const SECOND = [...FIRST, 'listPush', 'deletePush'] as const;

/** The operations that each version has. */
export const OPERATIONS: Readonly<Record<A2aVersion, readonly Operation[]>> = {
  '0.1': FIRST,
  '0.2': SECOND,
  '0.3': [...SECOND, 'extendedCard'],
  '1.0': [...SECOND, 'extendedCard', 'list'],
};

/** Removes absent members. */
const present = (members: Json): Json =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));

const listing = ({ pageSize, pageToken, historyLength, includeArtifacts }: OperationInput): Json =>
  present({ pageSize, pageToken, historyLength, includeArtifacts });

/** The params of JSON-RPC; for 1.0 also the message of gRPC. */
export function rpcParams(version: A2aVersion, operation: Operation, input: OperationInput): Json {
  const { id, configId, url, body = {}, historyLength, more } = input;
  const modern = version === '1.0';
  switch (operation) {
    case 'send':
    case 'stream':
      return { ...body, ...more };
    case 'get':
      return present({ id, historyLength, ...more });
    case 'list':
      return { ...listing(input), ...more };
    case 'cancel':
    case 'subscribe':
      return present({ id, ...more });
    case 'createPush':
      if (modern) return present({ taskId: id, id: configId, url });
      return version === '0.1'
        ? present({ id, pushNotificationConfig: { url } })
        : { taskId: id, pushNotificationConfig: present({ id: configId, url }) };
    case 'getPush':
    case 'deletePush':
      if (modern) return present({ taskId: id, id: configId });
      return version === '0.1' ? present({ id }) : present({ id, pushNotificationConfigId: configId });
    case 'listPush':
      return modern ? present({ taskId: id }) : present({ id });
    case 'extendedCard':
      return {};
  }
}

/** The request message of gRPC. Versions before 1.0 name resources by paths. */
export function grpcMessage(version: A2aVersion, operation: Operation, input: OperationInput): Json {
  if (version === '1.0') return rpcParams(version, operation, input);
  const { id, configId, url, body = {}, historyLength } = input;
  const task = `tasks/${String(id)}`;
  const config = `${task}/pushNotificationConfigs/${String(configId)}`;
  switch (operation) {
    case 'send':
    case 'stream':
      return body;
    case 'get':
      return present({ name: task, historyLength });
    case 'cancel':
    case 'subscribe':
      return { name: task };
    case 'createPush':
      return {
        parent: task,
        configId,
        config: { name: config, pushNotificationConfig: present({ id: configId, url }) },
      };
    case 'getPush':
    case 'deletePush':
      return { name: config };
    case 'listPush':
      return { parent: task };
    case 'list':
    case 'extendedCard':
      return {};
  }
}

export interface RestRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly query: string;
  readonly json?: Json;
}

/** The request of HTTP+JSON. */
export function restRequest(version: A2aVersion, operation: Operation, input: OperationInput): RestRequest {
  const { id, configId, url, body = {}, historyLength, more = {} } = input;
  const modern = version === '1.0';
  const prefix = modern ? '' : '/v1';
  const task = `${prefix}/tasks/${encodeURIComponent(String(id))}`;
  const configs = `${task}/pushNotificationConfigs`;
  const config = `${configs}/${encodeURIComponent(String(configId))}`;
  const get = (path: string, members: Json = {}): RestRequest => ({ method: 'GET', path, query: queryOf(members) });
  const post = (path: string, json: Json): RestRequest => ({ method: 'POST', path, query: '', json });
  switch (operation) {
    case 'send':
      return post(`${prefix}/message:send`, { ...body, ...more });
    case 'stream':
      return post(`${prefix}/message:stream`, { ...body, ...more });
    case 'get':
      return get(task, { historyLength, ...more });
    case 'list':
      return get(`${prefix}/tasks`, { ...listing(input), ...more });
    case 'cancel':
      return post(`${task}:cancel`, more);
    case 'subscribe':
      return post(`${task}:subscribe`, more);
    case 'createPush':
      return post(
        configs,
        modern ? present({ id: configId, taskId: id, url }) : { configId, config: { pushNotificationConfig: { url } } },
      );
    case 'getPush':
      return get(config);
    case 'listPush':
      return get(configs);
    case 'deletePush':
      return { method: 'DELETE', path: config, query: '' };
    case 'extendedCard':
      return get(modern ? '/extendedAgentCard' : '/v1/card');
  }
}

const queryOf = (members: Json): string =>
  new URLSearchParams(
    Object.entries(present(members)).map(([key, value]): [string, string] => [key, String(value)]),
  ).toString();

export interface MessageInput {
  /** Members of the message, such as `taskId`. */
  readonly more?: Json;
  /** The parts of the message; by default one text part. */
  readonly parts?: readonly unknown[];
  readonly messageId?: string | undefined;
  readonly returnImmediately?: boolean;
}

/** The body of a request with a message, as a version and binding writes it. */
export function messageBody(version: A2aVersion, binding: A2aBinding, input: MessageInput = {}): Json {
  const { more = {}, parts, returnImmediately } = input;
  const messageId = 'messageId' in input ? input.messageId : crypto.randomUUID();
  const text = 'Hello';
  if (version === '1.0') {
    const message = present({ messageId, role: 'ROLE_USER', parts: parts ?? [{ text }], ...more });
    return { message, ...(returnImmediately && { configuration: { returnImmediately: true } }) };
  }
  if (version === '0.1') {
    // The client chooses the id of the task.
    const { taskId = crypto.randomUUID(), contextId } = more;
    const message = { role: 'user', parts: parts ?? [{ type: 'text', text }] };
    return present({ id: taskId, sessionId: contextId, message });
  }
  const message =
    binding === 'JSONRPC'
      ? { kind: 'message', messageId, role: 'user', parts: parts ?? [{ kind: 'text', text }], ...more }
      : { messageId, role: 'ROLE_USER', content: parts ?? [{ text }], ...more };
  const configuration = { acceptedOutputModes: ['text/plain'], blocking: !returnImmediately };
  return { message: present(message), configuration };
}

/** A part with bytes of a media type, as a version and binding writes it. */
export function bytesPart(version: A2aVersion, binding: A2aBinding, mediaType: string): Json {
  const bytes = 'aGVsbG8=';
  if (version === '1.0') return { raw: bytes, mediaType };
  if (binding !== 'JSONRPC') return { file: { fileWithBytes: bytes, mimeType: mediaType } };
  return { [version === '0.1' ? 'type' : 'kind']: 'file', file: { bytes, mimeType: mediaType } };
}
