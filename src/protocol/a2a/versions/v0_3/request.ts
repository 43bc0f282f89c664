import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type {
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  SendMessageConfiguration,
  SendMessageRequest,
} from '../../model.js';
import {
  camel,
  filled,
  listAt,
  objectAt,
  optionalFlag,
  optionalInteger,
  optionalText,
  readName,
  stateOf,
  textAt,
  Unreadable,
} from '../tolerant-readers.js';
import { type Place, readMessage, writeMessage } from './message.js';
import type { Shape } from './part.js';
import { readPushConfig, taskName, writePushConfig } from './push.js';

export function readSend(params: JsonObject, at: Place): SendMessageRequest {
  // `request` and `msg` are the proto's names for the message, which some peers write.
  const { message, request, msg, configuration, metadata, ...rest } = camel(params);
  const made: SendMessageRequest = { ...rest, message: readMessage(message ?? request ?? msg, 'message', at) };
  if (configuration !== undefined) made.configuration = readConfiguration(configuration, at.shape);
  if (isObject(metadata)) made.metadata = metadata;
  return made;
}

/**
 * Whether a configuration without `blocking` waits. Both reference servers wait in the JSON Schema shape. ProtoJSON
 * omits `false`, so its clients express `false` by omission.
 */
const BLOCKS_BY_DEFAULT: Readonly<Record<Shape, boolean>> = { schema: true, proto: false };

function readConfiguration(wire: JsonValue, shape: Shape): SendMessageConfiguration {
  const place = 'configuration';
  const { blocking, historyLength, pushNotificationConfig, pushNotification, acceptedOutputModes, ...rest } = camel(
    objectAt(wire, place),
  );
  const made: SendMessageConfiguration = { ...rest };
  const modes = listAt(acceptedOutputModes, `${place}.acceptedOutputModes`);
  if (modes.length > 0) made.acceptedOutputModes = modes.map((mode) => textAt(mode, `${place}.acceptedOutputModes`));
  const blocks = optionalFlag(blocking, `${place}.blocking`) ?? BLOCKS_BY_DEFAULT[shape];
  if (!blocks) made.returnImmediately = true;
  const length = readHistoryLength(historyLength, shape);
  if (length !== undefined) made.historyLength = length;
  const push = pushNotificationConfig ?? pushNotification;
  if (push !== undefined) made.taskPushNotificationConfig = readPushConfig(push, `${place}.pushNotificationConfig`);
  return made;
}

/** The proto writes an absent history length as 0. */
function readHistoryLength(value: JsonValue | undefined, shape: Shape): number | undefined {
  const length = optionalInteger(value, 'historyLength');
  return shape === 'proto' && length === 0 ? undefined : length;
}

export function writeSend(request: SendMessageRequest, shape: Shape): JsonObject {
  const { message, configuration, metadata, tenant: _tenant, ...rest } = request;
  return {
    message: writeMessage(message, shape),
    configuration: writeConfiguration(configuration ?? {}, shape),
    ...(metadata !== undefined && { metadata }),
    ...(shape === 'schema' && rest),
  };
}

/** `blocking` is always written, because servers disagree about its default. */
function writeConfiguration(configuration: SendMessageConfiguration, shape: Shape): JsonObject {
  const { acceptedOutputModes, taskPushNotificationConfig, historyLength, returnImmediately, ...rest } = configuration;
  const push = taskPushNotificationConfig && writePushConfig(taskPushNotificationConfig, shape);
  return {
    // Required before 0.2.6, so written even when empty.
    acceptedOutputModes: acceptedOutputModes ?? [],
    blocking: returnImmediately !== true,
    ...(historyLength !== undefined && (shape === 'schema' || historyLength > 0) && { historyLength }),
    ...(push && (shape === 'proto' ? { pushNotification: push } : { pushNotificationConfig: push })),
    ...(shape === 'schema' && rest),
  };
}

/** `id`, or the proto's `name`. */
function readTaskId(params: JsonObject): { id: string; rest: JsonObject } {
  const { id, taskId, name, ...rest } = camel(params);
  const named = optionalText(id, 'id') ?? optionalText(taskId, 'taskId') ?? optionalText(name, 'name');
  return { id: readName(textAt(named, 'id')).task, rest };
}

export function readGet(params: JsonObject, shape: Shape): GetTaskRequest {
  const { id, rest } = readTaskId(params);
  const { historyLength, ...more } = rest;
  const length = readHistoryLength(historyLength, shape);
  return { ...more, id, ...(length !== undefined && { historyLength: length }) };
}

export function readCancel(params: JsonObject): CancelTaskRequest {
  const { id, rest } = readTaskId(params);
  const { metadata, ...more } = rest;
  return { ...more, id, ...(isObject(metadata) && { metadata }) };
}

export function writeTaskId(request: { id: string; tenant?: string }, shape: Shape): JsonObject {
  const { id, tenant: _tenant, ...rest } = request;
  return shape === 'proto' ? { name: taskName(id) } : { id, ...rest };
}

export function writeGet(request: GetTaskRequest, shape: Shape): JsonObject {
  const { historyLength, ...rest } = request;
  const said = historyLength !== undefined && (shape === 'schema' || historyLength > 0);
  return { ...writeTaskId(rest, shape), ...(said && { historyLength }) };
}

/** Filters and paging; a query string brings all of them as text. */
export function readList(params: JsonObject): ListTasksRequest {
  const { contextId, status, pageSize, pageToken, historyLength, statusTimestampAfter, includeArtifacts, ...rest } =
    camel(params);
  const state = status === undefined || status === '' ? undefined : stateOf(status);
  if (status !== undefined && status !== '' && state === undefined) throw new Unreadable('status must be a task state');
  return {
    ...rest,
    ...present({
      contextId: optionalText(contextId, 'contextId'),
      status: state === 'TASK_STATE_UNSPECIFIED' ? undefined : state,
      pageSize: optionalInteger(pageSize, 'pageSize'),
      pageToken: optionalText(pageToken, 'pageToken'),
      historyLength: optionalInteger(historyLength, 'historyLength'),
      statusTimestampAfter: optionalText(statusTimestampAfter, 'statusTimestampAfter'),
      includeArtifacts: optionalFlag(includeArtifacts, 'includeArtifacts'),
    }),
  };
}

function present<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

export function writeList(request: ListTasksRequest): JsonObject {
  const { tenant: _tenant, ...rest } = request;
  return filled(rest);
}
