/**
 * Detects the A2A version of a peer, once per request, from the version it names and from the spelling of its message.
 */
import { isObject, type JsonObject } from '../jsonrpc/raw.js';
import { type DialectId, VERSIONS, type Version } from './dialect.js';
import type { Operation } from './model.js';

/**
 * The version that an `A2A-Version` header or query parameter names: Major.Minor, the patch is ignored (S-10).
 * Undefined if absent, 0.3 if empty (S-11), `unsupported` for a version the gateway does not speak (S-12).
 */
export function readVersion(named: string | undefined): Version | 'unsupported' | undefined {
  if (named === undefined) return undefined;
  const text = named.trim();
  if (text === '') return '0.3';
  const [, major, minor] = /^v?(\d+)\.(\d+)(?:\.\d+)?(?:[-+].*)?$/i.exec(text) ?? [];
  return VERSIONS.find((version) => version === `${major}.${minor}`) ?? 'unsupported';
}

type Spelling = { readonly operation: Operation; readonly dialect: DialectId; readonly certain: boolean };

const OPERATIONS: readonly Operation[] = [
  'SendMessage',
  'SendStreamingMessage',
  'GetTask',
  'ListTasks',
  'CancelTask',
  'SubscribeToTask',
  'CreateTaskPushNotificationConfig',
  'GetTaskPushNotificationConfig',
  'ListTaskPushNotificationConfigs',
  'DeleteTaskPushNotificationConfig',
  'GetExtendedAgentCard',
];

/** Every spelling of every operation (C-24), and the 0.x versions that use it. */
const OLD_SPELLINGS: Readonly<Record<string, readonly [Operation, ...Version[]]>> = {
  'message/send': ['SendMessage', '0.3', '0.2'],
  'message/stream': ['SendStreamingMessage', '0.3', '0.2'],
  'tasks/send': ['SendMessage', '0.1'],
  'tasks/sendSubscribe': ['SendStreamingMessage', '0.1'],
  'tasks/get': ['GetTask', '0.3', '0.2', '0.1'],
  'tasks/list': ['ListTasks', '0.3', '0.2'],
  'tasks/cancel': ['CancelTask', '0.3', '0.2', '0.1'],
  'tasks/resubscribe': ['SubscribeToTask', '0.3', '0.2', '0.1'],
  'tasks/subscribe': ['SubscribeToTask', '0.1', '0.2', '0.3'],
  'tasks/pushNotificationConfig/set': ['CreateTaskPushNotificationConfig', '0.3', '0.2'],
  'tasks/pushNotificationConfig/get': ['GetTaskPushNotificationConfig', '0.3', '0.2'],
  'tasks/pushNotificationConfig/list': ['ListTaskPushNotificationConfigs', '0.3', '0.2'],
  'tasks/pushNotificationConfig/delete': ['DeleteTaskPushNotificationConfig', '0.3', '0.2'],
  'tasks/pushNotification/set': ['CreateTaskPushNotificationConfig', '0.1'],
  'tasks/pushNotification/get': ['GetTaskPushNotificationConfig', '0.1'],
  'agent/getAuthenticatedExtendedCard': ['GetExtendedAgentCard', '0.3', '0.2'],
};

/**
 * Methods that several versions spell alike. If the caller names no version, the version of the task's creator decides.
 */
const SHARED: ReadonlySet<string> = new Set(['tasks/get', 'tasks/cancel', 'tasks/resubscribe', 'tasks/subscribe']);

const SPELLINGS = new Map<string, readonly [Operation, ...Version[]]>([
  ...OPERATIONS.map((operation): [string, [Operation, Version]] => [operation, [operation, '1.0']]),
  ...Object.entries(OLD_SPELLINGS),
]);

/**
 * The operation and the dialect of a JSON-RPC method. If the method and the named version disagree, the method decides,
 * because the rest of the body is spelled like the method.
 */
export function rpcDialect(method: string, named: Version | undefined): Spelling | undefined {
  const found = SPELLINGS.get(method);
  if (!found) return undefined;
  const [operation, ...versions] = found;
  const dialect = named !== undefined && versions.includes(named) ? named : (versions[0] ?? '0.3');
  return { operation, dialect, certain: dialect === named || !SHARED.has(method) };
}

/**
 * The dialect of a REST caller. `/v1` is the prefix of 0.3; 1.0 has none (§3.1). The body shows which of the two shapes
 * of 0.3 the caller writes; without a body the more common proto shape is assumed.
 */
export function restDialect(v1: boolean, named: Version | undefined, body: JsonObject | undefined): DialectId {
  const version = v1 && (named === undefined || named === '1.0') ? '0.3' : (named ?? '1.0');
  if (version !== '0.3' && version !== '0.2') return version;
  return body !== undefined && isJsonShape(body) ? version : '0.3-proto';
}

function isJsonShape(body: JsonObject): boolean {
  const message = body['message'] ?? body['request'];
  if (isObject(message)) {
    if (message['content'] !== undefined) return false;
    if (typeof message['role'] === 'string' && message['role'].startsWith('ROLE_')) return false;
    return message['parts'] !== undefined || message['kind'] !== undefined;
  }
  // In a push configuration the proto names the resource and the schema names the task.
  if (isObject(body['config']) || body['name'] !== undefined || body['parent'] !== undefined) return false;
  return body['taskId'] !== undefined && isObject(body['pushNotificationConfig']);
}

/**
 * The dialect of an agent by its card: the version of its interfaces, then the card's own version, then the card's
 * structure (C-3).
 */
export function cardDialect(card: JsonObject): DialectId {
  if (Array.isArray(card['supportedInterfaces'] ?? card['supported_interfaces'])) return '1.0';
  const named = card['protocolVersion'] ?? card['protocol_version'];
  const version = typeof named === 'string' && named !== '' ? readVersion(named) : undefined;
  if (version !== undefined && version !== 'unsupported') return version;
  if (isObject(card['authentication']) && card['securitySchemes'] === undefined) return '0.1';
  return '0.2';
}
