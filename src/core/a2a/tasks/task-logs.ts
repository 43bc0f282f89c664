import { isSettled, isTerminal, type StreamResponse, type TaskStatus } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { type Caller, type Cancellation, GATEWAY, ownerOf } from '../../caller.js';
import type { Agent, Passed } from '../agent.js';
import { AgentFollower, isAway, ownExchange, ReplicaFollower, type TaskFollowerOptions } from './task-follower.js';
import { taskForClient } from './task-ids.js';
import { isBusy, TaskLog, type TaskLogOptions, type TaskLogOwner } from './task-log.js';
import { keyOf, type TaskKey, type TaskRecord } from './task-records.js';

export interface TaskLogsOptions extends TaskLogOptions, TaskFollowerOptions {
  agent(name: string): Agent | undefined;
}

export interface Attachment {
  /** The status before the message that is followed. */
  readonly base?: TaskStatus | undefined;
  readonly persistent?: boolean;
  /** Whether the claim to the task is stored already. */
  readonly held?: boolean;
  /** Cancels a stream that is already open. */
  readonly cancellation?: Cancellation;
}

/** The most tasks of dead replicas that are taken over at the same time; further tasks wait for the next round. */
const CLAIMS = 50;
/**
 * The intervals at which tasks are checked, in milliseconds. `called`: the agent is expected to call back. `away`: the
 * agent is unreachable.
 */
const CHECK_INTERVAL = { called: 30_000, away: 30_000 };

/** The tasks of one caller in memory may have this many times the bytes of the largest task. */
const LARGEST_TASKS = 4;

const nameOf = ({ agent, owner, id }: TaskKey): string => JSON.stringify([agent, owner, id]);
const callerOf = (owner: string): Caller => ({ ...GATEWAY, principal: ownerOf(owner) });

/** The active tasks of this process, and their followers. */
export class TaskLogs {
  private readonly taskLogs = new Map<string, TaskLog>();
  private readonly byOwner = new Map<string, Set<TaskLog>>();
  /** Claims that are being released. A new claim to the same task waits for the release. */
  private readonly leaving = new Map<string, Promise<void>>();
  private beat: NodeJS.Timeout | undefined;
  private beating: Promise<void> = Promise.resolve();
  private closed = false;
  /** Tasks that are claimed and not followed yet. */
  private readonly inheriting = new Map<string, TaskKey>();
  private readonly logOwner: TaskLogOwner = {
    idle: (taskLog) => this.tidy(taskLog),
    lost: (taskLog) => this.lost(taskLog),
  };

  constructor(private readonly options: TaskLogsOptions) {}

  get size(): number {
    return this.taskLogs.size;
  }

  get(key: TaskKey): TaskLog | undefined {
    return this.taskLogs.get(nameOf(key));
  }

  /** Whether this or another replica follows the task according to its record. */
  claimed({ followedUntil }: TaskRecord): boolean {
    return (followedUntil ?? 0) > this.options.now();
  }

  /**
   * Runs `work` with the task log of a task. The task log exists at least until `work` ends. The record of a new task
   * has `seq` 0.
   */
  async with<T>(record: TaskRecord, work: (taskLog: TaskLog) => Promise<T>): Promise<T> {
    const name = nameOf(record);
    const taskLog = this.taskLogs.get(name) ?? this.add(name, new TaskLog(record, this.options, this.logOwner));
    taskLog.users += 1;
    try {
      return await work(taskLog);
    } finally {
      taskLog.users -= 1;
      this.tidy(taskLog);
    }
  }

  /**
   * Refuses a request if the gateway already follows too many tasks of this caller without their clients. The request
   * could add another such task. Each of them needs memory and a stream of its agent.
   */
  checkRoom(owner: string): void {
    let unread = 0;
    let bytes = 0;
    for (const taskLog of this.byOwner.get(owner) ?? []) {
      bytes += taskLog.bytes;
      if (taskLog.followed && !taskLog.heard) unread++;
    }
    const { followed, taskSize } = this.options.limits;
    if (unread < followed && bytes < LARGEST_TASKS * taskSize) return;
    const why =
      unread < followed
        ? 'The running tasks of this caller hold too much data'
        : `Too many unfinished tasks of this caller are followed (at most ${followed})`;
    throw new ProtocolError('rate_limited', `${why}; wait for some to end, or cancel them`, {
      outcome: 'not_executed',
      headers: { 'Retry-After': '5' },
    });
  }

  /** Makes this replica follow the task, in place of any earlier follower. */
  attach(taskLog: TaskLog, agent: Agent, caller: Caller, how: Attachment = {}): AgentFollower {
    taskLog.follower?.stop();
    const { base, persistent = false, held = false, cancellation } = how;
    const follower = new AgentFollower(taskLog, this.options, agent, caller, base, persistent, cancellation);
    taskLog.follower = follower;
    taskLog.held = held;
    return follower;
  }

  /** Stops following the task at this replica. */
  release(taskLog: TaskLog): void {
    const { follower } = taskLog;
    if (!follower) return;
    follower.stop();
    taskLog.follower = undefined;
    taskLog.held = false;
    if (follower.kind === 'agent') void this.letGo(taskLog.record);
  }

  run(taskLog: TaskLog, follower: AgentFollower, opened: AsyncIterator<Passed<StreamResponse>> | undefined): void {
    void follower.run(opened).finally(() => this.detach(taskLog, follower));
  }

  async detach(taskLog: TaskLog, follower: AgentFollower): Promise<void> {
    if (taskLog.follower !== follower) return;
    taskLog.follower = undefined;
    taskLog.held = false;
    this.tidy(taskLog);
    await this.letGo(taskLog.record);
  }

  /**
   * Called when the agent has agreed to call back for the task. The task is still checked at intervals, because a
   * callback may get lost.
   */
  async called(taskLog: TaskLog): Promise<void> {
    await this.options.records.remind(taskLog.record, this.options.now() + CHECK_INTERVAL.called);
  }

  /** Called when the agent is unreachable. The task is due for the next replica that checks. */
  async away(taskLog: TaskLog): Promise<void> {
    await this.options.records.remind(taskLog.record, this.options.now());
  }

  /** Called when another replica follows the task. This replica then reads the events that the other replica stores. */
  private lost(taskLog: TaskLog): void {
    const { follower, record } = taskLog;
    if (follower?.kind !== 'agent') return;
    follower.stop();
    taskLog.follower = undefined;
    const agent = this.options.agent(record.agent);
    const open = !isTerminal(record.task.status.state);
    if (open && taskLog.heard && agent && !this.closed) this.tail(taskLog, agent, callerOf(record.owner))();
    else this.tidy(taskLog);
  }

  /** Releases the claim to a task. */
  private letGo(record: TaskRecord): Promise<void> {
    if (this.closed || record.seq === 0 || isTerminal(record.task.status.state)) return Promise.resolve();
    const name = nameOf(record);
    const leaving = this.nextCheck(record)
      .then((due) => this.options.records.letGo([keyOf(record)], due))
      .catch((error: unknown) => {
        this.options.log.debug({ err: error }, 'cannot release the claim to a task; it will expire');
      })
      .finally(() => {
        if (this.leaving.get(name) === leaving) this.leaving.delete(name);
      });
    this.leaving.set(name, leaving);
    return leaving;
  }

  /**
   * The time of the next check, or null for no check. Reads the webhooks from the store, because another replica may
   * have registered one.
   */
  private async nextCheck(record: TaskRecord): Promise<number | null> {
    if (isSettled(record.task.status.state)) return null;
    return (await this.options.records.pushes(record)).length > 0 ? this.options.now() + CHECK_INTERVAL.called : null;
  }

  /**
   * Makes the task log receive the task's events, either from the agent or from the replica that already follows the
   * task. Rejects if the agent is unreachable. Events flow once the returned function is called.
   */
  async watch(taskLog: TaskLog, agent: Agent, caller: Caller): Promise<() => void> {
    const nothing = (): void => {};
    if (taskLog.follower?.active) return nothing;
    this.release(taskLog);
    await this.leaving.get(nameOf(taskLog.record));
    const waits = taskLog.record.task.status.state === 'TASK_STATE_INPUT_REQUIRED';
    if (waits || !(await this.options.records.claimOne(taskLog.record, this.options.now() + this.options.lease))) {
      return taskLog.follower?.active ? nothing : this.tail(taskLog, agent, caller);
    }
    if (taskLog.follower?.active) return nothing;
    const follower = this.attach(taskLog, agent, caller, { held: true });
    try {
      const opened = await follower.open();
      return () => this.run(taskLog, follower, opened);
    } catch (error) {
      await this.detach(taskLog, follower);
      throw error;
    }
  }

  /** Starts taking over the tasks of dead replicas. */
  start(): void {
    if (this.beat || this.closed) return;
    const round = (): void => {
      this.beating = this.beating.then(() => this.round());
    };
    this.beat = setInterval(round, this.options.lease / 3).unref();
    round();
  }

  /** Releases all claims: the tasks of this replica are due for another replica at once. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.beat);
    const taskLogs = [...this.taskLogs.values()];
    const followed = [...this.followed(), ...this.inheriting.values()];
    for (const taskLog of taskLogs) taskLog.follower?.stop();
    await this.beating;
    await Promise.all(taskLogs.map((taskLog) => taskLog.flush().catch(() => {})));
    for (const taskLog of taskLogs) {
      taskLog.drop();
      taskLog.end();
    }
    await this.options.records.letGo(followed, this.options.now()).catch(() => {});
    this.taskLogs.clear();
    this.byOwner.clear();
  }

  private tail(taskLog: TaskLog, agent: Agent, caller: Caller): () => void {
    const follower = new ReplicaFollower(taskLog, this.options, () => {
      if (taskLog.follower !== follower || this.closed) return;
      const next = this.attach(taskLog, agent, caller, { held: true });
      next.open().then(
        (opened) => this.run(taskLog, next, opened),
        (error: unknown) => {
          taskLog.fail(error);
          return this.detach(taskLog, next);
        },
      );
    });
    taskLog.follower = follower;
    return () =>
      void follower.run().finally(() => {
        if (taskLog.follower === follower) taskLog.follower = undefined;
        this.tidy(taskLog);
      });
  }

  private tidy(taskLog: TaskLog): void {
    if (taskLog.users > 0) return;
    const { follower } = taskLog;
    if (follower && !follower.persistent && !taskLog.wanted) follower.stop();
    const name = nameOf(taskLog.record);
    if (!taskLog.inUse && this.taskLogs.get(name) === taskLog) this.remove(name, taskLog);
  }

  private add(name: string, taskLog: TaskLog): TaskLog {
    this.taskLogs.set(name, taskLog);
    const { owner } = taskLog.record;
    const own = this.byOwner.get(owner) ?? new Set();
    this.byOwner.set(owner, own.add(taskLog));
    return taskLog;
  }

  private remove(name: string, taskLog: TaskLog): void {
    this.taskLogs.delete(name);
    const { owner } = taskLog.record;
    const own = this.byOwner.get(owner);
    own?.delete(taskLog);
    if (own?.size === 0) this.byOwner.delete(owner);
  }

  private followed(): TaskKey[] {
    const own = [...this.taskLogs.values()].filter(({ follower, held, record }) => {
      return follower?.kind === 'agent' && held && !isTerminal(record.task.status.state);
    });
    return own.map(({ record }) => keyOf(record));
  }

  private async round(): Promise<void> {
    const { records, lease, log, now } = this.options;
    try {
      const own = [...this.followed(), ...this.inheriting.values()];
      const lost = await records.keepFollowing(own, now() + lease);
      for (const key of lost)
        void this.get(key)
          ?.recheck()
          .catch(() => {});
      await this.claim();
      const free = CLAIMS - this.inheriting.size;
      if (this.closed || free <= 0) return;
      const due = await records.claimFollowing(free, now() + lease);
      // The call is not awaited, because a slow agent must not delay the renewal of this replica's claims.
      for (const record of due) void this.inherit(record);
    } catch (error) {
      log.warn({ err: error }, 'cannot renew claims or take over tasks of other replicas; trying again');
    }
  }

  /** Claims tasks that this replica follows without a stored claim. */
  private async claim(): Promise<void> {
    const { records, lease, now } = this.options;
    for (const taskLog of this.taskLogs.values()) {
      const { follower, record } = taskLog;
      const own = follower?.kind === 'agent' && follower.active && taskLog.kept && !taskLog.held;
      if (own && !isSettled(record.task.status.state) && (await records.claimOne(record, now() + lease)))
        taskLog.held = taskLog.follower === follower;
    }
  }

  private async inherit(record: TaskRecord): Promise<void> {
    const name = nameOf(record);
    this.inheriting.set(name, keyOf(record));
    let due: number | null | undefined;
    try {
      due = await this.with(record, (taskLog) => this.takeOver(taskLog, record));
    } catch (error) {
      this.options.log.debug({ err: error, agent: record.agent }, 'cannot update a task of another replica');
      // An agent that answered with an error is not asked again.
      if (isAway(error)) due = this.options.now() + CHECK_INTERVAL.away;
      else if (error instanceof ProtocolError && !isBusy(error)) due = null;
    } finally {
      this.inheriting.delete(name);
    }
    // If the claim cannot be released, it expires, and the next round tries again.
    if (due !== undefined && !this.closed) await this.options.records.letGo([keyOf(record)], due).catch(() => {});
  }

  /**
   * Takes over a task whose replica is gone. Follows the task if a reader or a webhook waits for its events, otherwise
   * only updates it. Returns the time of the next check; undefined if the task is now followed.
   */
  private async takeOver(taskLog: TaskLog, record: TaskRecord): Promise<number | null | undefined> {
    const { records, now } = this.options;
    const agent = this.options.agent(record.agent);
    if (!agent) return now() + CHECK_INTERVAL.away;
    const caller = callerOf(record.owner);
    if (taskLog.follower?.kind === 'agent' && taskLog.follower.active) {
      taskLog.held = true;
      return undefined;
    }
    if (record.seq > taskLog.record.seq) await taskLog.adopt(record, await records.events(record, taskLog.record.seq));
    taskLog.pushed ||= (await records.pushes(record)).length > 0;
    // The agent's callbacks may go to the URL of a dead replica, so they do not count.
    taskLog.called = false;
    if (taskLog.wanted) {
      const follower = this.attach(taskLog, agent, caller, { held: true });
      const opened = await follower.open().catch((error: unknown) => {
        if (!isAway(error)) taskLog.fail(error);
        return undefined;
      });
      this.run(taskLog, follower, opened);
      return undefined;
    }
    const task = await agent.getTask(caller, { id: record.upstreamId }, ownExchange());
    await taskLog.put(taskForClient(task, record).value);
    return null;
  }
}
