/** A2A 0.3 in both of its JSON shapes, and 0.2, which is a subset. */
import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { Dialect, DialectId, Version } from '../../dialect.js';
import type { ListPushConfigsResponse, ListTasksResponse, Operation, RequestOf, ResultOf } from '../../model.js';
import { readError, writeRpcError } from '../../wire-errors.js';
import { opened, readAnyEvent } from '../any-event.js';
import { writeProtoCard } from '../card/proto.js';
import { readCard } from '../card/read.js';
import { type CardStyle, writeOldCard } from '../card/write.js';
import { fromAgent, fromClient } from '../read-from-peer.js';
import { camel, listAt, objectAt, optionalInteger, Unreadable } from '../tolerant-readers.js';
import { eventReader, eventWriter, writeReply } from './event.js';
import type { Shape } from './part.js';
import {
  readPushList,
  readPushNames,
  readTaskPushConfig,
  taskName,
  writeProtoCreate,
  writePushNames,
  writeTaskPushConfig,
} from './push.js';
import { readCancel, readGet, readList, readSend, writeGet, writeList, writeSend, writeTaskId } from './request.js';
import { readTask, writeTask } from './task.js';

const METHODS: { readonly [O in Operation]: string | undefined } = {
  SendMessage: 'message/send',
  SendStreamingMessage: 'message/stream',
  GetTask: 'tasks/get',
  ListTasks: undefined,
  CancelTask: 'tasks/cancel',
  SubscribeToTask: 'tasks/resubscribe',
  CreateTaskPushNotificationConfig: 'tasks/pushNotificationConfig/set',
  GetTaskPushNotificationConfig: 'tasks/pushNotificationConfig/get',
  ListTaskPushNotificationConfigs: 'tasks/pushNotificationConfig/list',
  DeleteTaskPushNotificationConfig: 'tasks/pushNotificationConfig/delete',
  GetExtendedAgentCard: 'agent/getAuthenticatedExtendedCard',
};

/** The differences between the dialects of this family. */
export interface Family {
  readonly id: DialectId;
  readonly version: Version;
  readonly shape: Shape;
  readonly card: CardStyle;
  /** Operations without a JSON-RPC method in this version, in addition to those that 0.3 lacks. */
  readonly lacks?: readonly Operation[];
}

type Readers = { readonly [O in Operation]: (params: JsonObject) => RequestOf<O> };
type RequestWriters = { readonly [O in Operation]: (request: RequestOf<O>) => JsonObject };
type ResultReaders = { readonly [O in Operation]: (wire: JsonValue) => ResultOf<O> };
type ResultWriters = { readonly [O in Operation]: (result: ResultOf<O>) => JsonValue };

export function dialectOf({ id, version, shape, card, lacks = [] }: Family): Dialect {
  const user = { shape, role: 'ROLE_USER' } as const;
  const readers: Readers = {
    SendMessage: (params) => readSend(params, user),
    SendStreamingMessage: (params) => readSend(params, user),
    GetTask: (params) => readGet(params, shape),
    ListTasks: readList,
    CancelTask: readCancel,
    SubscribeToTask: readCancel,
    CreateTaskPushNotificationConfig: (params) => readTaskPushConfig(params, 'params'),
    GetTaskPushNotificationConfig: readPushNames,
    ListTaskPushNotificationConfigs: readPushList,
    DeleteTaskPushNotificationConfig: readPushNames,
    GetExtendedAgentCard: () => ({}),
  };
  const requestWriters: RequestWriters = {
    SendMessage: (request) => writeSend(request, shape),
    SendStreamingMessage: (request) => writeSend(request, shape),
    GetTask: (request) => writeGet(request, shape),
    ListTasks: writeList,
    CancelTask: (request) => writeTaskId(request, shape),
    SubscribeToTask: (request) => writeTaskId(request, shape),
    CreateTaskPushNotificationConfig: (config) =>
      shape === 'proto' ? writeProtoCreate(config) : writeTaskPushConfig(config, shape),
    GetTaskPushNotificationConfig: (request) => writePushNames(request, shape),
    ListTaskPushNotificationConfigs: ({ taskId, pageSize, pageToken }) =>
      shape === 'proto'
        ? { parent: taskName(taskId), ...(pageSize && { pageSize }), ...(pageToken && { pageToken }) }
        : { id: taskId },
    DeleteTaskPushNotificationConfig: (request) => writePushNames(request, shape),
    GetExtendedAgentCard: () => ({}),
  };
  const readReply = (wire: JsonValue): ResultOf<'SendMessage'> => {
    const { event } = readAnyEvent(wire, 'result', shape);
    if (!event.task && !event.message) throw new Unreadable('the result must be a task or a message');
    return event;
  };
  const readTaskResult = (wire: JsonValue) => {
    const object = objectAt(opened(wire), 'task');
    return readTask(isObject(object['task']) ? object['task'] : object, 'task', shape);
  };
  const resultReaders: ResultReaders = {
    SendMessage: readReply,
    SendStreamingMessage: (wire) => readAnyEvent(wire, 'result', shape).event,
    GetTask: readTaskResult,
    ListTasks: (wire) => readTaskList(wire, shape),
    CancelTask: readTaskResult,
    SubscribeToTask: (wire) => readAnyEvent(wire, 'result', shape).event,
    CreateTaskPushNotificationConfig: (wire) => readTaskPushConfig(wire, 'result'),
    GetTaskPushNotificationConfig: (wire) => readTaskPushConfig(wire, 'result'),
    ListTaskPushNotificationConfigs: readPushResults,
    DeleteTaskPushNotificationConfig: () => null,
    GetExtendedAgentCard: (wire) => readCard(objectAt(wire, 'card')),
  };
  const writeCard = (given: ResultOf<'GetExtendedAgentCard'>): JsonObject => writeOldCard(given, card);
  const resultWriters: ResultWriters = {
    SendMessage: (reply) => writeReply(reply, shape),
    SendStreamingMessage: (event) => oneEvent(event, shape),
    GetTask: (task) => writeTask(task, shape),
    ListTasks: (list) => ({ ...list, tasks: list.tasks.map((task) => writeTask(task, shape)) }),
    CancelTask: (task) => writeTask(task, shape),
    SubscribeToTask: (event) => oneEvent(event, shape),
    CreateTaskPushNotificationConfig: (config) => writeTaskPushConfig(config, shape),
    GetTaskPushNotificationConfig: (config) => writeTaskPushConfig(config, shape),
    ListTaskPushNotificationConfigs: (list) => writePushResults(list, shape),
    DeleteTaskPushNotificationConfig: () => (shape === 'proto' ? {} : null),
    GetExtendedAgentCard: (given) => (shape === 'proto' ? writeProtoCard(given) : writeCard(given)),
  };
  return {
    id,
    version,
    method: (operation) => (lacks.includes(operation) ? undefined : METHODS[operation]),
    readRequest: (operation, params) => fromClient(() => readers[operation](params)),
    writeResult: (operation, result) => resultWriters[operation](result),
    eventWriter: (context) => eventWriter(shape, context),
    writeError: (error) => writeRpcError(error, version),
    // A webhook of 0.3 always gets the schema's shape, whichever shape the REST caller writes: agents of 0.3 post this
    // shape.
    writeNotification: (event, task) => ({
      body: event.message ? writeReply(event, 'schema') : writeTask(task, 'schema'),
      contentType: 'application/json',
    }),
    writeRequest: (operation, request) => requestWriters[operation](request),
    readResult: (operation, wire) => fromAgent(() => resultReaders[operation](wire)),
    eventReader: (context) => {
      const reader = eventReader(shape, context, readAnyEvent);
      return {
        read: (wire) => fromAgent(() => reader.read(wire)),
        get ended() {
          return reader.ended;
        },
      };
    },
    readError: (error, status) => readError(error, version, status),
    readNotification: (body) => fromAgent(() => [readAnyEvent(body, 'notification', shape).event]),
    readCard: (wire) => fromAgent(() => readCard(wire)),
    writeCard,
  };
}

function oneEvent(event: ResultOf<'SubscribeToTask'>, shape: Shape): JsonValue {
  return eventWriter(shape, {}).write(event, false)[0] ?? null;
}

function readTaskList(wire: JsonValue, shape: Shape): ListTasksResponse {
  const object: JsonObject = Array.isArray(wire) ? { tasks: wire } : camel(objectAt(wire, 'result'));
  const tasks = listAt(object['tasks'], 'tasks').map((task, index) => readTask(task, `tasks[${index}]`, shape));
  return {
    ...object,
    tasks,
    nextPageToken: typeof object['nextPageToken'] === 'string' ? object['nextPageToken'] : '',
    pageSize: optionalInteger(object['pageSize'], 'pageSize') ?? tasks.length,
    totalSize: optionalInteger(object['totalSize'], 'totalSize') ?? tasks.length,
  };
}

/** Reads an array as in JSON-RPC, `{configs}` as in the proto, or a single configuration as a list of one. */
function readPushResults(wire: JsonValue): ListPushConfigsResponse {
  const object: JsonObject = isObject(wire) ? camel(wire) : { configs: wire };
  const single = object['pushNotificationConfig'] !== undefined;
  const configs = single ? [object] : listAt(object['configs'], 'configs');
  return {
    configs: configs.map((config, index) => readTaskPushConfig(config, `configs[${index}]`)),
    nextPageToken: typeof object['nextPageToken'] === 'string' ? object['nextPageToken'] : '',
  };
}

function writePushResults({ configs, nextPageToken }: ListPushConfigsResponse, shape: Shape): JsonValue {
  const list = configs.map((config) => writeTaskPushConfig(config, shape));
  return shape === 'proto' ? { configs: list, ...(nextPageToken && { nextPageToken }) } : list;
}

export const v0_3 = dialectOf({ id: '0.3', version: '0.3', shape: 'schema', card: '0.3' });
export const v0_3_proto = dialectOf({ id: '0.3-proto', version: '0.3', shape: 'proto', card: '0.3' });
