import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { Operation, RequestOf, SendMessageConfiguration, SendMessageRequest } from '../../model.js';
import { camel, listAt, objectAt, optionalFlag, optionalInteger, optionalText, textAt } from '../tolerant-readers.js';
import { readPushConfig, readPushList, readPushNames, readTaskPushConfig } from '../v0_3/push.js';
import { readCancel, readGet, readList } from '../v0_3/request.js';
import { readMessage } from './usable-unchanged.js';

const isIntegerOrAbsent = (value: JsonValue | undefined): boolean => value === undefined || Number.isInteger(value);
const isTextOrAbsent = (value: JsonValue | undefined): boolean =>
  value === undefined || (typeof value === 'string' && value !== '');

const READERS: { readonly [O in Operation]: (params: JsonObject) => RequestOf<O> } = {
  SendMessage: readSend,
  SendStreamingMessage: readSend,
  GetTask: (params) =>
    isPlain(params) && isIntegerOrAbsent(params['historyLength'])
      ? (params as RequestOf<'GetTask'>)
      : readGet(params, 'schema'),
  ListTasks: readList,
  CancelTask: (params) => (isPlain(params) ? (params as RequestOf<'CancelTask'>) : readCancel(params)),
  SubscribeToTask: (params) => (isPlain(params) ? (params as RequestOf<'SubscribeToTask'>) : readCancel(params)),
  CreateTaskPushNotificationConfig: (params) => {
    const { tenant, ...config } = readTaskPushConfig(params, 'params');
    const named = optionalText(tenant ?? params['tenant'], 'tenant');
    return { ...config, ...(named !== undefined && { tenant: named }) };
  },
  GetTaskPushNotificationConfig: readPushNames,
  ListTaskPushNotificationConfigs: readPushList,
  DeleteTaskPushNotificationConfig: readPushNames,
  GetExtendedAgentCard: (params) => params as RequestOf<'GetExtendedAgentCard'>,
};

const isPlain = (params: JsonObject): boolean =>
  typeof params['id'] === 'string' && params['id'] !== '' && camel(params) === params;

export const readRequest = <O extends Operation>(operation: O, params: JsonObject): RequestOf<O> =>
  READERS[operation](params);

function readSend(params: JsonObject): SendMessageRequest {
  const wire = camel(params);
  const message = readMessage(wire['message'], 'message', 'ROLE_USER');
  const configuration = wire['configuration'] === undefined ? undefined : readConfiguration(wire['configuration']);
  if (wire['metadata'] !== undefined) objectAt(wire['metadata'], 'metadata');
  optionalText(wire['tenant'], 'tenant');
  if (message === wire['message'] && configuration === wire['configuration']) return wire as SendMessageRequest;
  return { ...wire, message, ...(configuration !== undefined && { configuration }) } as SendMessageRequest;
}

function readConfiguration(value: JsonValue): SendMessageConfiguration {
  const wire = camel(objectAt(value, 'configuration'));
  const { historyLength, returnImmediately, acceptedOutputModes, taskPushNotificationConfig: push } = wire;
  for (const mode of listAt(acceptedOutputModes, 'configuration.acceptedOutputModes')) {
    textAt(mode, 'configuration.acceptedOutputModes');
  }
  const length = optionalInteger(historyLength, 'configuration.historyLength');
  const now = optionalFlag(returnImmediately, 'configuration.returnImmediately');
  const flat = push === undefined || isFlat(push);
  if (length === historyLength && now === returnImmediately && flat) return wire as SendMessageConfiguration;
  const { historyLength: _length, returnImmediately: _now, taskPushNotificationConfig: _push, ...rest } = wire;
  return {
    ...rest,
    ...(length !== undefined && { historyLength: length }),
    ...(now !== undefined && { returnImmediately: now }),
    ...(push !== undefined && { taskPushNotificationConfig: readInline(push) }),
  } as SendMessageConfiguration;
}

/** A push configuration inside a request; the nested form of 0.3 is also accepted. */
function readInline(wire: JsonValue): RequestOf<'CreateTaskPushNotificationConfig'> {
  const place = 'configuration.taskPushNotificationConfig';
  const object = camel(objectAt(wire, place));
  const nested = object['pushNotificationConfig'];
  return readPushConfig(isObject(nested) ? nested : object, place);
}

const isFlat = (wire: JsonValue): boolean => {
  if (!isObject(wire) || camel(wire) !== wire || typeof wire['url'] !== 'string' || wire['url'] === '') return false;
  const { authentication } = wire;
  return (
    isTextOrAbsent(wire['id']) &&
    (authentication === undefined || (isObject(authentication) && typeof authentication['scheme'] === 'string'))
  );
};
