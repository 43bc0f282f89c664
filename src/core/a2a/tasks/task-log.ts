import { isSettled, isTerminal, type StreamResponse, type Task } from '../../../protocol/a2a/model.js';
import { applyEvent, diff } from '../../../protocol/a2a/task-events.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Log } from '../../../telemetry/log.js';
import type { Cancellation } from '../../caller.js';
import { Backoff, sleep } from '../../timing.js';
import type { Passed } from '../agent.js';
import type { PushNotifications } from '../push/push-notifications.js';
import { type A2aLimits, checkTask, invalidAnswer } from './message-checks.js';
import { TaskReader } from './task-reader.js';
import type { AgentRecords, NumberedEvent, QueuedNotification, TaskChange, TaskRecord } from './task-records.js';
import { sizeOfEvent, TaskSizeLimit } from './task-size-limit.js';
import { UnsavedEvents } from './unsaved-events.js';

export interface TaskLogOptions {
  readonly records: AgentRecords;
  readonly pushes: Pick<PushNotifications, 'notifications'> | undefined;
  readonly limits: A2aLimits;
  readonly log: Log;
  /** The time without a renewal after which another replica may take over a task, in milliseconds. */
  readonly lease: number;
  /** The clock that replicas share, because all of them compare the expiry of claims (case 30). */
  readonly now: () => number;
}

/** A source of events for a task log. The answers of calls are the other source. */
export interface TaskFollower {
  /**
   * `agent` follows the task at its agent and holds the claim to the task. `tail` reads the events that another replica
   * stores.
   */
  readonly kind: 'agent' | 'tail';
  /** Whether the follower continues to the end even without readers, because a message started it. */
  readonly persistent: boolean;
  /** False once the follower will deliver no more events. */
  readonly active: boolean;
  stop(): void;
}

/** The owner of task logs. */
export interface TaskLogOwner {
  /** Called when the task log may no longer be needed. */
  idle(taskLog: TaskLog): void;
  /** Called when another replica follows the task. */
  lost(taskLog: TaskLog): void;
}

/** The interval in which progress is stored in batches, in milliseconds. It grows with the duration of writes. */
const COALESCE = { least: 25, most: 1_000, share: 4 };
const RETRY = { first: 250, longest: 5_000 };
/** How long readers wait for an unavailable database, as a multiple of the lease. */
export const PATIENCE = 2.5;
const MOST_CONFLICTS = 5;

/**
 * One task in this process. Applies all events of the task in order, numbers them, sends them to readers and stores
 * them. Progress is sent at once and stored later. A settled state, and every change with a webhook notification, is
 * stored before it is sent.
 */
export class TaskLog {
  /** The result of all events so far. The stored record and the task that readers know may be slightly older. */
  record: TaskRecord;
  follower: TaskFollower | undefined;
  /** Whether a webhook must be notified of changes. */
  pushed = false;
  /** Whether the agent calls back when the task changes. */
  called = false;
  /** Whether this replica's claim to the task is stored, as far as this process knows. */
  held = false;
  /** The number of calls that use this task log at the moment. */
  users = 0;
  private told: Task;
  private readonly readers = new Set<TaskReader>();
  private readonly waiters = new Set<() => void>();
  /** The number of the last stored event; 0 for a task that is not stored. */
  private written: number;
  private readonly unsaved = new UnsavedEvents();
  private readonly size: TaskSizeLimit;
  private dirty = false;
  private queue: Promise<unknown> = Promise.resolve();
  private writing: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private readonly retries = new Backoff(RETRY);
  private pause = COALESCE.least;
  /** Whether readers still miss the current state because it could not be stored. */
  private unsent = false;
  private dropped = false;

  /** `record`: the record of a new task has `seq` 0 and contains the task of its first event. */
  constructor(
    record: TaskRecord,
    private readonly options: TaskLogOptions,
    private readonly owner: TaskLogOwner,
  ) {
    this.record = record;
    this.told = record.task;
    this.written = record.seq;
    this.size = new TaskSizeLimit(options.limits.taskSize);
  }

  /** The task that readers know. */
  get task(): Task {
    return this.told;
  }

  /** Whether the task is stored. No client knows a task that is not stored yet. */
  get kept(): boolean {
    return this.written > 0;
  }

  /** An upper bound of the bytes of the task. */
  get bytes(): number {
    return this.size.bytes;
  }

  /** Whether this replica gets events of the task from its agent. */
  get followed(): boolean {
    return this.follower?.kind === 'agent' && this.follower.active;
  }

  /** Whether a reader or a call at this replica waits for events. */
  get heard(): boolean {
    return this.readers.size > 0 || this.waiters.size > 0;
  }

  get wanted(): boolean {
    return this.heard || (this.pushed && !this.called);
  }

  get inUse(): boolean {
    if (this.users > 0 || this.readers.size > 0 || this.follower !== undefined) return true;
    return this.dirty && this.kept;
  }

  /**
   * Applies an event and sends it to readers. The event is ignored if `counts` returns false after all earlier events
   * were applied.
   */
  publish(event: Passed<StreamResponse>, counts: () => boolean = () => true): Promise<void> {
    return this.exclusive(async () => {
      if (!counts()) return;
      if (event.value.message) {
        this.tell([event], this.told);
        return;
      }
      const before = this.record.task;
      // A finished task does not change (S1-40).
      if (this.record.seq > 0 && isTerminal(before.status.state)) return;
      await this.become(this.checked(before, applyEvent(before, event.value), [event]), [event]);
    });
  }

  /**
   * Applies a snapshot of the agent and sends the differences to readers. Returns false if there were no differences.
   * `event` is sent for a new task.
   */
  put(task: Task, event: Passed<StreamResponse> = { value: { task } }): Promise<boolean> {
    return this.exclusive(async () => {
      if (this.record.seq === 0) {
        await this.become(this.checked(undefined, task), [event]);
        return true;
      }
      const before = this.record.task;
      if (isTerminal(before.status.state)) return false;
      const after = this.checked(undefined, applyEvent(before, { task }));
      const events = diff(before, after);
      if (events.length === 0 && JSON.stringify(before) === JSON.stringify(after)) return false;
      await this.become(
        after,
        events.map((value) => ({ value })),
      );
      return true;
    });
  }

  /** Applies the events that another replica stored. */
  adopt(record: TaskRecord, events: readonly NumberedEvent[] | undefined): Promise<void> {
    return this.exclusive(async () => {
      if (record.seq <= this.record.seq || this.dirty) return;
      const news = events?.filter(({ seq }) => seq > this.record.seq && seq <= record.seq);
      this.record = record;
      this.written = record.seq;
      this.tell(news?.map(({ event }) => ({ value: event })) ?? [{ value: { task: record.task } }], record.task);
    });
  }

  /** Makes a reader. With `snapshot` the reader first gets the current task. Then it gets all events. */
  read(options: { snapshot: boolean; historyLength: number | undefined; left: () => void }): TaskReader {
    const reader = new TaskReader({
      historyLength: options.historyLength,
      snapshot: () => ({ value: { task: this.told } }),
      left: () => {
        this.readers.delete(reader);
        options.left();
        this.owner.idle(this);
      },
    });
    this.readers.add(reader);
    if (options.snapshot) reader.push({ value: { task: this.told } });
    return reader;
  }

  /** Resolves when the task settles, the task log ends, the time is over or the call is cancelled. */
  untilSettled(ms: number, cancellation: Cancellation): Promise<void> {
    if (isSettled(this.told.status.state)) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        off();
        this.waiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      let off = (): void => {};
      this.waiters.add(done);
      off = cancellation.onCancel(done);
    });
  }

  /** Ends all streams. Each stream closes after its reader has read the waiting events. */
  end(): void {
    for (const reader of [...this.readers]) reader.end();
    this.readers.clear();
    for (const done of [...this.waiters]) done();
    this.owner.idle(this);
  }

  fail(error: unknown): void {
    for (const reader of [...this.readers]) reader.fail(error);
    this.end();
  }

  /** Resolves when all events are stored. */
  flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.writing = this.writing.catch(() => {}).then(() => this.write());
    return this.writing;
  }

  /** Reads the stored record, because another replica may have changed the task or taken over its claim. */
  recheck(): Promise<void> {
    this.writing = this.writing
      .catch(() => {})
      .then(async () => {
        if (!this.held || this.follower?.kind !== 'agent') return;
        const stored = await this.options.records.find(this.record);
        if (stored && !stored.followedHere && this.held) await this.acceptStored(stored);
      });
    return this.writing;
  }

  /** Stops all attempts to store the task. */
  drop(): void {
    this.dropped = true;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private exclusive<T>(work: () => Promise<T>): Promise<T> {
    const result = this.queue.then(work);
    this.queue = result.catch(() => {});
    return result;
  }

  /** `events` are the changes from `before` to the task. If absent, the size of the whole task is measured. */
  private checked(before: Task | undefined, task: Task, events: readonly Passed<StreamResponse>[] = []): Task {
    const added = events.reduce((sum, event) => sum + sizeOfEvent(event), 0);
    return this.size.within(before, checkTask(task, this.options.limits), added);
  }

  private async become(task: Task, events: Passed<StreamResponse>[]): Promise<void> {
    this.record = { ...this.record, task, seq: this.record.seq + events.length, updatedAt: this.options.now() };
    this.unsaved.add(events, task);
    this.dirty = true;
    // The first event is stored too, because a client that knows a task may read it at any replica.
    if (this.written === 0 || isSettled(task.status.state)) await this.flushNow();
    else if (!this.pushed) this.flushSoon(this.pause);
    // P4: a change that a stream has sent must also reach the webhook, so its notification is stored before it is sent.
    else if (!(await this.storedProgress())) return;
    // The stored record of another replica replaced this change, and readers already have that record.
    if (this.record.task !== task) return;
    this.tell(events, task);
    if (isTerminal(task.status.state)) this.end();
  }

  private tell(events: readonly Passed<StreamResponse>[], task: Task): void {
    this.told = task;
    for (const event of events) for (const reader of this.readers) reader.push(event);
    if (isSettled(task.status.state)) for (const done of [...this.waiters]) done();
  }

  private async flushNow(): Promise<void> {
    const end = performance.now() + this.options.lease * PATIENCE;
    const retries = new Backoff({ ...RETRY, longest: RETRY.longest / 5 });
    for (;;) {
      try {
        await this.flush();
        return;
      } catch (error) {
        const wait = retries.next();
        // No client knows a task that is not stored yet, so its client gets the error at once.
        const waits = this.kept && isBusy(error) && !this.dropped && performance.now() + wait < end;
        if (!waits) {
          this.unsent = this.kept;
          if (this.kept) this.flushSoon(RETRY.first);
          throw error;
        }
        await sleep(wait);
      }
    }
  }

  /**
   * Stores the progress. Returns false if the database is unavailable. Readers then get the progress later, once it is
   * stored.
   */
  private async storedProgress(): Promise<boolean> {
    try {
      await this.flushNow();
      return true;
    } catch (error) {
      if (!isBusy(error)) throw error;
      return false;
    }
  }

  /** Sends the current state, which had to be stored first. */
  private catchUp(): void {
    this.unsent = false;
    const { task } = this.record;
    this.tell([{ value: { task } }], task);
    if (isTerminal(task.status.state)) this.end();
  }

  private flushSoon(ms: number): void {
    if (this.dropped) return;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.flush().then(
        () => {
          this.retries.reset();
          if (this.unsent) this.catchUp();
          this.owner.idle(this);
        },
        (error: unknown) => {
          this.options.log.warn(
            { err: error, agent: this.record.agent },
            'cannot store the progress of a task; trying again',
          );
          this.flushSoon(this.retries.next());
        },
      );
    }, ms);
  }

  private async write(): Promise<void> {
    if (!this.dirty) return;
    const { record } = this;
    const unsaved = this.unsaved.take();
    this.dirty = false;
    const first = record.seq - unsaved.events.length + 1;
    const events = unsaved.events.map((event, i) => ({ seq: first + i, event }));
    const began = performance.now();
    try {
      if (await this.save(record, this.written, events)) this.written = record.seq;
      else await this.reconcile(record);
      const took = performance.now() - began;
      this.pause = Math.min(Math.max(COALESCE.least, took * COALESCE.share), COALESCE.most);
    } catch (error) {
      this.unsaved.putBack(unsaved, this.record.task);
      this.dirty = true;
      throw error;
    }
  }

  private async save(record: TaskRecord, after: number, events: readonly NumberedEvent[]): Promise<boolean> {
    const { state } = record.task.status;
    const whole = after === 0 && isTerminal(state);
    const change: TaskChange = {
      record,
      after,
      // A task whose first state is final has no readers, and the snapshot contains everything.
      events: whole ? [] : events,
      notifications: await this.notifications(record, after, events),
    };
    const followedUntil = this.followedUntil(record);
    const held = this.held && this.follower?.kind === 'agent';
    const saved = await this.options.records.save({
      ...change,
      ...(followedUntil !== undefined && { followedUntil }),
      ...(held && { held }),
    });
    if (saved && followedUntil !== undefined) this.held = followedUntil !== null;
    return saved;
  }

  private async notifications(
    record: TaskRecord,
    after: number,
    events: readonly NumberedEvent[],
  ): Promise<QueuedNotification[]> {
    const { pushes } = this.options;
    // A new task can have a webhook only through its own message.
    if (!pushes || (after === 0 && !this.pushed)) return [];
    const queued = await pushes.notifications(record, events);
    // Another replica may have registered the webhook.
    if (queued.length > 0) this.pushed = true;
    return queued;
  }

  private followedUntil({ task }: TaskRecord): number | null | undefined {
    const { state } = task.status;
    if (isTerminal(state) || state === 'TASK_STATE_INPUT_REQUIRED') return null;
    const { follower } = this;
    return follower && follower.kind !== 'tail' ? this.options.now() + this.options.lease : undefined;
  }

  /**
   * Resolves a write conflict: another replica changed the task. If the stored task is finished or another replica
   * follows it, the stored task stays (fault 25). Otherwise the snapshot of this replica, which comes from the agent,
   * is stored as a further change.
   */
  private async reconcile(attempt: TaskRecord): Promise<void> {
    const isNew = this.written === 0;
    for (let conflicts = 0; conflicts < MOST_CONFLICTS; conflicts++) {
      const stored = await this.options.records.find(this.record);
      if (!stored && !isNew) throw new ProtocolError('task_not_found', 'Task not found: it is no longer stored');
      // The agent has used the same id twice: its task belongs to another caller, or to another task of this caller.
      if (!stored || stored.upstreamId !== this.record.upstreamId)
        invalidAnswer('The agent answered with the id of a task that it has already used');
      // The store already has this write. Only the answer of the store was lost.
      if (stored.seq === attempt.seq && JSON.stringify(stored.task) === JSON.stringify(attempt.task)) {
        this.written = stored.seq;
        this.held = stored.followedHere === true;
        return;
      }
      const lost = this.held && this.follower?.kind === 'agent' && !stored.followedHere;
      if (!isNew && (lost || isTerminal(stored.task.status.state))) {
        await this.acceptStored(stored);
        return;
      }
      const { task } = this.record;
      const record = { ...stored, task, seq: stored.seq + 1, updatedAt: this.options.now() };
      this.record = record;
      this.unsaved.take();
      if (await this.save(record, stored.seq, [{ seq: record.seq, event: { task } }])) {
        this.written = record.seq;
        return;
      }
    }
    throw new ProtocolError('overloaded', 'Too many replicas change the task at the same time; try again', {
      outcome: 'unknown',
    });
  }

  /** Accepts the stored record of another replica, which follows the task from now on. */
  private async acceptStored(stored: TaskRecord): Promise<void> {
    // If the readers know the last state that this replica stored, they get the exact events since then.
    const { written } = this;
    const missed = this.told === this.record.task ? await this.missed(written, stored) : undefined;
    const exact = missed && this.record.seq === written;
    this.record = stored;
    this.written = stored.seq;
    this.unsaved.take();
    this.dirty = false;
    this.held = false;
    this.tell(exact ? missed : [{ value: { task: stored.task } }], stored.task);
    const { state } = stored.task.status;
    if (isTerminal(state) || state === 'TASK_STATE_INPUT_REQUIRED') this.end();
    this.owner.lost(this);
  }

  private async missed(after: number, { seq: last }: TaskRecord): Promise<Passed<StreamResponse>[] | undefined> {
    const events = await this.options.records.events(this.record, after);
    const news = events?.filter(({ seq }) => seq <= last);
    return news?.length === last - after ? news.map(({ event }) => ({ value: event })) : undefined;
  }
}

/** Whether the database is unavailable at the moment. */
export const isBusy = (error: unknown): boolean => error instanceof ProtocolError && error.reason === 'overloaded';
