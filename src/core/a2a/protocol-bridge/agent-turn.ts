import type { Message, StreamResponse, Task, TaskStatus } from '../../../protocol/a2a/model.js';
import { applyEvent } from '../../../protocol/a2a/task-events.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Cancellation } from '../../caller.js';
import type { AgentAnswer } from '../gateway.js';

/** How a turn of a conversation with an agent ended: with its word, or with the client gone before that. */
export type TurnResult =
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'message'; readonly message: Message }
  | { readonly kind: 'left'; readonly task: Promise<Task | undefined> };

export interface TurnOptions {
  readonly cancellation: Cancellation;
  /** How the task stood before the turn: as long as it stands so, nothing has happened. */
  readonly before: TaskStatus | undefined;
  /** Hears what comes on the way. */
  onNews(event: StreamResponse): void;
}

/**
 * Hears what an agent says until the turn is the client's again. A client that leaves is not kept waiting; the task it
 * began may only be known later, and whoever is to cancel it can wait for that.
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

/** An agent that took too long is in the middle of something that nobody waits for any more. */
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
  if (answer.kind !== 'stream') throw new ProtocolError('internal', 'A stream was expected');
  let task: Task | undefined;
  for await (const { value: event } of answer.events) {
    if (event.message) return { kind: 'message', message: event.message };
    task = applyEvent(task, event);
    tell(task);
    // Leaving the loop lets go of the stream.
    if (options.cancellation.cancelled) break;
    options.onNews(event);
    if (waitsForSomebody(task, options.before)) break;
  }
  if (!task) throw new ProtocolError('invalid_agent_response', 'The agent said nothing');
  return { kind: 'task', task };
}

/** The stream of a task that waits for an authorisation stays open meanwhile (S-63); its client is to be asked now. */
const waitsForSomebody = ({ status }: Task, before: TaskStatus | undefined): boolean =>
  status.state === 'TASK_STATE_AUTH_REQUIRED' && !(before && JSON.stringify(before) === JSON.stringify(status));
