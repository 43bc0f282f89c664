/** Tasks in both of their forms: experimental in 2025-11-25, an extension since (mcp.md 4.7). */
import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { type InputRequests, isObject, META } from '../model.js';

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

/** A task as the extension describes it. */
export interface TaskView {
  readonly taskId: string;
  readonly status: TaskStatus;
  readonly statusMessage?: string;
  readonly createdAt: string;
  readonly lastUpdatedAt: string;
  readonly ttlMs: number | null;
  readonly pollIntervalMs?: number;
  readonly inputRequests?: InputRequests;
  readonly result?: JsonObject;
  readonly error?: JsonObject;
}

export const isTerminal = (status: string): boolean =>
  status === 'completed' || status === 'failed' || status === 'cancelled';

/** The response to a call that became a task. */
export function createTaskResult(view: TaskView): JsonObject {
  return { resultType: 'task', ...summary(view) };
}

/** The response to `tasks/get`, which contains the questions or the outcome (TSKX-05). */
export function detailedTask(view: TaskView): JsonObject {
  return {
    resultType: 'complete',
    ...summary(view),
    ...(view.status === 'input_required' && view.inputRequests && { inputRequests: view.inputRequests }),
    ...(view.status === 'completed' && view.result && { result: view.result }),
    ...(view.status === 'failed' && view.error && { error: view.error }),
  };
}

function summary({
  taskId,
  status,
  statusMessage,
  createdAt,
  lastUpdatedAt,
  ttlMs,
  pollIntervalMs,
}: TaskView): JsonObject {
  return {
    taskId,
    status,
    ...(statusMessage !== undefined && { statusMessage }),
    createdAt,
    lastUpdatedAt,
    ttlMs,
    ...(pollIntervalMs !== undefined && { pollIntervalMs }),
  };
}

/** Reads a server's task of the extension. */
export function readTask(value: JsonObject): TaskView | undefined {
  const { taskId, status } = value;
  if (typeof taskId !== 'string' || typeof status !== 'string') return undefined;
  return value as unknown as TaskView;
}

/**
 * The task in the form of 2025-11-25. In this form a task has failed if its tool reports an error (the reverse of
 * TSKX-06).
 */
export function experimentalTask(view: TaskView): JsonObject {
  const failed = view.status === 'completed' && view.result?.['isError'] === true;
  return {
    taskId: view.taskId,
    status: failed ? 'failed' : view.status,
    ...(view.statusMessage !== undefined && { statusMessage: view.statusMessage }),
    createdAt: view.createdAt,
    lastUpdatedAt: view.lastUpdatedAt,
    ttl: view.ttlMs,
    ...(view.pollIntervalMs !== undefined && { pollInterval: view.pollIntervalMs }),
  };
}

/** Reads `{ task }` of 2025-11-25. */
export function readExperimentalTask(
  result: JsonObject,
): { readonly taskId: string; readonly ttl: number | null; readonly pollInterval: number | undefined } | undefined {
  const { task } = result;
  if (!isObject(task) || typeof task['taskId'] !== 'string') return undefined;
  const { taskId, ttl, pollInterval } = task;
  return {
    taskId: taskId as string,
    ttl: typeof ttl === 'number' ? ttl : null,
    pollInterval: typeof pollInterval === 'number' ? pollInterval : undefined,
  };
}

/** Marks a message of 2025-11-25 as part of a task (TSKL-06). */
export function relatedTo(taskId: string, meta: JsonValue | undefined): JsonObject {
  return { ...(isObject(meta) ? meta : {}), [META.relatedTask]: { taskId } };
}

/** Whether a server of 2025-11-25 accepts tool calls as tasks (TSKL-01). */
export function takesTasks(capabilities: JsonValue | undefined): boolean {
  const tasks = isObject(capabilities) ? capabilities['tasks'] : undefined;
  const requests = isObject(tasks) ? tasks['requests'] : undefined;
  const tools = isObject(requests) ? requests['tools'] : undefined;
  return isObject(tools) && isObject(tools['call']);
}

/** The task support that a tool of 2025-11-25 declares. */
export function taskSupport(tool: JsonObject): 'forbidden' | 'optional' | 'required' {
  const execution = tool['execution'];
  const support = isObject(execution) ? execution['taskSupport'] : undefined;
  return support === 'optional' || support === 'required' ? support : 'forbidden';
}
