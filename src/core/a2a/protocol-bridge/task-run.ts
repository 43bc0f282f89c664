import { isSettled, type StreamResponse, type Task } from '../../../protocol/a2a/model.js';
import { applyEvent } from '../../../protocol/a2a/task-events.js';
import { Cancellation } from '../../caller.js';
import type { Events } from '../agent.js';
import { sizeOfEvent } from '../tasks/task-size-limit.js';

/**
 * The most events that wait for listeners, and their bytes. A listener that is further behind gets the current task.
 */
const MOST_EVENTS = 1_000;
const MOST_EVENT_BYTES = 1024 * 1024;
/** The most messages of the tool that the history keeps, and their bytes; the oldest are dropped. */
const MOST_MESSAGES = 1_000;
const MOST_MESSAGE_BYTES = 1024 * 1024;

/**
 * One run of a task by the gateway itself, from a message of the client until the task ends or waits for the client.
 * Keeps the last events for all listeners.
 */
export class TaskRun {
  readonly cancellation = new Cancellation();
  private readonly events: StreamResponse[] = [];
  /** The number of events that were dropped. */
  private dropped = 0;
  private bytes = 0;
  /** The messages of the tool, oldest first. */
  private readonly said: { readonly id: string; readonly bytes: number }[] = [];
  private saidBytes = 0;
  private readonly waiting = new Set<() => void>();
  private current: Task;
  private ended = false;

  constructor(task: Task) {
    this.current = task;
    this.keep({ task });
  }

  get task(): Task {
    return this.current;
  }

  /** Whether the run is over: the task is finished or waits for its client. */
  get over(): boolean {
    return this.ended;
  }

  /** Adds an event. After an event that settles the task, further events are ignored. */
  emit(event: StreamResponse): void {
    if (this.ended) return;
    this.keep(event);
    this.current = this.withoutOldest(applyEvent(this.current, event), event);
    this.ended = isSettled(this.current.status.state);
    for (const wake of [...this.waiting]) wake();
  }

  /** Keeps only the last events, because a tool may report progress without end. */
  private keep(event: StreamResponse): void {
    this.events.push(event);
    this.bytes += sizeOfEvent({ value: event });
    // A single event is kept, whatever its size.
    while (this.events.length > MOST_EVENTS || (this.events.length > 1 && this.bytes > MOST_EVENT_BYTES)) {
      this.bytes -= sizeOfEvent({ value: this.events.shift()! });
      this.dropped++;
    }
  }

  /** The task without the oldest messages of the tool, if they are too many. */
  private withoutOldest(task: Task, event: StreamResponse): Task {
    const message = event.statusUpdate?.status.message;
    if (!message) return task;
    const bytes = sizeOfEvent({ value: event });
    this.said.push({ id: message.messageId, bytes });
    this.saidBytes += bytes;
    if (this.said.length <= MOST_MESSAGES && this.saidBytes <= MOST_MESSAGE_BYTES) return task;
    const old = new Set<string>();
    // Removes messages down to half of the limit, so that the removal is rare.
    while (this.said.length > 1 && (this.said.length > MOST_MESSAGES / 2 || this.saidBytes > MOST_MESSAGE_BYTES / 2)) {
      const { id, bytes: freed } = this.said.shift()!;
      old.add(id);
      this.saidBytes -= freed;
    }
    return { ...task, history: (task.history ?? []).filter(({ messageId }) => !old.has(messageId)) };
  }

  /** The events of the whole run if `fromStart` is true; otherwise the current task and all later events. */
  async *listen(fromStart: boolean): Events {
    let at = fromStart ? 0 : this.end;
    if (!fromStart) yield { value: { task: this.current } };
    for (;;) {
      const event = this.events[at - this.dropped];
      if (at < this.dropped) {
        at = this.end;
        yield { value: { task: this.current } };
      } else if (event) {
        at++;
        yield { value: event };
      } else if (this.ended) return;
      else await this.news();
    }
  }

  /** The number of all events so far. */
  private get end(): number {
    return this.dropped + this.events.length;
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
