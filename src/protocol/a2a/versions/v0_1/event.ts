import type { JsonObject, JsonValue } from '../../../jsonrpc/raw.js';
import type { EventReader, EventWriter, StreamContext } from '../../dialect.js';
import {
  isTerminal,
  type StreamResponse,
  type Task,
  type TaskArtifactUpdateEvent,
  type TaskStatusUpdateEvent,
} from '../../model.js';
import { opened } from '../any-event.js';
import { firstIsTask } from '../first-event.js';
import { sessionId } from '../ids.js';
import { withNotes } from '../metadata-notes.js';
import { camel, objectAt, optionalFlag, optionalText, Unreadable } from '../tolerant-readers.js';
import { LastStatus, type ReadEvent, readEvent as readLaterEvent } from '../v0_3/event.js';
import { Numbers, readChunk, readStatus, readTask, stateFor, taskOfMessage, writeChunk, writeStatus } from './task.js';

/**
 * Reads `{id, status, final}`, `{id, artifact}` or a task. An event with a `kind` belongs to a later version and is
 * read as such.
 */
export function readEvent(wire: JsonValue, context: StreamContext): ReadEvent {
  const object = camel(objectAt(opened(wire), 'event'));
  if (object['kind'] !== undefined || object['task'] !== undefined || object['statusUpdate'] !== undefined) {
    return readLaterEvent(object, 'event', 'schema', context);
  }
  const { id, taskId, sessionId: session, contextId, artifact, status, final, metadata, ...rest } = object;
  const named = optionalText(id ?? taskId, 'event.id') ?? context.taskId;
  if (named === undefined) throw new Unreadable('event.id must be a non-empty string');
  const ids = {
    taskId: named,
    contextId: optionalText(session ?? contextId, 'event.sessionId') ?? context.contextId ?? sessionId(named),
  };
  if (artifact !== undefined) {
    const { append, lastChunk, ...chunk } = readChunk(artifact, 'event.artifact', 0);
    const artifactUpdate: TaskArtifactUpdateEvent = { ...rest, ...ids, ...chunk };
    if (append !== undefined) artifactUpdate.append = append;
    if (lastChunk !== undefined) artifactUpdate.lastChunk = lastChunk;
    if (metadata !== undefined) artifactUpdate.metadata = objectAt(metadata, 'event.metadata');
    return { event: { artifactUpdate }, final: false };
  }
  const snapshot = rest['history'] !== undefined || rest['artifacts'] !== undefined || session !== undefined;
  if (snapshot && final === undefined) return { event: { task: readTask(object, 'event') }, final: false };
  const read = readStatus(status, 'event.status', metadata, named);
  const statusUpdate: TaskStatusUpdateEvent = {
    ...rest,
    ...ids,
    status: read.status,
    ...(read.metadata !== undefined && { metadata: read.metadata }),
  };
  return { event: { statusUpdate }, final: optionalFlag(final, 'event.final') === true };
}

export function eventReader(context: StreamContext): EventReader {
  const complete = firstIsTask(context);
  let ended = false;
  return {
    read(wire) {
      const { event, final } = readEvent(wire, context);
      ended ||= final;
      return complete(event);
    },
    get ended() {
      return ended;
    },
  };
}

function writeStatusUpdate(update: TaskStatusUpdateEvent, final: boolean): JsonObject {
  const { taskId, contextId: _context, status, metadata, ...rest } = update;
  const about = withNotes(metadata, stateFor(status.state).note);
  return { id: taskId, status: writeStatus(status), final, ...(about !== undefined && { metadata: about }), ...rest };
}

/** 0.1 has no task event: a snapshot is written as its artifacts and its status, a message as a completed task. */
export function eventWriter(context: StreamContext): EventWriter {
  const last = new LastStatus(context);
  const numbers = new Numbers();
  let over = false;

  const status = (update: TaskStatusUpdateEvent, final: boolean): JsonValue[] => {
    over ||= final;
    return [writeStatusUpdate(update, final)];
  };
  const artifact = ({
    taskId,
    contextId: _context,
    artifact: made,
    append,
    lastChunk,
    ...rest
  }: TaskArtifactUpdateEvent) => ({
    id: taskId,
    artifact: writeChunk({ artifact: made, append, lastChunk }, numbers.of(made.artifactId)),
    ...rest,
  });
  const snapshot = (task: Task, isLast: boolean): JsonValue[] => {
    const ids = { taskId: task.id, contextId: task.contextId ?? '' };
    const artifacts = (task.artifacts ?? []).map((made) => artifact({ ...ids, artifact: made, append: false }));
    const { metadata } = task;
    const update = { ...ids, status: task.status, ...(metadata !== undefined && { metadata }) };
    return [...artifacts, ...status(update, isLast || isTerminal(task.status.state))];
  };

  return {
    write(event: StreamResponse, isLast: boolean): JsonValue[] {
      if (over) return [];
      last.see(event);
      const { task, message, statusUpdate, artifactUpdate } = event;
      if (task) return snapshot(task, isLast);
      if (message) return snapshot(taskOfMessage(message, context.taskId), true);
      if (statusUpdate) return status(statusUpdate, isLast || isTerminal(statusUpdate.status.state));
      if (!artifactUpdate) return [];
      return [artifact(artifactUpdate), ...(isLast ? this.end() : [])];
    },
    end(): JsonValue[] {
      const update = over ? undefined : last.update();
      return update ? status(update, true) : [];
    },
  };
}
