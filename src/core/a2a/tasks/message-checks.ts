/**
 * The gateway's own checks of messages before an agent gets them, and of answers before they are stored. They are
 * needed because old agents check less.
 */
import {
  type AgentCard,
  isTerminal,
  type Message,
  type Part,
  type SendMessageRequest,
  TASK_STATES,
  type Task,
} from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { accepts } from '../routing/media-modes.js';
import type { TaskRecord } from './task-records.js';

export interface A2aLimits {
  /** The most parts of one message or artifact. */
  readonly parts: number;
  readonly artifacts: number;
  /** The most messages in the stored history of a task. */
  readonly history: number;
  /** The most bytes of a task as JSON. */
  readonly taskSize: number;
  /** The most stored tasks of one caller. */
  readonly tasks: number;
  /** The most open streams of all callers together, and of one caller. */
  readonly streams: number;
  readonly streamsPerCaller: number;
  /** The most unfinished tasks of one caller that the gateway follows while no client reads them. */
  readonly followed: number;
  readonly maxHops: number;
}

const LONGEST_ID = 1024;
const STATES: ReadonlySet<unknown> = new Set(TASK_STATES);

export function refuse(message: string): never {
  throw new ProtocolError('invalid_params', message, { outcome: 'not_executed' });
}

export function taskNotFound(): never {
  throw new ProtocolError('task_not_found', 'Task not found', { outcome: 'not_executed' });
}

export function invalidAnswer(message: string): never {
  throw new ProtocolError('invalid_agent_response', message, { outcome: 'unknown' });
}

export function checkMessage({ message, configuration }: SendMessageRequest, limits: A2aLimits): void {
  if (typeof message !== 'object' || message === null) refuse('The request has no message');
  const { messageId, parts, taskId, contextId, referenceTaskIds } = message;
  if (typeof messageId !== 'string' || messageId === '') refuse('A message needs a messageId');
  if (!Array.isArray(parts) || parts.length === 0) refuse('A message needs at least one part');
  if (parts.length > limits.parts) refuse(`A message may have at most ${limits.parts} parts`);
  for (const [name, id] of Object.entries({ messageId, taskId, contextId })) {
    if (id !== undefined && (typeof id !== 'string' || id.length > LONGEST_ID))
      refuse(`The ${name} must be a string of at most ${LONGEST_ID} characters`);
  }
  if (referenceTaskIds !== undefined && (!Array.isArray(referenceTaskIds) || referenceTaskIds.length > limits.parts))
    refuse(`The referenceTaskIds must be a list of at most ${limits.parts} ids`);
  checkHistoryLength(configuration?.historyLength);
}

/**
 * Refuses files of a media type that neither the agent nor one of its skills declares (S-22). Texts and data pass,
 * because agents accept more types of texts and data than they declare.
 */
export function checkMediaTypes(parts: readonly Part[], { defaultInputModes, skills }: AgentCard): void {
  for (const { raw, url, mediaType } of parts) {
    if (!mediaType || (raw === undefined && url === undefined)) continue;
    const offered = [...(defaultInputModes ?? []), ...(skills ?? []).flatMap(({ inputModes }) => inputModes ?? [])];
    if (accepts(offered, mediaType)) continue;
    throw new ProtocolError('content_type_not_supported', `The agent does not accept ${mediaType.slice(0, 200)}`, {
      outcome: 'not_executed',
    });
  }
}

export function checkHistoryLength(length: number | undefined): void {
  if (length === undefined || length === null) return;
  if (!Number.isInteger(length) || length < 0) refuse('historyLength must be a whole number, 0 or more');
}

/** Checks a message to a known task (S-21, S-25). */
export function checkFollowUp(message: Message, { task, contextId }: TaskRecord): void {
  if (message.contextId !== undefined && message.contextId !== '' && message.contextId !== contextId)
    refuse('The message names a context that is not the context of its task');
  const { state } = task.status;
  if (isTerminal(state)) {
    throw new ProtocolError('unsupported_operation', 'The task is finished and accepts no more messages', {
      outcome: 'not_executed',
      data: { state },
    });
  }
}

/** Checks an agent's task before it is stored. Throws `invalid_agent_response`. */
export function checkTask(task: Task, limits: A2aLimits): Task {
  checkId(task.id);
  if (!STATES.has(task.status?.state)) invalidAnswer('The agent answered with a task that has no state');
  const { artifacts, history } = task;
  if (artifacts && artifacts.length > limits.artifacts)
    invalidAnswer(`The agent's task has more than ${limits.artifacts} artifacts`);
  let fitting: Task = task;
  if (artifacts?.some(({ parts }) => parts.length > limits.parts)) {
    const joined = artifacts.map((artifact) => ({ ...artifact, parts: joinTexts(artifact.parts) }));
    if (joined.some(({ parts }) => parts.length > limits.parts))
      invalidAnswer(`An artifact of the agent has more than ${limits.parts} parts`);
    fitting = { ...fitting, artifacts: joined };
  }
  if (history && history.length > limits.history) fitting = { ...fitting, history: history.slice(-limits.history) };
  return fitting;
}

export function checkId(id: unknown): void {
  if (typeof id !== 'string' || id === '' || id.length > LONGEST_ID || id.includes('\0'))
    invalidAnswer('The agent answered with a task that has no usable id');
}

/** Many models stream their words as separate parts. Joins adjacent parts that contain only text. */
function joinTexts(parts: Part[]): Part[] {
  const joined: Part[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (last && isPlain(last) && isPlain(part)) joined[joined.length - 1] = { text: `${last.text}${part.text}` };
    else joined.push(part);
  }
  return joined;
}

const isPlain = (part: Part): boolean => {
  const names = Object.keys(part);
  return names.length === 1 && names[0] === 'text';
};

/**
 * Keeps the newest `length` messages of the history, and no history for 0 (S-29). Returns the same task if nothing is
 * removed.
 */
export function withHistory(task: Task, length: number | undefined): Task {
  if (length === undefined || length === null || task.history === undefined) return task;
  if (length > 0) return task.history.length <= length ? task : { ...task, history: task.history.slice(-length) };
  const { history: _, ...rest } = task;
  return rest as Task;
}
