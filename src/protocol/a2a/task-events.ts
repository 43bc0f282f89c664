/** Tasks and their events: applies an event to a task, and computes the events between two snapshots of a task. */
import { ProtocolError } from '../errors.js';
import type { JsonValue } from '../jsonrpc/raw.js';
import { type Artifact, isTerminal, type Message, type StreamResponse, type Task, type TaskStatus } from './model.js';

export interface TaskSizeLimits {
  /** The number of messages kept in the history; the oldest are dropped. */
  readonly history?: number;
  /**
   * The number of artifacts, and of parts in one artifact. More are refused, because a task with gaps in its results is
   * worthless.
   */
  readonly artifacts?: number;
  readonly parts?: number;
}

/** The task after the event; `task` itself is not changed. */
export function applyEvent(task: Task | undefined, event: StreamResponse, limits: TaskSizeLimits = {}): Task {
  const { task: snapshot, statusUpdate, artifactUpdate, message } = event;
  if (snapshot) return limited(task ? withSnapshot(task, snapshot) : snapshot, limits);
  if (message) {
    if (task) return limited(withHistory(task, message), limits);
    throw new ProtocolError('invalid_agent_response', 'a message cannot create a task');
  }
  if (statusUpdate) {
    const { taskId: id, contextId, status, metadata } = statusUpdate;
    const before = task ?? { id, contextId, status };
    return limited({ ...withStatusHistory(before, status), status, ...mergedMetadata(before, metadata) }, limits);
  }
  if (artifactUpdate) {
    const { taskId: id, contextId, artifact, append } = artifactUpdate;
    const before: Task = task ?? { id, contextId, status: { state: 'TASK_STATE_WORKING' } };
    return limited({ ...before, artifacts: withArtifact(before.artifacts ?? [], artifact, append === true) }, limits);
  }
  throw new ProtocolError('invalid_agent_response', 'the event is neither a task, a message nor an update');
}

/** A snapshot replaces the members it has. Members it lacks, because less was requested, stay unchanged. */
function withSnapshot(before: Task, snapshot: Task): Task {
  const made: Task = { ...snapshot };
  if (snapshot.contextId === undefined && before.contextId !== undefined) made.contextId = before.contextId;
  if (snapshot.artifacts === undefined && before.artifacts) made.artifacts = before.artifacts;
  if (snapshot.metadata === undefined && before.metadata) made.metadata = before.metadata;
  if (before.history) {
    const known = new Set(snapshot.history?.map(({ messageId }) => messageId));
    made.history = [...before.history.filter(({ messageId }) => !known.has(messageId)), ...(snapshot.history ?? [])];
  }
  return made;
}

/**
 * Moves the message of a replaced status to the history. Some agents add the message of a status to the history at
 * once. If the history already contains the replaced message, the agent is one of them, so the message of the new
 * status is added too.
 */
function withStatusHistory(before: Task, { message }: TaskStatus): Task {
  const said = before.status.message;
  if (!said || said.messageId === message?.messageId) return before;
  const told = withHistory(before, said);
  return told === before && message ? withHistory(before, message) : told;
}

function withHistory(task: Task, message: Message): Task {
  const history = task.history ?? [];
  if (history.some(({ messageId }) => messageId === message.messageId)) return task;
  return { ...task, history: [...history, message] };
}

function mergedMetadata(task: Task, metadata: Task['metadata']): Pick<Task, 'metadata'> {
  return metadata ? { metadata: { ...task.metadata, ...metadata } } : {};
}

function withArtifact(artifacts: readonly Artifact[], chunk: Artifact, append: boolean): Artifact[] {
  const at = artifacts.findIndex(({ artifactId }) => artifactId === chunk.artifactId);
  const before = artifacts[at];
  if (!before) return [...artifacts, chunk];
  const { metadata, ...rest } = chunk;
  const made: Artifact = append
    ? {
        ...before,
        ...rest,
        parts: [...before.parts, ...chunk.parts],
        ...((before.metadata || metadata) && { metadata: { ...before.metadata, ...metadata } }),
      }
    : chunk;
  return artifacts.with(at, made);
}

function limited(task: Task, { history, artifacts, parts }: TaskSizeLimits): Task {
  const count = task.artifacts?.length ?? 0;
  if (artifacts !== undefined && count > artifacts) throw tooMany('artifacts', count, artifacts);
  for (const artifact of parts === undefined ? [] : (task.artifacts ?? [])) {
    if (artifact.parts.length > (parts as number)) throw tooMany('parts', artifact.parts.length, parts as number);
  }
  if (history === undefined || !task.history || task.history.length <= history) return task;
  return { ...task, history: history === 0 ? [] : task.history.slice(-history) };
}

const tooMany = (what: string, count: number, limit: number): ProtocolError =>
  new ProtocolError('invalid_agent_response', `the agent sent ${count} ${what}; the limit is ${limit}`);

/**
 * The events that lead from one snapshot to the next, for agents that must be polled (G-40). The status comes last
 * because it may end the stream.
 */
export function diff(before: Task | undefined, after: Task): StreamResponse[] {
  if (!before) return [{ task: after }];
  const ids = { taskId: after.id, contextId: after.contextId ?? before.contextId ?? '' };
  const events: StreamResponse[] = [];
  const known = new Map(before.artifacts?.map((artifact) => [artifact.artifactId, artifact]));
  const lastChunk = isTerminal(after.status.state);
  for (const artifact of after.artifacts ?? []) {
    const old = known.get(artifact.artifactId);
    if (old && same(old, artifact)) continue;
    const more = old && appended(old, artifact);
    events.push({
      artifactUpdate: more
        ? { ...ids, artifact: more, append: true, lastChunk }
        : { ...ids, artifact, append: false, lastChunk },
    });
  }
  if (!same(before.status, after.status) || !same(before.metadata ?? {}, after.metadata ?? {})) {
    const { metadata } = after;
    events.push({ statusUpdate: { ...ids, status: after.status, ...(metadata && { metadata }) } });
  }
  return events;
}

/**
 * The chunk that turns the earlier artifact into the later one. Undefined if the later artifact does not begin with the
 * earlier one.
 */
function appended(old: Artifact, artifact: Artifact): Artifact | undefined {
  const { parts: oldParts, ...oldRest } = old;
  const { parts, ...rest } = artifact;
  if (parts.length <= oldParts.length || !same(oldRest, rest)) return undefined;
  if (!oldParts.every((part, index) => same(part, parts[index]))) return undefined;
  return { artifactId: artifact.artifactId, parts: parts.slice(oldParts.length) };
}

/** Whether the task already contains the event. */
export function includes(task: Task, { statusUpdate, artifactUpdate }: StreamResponse): boolean {
  if (statusUpdate) return !isNewer(statusUpdate.status, task.status);
  if (!artifactUpdate) return false;
  const { artifact, append } = artifactUpdate;
  const known = task.artifacts?.find(({ artifactId }) => artifactId === artifact.artifactId)?.parts;
  if (!known) return false;
  const places = append === true ? known.length - artifact.parts.length : 0;
  for (let at = 0; at <= places; at++) {
    if (artifact.parts.every((part, index) => same(part, known[at + index]))) return true;
  }
  return false;
}

function isNewer(status: TaskStatus, than: TaskStatus): boolean {
  if (isTerminal(than.state)) return false;
  const [time, before] = [Date.parse(status.timestamp ?? ''), Date.parse(than.timestamp ?? '')];
  if (Number.isFinite(time) && Number.isFinite(before) && time !== before) return time > before;
  return !same(status, than);
}

/** Equal as JSON, independent of the order of members. */
function same(one: JsonValue | object | undefined, other: JsonValue | object | undefined): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const left = Object.entries(one).filter(([, value]) => value !== undefined);
  const right = Object.entries(other).filter(([, value]) => value !== undefined);
  if (left.length !== right.length) return false;
  return left.every(([key, value]) => same(value, (other as Record<string, JsonValue>)[key]));
}
