/** The events and statuses of a task that runs a tool. */
import { randomUUID } from 'node:crypto';
import {
  type Message,
  PARLEY,
  type Part,
  type Task,
  type TaskState,
  type TaskStatusUpdateEvent,
} from '../../../protocol/a2a/model.js';
import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import type { InputRequests } from '../../../protocol/mcp/model.js';
import { questionParts } from '../../../protocol/protocol-bridge/task-questions.js';
import type { Tool } from '../../../protocol/protocol-bridge/tool-skill.js';
import { gatewayNote, noteIn, withoutNote } from '../tasks/gateway-notes.js';

/** The metadata key for the machine-readable form of an error. */
const ERROR = `${PARLEY}/error/v1`;

type StatusEvent = { readonly statusUpdate: TaskStatusUpdateEvent };

export const names = (task: Task): { taskId: string; contextId: string } => ({
  taskId: task.id,
  contextId: task.contextId ?? '',
});

/** The task when a run begins. The last question moves to the history, followed by the new message. */
export function working(task: Task, message: Message, runner: string): Task {
  const placed: Message = { ...message, taskId: task.id, ...(task.contextId && { contextId: task.contextId }) };
  const { message: asked } = task.status;
  return {
    ...task,
    status: { state: 'TASK_STATE_WORKING', timestamp: new Date().toISOString() },
    history: [...(task.history ?? []), ...(asked ? [withoutNote(asked)] : []), placed],
    metadata: { ...task.metadata, ...gatewayNote(runner) },
  };
}

/** The replica that runs the task. */
export function runnerOf(task: Task): string | undefined {
  const runner = noteIn(task.metadata);
  return typeof runner === 'string' ? runner : undefined;
}

export function status(task: Task, state: TaskState, parts?: Part[], metadata?: JsonObject): StatusEvent {
  const message: Message | undefined = parts && {
    messageId: randomUUID(),
    role: 'ROLE_AGENT',
    ...names(task),
    parts,
    ...(metadata && { metadata }),
  };
  return {
    statusUpdate: {
      ...names(task),
      status: { state, timestamp: new Date().toISOString(), ...(message && { message }) },
    },
  };
}

export function moved(task: Task, state: TaskState, parts?: Part[]): Task {
  return { ...task, status: status(task, state, parts).statusUpdate.status };
}

export function progress(task: Task, params: JsonObject): StatusEvent {
  const { progress: done = 0, total, message } = params;
  const text =
    typeof message === 'string' ? message : `${String(done)}${total === undefined ? '' : ` of ${String(total)}`}`;
  const update = status(task, 'TASK_STATE_WORKING', [{ text }]);
  const metadata = { progress: done, ...(total !== undefined && { total }) };
  return { statusUpdate: { ...update.statusUpdate, metadata } };
}

/** The failure for the caller. Callers get the message of an error only if the message is meant for callers. */
export function failure(task: Task, error: unknown): StatusEvent {
  if (error instanceof ProtocolError)
    return status(task, 'TASK_STATE_FAILED', [{ text: error.message }], { [ERROR]: error.data as JsonObject });
  if (error instanceof UpstreamRpcError)
    return status(task, 'TASK_STATE_FAILED', [{ text: error.message }], { [ERROR]: { code: error.code } });
  return status(task, 'TASK_STATE_FAILED', [{ text: 'The call failed in the gateway' }]);
}

export function whichTool(tools: readonly Tool[]): Part[] {
  const listed = tools.map((tool) => `- ${tool.name}: ${String(tool.definition['description'] ?? '')}`).join('\n');
  return [
    {
      text:
        tools.length === 0
          ? 'There is no tool to call at the moment.'
          : `Which of these tools should be called?\n${listed}`,
    },
    { data: { skills: tools.map(({ name }) => name) }, mediaType: 'application/json' },
  ];
}

export function missing(tool: Tool, problems: readonly string[]): Part[] {
  return [
    { text: `${tool.name} cannot be called yet: ${problems.join('; ')}` },
    {
      data: { tool: tool.name, schema: tool.definition['inputSchema'] ?? {}, errors: [...problems] },
      mediaType: 'application/json',
    },
  ];
}

export const questionsOf = (asked: InputRequests): Part[] =>
  Object.entries(asked).flatMap(([key, request]) => questionParts(key, request));
