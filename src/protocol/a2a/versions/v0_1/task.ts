/** The objects of 0.1. Messages have no ids, artifacts have numbers instead, and a task belongs to a session. */
import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import {
  type Artifact,
  type Message,
  type Part,
  TASK_STATES,
  type Task,
  type TaskState,
  type TaskStatus,
} from '../../model.js';
import { contentId, historyIds, sessionId } from '../ids.js';
import { restoredState, STATE, withNotes } from '../metadata-notes.js';
import {
  camel,
  filled,
  listAt,
  objectAt,
  optionalFlag,
  optionalInteger,
  optionalText,
  textAt,
  utc,
} from '../tolerant-readers.js';
import { readMessage, writeRole } from '../v0_3/message.js';
import { readPart, writePart } from '../v0_3/part.js';
import { writeState } from '../v0_3/task.js';

const KNOWN: ReadonlySet<string> = new Set(TASK_STATES);

/** The substitute in 0.1 for a state it lacks (C-25), with a metadata note of the real state. */
export function stateFor(state: TaskState): { word: string; note: JsonObject } {
  if (state === 'TASK_STATE_REJECTED') return { word: 'failed', note: { [STATE]: state } };
  if (state === 'TASK_STATE_AUTH_REQUIRED') return { word: 'input-required', note: { [STATE]: state } };
  return { word: writeState(state, 'schema'), note: KNOWN.has(state) ? {} : { [STATE]: state } };
}

export function writeMessage(message: Message): JsonObject {
  const { messageId: _id, taskId: _task, contextId: _context, referenceTaskIds: _references, ...known } = message;
  const { extensions: _extensions, role, parts, metadata, ...rest } = known;
  return {
    role: writeRole(role),
    parts: parts.map((part) => writePart(part, 'type')),
    ...(metadata !== undefined && { metadata }),
    ...rest,
  };
}

export function writeStatus(status: TaskStatus): JsonObject {
  const { state, message, timestamp, ...rest } = status;
  return {
    state: stateFor(state).word,
    ...(message !== undefined && { message: writeMessage(message) }),
    ...filled({ timestamp: timestamp && utc(timestamp) }),
    ...rest,
  };
}

export function readStatus(
  wire: JsonValue | undefined,
  place: string,
  metadata: JsonValue | undefined,
  taskId: string,
): { status: TaskStatus; metadata: JsonObject | undefined } {
  const { state, message, timestamp, ...rest } = camel(objectAt(wire, place));
  const meant = restoredState(state, isObject(metadata) ? metadata : undefined);
  const status: TaskStatus = { ...rest, state: meant.state };
  if (message !== undefined) {
    const mint = () => contentId(taskId, message);
    status.message = readMessage(message, `${place}.message`, { shape: 'schema', role: 'ROLE_AGENT', mint });
  }
  if (typeof timestamp === 'string' && timestamp !== '') status.timestamp = utc(timestamp);
  return { status, metadata: meant.metadata };
}

const NUMBERED = /^idx-(0|[1-9]\d{0,8})$/;

/**
 * The numbers of a task's artifacts: the number in an id that came from 0.1, otherwise the order of first appearance.
 */
export class Numbers {
  private readonly known = new Map<string, number>();
  private readonly taken = new Set<number>();

  of(artifactId: string): number {
    const known = this.known.get(artifactId);
    if (known !== undefined) return known;
    const own = NUMBERED.exec(artifactId);
    let number = own ? Number(own[1]) : this.known.size;
    while (this.taken.has(number)) number++;
    this.known.set(artifactId, number);
    this.taken.add(number);
    return number;
  }
}

/** An artifact or a chunk of one, with its chunk flags inside. */
export interface Chunk {
  readonly artifact: Artifact;
  readonly append: boolean | undefined;
  readonly lastChunk: boolean | undefined;
}

export function readChunk(wire: JsonValue | undefined, place: string, position: number): Chunk {
  const { index, append, lastChunk, parts, artifactId, ...rest } = camel(objectAt(wire, place));
  const number = optionalInteger(index, `${place}.index`) ?? position;
  const list = listAt(parts, `${place}.parts`);
  return {
    artifact: {
      ...rest,
      artifactId: optionalText(artifactId, `${place}.artifactId`) ?? `idx-${number}`,
      parts: list.map((part, at): Part => readPart(part, `${place}.parts[${at}]`, 'schema')),
    },
    append: optionalFlag(append, `${place}.append`),
    lastChunk: optionalFlag(lastChunk, `${place}.lastChunk`),
  };
}

export function writeChunk({ artifact, append, lastChunk }: Chunk, index: number): JsonObject {
  const { artifactId: _id, extensions: _extensions, parts, name, description, metadata, ...rest } = artifact;
  return {
    ...filled({ name, description }),
    parts: parts.map((part) => writePart(part, 'type')),
    index,
    ...(append !== undefined && { append }),
    ...(lastChunk !== undefined && { lastChunk }),
    ...(metadata !== undefined && { metadata }),
    ...rest,
  };
}

export function readTask(wire: JsonValue | undefined, place: string): Task {
  const {
    id,
    sessionId: session,
    contextId,
    status,
    artifacts,
    history,
    metadata,
    ...rest
  } = camel(objectAt(wire, place));
  const taskId = textAt(id, `${place}.id`);
  const read = readStatus(status, `${place}.status`, metadata, taskId);
  const made = listAt(artifacts, `${place}.artifacts`);
  const said = listAt(history, `${place}.history`);
  const idOf = historyIds(taskId);
  return {
    ...rest,
    id: taskId,
    contextId: optionalText(session ?? contextId, `${place}.sessionId`) ?? sessionId(taskId),
    status: read.status,
    ...(made.length > 0 && {
      artifacts: made.map((each, index) => readChunk(each, `${place}.artifacts[${index}]`, index).artifact),
    }),
    ...(said.length > 0 && {
      history: said.map((message, index) => {
        const mint = () => idOf(message);
        return readMessage(message, `${place}.history[${index}]`, { shape: 'schema', role: 'ROLE_USER', mint });
      }),
    }),
    ...(read.metadata !== undefined && { metadata: read.metadata }),
  };
}

export function writeTask(task: Task): JsonObject {
  const { id, contextId, status, artifacts, history, metadata, ...rest } = task;
  const numbers = new Numbers();
  const about = withNotes(metadata, stateFor(status.state).note);
  return {
    id,
    ...filled({ sessionId: contextId }),
    status: writeStatus(status),
    ...filled({
      artifacts: artifacts?.map((artifact) =>
        writeChunk({ artifact, append: undefined, lastChunk: undefined }, numbers.of(artifact.artifactId)),
      ),
      history: history?.map(writeMessage),
    }),
    ...(about !== undefined && { metadata: about }),
    ...rest,
  };
}

/**
 * A direct message as a task, because 0.1 has only tasks. The task is completed, and its status contains the message.
 */
export function taskOfMessage(message: Message, taskId: string | undefined): Task {
  const { contextId } = message;
  return {
    id: taskId ?? message.taskId ?? message.messageId,
    ...(contextId !== undefined && { contextId }),
    status: { state: 'TASK_STATE_COMPLETED', message },
  };
}
