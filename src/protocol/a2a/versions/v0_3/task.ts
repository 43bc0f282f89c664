import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import { TASK_STATES, type Task, type TaskState, type TaskStatus } from '../../model.js';
import { contentId, historyIds } from '../ids.js';
import { restoredState, STATE, withNotes } from '../metadata-notes.js';
import { camel, filled, listAt, objectAt, textAt, utc } from '../tolerant-readers.js';
import { readArtifact, readMessage, withoutEmpty, writeArtifact, writeMessage } from './message.js';
import type { Shape } from './part.js';

const KNOWN: ReadonlySet<string> = new Set(TASK_STATES);

/** The spelling of a state in 0.2 and 0.3. */
export function writeState(state: TaskState, shape: Shape): string {
  if (shape === 'proto') {
    if (!KNOWN.has(state)) return 'TASK_STATE_UNSPECIFIED';
    return state === 'TASK_STATE_CANCELED' ? 'TASK_STATE_CANCELLED' : state;
  }
  if (state === 'TASK_STATE_UNSPECIFIED' || !KNOWN.has(state)) return 'unknown';
  return state.slice('TASK_STATE_'.length).toLowerCase().replaceAll('_', '-');
}

/** Reads a status and the metadata of its object, which notes a state that the version lacks. */
export function readStatus(
  wire: JsonValue | undefined,
  place: string,
  metadata: JsonValue | undefined,
  shape: Shape,
  taskId: string,
): { status: TaskStatus; metadata: JsonObject | undefined } {
  const { state, message, update, timestamp, ...rest } = camel(objectAt(wire, place));
  const meant = restoredState(state, isObject(metadata) ? metadata : undefined);
  const status: TaskStatus = { ...rest, state: meant.state };
  const said = message ?? update;
  if (said !== undefined) {
    const mint = () => contentId(taskId, said);
    status.message = readMessage(said, `${place}.message`, { shape, role: 'ROLE_AGENT', mint });
  }
  if (typeof timestamp === 'string' && timestamp !== '') status.timestamp = utc(timestamp);
  return { status, metadata: meant.metadata };
}

export function writeStatus(status: TaskStatus, shape: Shape): JsonObject {
  const { state, message, timestamp, ...rest } = status;
  return {
    state: writeState(state, shape),
    ...(message !== undefined && { message: writeMessage(message, shape) }),
    ...filled({ timestamp: timestamp && utc(timestamp) }),
    ...(shape === 'schema' && rest),
  };
}

/** The note for a state that neither this version nor this gateway knows. */
export function stateNote(state: TaskState): JsonObject {
  return KNOWN.has(state) ? {} : { [STATE]: state };
}

export function readTask(wire: JsonValue | undefined, place: string, shape: Shape): Task {
  const { kind: _kind, id, status, artifacts, history, metadata, ...others } = camel(objectAt(wire, place));
  const rest = others['contextId'] === undefined ? ofSession(others) : others;
  const taskId = textAt(id, `${place}.id`);
  const read = readStatus(status, `${place}.status`, metadata, shape, taskId);
  const task: Task = { ...withoutEmpty(rest, 'contextId'), id: taskId, status: read.status };
  const made = listAt(artifacts, `${place}.artifacts`);
  if (made.length > 0) {
    task.artifacts = made.map((artifact, index) => readArtifact(artifact, `${place}.artifacts[${index}]`, shape));
  }
  const said = listAt(history, `${place}.history`);
  if (said.length > 0) {
    const idOf = historyIds(taskId);
    task.history = said.map((message, index) => {
      const mint = () => idOf(message);
      return readMessage(message, `${place}.history[${index}]`, { shape, role: 'ROLE_USER', mint });
    });
  }
  if (read.metadata !== undefined) task.metadata = read.metadata;
  return task;
}

/**
 * The body that an agent posts to a webhook names no version, so it may come from an agent of 0.1: its `sessionId` is read
 * as the context id.
 */
function ofSession({ sessionId, ...rest }: JsonObject): JsonObject {
  return typeof sessionId === 'string' ? { ...rest, contextId: sessionId } : rest;
}

export function writeTask(task: Task, shape: Shape): JsonObject {
  const { id, contextId, status, artifacts, history, metadata, ...rest } = task;
  const about = withNotes(metadata, stateNote(status.state));
  const members: JsonObject = {
    id,
    ...filled({ contextId }),
    status: writeStatus(status, shape),
    ...filled({
      artifacts: artifacts?.map((artifact) => writeArtifact(artifact, shape)),
      history: history?.map((message) => writeMessage(message, shape)),
    }),
    ...(about !== undefined && { metadata: about }),
  };
  return shape === 'proto' ? members : { kind: 'task', ...members, ...rest };
}
