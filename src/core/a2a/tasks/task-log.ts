import { isSettled, isTerminal, type StreamResponse, type Task } from '../../../protocol/a2a/model.js';
import { applyEvent, diff } from '../../../protocol/a2a/task-events.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Log } from '../../../telemetry/log.js';
import type { Cancellation } from '../../caller.js';
import { Backoff, sleep } from '../../timing.js';
import type { Passed } from '../agent.js';
import type { PushNotifications } from '../push/push-notifications.js';
import { type A2aLimits, checkTask, invalidAnswer } from './checks.js';
import { TaskReader } from './task-reader.js';
import type { AgentRecords, NumberedEvent, QueuedNotification, TaskChange, TaskRecord } from './task-records.js';

export interface TaskLogOptions {
  readonly records: AgentRecords;
  readonly pushes: Pick<PushNotifications, 'notifications'> | undefined;
  readonly limits: A2aLimits;
  readonly log: Log;
  /** How long a replica that follows a task may be silent before another takes it over, in milliseconds. */
  readonly lease: number;
  /** The time of day that replicas share: until when a task is followed is compared by all of them (case 30). */
  readonly now: () => number;
}

/** What tells a task log its news, beside the answers of calls. */
export interface TaskFollower {
  /** `tail` reads what another replica writes; the others hold the claim to the task. */
  readonly kind: 'agent' | 'tail';
  /** Goes on to the end although nobody reads along: it is what a message began. */
  readonly persistent: boolean;
  /** False from the moment on at which it is going to tell nothing more. */
  readonly active: boolean;
  stop(): void;
}

/** Who looks after task logs. */
export interface TaskLogOwner {
  /** Something ended that may have been the last reason to keep the task log. */
  idle(taskLog: TaskLog): void;
  /** Another replica follows the task by now. */
  lost(taskLog: TaskLog): void;
}

/** Changes of this much time are written together; of more, where writing takes long. */
const COALESCE = { least: 25, most: 1_000, share: 4 };
const RETRY = { first: 250, longest: 5_000 };
/** So many leases long a database that is away is waited for: whoever reads along need not notice. */
export const PATIENCE = 2.5;
/** More than are kept of a task need not wait to be written either. */
const MOST_UNSAVED = 512;
const MOST_CONFLICTS = 5;

/**
 * One task in this process: everything that happens to it is folded here, in order, numbered, told to those who read along
 * and written. Progress is told at once and written behind; a state in which the task rests, and every change that a
 * webhook is to be notified of, is written before it is told.
 */
export class TaskLog {
  /** Folded from all events so far; what is written and what is told may be a little behind. */
  record: TaskRecord;
  follower: TaskFollower | undefined;
  /** Whether somebody is to be notified of changes. */
  pushed = false;
  /** Whether the agent calls back by itself when something changes. */
  called = false;
  /** Whether the claim to follow the task is written, as far as is known here. */
  held = false;
  /** Calls that use this task log at the moment. */
  users = 0;
  private told: Task;
  private readonly readers = new Set<TaskReader>();
  private readonly waiters = new Set<() => void>();
  /** The number of the last event that is written; 0 for a task that is not written at all. */
  private written: number;
  private unsaved: StreamResponse[] = [];
  private dirty = false;
  private turn: Promise<unknown> = Promise.resolve();
  private writing: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private readonly retries = new Backoff(RETRY);
  private pause = COALESCE.least;
  /** A state was not told since it could not be written. */
  private owed = false;
  private dropped = false;

  /** A new task comes with the number 0, and with the snapshot that its first event is going to tell. */
  constructor(
    record: TaskRecord,
    private readonly options: TaskLogOptions,
    private readonly keeper: TaskLogOwner,
  ) {
    this.record = record;
    this.told = record.task;
    this.written = record.seq;
  }

  /** The task as readers know it. */
  get task(): Task {
    return this.told;
  }

  /** Whether the task is written at all; before that nobody was told of it. */
  get kept(): boolean {
    return this.written > 0;
  }

  /** Whether this replica is told of the task by its agent at the moment. */
  get followed(): boolean {
    return this.follower?.kind === 'agent' && this.follower.active;
  }

  /** Whether somebody here waits for news. */
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

  /** Takes an event of the task, as it goes on to readers; where it still counts when its turn comes. */
  publish(event: Passed<StreamResponse>, counts: () => boolean = () => true): Promise<void> {
    return this.exclusive(async () => {
      if (!counts()) return;
      if (event.value.message) {
        this.tell([event], this.told);
        return;
      }
      const before = this.record.task;
      // Nothing happens to a finished task (S1-40).
      if (this.record.seq > 0 && isTerminal(before.status.state)) return;
      await this.become(this.fit(applyEvent(before, event.value)), [event]);
    });
  }

  /**
   * Takes the task as the agent says it is. Readers are told the difference. False where there was none. `event` is how a
   * new task is told.
   */
  put(task: Task, event: Passed<StreamResponse> = { value: { task } }): Promise<boolean> {
    return this.exclusive(async () => {
      if (this.record.seq === 0) {
        await this.become(this.fit(task), [event]);
        return true;
      }
      const before = this.record.task;
      if (isTerminal(before.status.state)) return false;
      const after = this.fit(applyEvent(before, { task }));
      const events = diff(before, after);
      if (events.length === 0 && JSON.stringify(before) === JSON.stringify(after)) return false;
      await this.become(
        after,
        events.map((value) => ({ value })),
      );
      return true;
    });
  }

  /** Takes over what another replica has written. */
  adopt(record: TaskRecord, events: readonly NumberedEvent[] | undefined): Promise<void> {
    return this.exclusive(async () => {
      if (record.seq <= this.record.seq || this.dirty) return;
      const news = events?.filter(({ seq }) => seq > this.record.seq && seq <= record.seq);
      this.record = record;
      this.written = record.seq;
      this.tell(news?.map(({ event }) => ({ value: event })) ?? [{ value: { task: record.task } }], record.task);
    });
  }

  /** A reader that is told the task as it is, where asked, and then what happens. */
  read(options: { snapshot: boolean; historyLength: number | undefined; left: () => void }): TaskReader {
    const reader = new TaskReader({
      historyLength: options.historyLength,
      snapshot: () => ({ value: { task: this.told } }),
      left: () => {
        this.readers.delete(reader);
        options.left();
        this.keeper.idle(this);
      },
    });
    this.readers.add(reader);
    if (options.snapshot) reader.push({ value: { task: this.told } });
    return reader;
  }

  /** Resolves when the task rests, its task log ended, the time is over or nobody waits any more. */
  rest(ms: number, cancellation: Cancellation): Promise<void> {
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

  /** The turn is over: streams close, what they have not read yet they still read. */
  end(): void {
    for (const reader of [...this.readers]) reader.end();
    this.readers.clear();
    for (const done of [...this.waiters]) done();
    this.keeper.idle(this);
  }

  fail(error: unknown): void {
    for (const reader of [...this.readers]) reader.fail(error);
    this.end();
  }

  /** Resolves when all that has happened is written. */
  flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.writing = this.writing.catch(() => {}).then(() => this.write());
    return this.writing;
  }

  /** Somebody else may have changed the task or follow it by now: sees what is written. */
  recheck(): Promise<void> {
    this.writing = this.writing
      .catch(() => {})
      .then(async () => {
        if (!this.held || this.follower?.kind !== 'agent') return;
        const stored = await this.options.records.find(this.record);
        if (stored && !stored.followedHere && this.held) await this.giveWay(stored);
      });
    return this.writing;
  }

  /** Gives up on what could not be written. */
  drop(): void {
    this.dropped = true;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private exclusive<T>(work: () => Promise<T>): Promise<T> {
    const result = this.turn.then(work);
    this.turn = result.catch(() => {});
    return result;
  }

  private fit(task: Task): Task {
    return checkTask(task, this.options.limits);
  }

  private async become(task: Task, events: Passed<StreamResponse>[]): Promise<void> {
    this.record = { ...this.record, task, seq: this.record.seq + events.length, updatedAt: this.options.now() };
    for (const { value } of events) this.unsaved.push(value);
    this.dirty = true;
    // The first event too: whoever learns of a task may ask for it anywhere.
    if (this.written === 0 || isSettled(task.status.state)) await this.flushNow();
    else if (!this.pushed) this.flushSoon(this.pause);
    // P4: a change that a stream has told must reach the webhook, so its notification is stored first.
    else if (!(await this.storedProgress())) return;
    // Another replica may have had the last word, and readers were told.
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
        // Nobody knows yet of a task that is not written at all: its client is told at once.
        const waits = this.kept && isBusy(error) && !this.dropped && performance.now() + wait < end;
        if (!waits) {
          this.owed = this.kept;
          if (this.kept) this.flushSoon(RETRY.first);
          throw error;
        }
        await sleep(wait);
      }
    }
  }

  /** Whether the progress is written; otherwise readers are told once it is. */
  private async storedProgress(): Promise<boolean> {
    try {
      await this.flushNow();
      return true;
    } catch (error) {
      if (!isBusy(error)) throw error;
      return false;
    }
  }

  /** What could not be told when it happened is written at last. */
  private catchUp(): void {
    this.owed = false;
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
          if (this.owed) this.catchUp();
          this.keeper.idle(this);
        },
        (error: unknown) => {
          this.options.log.warn({ err: error, agent: this.record.agent }, 'the progress of a task was not saved yet');
          this.flushSoon(this.retries.next());
        },
      );
    }, ms);
  }

  private async write(): Promise<void> {
    if (!this.dirty) return;
    const { record, unsaved } = this;
    this.unsaved = [];
    this.dirty = false;
    const events = unsaved.map((event, i) => ({ seq: record.seq - unsaved.length + 1 + i, event }));
    const began = performance.now();
    try {
      if (await this.save(record, this.written, events)) this.written = record.seq;
      else await this.reconcile(record);
      const took = performance.now() - began;
      this.pause = Math.min(Math.max(COALESCE.least, took * COALESCE.share), COALESCE.most);
    } catch (error) {
      const all = [...unsaved, ...this.unsaved];
      // Whoever is to be told of them is told what they led to.
      this.unsaved = all.length > MOST_UNSAVED ? [{ task: this.record.task }] : all;
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
      // Nobody reads along a task that began with its end; its snapshot says it all.
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
    // A task that was not there before has no configurations but those that came along with it.
    if (!pushes || (after === 0 && !this.pushed)) return [];
    const queued = await pushes.notifications(record, events);
    // The webhook may have been registered at another replica.
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
   * Somebody else wrote: another replica told of the same task. A finished task stays as it is written, and so does one
   * that another replica follows by now (fault 25); otherwise the snapshot here, which is folded from what the agent
   * itself said, is put on top.
   */
  private async reconcile(attempt: TaskRecord): Promise<void> {
    const isNew = this.written === 0;
    for (let conflicts = 0; conflicts < MOST_CONFLICTS; conflicts++) {
      const stored = await this.options.records.find(this.record);
      if (!stored && !isNew) throw new ProtocolError('task_not_found', 'Task not found: it is no longer kept');
      // Not this caller's, or known to it by another name: the agent gives out ids that it has given before.
      if (!stored || stored.upstreamId !== this.record.upstreamId)
        invalidAnswer('The agent answered with the id of a task that it has already used');
      // It was this very write, of which no answer came.
      if (stored.seq === attempt.seq && JSON.stringify(stored.task) === JSON.stringify(attempt.task)) {
        this.written = stored.seq;
        this.held = stored.followedHere === true;
        return;
      }
      const lost = this.held && this.follower?.kind === 'agent' && !stored.followedHere;
      if (!isNew && (lost || isTerminal(stored.task.status.state))) {
        await this.giveWay(stored);
        return;
      }
      const { task } = this.record;
      const record = { ...stored, task, seq: stored.seq + 1, updatedAt: this.options.now() };
      this.record = record;
      this.unsaved = [];
      if (await this.save(record, stored.seq, [{ seq: record.seq, event: { task } }])) {
        this.written = record.seq;
        return;
      }
    }
    throw new ProtocolError('overloaded', 'The task is changed by too many at once; try again', { outcome: 'unknown' });
  }

  /** What is written counts, and whoever wrote it goes on with the task. */
  private async giveWay(stored: TaskRecord): Promise<void> {
    // Where readers know exactly what was written before, they are told exactly what they missed.
    const { written } = this;
    const missed = this.told === this.record.task ? await this.missed(written, stored) : undefined;
    const exact = missed && this.record.seq === written;
    this.record = stored;
    this.written = stored.seq;
    this.unsaved = [];
    this.dirty = false;
    this.held = false;
    this.tell(exact ? missed : [{ value: { task: stored.task } }], stored.task);
    const { state } = stored.task.status;
    if (isTerminal(state) || state === 'TASK_STATE_INPUT_REQUIRED') this.end();
    this.keeper.lost(this);
  }

  private async missed(after: number, { seq: last }: TaskRecord): Promise<Passed<StreamResponse>[] | undefined> {
    const events = await this.options.records.events(this.record, after);
    const news = events?.filter(({ seq }) => seq <= last);
    return news?.length === last - after ? news.map(({ event }) => ({ value: event })) : undefined;
  }
}

/** The database is away for the moment. */
export const isBusy = (error: unknown): boolean => error instanceof ProtocolError && error.reason === 'overloaded';
