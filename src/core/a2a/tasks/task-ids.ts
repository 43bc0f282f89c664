/**
 * If a client chooses its own task ids, the client and the agent know a task by different ids. These functions rewrite
 * every reference to the task in both directions. If both ids are equal, values pass unchanged.
 */
import type { Message, StreamResponse, Task } from '../../../protocol/a2a/model.js';
import type { Passed } from '../agent.js';

export interface TaskIds {
  /** The client's id of the task. */
  readonly id: string;
  /** The agent's id of the task. */
  readonly upstreamId: string;
}

const sameName = ({ id, upstreamId }: TaskIds): boolean => id === upstreamId;

export function taskForClient(task: Passed<Task>, names: TaskIds): Passed<Task> {
  return sameName(names) ? task : { value: renameTask(task.value, names.upstreamId, names.id) };
}

export function taskForAgent(task: Task, names: TaskIds): Task {
  return sameName(names) ? task : renameTask(task, names.id, names.upstreamId);
}

export function eventForClient(event: Passed<StreamResponse>, names: TaskIds): Passed<StreamResponse> {
  return sameName(names) ? event : { value: renameEvent(event.value, names.upstreamId, names.id) };
}

export function messageForAgent(message: Message, names: TaskIds): Message {
  return sameName(names) ? message : renameMessage(message, names.id, names.upstreamId);
}

export function messageForClient(message: Message, names: TaskIds): Message {
  return sameName(names) ? message : renameMessage(message, names.upstreamId, names.id);
}

function renameEvent(event: StreamResponse, from: string, to: string): StreamResponse {
  const { task, message, statusUpdate, artifactUpdate } = event;
  if (task) return { ...event, task: renameTask(task, from, to) };
  if (message) return { ...event, message: renameMessage(message, from, to) };
  if (statusUpdate) {
    const { status } = statusUpdate;
    const renamed = status.message ? { ...status, message: renameMessage(status.message, from, to) } : status;
    return {
      ...event,
      statusUpdate: { ...statusUpdate, taskId: swap(statusUpdate.taskId, from, to), status: renamed },
    };
  }
  if (artifactUpdate) {
    return { ...event, artifactUpdate: { ...artifactUpdate, taskId: swap(artifactUpdate.taskId, from, to) } };
  }
  return event;
}

function renameTask(task: Task, from: string, to: string): Task {
  const { status, history } = task;
  return {
    ...task,
    id: swap(task.id, from, to),
    status: status.message ? { ...status, message: renameMessage(status.message, from, to) } : status,
    ...(history && { history: history.map((message) => renameMessage(message, from, to)) }),
  };
}

function renameMessage(message: Message, from: string, to: string): Message {
  const { taskId, referenceTaskIds } = message;
  return {
    ...message,
    ...(taskId !== undefined && { taskId: swap(taskId, from, to) }),
    ...(referenceTaskIds && { referenceTaskIds: referenceTaskIds.map((id) => swap(id, from, to)) }),
  };
}

const swap = (id: string, from: string, to: string): string => (id === from ? to : id);
