import type { StreamResponse } from '../../../protocol/a2a/model.js';
import type { Cancellation } from '../../caller.js';
import type { Passed } from '../agent.js';
import { withHistory } from './checks.js';
import { outwardEvent } from './gateway-notes.js';

type Event = Passed<StreamResponse>;

export interface TaskReaderOptions {
  /** The task that readers know. */
  readonly snapshot: () => Event;
  /** Called once, when the reader leaves or there is nothing left to read. */
  readonly left: () => void;
  readonly historyLength: number | undefined;
}

/** The most events that wait for a reader. A reader that is further behind gets the current task instead. */
const MOST_WAITING = 1_000;

/** One open stream of a client. Leaving it does not affect the task or other readers (S-42, G-25). */
export class TaskReader implements AsyncIterableIterator<Event> {
  private waiting: Event[] = [];
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
    if (this.waiting.length <= MOST_WAITING) return;
    this.waiting = [];
    this.behind = true;
  }

  /** The reader can still read the waiting events. */
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
    this.waiting = [];
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
    if (!this.behind) return this.waiting.shift();
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
