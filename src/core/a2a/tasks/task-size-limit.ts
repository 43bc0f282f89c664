import type { Message, StreamResponse, Task } from '../../../protocol/a2a/model.js';
import type { Passed } from '../agent.js';
import { invalidAnswer } from './message-checks.js';

/** The share of the limit that a task may fill after its oldest messages were dropped. */
const HISTORY_SHARE = 0.75;

const measured = new WeakMap<StreamResponse, number>();

/** The bytes of an event as JSON. */
export function sizeOfEvent({ value, text }: Passed<StreamResponse>): number {
  if (text !== undefined) return Buffer.byteLength(text);
  let size = measured.get(value);
  if (size === undefined) {
    size = bytesOf(value);
    measured.set(value, size);
  }
  return size;
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/**
 * Limits the bytes of a task, which an agent can extend without end. Measuring the JSON of a task for each event would
 * cost too much. The sizes of the events are added up instead, and the task is measured only if the sum exceeds the
 * limit.
 */
export class TaskSizeLimit {
  private last: { readonly task: Task; readonly most: number } | undefined;

  constructor(private readonly limit: number) {}

  /** An upper bound of the bytes of the last task; 0 before the first task. */
  get bytes(): number {
    return this.last?.most ?? 0;
  }

  /**
   * Returns `task`, without its oldest messages if it is too large. `task` results from `before` by events of `added`
   * bytes. Throws `invalid_agent_response` if `task` is too large without its history.
   */
  within(before: Task | undefined, task: Task, added: number): Task {
    const known = this.last && this.last.task === before ? this.last.most + added : undefined;
    if (known !== undefined && known <= this.limit) return this.remember(task, known);
    const size = bytesOf(task);
    if (size <= this.limit) return this.remember(task, size);
    return this.withoutOldest(task, size);
  }

  private remember(task: Task, most: number): Task {
    this.last = { task, most };
    return task;
  }

  private withoutOldest(task: Task, size: number): Task {
    const { history = [], ...rest } = task;
    const sizes = history.map(bytesOf);
    const others = size - sizes.reduce((sum, one) => sum + one, 0);
    if (others > this.limit) invalidAnswer(`The agent's task has more than ${this.limit} bytes (a2a.taskSize)`);
    const kept: Message[] = [];
    let room = this.limit * HISTORY_SHARE - others;
    for (let i = history.length - 1; i >= 0; i--) {
      room -= sizes[i]!;
      if (room < 0) break;
      kept.unshift(history[i]!);
    }
    const cut = { ...rest, history: kept };
    return this.remember(cut, bytesOf(cut));
  }
}
