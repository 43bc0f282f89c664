/** The tasks by which the gateway asks the user of an A2A client to sign in at an agent. */
import { randomUUID } from 'node:crypto';
import type { Message, StreamResponse, Task, TaskStatus } from '../../protocol/a2a/model.js';
import type { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject } from '../../protocol/jsonrpc/raw.js';
import { needsLogin } from '../catalog/personal-servers.js';
import { gatewayNote, noteIn } from './tasks/gateway-notes.js';

/** The agent's own ids for a task of the gateway. */
export interface Binding {
  /** The task at the agent; undefined until the agent has received the first message. */
  readonly task?: string;
  /** The context at the agent; undefined if the agent has none yet. */
  readonly context: string | undefined;
}

interface Ids {
  readonly task?: string;
  readonly context: string | undefined;
}

const PREFIX = 'sign-in-';

export const isSignInTask = (id: string): boolean => id.startsWith(PREFIX);

/** The status that asks for a sign-in. Undefined if the error is another one or has no link. */
export function signInStatus(error: unknown): TaskStatus | undefined {
  if (!needsLogin(error)) return undefined;
  const { message, detail } = error as ProtocolError;
  const { url, code } = (detail.data ?? {}) as { url?: unknown; code?: unknown };
  if (typeof url !== 'string') return undefined;
  const typed = typeof code === 'string' ? ` and enter the code ${code}` : '';
  const text = `${message}. Open this link in a browser${typed}, then send a message to this task: ${url}`;
  const data: JsonObject = { url, ...(typeof code === 'string' && { code }) };
  const parts = [{ text }, { data, mediaType: 'application/json' }];
  return {
    state: 'TASK_STATE_AUTH_REQUIRED',
    timestamp: new Date().toISOString(),
    message: { messageId: randomUUID(), role: 'ROLE_AGENT', parts },
  };
}

/** The task with a status that asks for a sign-in. */
export function asking(task: Task, status: TaskStatus): Task {
  const { message } = status;
  const placed = { taskId: task.id, ...(task.contextId !== undefined && { contextId: task.contextId }) };
  return { ...task, status: { ...status, ...(message && { message: { ...message, ...placed } }) } };
}

/**
 * A new task that waits for the sign-in. Its history begins with the message, which the agent gets after the sign-in.
 */
export function newSignIn(message: Message, status: TaskStatus): Task {
  const id = PREFIX + randomUUID();
  const contextId = message.contextId || randomUUID();
  const history = [{ ...message, taskId: id, contextId }];
  return asking(
    { id, contextId, status, history, metadata: noteOf({ context: message.contextId || undefined }) },
    status,
  );
}

const noteOf = ({ task, context }: Binding): JsonObject =>
  gatewayNote({ ...(task !== undefined && { task }), ...(context !== undefined && { context }) });

export function bindingIn({ metadata }: Task): Binding | undefined {
  const note = noteIn(metadata);
  if (!isObject(note)) return undefined;
  const { task, context } = note;
  return {
    ...(typeof task === 'string' && { task }),
    context: typeof context === 'string' ? context : undefined,
  };
}

/** The completed task, for an agent that answered with a message instead of a task. */
export function completed(task: Task, contextId: string, { taskId: _, ...message }: Message): Task {
  return {
    ...task,
    contextId,
    status: {
      state: 'TASK_STATE_COMPLETED',
      timestamp: new Date().toISOString(),
      message: { ...(message as Message), taskId: task.id, contextId },
    },
  };
}

/**
 * The event of the agent with the ids of the gateway's task. If the event contains the task, the agent's own ids are
 * added as a note.
 */
export function renamed(event: StreamResponse, { from, to }: { readonly from: Ids; readonly to: Ids }): StreamResponse {
  const task = (id: string): string => (id === from.task ? (to.task ?? id) : id);
  const context = to.context === undefined ? {} : { contextId: to.context };
  const said = (message: Message): Message => ({
    ...message,
    ...(message.taskId !== undefined && { taskId: task(message.taskId) }),
    ...(message.contextId !== undefined && context),
  });
  const status = (given: TaskStatus): TaskStatus =>
    given.message ? { ...given, message: said(given.message) } : given;
  const { task: whole, message, statusUpdate, artifactUpdate } = event;
  if (whole)
    return {
      ...event,
      task: {
        ...whole,
        ...context,
        id: task(whole.id),
        status: status(whole.status),
        ...(whole.history && { history: whole.history.map(said) }),
        metadata: { ...whole.metadata, ...noteOf(from) },
      },
    };
  if (message) return { ...event, message: said(message) };
  if (statusUpdate) {
    const update = { ...statusUpdate, ...context, taskId: task(statusUpdate.taskId) };
    return { ...event, statusUpdate: { ...update, status: status(statusUpdate.status) } };
  }
  if (!artifactUpdate) return event;
  return { ...event, artifactUpdate: { ...artifactUpdate, ...context, taskId: task(artifactUpdate.taskId) } };
}
