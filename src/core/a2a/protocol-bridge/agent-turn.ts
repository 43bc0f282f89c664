import type { Message, StreamResponse, Task, TaskStatus } from '../../../protocol/a2a/model.js';
import { applyEvent } from '../../../protocol/a2a/task-events.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Cancellation } from '../../caller.js';
import type { AgentAnswer } from '../gateway.js';

/** How a turn with an agent ended: with a task or a message, or because the client left first. */
export type TurnResult =
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'message'; readonly message: Message }
  | { readonly kind: 'left'; readonly task: Promise<Task | undefined> };

export interface TurnOptions {
  readonly cancellation: Cancellation;
  /** The status before the turn: while the status is unchanged, the agent has not reacted yet. */
  readonly before: TaskStatus | undefined;
  /** Gets the events before the end of the turn. */
  onNews(event: StreamResponse): void;
}

/**
 * Reads an agent's events until the agent waits for the client or is done. If the client leaves, the function returns
 * at once; the task may become known later, so `left` contains a promise for the caller that cancels it.
 */
export async function awaitTurn(opening: Promise<AgentAnswer>, options: TurnOptions): Promise<TurnResult> {
  let tell: (task: Task | undefined) => void = () => {};
  const known = new Promise<Task | undefined>((resolve) => {
    tell = resolve;
  });
  const reading = read(opening, options, tell).finally(() => tell(undefined));
  let stop = (): void => {};
  const left = new Promise<TurnResult>((resolve) => {
    stop = options.cancellation.onCancel(() => resolve({ kind: 'left', task: known }));
  });
  try {
    return await Promise.race([reading.catch((error: unknown) => failed(error, known)), left]);
  } finally {
    stop();
  }
}

/** After a timeout the agent may still work on a task without a waiting client, as if the client had left. */
function failed(error: unknown, task: Promise<Task | undefined>): TurnResult {
  if (error instanceof ProtocolError && error.reason === 'upstream_timeout') return { kind: 'left', task };
  throw error;
}

async function read(
  opening: Promise<AgentAnswer>,
  options: TurnOptions,
  tell: (task: Task | undefined) => void,
): Promise<TurnResult> {
  const answer = await opening;
  if (answer.kind !== 'stream') throw new ProtocolError('internal', 'Expected a stream from the agent gateway');
  let task: Task | undefined;
  for await (const { value: event } of answer.events) {
    if (event.message) return { kind: 'message', message: event.message };
    task = applyEvent(task, event);
    tell(task);
    // Leaving the loop closes the stream.
    if (options.cancellation.cancelled) break;
    options.onNews(event);
    if (waitsForAuthorization(task, options.before)) break;
  }
  if (!task) throw new ProtocolError('invalid_agent_response', 'The agent ended its stream without an event');
  return { kind: 'task', task };
}

/** The stream of a task stays open while the task waits for authorization (S-63), but the client must be asked now. */
const waitsForAuthorization = ({ status }: Task, before: TaskStatus | undefined): boolean =>
  status.state === 'TASK_STATE_AUTH_REQUIRED' && !(before && JSON.stringify(before) === JSON.stringify(status));
