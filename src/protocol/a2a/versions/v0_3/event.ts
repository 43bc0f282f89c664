import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { EventReader, EventWriter, StreamContext } from '../../dialect.js';
import {
  isTerminal,
  type SendMessageResponse,
  type StreamResponse,
  type TaskArtifactUpdateEvent,
  type TaskStatus,
  type TaskStatusUpdateEvent,
} from '../../model.js';
import { firstIsTask } from '../first-event.js';
import { withNotes } from '../metadata-notes.js';
import { camel, filled, objectAt, optionalFlag, optionalText, textAt, Unreadable } from '../tolerant-readers.js';
import { readArtifact, readMessage, writeArtifact, writeMessage } from './message.js';
import type { Shape } from './part.js';
import { readStatus, readTask, stateNote, writeStatus, writeTask } from './task.js';

/** One event, and whether its sender marked it as the last. */
export interface ReadEvent {
  readonly event: StreamResponse;
  readonly final: boolean;
}

/** Reads an event of 0.2 or 0.3: bare with a `kind`, or wrapped in a member named after its kind. */
export function readEvent(wire: JsonValue, place: string, shape: Shape, context: StreamContext = {}): ReadEvent {
  const object = camel(objectAt(wire, place));
  const plain = (event: StreamResponse): ReadEvent => ({ event, final: false });
  for (const name of ['task', 'message', 'msg', 'statusUpdate', 'artifactUpdate'] as const) {
    const inner = object[name];
    if (!isObject(inner) || object['kind'] !== undefined || object['status'] !== undefined) continue;
    if (name === 'task') return plain({ task: readTask(inner, name, shape) });
    if (name === 'statusUpdate') return readStatusUpdate(inner, name, shape, context);
    if (name === 'artifactUpdate') return plain({ artifactUpdate: readArtifactUpdate(inner, name, shape, context) });
    return plain({ message: readMessage(inner, 'message', { shape, role: 'ROLE_AGENT' }) });
  }
  const kind = object['kind'] ?? bareKind(object);
  if (kind === 'task') return plain({ task: readTask(object, place, shape) });
  if (kind === 'message') return plain({ message: readMessage(object, place, { shape, role: 'ROLE_AGENT' }) });
  if (kind === 'status-update') return readStatusUpdate(object, place, shape, context);
  if (kind === 'artifact-update') return plain({ artifactUpdate: readArtifactUpdate(object, place, shape, context) });
  throw new Unreadable(`${place} must be a task, a message, a status update or an artifact update`);
}

/** The only possible kind of an object without a `kind`. */
function bareKind(object: JsonObject): string | undefined {
  if (object['artifact'] !== undefined) return 'artifact-update';
  if (object['status'] !== undefined) {
    return object['id'] !== undefined && object['final'] === undefined ? 'task' : 'status-update';
  }
  return object['parts'] !== undefined || object['content'] !== undefined ? 'message' : undefined;
}

function readStatusUpdate(wire: JsonObject, place: string, shape: Shape, context: StreamContext): ReadEvent {
  const { kind: _kind, final, status, metadata, ...rest } = camel(wire);
  const ids = names(rest, place, context);
  const read = readStatus(status, `${place}.status`, metadata, shape, ids.taskId);
  const statusUpdate: TaskStatusUpdateEvent = {
    ...rest,
    ...ids,
    status: read.status,
    ...(read.metadata !== undefined && { metadata: read.metadata }),
  };
  return { event: { statusUpdate }, final: optionalFlag(final, `${place}.final`) === true };
}

function readArtifactUpdate(
  wire: JsonObject,
  place: string,
  shape: Shape,
  context: StreamContext,
): TaskArtifactUpdateEvent {
  const { kind: _kind, artifact, append, lastChunk, ...rest } = camel(wire);
  const update: TaskArtifactUpdateEvent = {
    ...rest,
    ...names(rest, place, context),
    artifact: readArtifact(artifact, `${place}.artifact`, shape),
  };
  const more = optionalFlag(append, `${place}.append`);
  const last = optionalFlag(lastChunk, `${place}.lastChunk`);
  if (more !== undefined) update.append = more;
  if (last !== undefined) update.lastChunk = last;
  return update;
}

/** The ids of an event, taken from the stream's context if the event omits them. */
function names(wire: JsonObject, place: string, context: StreamContext): { taskId: string; contextId: string } {
  return {
    taskId: optionalText(wire['taskId'], `${place}.taskId`) ?? context.taskId ?? textAt(undefined, `${place}.taskId`),
    contextId: optionalText(wire['contextId'], `${place}.contextId`) ?? context.contextId ?? '',
  };
}

function writeStatusUpdate(update: TaskStatusUpdateEvent, final: boolean, shape: Shape): JsonObject {
  const { taskId, contextId, status, metadata, ...rest } = update;
  const about = withNotes(metadata, stateNote(status.state));
  const members: JsonObject = {
    taskId,
    contextId,
    status: writeStatus(status, shape),
    final,
    ...(about !== undefined && { metadata: about }),
  };
  return shape === 'proto' ? { statusUpdate: members } : { kind: 'status-update', ...members, ...rest };
}

function writeArtifactUpdate(update: TaskArtifactUpdateEvent, shape: Shape): JsonObject {
  const { taskId, contextId, artifact, append, lastChunk, metadata, ...rest } = update;
  const members: JsonObject = {
    taskId,
    contextId,
    artifact: writeArtifact(artifact, shape),
    ...filled({ append, lastChunk }),
    ...(metadata !== undefined && { metadata }),
  };
  return shape === 'proto' ? { artifactUpdate: members } : { kind: 'artifact-update', ...members, ...rest };
}

/** A task or a message, bare if the version distinguishes them by `kind`. */
export function writeReply(reply: SendMessageResponse, shape: Shape): JsonObject {
  const { task, message } = reply;
  if (task) return shape === 'proto' ? { task: writeTask(task, shape) } : writeTask(task, shape);
  if (message) return shape === 'proto' ? { message: writeMessage(message, shape) } : writeMessage(message, shape);
  throw new Unreadable('the result must be a task or a message');
}

/** The latest status of a stream, for a synthetic update with `final` if no other event had it. */
export class LastStatus {
  private ids: { taskId: string; contextId: string } | undefined;
  private status: TaskStatus | undefined;

  constructor(context: StreamContext) {
    if (context.taskId !== undefined) this.ids = { taskId: context.taskId, contextId: context.contextId ?? '' };
  }

  see({ task, statusUpdate, artifactUpdate }: StreamResponse): void {
    if (task) this.ids = { taskId: task.id, contextId: task.contextId ?? this.ids?.contextId ?? '' };
    const update = statusUpdate ?? artifactUpdate;
    if (update) this.ids = { taskId: update.taskId, contextId: update.contextId };
    this.status = task?.status ?? statusUpdate?.status ?? this.status;
  }

  /** Undefined if the stream has no task. */
  update(): TaskStatusUpdateEvent | undefined {
    if (!this.ids) return undefined;
    return { ...this.ids, status: this.status ?? { state: 'TASK_STATE_UNSPECIFIED' } };
  }
}

/** Writes a stream in the form of 0.2 and 0.3, whose last status update has `final` (C-27). */
export function eventWriter(shape: Shape, context: StreamContext): EventWriter {
  const last = new LastStatus(context);
  let over = false;
  const finish = (): JsonValue[] => {
    const update = over ? undefined : last.update();
    over = true;
    return update ? [writeStatusUpdate(update, true, shape)] : [];
  };
  return {
    write(event, isLast) {
      // A client stops reading at `final`, so a snapshot that a 1.0 agent sends after it is dropped.
      if (over) return [];
      last.see(event);
      const { statusUpdate, artifactUpdate, message } = event;
      if (statusUpdate) {
        over = isLast || isTerminal(statusUpdate.status.state);
        return [writeStatusUpdate(statusUpdate, over, shape)];
      }
      if (message) {
        over = isLast || !last.update();
        return [writeReply(event, shape)];
      }
      const wire = artifactUpdate ? writeArtifactUpdate(artifactUpdate, shape) : writeReply(event, shape);
      return isLast ? [wire, ...finish()] : [wire];
    },
    end: finish,
  };
}

export function eventReader(shape: Shape, context: StreamContext, read = readEvent): EventReader {
  const complete = firstIsTask(context);
  let ended = false;
  return {
    read(wire) {
      const { event, final } = read(wire, 'event', shape, context);
      ended ||= final;
      return complete(event);
    },
    get ended() {
      return ended;
    },
  };
}
