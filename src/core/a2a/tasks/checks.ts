/** What the gateway itself looks at before an agent is asked and before an answer is kept: old agents look at less. */
import {
  isTerminal,
  type Message,
  type Part,
  type SendMessageRequest,
  TASK_STATES,
  type Task,
} from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { TaskRecord } from './task-records.js';

export interface A2aLimits {
  /** Parts of one message or artifact. */
  readonly parts: number;
  readonly artifacts: number;
  /** Messages of a task's history that are kept. */
  readonly history: number;
  /** Open streams in all, and of one caller. */
  readonly streams: number;
  readonly streamsPerCaller: number;
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
  if (typeof message !== 'object' || message === null) refuse('A message is missing');
  const { messageId, parts, taskId, contextId, referenceTaskIds } = message;
  if (typeof messageId !== 'string' || messageId === '') refuse('A message needs a messageId');
  if (!Array.isArray(parts) || parts.length === 0) refuse('A message needs at least one part');
  if (parts.length > limits.parts) refuse(`A message has at most ${limits.parts} parts`);
  for (const [name, id] of Object.entries({ messageId, taskId, contextId })) {
    if (id !== undefined && (typeof id !== 'string' || id.length > LONGEST_ID))
      refuse(`The ${name} must be a string of at most ${LONGEST_ID} characters`);
  }
  if (referenceTaskIds !== undefined && (!Array.isArray(referenceTaskIds) || referenceTaskIds.length > limits.parts))
    refuse(`The referenceTaskIds must be a list of at most ${limits.parts} ids`);
  checkHistoryLength(configuration?.historyLength);
}

export function checkHistoryLength(length: number | undefined): void {
  if (length === undefined || length === null) return;
  if (!Number.isInteger(length) || length < 0) refuse('historyLength must be a whole number, 0 or more');
}

/** A message to a task that is known (S-21, S-25). */
export function checkFollowUp(message: Message, { task, contextId }: TaskRecord): void {
  if (message.contextId !== undefined && message.contextId !== '' && message.contextId !== contextId)
    refuse('The message names a task and a context, and the task is of another context');
  const { state } = task.status;
  if (isTerminal(state)) {
    throw new ProtocolError('unsupported_operation', 'The task is finished and takes no more messages', {
      outcome: 'not_executed',
      data: { state },
    });
  }
}

/** What an agent says of a task must be fit to be kept: throws `invalid_agent_response`. */
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

/** Many a model streams its words as parts of their own; neighbours that are nothing but text are one text. */
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

/** At most the `length` newest messages; none at all for 0 (S-29). The same task where nothing is to be left out. */
export function withHistory(task: Task, length: number | undefined): Task {
  if (length === undefined || length === null || task.history === undefined) return task;
  if (length > 0) return task.history.length <= length ? task : { ...task, history: task.history.slice(-length) };
  const { history: _, ...rest } = task;
  return rest as Task;
}
