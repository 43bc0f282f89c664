/**
 * A peer of 1.0 already writes the model. These functions check only the members that the gateway relies on. A value
 * that passes is used as the same object, so that its text can be sent on unchanged; other values go through the
 * tolerant reader.
 */
import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import {
  type Artifact,
  type Message,
  type Part,
  type Role,
  type StreamResponse,
  TASK_STATES,
  type Task,
  type TaskStatus,
} from '../../model.js';
import { camel } from '../tolerant-readers.js';
import { readMessage as readAnyMessage } from '../v0_3/message.js';
import { readTask as readAnyTask } from '../v0_3/task.js';

const STATES: ReadonlySet<unknown> = new Set(TASK_STATES);

function isPart(wire: JsonValue | undefined): wire is Part {
  if (!isObject(wire) || camel(wire, 'data') !== wire || wire['kind'] !== undefined) return false;
  const { text, raw, url, data } = wire;
  let contents = 0;
  if (typeof text === 'string') contents++;
  if (typeof raw === 'string') contents++;
  if (typeof url === 'string') contents++;
  if (data !== undefined) contents++;
  return contents === 1;
}

/** Like `every`; true if there is no list. */
const all = (list: JsonValue | undefined, is: (item: JsonValue) => boolean): boolean =>
  list === undefined || (Array.isArray(list) && list.every(is));

const isText = (value: JsonValue | undefined): boolean => typeof value === 'string' && value !== '';
const isOptionalText = (value: JsonValue | undefined): boolean => value === undefined || isText(value);

function isMessage(wire: JsonValue | undefined): wire is Message {
  return (
    isObject(wire) &&
    camel(wire) === wire &&
    wire['kind'] === undefined &&
    isText(wire['messageId']) &&
    (wire['role'] === 'ROLE_USER' || wire['role'] === 'ROLE_AGENT') &&
    Array.isArray(wire['parts']) &&
    wire['parts'].every(isPart) &&
    isOptionalText(wire['taskId']) &&
    isOptionalText(wire['contextId'])
  );
}

function isArtifact(wire: JsonValue | undefined): wire is Artifact {
  return (
    isObject(wire) &&
    camel(wire) === wire &&
    isText(wire['artifactId']) &&
    Array.isArray(wire['parts']) &&
    wire['parts'].every(isPart)
  );
}

function isState(state: JsonValue | undefined): boolean {
  // A state that a later version adds passes unchanged.
  return STATES.has(state) || (typeof state === 'string' && /^TASK_STATE_(?!CANCELLED$)[A-Z_]+$/.test(state));
}

function isStatus(wire: JsonValue | undefined): wire is TaskStatus {
  return (
    isObject(wire) &&
    camel(wire) === wire &&
    isState(wire['state']) &&
    (wire['message'] === undefined || isMessage(wire['message']))
  );
}

function isTask(wire: JsonValue | undefined): wire is Task {
  return (
    isObject(wire) &&
    camel(wire) === wire &&
    wire['kind'] === undefined &&
    isText(wire['id']) &&
    isOptionalText(wire['contextId']) &&
    isStatus(wire['status']) &&
    all(wire['artifacts'], isArtifact) &&
    all(wire['history'], isMessage)
  );
}

export function readMessage(wire: JsonValue | undefined, place: string, role: Role): Message {
  return isMessage(wire) ? wire : readAnyMessage(wire, place, { shape: 'schema', role });
}

export function readTask(wire: JsonValue | undefined, place: string): Task {
  return isTask(wire) ? wire : readAnyTask(wire, place, 'schema');
}

/** Whether an event can be used unchanged; both kinds of update need their ids. */
export function isEvent(wire: JsonValue): wire is StreamResponse {
  if (!isObject(wire) || camel(wire) !== wire) return false;
  const { task, message, statusUpdate, artifactUpdate } = wire;
  if (statusUpdate !== undefined) return isUpdate(statusUpdate) && isStatus(statusUpdate['status']);
  if (artifactUpdate !== undefined) return isUpdate(artifactUpdate) && isArtifact(artifactUpdate['artifact']);
  return task !== undefined ? isTask(task) : isMessage(message);
}

function isUpdate(wire: JsonValue): wire is JsonObject {
  return (
    isObject(wire) &&
    camel(wire) === wire &&
    wire['kind'] === undefined &&
    isText(wire['taskId']) &&
    typeof wire['contextId'] === 'string'
  );
}
