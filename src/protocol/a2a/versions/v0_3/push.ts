import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type {
  AuthenticationInfo,
  ListPushConfigsRequest,
  PushConfigRequest,
  TaskPushNotificationConfig,
} from '../../model.js';
import { camel, filled, objectAt, optionalInteger, optionalText, readName, textAt } from '../tolerant-readers.js';
import type { Shape } from './part.js';

/** The bare configuration: the webhook's URL and its credentials. */
export function readPushConfig(wire: JsonValue | undefined, place: string): TaskPushNotificationConfig {
  const { url, id, token, authentication, ...rest } = camel(objectAt(wire, place));
  const auth = readAuthentication(authentication, `${place}.authentication`);
  return {
    ...rest,
    ...filled({ id: optionalText(id, `${place}.id`), token: optionalText(token, `${place}.token`) }),
    url: textAt(url, `${place}.url`),
    ...(auth !== undefined && { authentication: auth }),
  };
}

/** Schemes whose credentials can be sent in an Authorization header as they are. */
const USABLE = ['bearer', 'basic'];

function readAuthentication(wire: JsonValue | undefined, place: string): AuthenticationInfo | undefined {
  if (wire === undefined || wire === null) return undefined;
  const { schemes, scheme, ...rest } = objectAt(wire, place);
  const names = (Array.isArray(schemes) ? schemes : [scheme]).filter((name) => typeof name === 'string' && name !== '');
  const chosen = names.find((name) => USABLE.includes(String(name).toLowerCase())) ?? names[0];
  if (typeof chosen !== 'string') return undefined;
  const credentials = optionalText(rest['credentials'], `${place}.credentials`);
  return { ...rest, scheme: chosen, ...(credentials !== undefined && { credentials }) };
}

export function writePushConfig(config: TaskPushNotificationConfig, shape: Shape): JsonObject {
  const { url, id, token, authentication, taskId: _task, tenant: _tenant, ...rest } = config;
  const members: JsonObject = { ...filled({ id }), url, ...filled({ token }) };
  if (authentication) {
    const { scheme, credentials, ...more } = authentication;
    members['authentication'] = { schemes: [scheme], ...filled({ credentials }), ...(shape === 'schema' && more) };
  }
  return shape === 'proto' ? members : { ...members, ...rest };
}

/**
 * A configuration and its task. JSON-RPC uses `{taskId, pushNotificationConfig}`; REST peers post the same, the
 * resource `{name, pushNotificationConfig}`, the whole request `{parent, configId, config}`, or the bare configuration.
 */
export function readTaskPushConfig(wire: JsonValue | undefined, place: string): TaskPushNotificationConfig {
  const params = camel(objectAt(wire, place));
  const resource = isObject(params['config']) ? camel(params['config']) : params;
  const nested = resource['pushNotificationConfig'] ?? params['pushNotificationConfig'];
  const flat = !isObject(nested);
  const read = readPushConfig(
    flat ? withoutNames(resource, resource === params) : nested,
    `${place}.pushNotificationConfig`,
  );
  const named = [resource['name'], params['name'], params['parent']].find((name) => typeof name === 'string' && name);
  const { task, config } = typeof named === 'string' ? readName(named) : { task: undefined, config: undefined };
  const own = flat ? undefined : (params['id'] ?? undefined);
  const taskId = params['taskId'] ?? resource['taskId'] ?? task ?? own;
  const id = read.id ?? optionalText(params['configId'], `${place}.configId`) ?? config;
  return { ...read, taskId: textAt(taskId, `${place}.taskId`), ...(id !== undefined && { id }) };
}

function withoutNames(wire: JsonObject, whole: boolean): JsonObject {
  const { taskId: _taskId, name: _name, parent: _parent, configId: _configId, tenant: _tenant, ...rest } = wire;
  return whole ? rest : wire;
}

export function writeTaskPushConfig(config: TaskPushNotificationConfig, shape: Shape): JsonObject {
  const pushNotificationConfig = writePushConfig(config, shape);
  if (shape === 'schema') return { taskId: config.taskId ?? '', pushNotificationConfig };
  return { name: configName(config), pushNotificationConfig };
}

export const taskName = (id: string): string => `tasks/${id}`;
const configName = ({ taskId, id }: { taskId?: string; id?: string }): string =>
  `${taskName(taskId ?? '')}/pushNotificationConfigs/${id ?? ''}`;

/** A request to create a configuration, in the proto's form. */
export function writeProtoCreate(config: TaskPushNotificationConfig): JsonObject {
  const id = config.id ?? '';
  return {
    parent: taskName(config.taskId ?? ''),
    configId: id,
    config: writeTaskPushConfig({ ...config, id }, 'proto'),
  };
}

/** Reads `{id: task, pushNotificationConfigId}`, `{taskId, id}` from a path, or a resource name. */
export function readPushNames(params: JsonObject): PushConfigRequest {
  const { taskId, id, pushNotificationConfigId, configId, name, parent, ...rest } = camel(params);
  const named = typeof name === 'string' ? name : parent;
  const { task, config } = typeof named === 'string' ? readName(named) : { task: undefined, config: undefined };
  const known = optionalText(taskId, 'taskId') ?? task;
  const chosen =
    optionalText(pushNotificationConfigId, 'pushNotificationConfigId') ??
    optionalText(configId, 'configId') ??
    config ??
    (known === undefined ? undefined : optionalText(id, 'id'));
  return { ...rest, taskId: known ?? textAt(id, 'id'), ...(chosen !== undefined && { id: chosen }) };
}

export function writePushNames(request: PushConfigRequest, shape: Shape): JsonObject {
  const { taskId, id, tenant: _tenant, ...rest } = request;
  if (shape === 'proto') return { name: configName({ taskId, ...(id !== undefined && { id }) }) };
  return { id: taskId, ...filled({ pushNotificationConfigId: id }), ...rest };
}

export function readPushList(params: JsonObject): ListPushConfigsRequest {
  const { id: _id, ...request } = readPushNames(params);
  const pageSize = optionalInteger(request['pageSize'], 'pageSize');
  return pageSize === undefined ? request : { ...request, pageSize };
}
