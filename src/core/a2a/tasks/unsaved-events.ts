import type { StreamResponse, Task } from '../../../protocol/a2a/model.js';
import type { Passed } from '../agent.js';
import { sizeOfEvent } from './task-size-limit.js';

/** The most events that wait for storage. The store keeps the same number of events per task. */
const MOST = 512;
const MOST_BYTES = 4 * 1024 * 1024;

interface Kept {
  readonly events: readonly StreamResponse[];
  readonly bytes: number;
}

const NONE: Kept = { events: [], bytes: 0 };

/**
 * The events of a task that wait for storage. Beyond the limits, webhooks and other replicas get the current task
 * instead of the single events.
 */
export class UnsavedEvents {
  private kept: Kept = NONE;

  /** Adds events. `task` is the task after these events. */
  add(events: readonly Passed<StreamResponse>[], task: Task): void {
    const bytes = events.reduce((sum, event) => sum + sizeOfEvent(event), 0);
    this.keep({ events: events.map(({ value }) => value), bytes }, task);
  }

  /** Removes and returns all events, so that the caller can store them. */
  take(): Kept {
    const { kept } = this;
    this.kept = NONE;
    return kept;
  }

  /** Puts events back that could not be stored. They come before the events that were added in the meantime. */
  putBack(taken: Kept, task: Task): void {
    const since = this.take();
    this.kept = taken;
    this.keep(since, task);
  }

  private keep(more: Kept, task: Task): void {
    const events = [...this.kept.events, ...more.events];
    const bytes = this.kept.bytes + more.bytes;
    const tooMany = events.length > MOST || (events.length > 1 && bytes > MOST_BYTES);
    // The task needs no further memory, because the task log has it in memory already.
    this.kept = tooMany ? { events: [{ task }], bytes: 0 } : { events, bytes };
  }
}
