import type { StreamResponse } from '../../../protocol/a2a/model.js';
import type { Cancellation } from '../../caller.js';
import type { Passed } from '../agent.js';
import { outwardEvent } from './gateway-notes.js';
import { withHistory } from './message-checks.js';
import { sizeOfEvent } from './task-size-limit.js';

type Event = Passed<StreamResponse>;

export interface TaskReaderOptions {
  /** The task that readers know. */
  readonly snapshot: () => Event;
  /** Called once, when the reader leaves or there is nothing left to read. */
  readonly left: () => void;
  readonly historyLength: number | undefined;
}

/** The most events that wait for a reader, and their bytes. A reader that is further behind gets the current task. */
const MOST_WAITING = 1_000;
const MOST_WAITING_BYTES = 8 * 1024 * 1024;

/** One open stream of a client. Leaving it does not affect the task or other readers (S-42, G-25). */
export class TaskReader implements AsyncIterableIterator<Event> {
  private waiting: Event[] = [];
  private bytes = 0;
  private behind = false;
  private over = false;
  private error: unknown;
  private taker: { resolve(result: IteratorResult<Event>): void; reject(error: unknown): void } | undefined;
  private gone = false;
  private off: (() => void) | undefined;

  constructor(private readonly options: TaskReaderOptions) {}

  /** Closes the reader when the request is cancelled. */
  until(cancellation: Cancellation): void {
    this.off = cancellation.onCancel(() => void this.return());
  }

  push(event: Event): void {
    if (this.over) return;
    const { taker } = this;
    if (taker) {
      this.taker = undefined;
      taker.resolve({ done: false, value: this.shown(event) });
      return;
    }
    if (this.behind) return;
    this.waiting.push(event);
    this.bytes += sizeOfEvent(event);
    const { length } = this.waiting;
    // A single event always waits, whatever its size.
    if (length <= MOST_WAITING && (length === 1 || this.bytes <= MOST_WAITING_BYTES)) return;
    this.clear();
    this.behind = true;
  }

  private clear(): void {
    this.waiting = [];
    this.bytes = 0;
  }

  /** Ends the stream. The reader can still read the waiting events. */
  end(): void {
    if (this.over) return;
    this.over = true;
    if (this.taker) this.settle(this.taker);
  }

  fail(error: unknown): void {
    if (this.over) return;
    this.error = error;
    this.end();
  }

  async next(): Promise<IteratorResult<Event>> {
    const event = this.take();
    if (event) return { done: false, value: this.shown(event) };
    return new Promise((resolve, reject) => {
      const taker = { resolve, reject };
      if (this.over) this.settle(taker);
      else this.taker = taker;
    });
  }

  async return(): Promise<IteratorResult<Event>> {
    this.clear();
    this.behind = false;
    this.error = undefined;
    this.end();
    this.leave();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  private take(): Event | undefined {
    if (!this.behind) {
      const event = this.waiting.shift();
      if (event) this.bytes -= sizeOfEvent(event);
      return event;
    }
    this.behind = false;
    return this.options.snapshot();
  }

  private settle(taker: NonNullable<typeof this.taker>): void {
    this.taker = undefined;
    this.leave();
    const { error } = this;
    this.error = undefined;
    if (error === undefined) taker.resolve({ done: true, value: undefined });
    else taker.reject(error);
  }

  private leave(): void {
    if (this.gone) return;
    this.gone = true;
    this.off?.();
    this.options.left();
  }

  private shown(event: Event): Event {
    const outward = outwardEvent(event.value);
    const { task } = outward;
    if (!task) return outward === event.value ? event : { value: outward };
    const cut = withHistory(task, this.options.historyLength);
    return cut === event.value.task ? event : { value: { ...outward, task: cut } };
  }
}
