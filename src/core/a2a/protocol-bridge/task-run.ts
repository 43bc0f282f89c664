import { isSettled, type StreamResponse, type Task } from '../../../protocol/a2a/model.js';
import { applyEvent } from '../../../protocol/a2a/task-events.js';
import { Cancellation } from '../../caller.js';
import type { Events } from '../agent.js';

/** One turn of a task that the gateway runs itself: its events so far, for all listeners. */
export class TaskRun {
  readonly cancellation = new Cancellation();
  private readonly events: StreamResponse[] = [];
  private readonly waiting = new Set<() => void>();
  private current: Task;
  private ended = false;

  constructor(task: Task) {
    this.current = task;
    this.events.push({ task });
  }

  get task(): Task {
    return this.current;
  }

  /** Whether the turn is over: the task is finished, or waits for its client. */
  get over(): boolean {
    return this.ended;
  }

  /** Adds an event. After an event that settles the task, further events are ignored. */
  emit(event: StreamResponse): void {
    if (this.ended) return;
    this.events.push(event);
    this.current = applyEvent(this.current, event);
    this.ended = isSettled(this.current.status.state);
    for (const wake of [...this.waiting]) wake();
  }

  /** The events of the whole turn, or the current task and the events after it. */
  async *listen(fromStart: boolean): Events {
    if (!fromStart) yield { value: { task: this.current } };
    for (let at = fromStart ? 0 : this.events.length; ; ) {
      const event = this.events[at];
      if (event) {
        at++;
        yield { value: event };
      } else if (this.ended) return;
      else await this.news();
    }
  }

  private news(): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        this.waiting.delete(wake);
        resolve();
      };
      this.waiting.add(wake);
    });
  }
}
