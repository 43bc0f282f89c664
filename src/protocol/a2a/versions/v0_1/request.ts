import { randomUUID } from 'node:crypto';
import { isObject, type JsonObject } from '../../../jsonrpc/raw.js';
import type { SendMessageConfiguration, SendMessageRequest } from '../../model.js';
import { sessionId } from '../ids.js';
import { camel, filled, listAt, optionalInteger, optionalText, textAt } from '../tolerant-readers.js';
import { readMessage } from '../v0_3/message.js';
import { readPushConfig, writePushConfig } from '../v0_3/push.js';
import { writeMessage } from './task.js';

/** Old samples list their accepted modes in the metadata, because 0.1 has no other member for them. */
const MODES = 'acceptedOutputModes';

/** The client chooses the id of the task, so every message names a task. Other code checks whether the task exists. */
export function readSend(params: JsonObject): SendMessageRequest {
  const { id, sessionId: session, message, pushNotification, historyLength, metadata, ...rest } = camel(params);
  const { [MODES]: top, ...unknown } = rest;
  const at = { shape: 'schema', role: 'ROLE_USER', mint: () => randomUUID() } as const;
  const contextId = optionalText(session, 'sessionId');
  const about = isObject(metadata) ? metadata : undefined;
  const configuration: SendMessageConfiguration = {};
  const modes = listAt(top ?? about?.[MODES], MODES);
  if (modes.length > 0) configuration.acceptedOutputModes = modes.map((mode) => textAt(mode, MODES));
  const length = optionalInteger(historyLength, 'historyLength');
  if (length !== undefined) configuration.historyLength = length;
  if (pushNotification !== undefined) {
    configuration.taskPushNotificationConfig = readPushConfig(pushNotification, 'pushNotification');
  }
  const { [MODES]: _modes, ...kept } = about ?? {};
  return {
    ...unknown,
    message: {
      ...readMessage(message, 'message', at),
      taskId: textAt(id, 'id'),
      ...(contextId !== undefined && { contextId }),
    },
    ...(Object.keys(configuration).length > 0 && { configuration }),
    ...(Object.keys(kept).length > 0 && { metadata: kept }),
  };
}

/** Toward an agent of 0.1 the gateway is the client and chooses the id of a new task. */
export function writeSend(request: SendMessageRequest): JsonObject {
  const { message, configuration, metadata, tenant: _tenant, ...rest } = request;
  const { acceptedOutputModes, taskPushNotificationConfig, historyLength } = configuration ?? {};
  const id = message.taskId ?? randomUUID();
  // A task has one push configuration, without an id.
  const push = taskPushNotificationConfig && { ...taskPushNotificationConfig, id: '' };
  const about = { ...metadata, ...filled({ [MODES]: acceptedOutputModes }) };
  return {
    id,
    sessionId: message.contextId ?? sessionId(id),
    message: writeMessage(message),
    ...(historyLength !== undefined && { historyLength }),
    ...(push && { pushNotification: writePushConfig(push, 'schema') }),
    ...filled({ metadata: about }),
    ...rest,
  };
}
