/** A2A 1.0: the model itself, read and written without translation. */
import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { Dialect, EventReader } from '../../dialect.js';
import type { Operation, ResultOf, SendMessageResponse, StreamResponse } from '../../model.js';
import { readError, writeRpcError } from '../../wire-errors.js';
import { readAnyEvent } from '../any-event.js';
import { readCard } from '../card/read.js';
import { firstIsTask } from '../first-event.js';
import { fromAgent, fromClient } from '../read-from-peer.js';
import { camel, listAt, objectAt, optionalInteger, Unreadable } from '../tolerant-readers.js';
import { readTaskPushConfig } from '../v0_3/push.js';
import { readRequest } from './request.js';
import { isEvent, readTask } from './usable-unchanged.js';

/** Reads an event, or the response to SendMessage, which is either a task or a message. */
function readEvent(wire: JsonValue): StreamResponse {
  return isEvent(wire) ? wire : readAnyEvent(wire, 'event', 'schema').event;
}

function readReply(wire: JsonValue): SendMessageResponse {
  const event = readEvent(wire);
  if (!event.task && !event.message) throw new Unreadable('the result must be a task or a message');
  return event;
}

const RESULTS: { readonly [O in Operation]: (wire: JsonValue) => ResultOf<O> } = {
  SendMessage: readReply,
  SendStreamingMessage: readEvent,
  GetTask: readTaskResult,
  ListTasks: (wire) => {
    const { tasks, ...rest } = camel(objectAt(wire, 'result'));
    const list = listAt(tasks, 'tasks').map((task, index) => readTask(task, `tasks[${index}]`));
    return {
      ...rest,
      tasks: list,
      nextPageToken: typeof rest['nextPageToken'] === 'string' ? rest['nextPageToken'] : '',
      pageSize: optionalInteger(rest['pageSize'], 'pageSize') ?? list.length,
      totalSize: optionalInteger(rest['totalSize'], 'totalSize') ?? list.length,
    };
  },
  CancelTask: readTaskResult,
  SubscribeToTask: readEvent,
  CreateTaskPushNotificationConfig: (wire) => readTaskPushConfig(wire, 'result'),
  GetTaskPushNotificationConfig: (wire) => readTaskPushConfig(wire, 'result'),
  ListTaskPushNotificationConfigs: (wire) => {
    const object: JsonObject = Array.isArray(wire) ? { configs: wire } : camel(objectAt(wire ?? {}, 'result'));
    return {
      ...object,
      configs: listAt(object['configs'], 'configs').map((config, index) =>
        readTaskPushConfig(config, `configs[${index}]`),
      ),
      nextPageToken: typeof object['nextPageToken'] === 'string' ? object['nextPageToken'] : '',
    };
  },
  DeleteTaskPushNotificationConfig: () => null,
  GetExtendedAgentCard: (wire) => readCard(objectAt(wire, 'card')),
};

/** Reads a bare task, or one wrapped as in the response to SendMessage. */
function readTaskResult(wire: JsonValue): ResultOf<'GetTask'> {
  return readTask(isObject(wire) && isObject(wire['task']) ? wire['task'] : wire, 'task');
}

export const v1_0: Dialect = {
  id: '1.0',
  version: '1.0',
  method: (operation) => operation,
  readRequest: (operation, params) => fromClient(() => readRequest(operation, params)),
  writeResult: (_operation, result) => result as JsonValue,
  eventWriter: () => ({ write: (event) => [event], end: () => [] }),
  writeError: (error) => writeRpcError(error, '1.0'),
  writeNotification: (event) => ({ body: event, contentType: 'application/a2a+json' }),
  writeRequest: (_operation, request) => request as JsonObject,
  readResult: (operation, wire) => fromAgent(() => RESULTS[operation](wire)),
  eventReader(context): EventReader {
    const complete = firstIsTask(context);
    return { read: (wire) => fromAgent(() => complete(readEvent(wire))), ended: false };
  },
  readError: (error, status) => readError(error, '1.0', status),
  readNotification: (body) => fromAgent(() => [readAnyEvent(body, 'notification', 'schema').event]),
  readCard: (card) => fromAgent(() => readCard(card)),
  writeCard: (card) => card,
};
