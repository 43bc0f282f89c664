import type { Message, StreamResponse, Task, TaskStatus } from '../../../protocol/a2a/model.js';
import { applyEvent } from '../../../protocol/a2a/task-events.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Cancellation } from '../../caller.js';
import type { AgentAnswer } from '../gateway.js';

/** How the wait ended: the agent answered with a task or a message, or the client left first. */
export type AgentWaitResult =
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'message'; readonly message: Message }
  | { readonly kind: 'left'; readonly task: Promise<Task | undefined> };

export interface AgentWaitOptions {
  readonly cancellation: Cancellation;
  /** The status before the request. While the task still has this status, the agent has not reacted yet. */
  readonly before: TaskStatus | undefined;
  /** Called for each event of the task. */
  onEvent(event: StreamResponse): void;
}

/**
 * Reads the events of an agent until the agent waits for the client or has finished. If the client leaves, the function
 * returns `left` at once. The caller then cancels the task. The task may become known only later, so `left` contains a
 * promise of the task.
 */
export async function waitForAgent(opening: Promise<AgentAnswer>, options: AgentWaitOptions): Promise<AgentWaitResult> {
  let tell: (task: Task | undefined) => void = () => {};
  const known = new Promise<Task | undefined>((resolve) => {
    tell = resolve;
  });
  const reading = read(opening, options, tell).finally(() => tell(undefined));
  let stop = (): void => {};
  const left = new Promise<AgentWaitResult>((resolve) => {
    stop = options.cancellation.onCancel(() => resolve({ kind: 'left', task: known }));
  });
  try {
    return await Promise.race([reading.catch((error: unknown) => failed(error, known)), left]);
  } finally {
    stop();
  }
}

/** After a timeout the agent may still work on the task, so the result is the same as for a client that left. */
function failed(error: unknown, task: Promise<Task | undefined>): AgentWaitResult {
  if (error instanceof ProtocolError && error.reason === 'upstream_timeout') return { kind: 'left', task };
  throw error;
}

async function read(
  opening: Promise<AgentAnswer>,
  options: AgentWaitOptions,
  tell: (task: Task | undefined) => void,
): Promise<AgentWaitResult> {
  const answer = await opening;
  if (answer.kind !== 'stream') throw new ProtocolError('internal', 'Expected a stream from the agent gateway');
  let task: Task | undefined;
  for await (const { value: event } of answer.events) {
    if (event.message) return { kind: 'message', message: event.message };
    task = applyEvent(task, event);
    tell(task);
    // Leaving the loop closes the stream.
    if (options.cancellation.cancelled) break;
    options.onEvent(event);
    if (waitsForAuthorization(task, options.before)) break;
  }
  if (!task) throw new ProtocolError('invalid_agent_response', 'The agent ended its stream without an event');
  return { kind: 'task', task };
}

/**
 * Whether the task has started to wait for authorization. The stream of such a task stays open (S-63), but the client
 * must be asked now.
 */
const waitsForAuthorization = ({ status }: Task, before: TaskStatus | undefined): boolean =>
  status.state === 'TASK_STATE_AUTH_REQUIRED' && !(before && JSON.stringify(before) === JSON.stringify(status));
