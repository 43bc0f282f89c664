import { isSettled, isTerminal, type StreamResponse, type TaskStatus } from '../../../protocol/a2a/model.js';
import { includes } from '../../../protocol/a2a/task-events.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Log } from '../../../telemetry/log.js';
import { type Caller, Cancellation } from '../../caller.js';
import { sleep } from '../../timing.js';
import type { Agent, Exchange, Passed } from '../agent.js';
import { checkId } from './message-checks.js';
import { eventForClient, taskForClient } from './task-ids.js';
import { isBusy, PATIENCE, type TaskFollower, type TaskLog } from './task-log.js';
import type { AgentRecords } from './task-records.js';

export interface TaskFollowerOptions {
  readonly records: AgentRecords;
  readonly log: Log;
  readonly lease: number;
  /** How long streams stay open for a task that waits for its client. */
  readonly hold: number;
  /** The clock that replicas share. */
  readonly now: () => number;
}

/** Polling intervals for an agent that cannot stream (G-40). They are short after a change and then grow. */
const ASK = { first: 100, growth: 1.5, longest: 2_000, longestFailing: 30_000 };
const FAILURES = 4;
/**
 * How long to wait for the snapshot at the start of a stream, in milliseconds. After that the gateway reads the task.
 */
const SNAPSHOT_WAIT = 100;
/** How long an agent may still show the old status after a message, in milliseconds. */
const STALE = 5_000;
/** The age at which a follower starts to listen for changes by other replicas. Most tasks end sooner. */
const LONG = 250;

export const ownExchange = (cancellation = new Cancellation()): Exchange => ({
  cancellation,
  extensions: [],
  forward: {},
});

const sameStatus = (a: TaskStatus, b: TaskStatus): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);

abstract class BaseFollower implements TaskFollower {
  abstract readonly kind: 'agent' | 'tail';
  readonly persistent: boolean = false;
  protected stopped = false;
  private ending = false;
  private holding: NodeJS.Timeout | undefined;
  private wake: (() => void) | undefined;

  constructor(
    protected readonly taskLog: TaskLog,
    protected readonly options: TaskFollowerOptions,
    /**
     * The status before the message that is followed. While the task still has this status, the agent has not reacted
     * yet.
     */
    protected base: TaskStatus | undefined,
  ) {}

  get active(): boolean {
    return !this.stopped && !this.ending;
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.holding);
    this.poke();
  }

  protected poke(): void {
    this.wake?.();
  }

  protected sleep(ms: number): Promise<void> {
    const poked = new Cancellation();
    this.wake = () => poked.cancel();
    return sleep(ms, { until: poked });
  }

  /**
   * The result of the work, or undefined once the follower is stopped. This is needed because not every stream ends
   * when it is cancelled.
   */
  protected orStopped<T>(work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.wake = () => {
        if (this.stopped) resolve(undefined);
      };
      work.then(resolve, reject);
    });
  }

  /**
   * Whether the agent has finished the task or waits for the client, and the readers know this. A task that waits for
   * authorization keeps its streams open for a limited time (S-63).
   */
  protected over(): boolean {
    const { status } = this.taskLog.task;
    if (isTerminal(status.state)) return true;
    if (this.base && sameStatus(this.base, status)) return false;
    if (status.state === 'TASK_STATE_INPUT_REQUIRED') return true;
    if (status.state === 'TASK_STATE_AUTH_REQUIRED') this.hold();
    return false;
  }

  protected hold(): void {
    this.holding ??= setTimeout(() => {
      this.taskLog.end();
      if (!this.taskLog.wanted) this.stop();
    }, this.options.hold);
  }

  protected done(): void {
    this.ending = true;
    clearTimeout(this.holding);
  }
}

/** The agent refused the subscription to the task. */
class SubscriptionRefused extends Error {
  override readonly name = 'SubscriptionRefused';

  constructor(cause: unknown) {
    super('the agent refused the subscription', { cause });
  }
}

type EventIterator = AsyncIterator<Passed<StreamResponse>>;

/** An iterator that returns an already requested result first. */
function startingWith(first: Promise<IteratorResult<Passed<StreamResponse>>>, rest: EventIterator): EventIterator {
  let given = false;
  return {
    next: () => {
      if (given) return rest.next();
      given = true;
      return first;
    },
    return: (value?: unknown) => rest.return?.(value) ?? Promise.resolve({ done: true, value }),
  };
}

/** Follows a task at its agent, by a stream or by polling. */
export class AgentFollower extends BaseFollower {
  readonly kind = 'agent';
  private readonly began = performance.now();
  /**
   * `streamed`: the stream began with the task. `asked`: the gateway read the task from the agent, and the next events
   * may already be part of it. `passed`: an event arrived that was not part of the task as read.
   */
  private snapshot: 'streamed' | 'asked' | 'passed' = 'streamed';

  constructor(
    taskLog: TaskLog,
    options: TaskFollowerOptions,
    private readonly agent: Agent,
    private readonly caller: Caller,
    base: TaskStatus | undefined,
    override readonly persistent: boolean,
    readonly cancellation = new Cancellation(),
  ) {
    super(taskLog, options, base);
  }

  get exchange(): Exchange {
    // The agent sees one trace, whichever replica follows its task.
    const { trace } = this.taskLog.record;
    return { ...ownExchange(this.cancellation), ...(trace !== undefined && { forward: { traceparent: trace } }) };
  }

  override stop(): void {
    super.stop();
    this.cancellation.cancel('the gateway stopped following the task');
  }

  /**
   * Subscribes to the task if the agent allows it, and updates the task. Versions before 1.0 promise no snapshot at the
   * start of the stream, so the gateway then reads the task. Throws if the agent is unreachable.
   */
  async open(): Promise<EventIterator | undefined> {
    const { can } = this.agent.known() ?? (await this.agent.facts());
    if (can.subscribe) {
      const events = this.subscription();
      const first = events.next();
      first.catch(() => {});
      try {
        const early = await Promise.race([first, this.sleep(SNAPSHOT_WAIT)]);
        if (!early?.done) {
          if (early?.value.value.task) {
            await this.taskLog.put(taskForClient({ value: early.value.value.task }, this.taskLog.record).value);
            return events;
          }
          await this.ask();
          this.snapshot = 'asked';
          return startingWith(first, events);
        }
      } catch (error) {
        if (!(error instanceof SubscriptionRefused)) {
          this.cancellation.cancel('the gateway could not read the task');
          throw error;
        }
        this.logRefusal(error);
      } finally {
        this.poke();
      }
    }
    await this.ask();
    return undefined;
  }

  private async *subscription(): AsyncGenerator<Passed<StreamResponse>> {
    let events: EventIterator;
    let first: IteratorResult<Passed<StreamResponse>>;
    try {
      const { upstreamId } = this.taskLog.record;
      const subscribed = await this.agent.subscribe(this.caller, { id: upstreamId }, this.exchange);
      events = subscribed[Symbol.asyncIterator]();
      first = await events.next();
    } catch (error) {
      throw isAway(error) ? error : new SubscriptionRefused(error);
    }
    try {
      for (let next = first; !next.done; next = await events.next()) yield next.value;
    } finally {
      events.return?.().catch(() => {});
    }
  }

  private logRefusal({ cause }: SubscriptionRefused): void {
    this.options.log.debug(
      { err: cause, agent: this.agent.name },
      'the agent refused a subscription; polling its task',
    );
  }

  /** Resolves when the task needs no follower any more. `opened` is a stream of the task's events. */
  async run(opened: EventIterator | undefined): Promise<void> {
    const { taskLog } = this;
    let off = (): void => {};
    const look = (): void => void taskLog.recheck().catch(() => {});
    const listening = setTimeout(() => {
      off = this.options.records.onMeddled(taskLog.record, look);
      look();
    }, LONG);
    try {
      if (opened) await this.read(opened);
      if (!this.finished() && (!opened || taskLog.wanted)) await this.poll();
    } catch (error) {
      if (!this.stopped) taskLog.fail(error);
    } finally {
      clearTimeout(listening);
      off();
      this.done();
    }
  }

  private async read(events: EventIterator): Promise<void> {
    try {
      while (!this.finished()) {
        const next = await this.orStopped(events.next());
        if (this.stopped || !next) break;
        if (next.done) {
          await this.closed();
          return;
        }
        await this.take(next.value);
      }
      // The call is not awaited, because an agent that does not end its stream must not delay the follower.
      events.return?.().catch(() => {});
    } catch (error) {
      if (error instanceof SubscriptionRefused) this.logRefusal(error);
      else if (!this.stopped) this.taskLog.fail(error);
      // If an event was refused, the stream would otherwise stay open without a reader.
      events.return?.().catch(() => {});
    }
  }

  /** The agent closed its stream. If the task is not settled, the gateway reads it from the agent once (G-28). */
  private async closed(): Promise<void> {
    if (!this.finished()) await this.ask();
    if (!this.taskLog.pushed) this.done();
    this.taskLog.end();
  }

  async take(event: Passed<StreamResponse>): Promise<void> {
    const { task, statusUpdate, artifactUpdate } = event.value;
    const named = task?.id ?? statusUpdate?.taskId ?? artifactUpdate?.taskId;
    if (named !== undefined && named !== this.taskLog.record.upstreamId) {
      checkId(named);
      this.options.log.warn({ agent: this.agent.name }, 'ignored an event of another task in the stream of a task');
      return;
    }
    if (this.snapshot !== 'streamed' && (await this.settledBySnapshot(event))) return;
    await this.taskLog.publish(eventForClient(event, this.taskLog.record), () => !this.stopped);
  }

  /**
   * Whether the task already contains the event, for a stream without a snapshot. The task that the gateway read may
   * contain events that were in transit at that time. When the task settles, the gateway reads it again, because
   * repeated chunks of an artifact cannot be distinguished.
   */
  private async settledBySnapshot({ value }: Passed<StreamResponse>): Promise<boolean> {
    const { taskLog } = this;
    if (value.task) {
      await taskLog.put(taskForClient({ value: value.task }, taskLog.record).value);
      return true;
    }
    const event = eventForClient({ value }, taskLog.record).value;
    if (this.snapshot === 'asked') {
      if (includes(taskLog.record.task, event)) return true;
      this.snapshot = 'passed';
    }
    if (value.statusUpdate && isSettled(value.statusUpdate.status.state)) {
      await this.ask().catch((error: unknown) => {
        this.options.log.debug({ err: error, agent: this.agent.name }, 'cannot read the settled task from the agent');
      });
      return includes(taskLog.record.task, event);
    }
    return false;
  }

  private async poll(): Promise<void> {
    let wait = ASK.first;
    for (let failures = 0; !this.finished(); ) {
      await this.sleep(wait);
      if (this.stopped || !this.taskLog.wanted) {
        this.done();
        return;
      }
      if (performance.now() - this.began > STALE) this.base = undefined;
      try {
        wait = (await this.ask()) ? ASK.first : Math.min(wait * ASK.growth, ASK.longest);
        failures = 0;
      } catch (error) {
        if (this.stopped) return;
        failures += 1;
        if (failures === FAILURES || !isAway(error)) this.taskLog.fail(error);
        // An agent that no longer knows the task will not know the task later.
        if (error instanceof ProtocolError && error.reason === 'task_not_found') {
          this.done();
          return;
        }
        wait = Math.min(wait * 2, ASK.longestFailing);
      }
    }
    if (!this.stopped) this.taskLog.end();
  }

  private async ask(): Promise<boolean> {
    const { record } = this.taskLog;
    const task = await this.agent.getTask(this.caller, { id: record.upstreamId }, this.exchange);
    return this.taskLog.put(taskForClient(task, record).value);
  }

  private finished(): boolean {
    if (this.stopped) return true;
    if (!this.over()) return false;
    this.done();
    this.taskLog.end();
    return true;
  }
}

/** Reads the events of a task that another replica follows, and takes over when that replica is gone. */
export class ReplicaFollower extends BaseFollower {
  readonly kind = 'tail';

  constructor(
    taskLog: TaskLog,
    options: TaskFollowerOptions,
    /** Starts to follow the task at its agent. */
    private readonly takeOver: () => void,
  ) {
    super(taskLog, options, taskLog.task.status);
  }

  async run(): Promise<void> {
    const { records, lease } = this.options;
    const { taskLog } = this;
    let changed = false;
    const off = records.onChanged(taskLog.record, () => {
      changed = true;
      this.poke();
    });
    if (taskLog.record.task.status.state === 'TASK_STATE_INPUT_REQUIRED') this.hold();
    let heard = performance.now();
    try {
      while (!this.stopped) {
        changed = false;
        try {
          if (await this.look()) return;
          heard = performance.now();
        } catch (error) {
          if (!isBusy(error) || performance.now() - heard > lease * PATIENCE) throw error;
        }
        if (!changed) await this.sleep(lease / 3);
      }
    } catch (error) {
      if (!this.stopped) taskLog.fail(error);
    } finally {
      off();
      this.done();
    }
  }

  /** Returns true when there is nothing more to read. */
  private async look(): Promise<boolean> {
    const { taskLog } = this;
    await this.sync();
    if (this.stopped) return true;
    if (this.over()) {
      this.done();
      taskLog.end();
      return true;
    }
    if (!(await this.orphaned())) return false;
    // Reads the latest stored events before this replica adds its own.
    await this.sync();
    this.takeOver();
    return true;
  }

  private async sync(): Promise<void> {
    const { records } = this.options;
    const { taskLog } = this;
    const before = taskLog.record.seq;
    const record = await records.find(taskLog.record);
    if (!record) throw new ProtocolError('task_not_found', 'Task not found: it is no longer stored');
    if (record.seq <= before) return;
    // The events are read after the record, so they cover at least all events of the record. `adopt` ignores newer
    // events.
    await taskLog.adopt(record, await records.events(record, before));
  }

  /**
   * Whether the task has lost its follower. If so, claims the task for this replica. A task that waits for its client
   * needs no follower.
   */
  private async orphaned(): Promise<boolean> {
    const { taskLog, options } = this;
    if (taskLog.record.task.status.state === 'TASK_STATE_INPUT_REQUIRED') return false;
    return options.records.claimOne(taskLog.record, options.now() + options.lease);
  }
}

/** Whether the agent was unreachable, as opposed to an agent that answered with an error. */
export function isAway(error: unknown): boolean {
  return (
    error instanceof ProtocolError && (error.reason === 'upstream_unavailable' || error.reason === 'upstream_timeout')
  );
}
