/** A2A 0.1, as of April 2025: only tasks, whose ids the clients choose, over JSON-RPC. */
import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { Dialect, StreamContext } from '../../dialect.js';
import type { Operation, RequestOf, ResultOf, TaskPushNotificationConfig } from '../../model.js';
import { readError, writeRpcError } from '../../wire-errors.js';
import { readAnyEvent } from '../any-event.js';
import { readCard } from '../card/read.js';
import { writeOldCard } from '../card/write.js';
import { fromAgent, fromClient } from '../read-from-peer.js';
import { listAt, objectAt } from '../tolerant-readers.js';
import { readPushList, readPushNames, readTaskPushConfig, writePushConfig } from '../v0_3/push.js';
import { readCancel, readGet, readList, writeGet, writeList, writeTaskId } from '../v0_3/request.js';
import { eventReader, eventWriter, readEvent } from './event.js';
import { readSend, writeSend } from './request.js';
import { readTask, taskOfMessage, writeTask } from './task.js';

const METHODS: { readonly [O in Operation]?: string } = {
  SendMessage: 'tasks/send',
  SendStreamingMessage: 'tasks/sendSubscribe',
  GetTask: 'tasks/get',
  CancelTask: 'tasks/cancel',
  SubscribeToTask: 'tasks/resubscribe',
  CreateTaskPushNotificationConfig: 'tasks/pushNotification/set',
  GetTaskPushNotificationConfig: 'tasks/pushNotification/get',
};

const READERS: { readonly [O in Operation]: (params: JsonObject) => RequestOf<O> } = {
  SendMessage: readSend,
  SendStreamingMessage: readSend,
  GetTask: (params) => readGet(params, 'schema'),
  ListTasks: readList,
  CancelTask: readCancel,
  SubscribeToTask: readCancel,
  CreateTaskPushNotificationConfig: (params) => readTaskPushConfig(params, 'params'),
  GetTaskPushNotificationConfig: readPushNames,
  ListTaskPushNotificationConfigs: readPushList,
  DeleteTaskPushNotificationConfig: readPushNames,
  GetExtendedAgentCard: () => ({}),
};

const REQUEST_WRITERS: { readonly [O in Operation]: (request: RequestOf<O>) => JsonObject } = {
  SendMessage: writeSend,
  SendStreamingMessage: writeSend,
  GetTask: (request) => writeGet(request, 'schema'),
  ListTasks: writeList,
  CancelTask: (request) => writeTaskId(request, 'schema'),
  SubscribeToTask: (request) => writeTaskId(request, 'schema'),
  CreateTaskPushNotificationConfig: writeTaskPush,
  GetTaskPushNotificationConfig: ({ taskId }) => ({ id: taskId }),
  ListTaskPushNotificationConfigs: ({ taskId }) => ({ id: taskId }),
  DeleteTaskPushNotificationConfig: ({ taskId }) => ({ id: taskId }),
  GetExtendedAgentCard: () => ({}),
};

/** A task has one configuration, without an id. */
function writeTaskPush({ id: _id, ...config }: TaskPushNotificationConfig): JsonObject {
  return { id: config.taskId ?? '', pushNotificationConfig: writePushConfig(config, 'schema') };
}

/** Tolerates agents that declare 0.1 and answer as 0.2. */
function readTaskResult(wire: JsonValue): ResultOf<'GetTask'> {
  if (isObject(wire) && (wire['kind'] !== undefined || isObject(wire['task']))) {
    const { event } = readAnyEvent(wire, 'task', 'schema');
    if (event.task) return event.task;
  }
  return readTask(wire, 'task');
}

const RESULT_READERS: { readonly [O in Operation]: (wire: JsonValue) => ResultOf<O> } = {
  SendMessage: (wire) =>
    isObject(wire) && wire['kind'] === 'message'
      ? readAnyEvent(wire, 'result', 'schema').event
      : { task: readTaskResult(wire) },
  SendStreamingMessage: (wire) => readEvent(wire, {}).event,
  GetTask: readTaskResult,
  ListTasks: (wire) => {
    const tasks = listAt(isObject(wire) ? wire['tasks'] : wire, 'tasks').map((task) => readTask(task, 'task'));
    return { tasks, nextPageToken: '', pageSize: tasks.length, totalSize: tasks.length };
  },
  CancelTask: readTaskResult,
  SubscribeToTask: (wire) => readEvent(wire, {}).event,
  CreateTaskPushNotificationConfig: (wire) => readTaskPushConfig(wire, 'result'),
  GetTaskPushNotificationConfig: (wire) => readTaskPushConfig(wire, 'result'),
  ListTaskPushNotificationConfigs: (wire) => ({
    configs: isObject(wire) ? [readTaskPushConfig(wire, 'result')] : [],
    nextPageToken: '',
  }),
  DeleteTaskPushNotificationConfig: () => null,
  GetExtendedAgentCard: (wire) => readCard(objectAt(wire, 'card')),
};

function writeReply({ task, message }: ResultOf<'SendMessage'>, { taskId }: StreamContext): JsonObject {
  return writeTask(task ?? taskOfMessage(message as ResultOf<'SendMessage'>['message'] & object, taskId));
}

function writeEvent(event: ResultOf<'SubscribeToTask'>, context: StreamContext): JsonValue {
  return eventWriter(context).write(event, false).at(-1) ?? null;
}

type Writers = { readonly [O in Operation]: (result: ResultOf<O>, context: StreamContext) => JsonValue };
const RESULT_WRITERS: Writers = {
  SendMessage: writeReply,
  SendStreamingMessage: writeEvent,
  GetTask: writeTask,
  ListTasks: (list) => ({ ...list, tasks: list.tasks.map(writeTask) }),
  CancelTask: writeTask,
  SubscribeToTask: writeEvent,
  CreateTaskPushNotificationConfig: writeTaskPush,
  GetTaskPushNotificationConfig: writeTaskPush,
  ListTaskPushNotificationConfigs: ({ configs }) => configs.map(writeTaskPush),
  DeleteTaskPushNotificationConfig: () => null,
  GetExtendedAgentCard: (card) => writeOldCard(card, '0.1'),
};

export const v0_1: Dialect = {
  id: '0.1',
  version: '0.1',
  method: (operation) => METHODS[operation],
  readRequest: (operation, params) => fromClient(() => READERS[operation](params)),
  writeResult: (operation, result, context = {}) => RESULT_WRITERS[operation](result, context),
  eventWriter,
  writeError: (error) => writeRpcError(error, '0.1'),
  writeNotification: (event, task) => ({
    body: writeTask(event.message ? taskOfMessage(event.message, task.id) : task),
    contentType: 'application/json',
  }),
  writeRequest: (operation, request) => REQUEST_WRITERS[operation](request),
  readResult: (operation, wire) => fromAgent(() => RESULT_READERS[operation](wire)),
  eventReader(context) {
    const reader = eventReader(context);
    return {
      read: (wire) => fromAgent(() => reader.read(wire)),
      get ended() {
        return reader.ended;
      },
    };
  },
  readError: (error, status) => readError(error, '0.1', status),
  readNotification: (body) => fromAgent(() => [readEvent(body, {}).event]),
  readCard: (card) => fromAgent(() => readCard(card)),
  writeCard: (card) => writeOldCard(card, '0.1'),
};
