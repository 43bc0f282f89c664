import { isTerminal, type StreamResponse, type TaskStatus } from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type Caller, Cancellation } from '../caller.js';
import type { Agent, Exchange, Passed } from './agent.js';
import { checkId } from './checks.js';
import { type A2aLog, type Feed, type Follower, isBusy, PATIENCE } from './feed.js';
import { eventForClient, taskForClient } from './ids.js';
import type { AgentRecords } from './records.js';

export interface FollowParts {
  readonly records: AgentRecords;
  readonly log: A2aLog;
  readonly lease: number;
  /** How long streams stay open for a task that waits for its client. */
  readonly hold: number;
  /** The time of day that replicas share. */
  readonly now: () => number;
}

/** How often an agent that cannot stream is asked (G-40): soon after a change, and ever more rarely after that. */
const ASK = { first: 100, growth: 1.5, longest: 2_000, longestFailing: 30_000 };
const FAILURES = 4;
/** An agent that has just been sent a message may for a moment still show the task as it was before. */
const STALE = 5_000;
/** Who else has a word in a task is listened for once it has taken so long: most do not. */
const LONG = 250;

export const ownExchange = (cancellation = new Cancellation()): Exchange => ({
  cancellation,
  extensions: [],
  forward: {},
});

const sameStatus = (a: TaskStatus, b: TaskStatus): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);

abstract class Following implements Follower {
  abstract readonly kind: 'agent' | 'tail';
  readonly persistent: boolean = false;
  protected stopped = false;
  private ending = false;
  private holding: NodeJS.Timeout | undefined;
  private wake: (() => void) | undefined;

  constructor(
    protected readonly feed: Feed,
    protected readonly parts: FollowParts,
    /** How the task stood before what is followed began: as long as it stands so, nothing has happened. */
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
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** What the work brings; nothing where it is stopped before, since not everybody lets go when told to. */
  protected orStopped<T>(work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.wake = () => {
        if (this.stopped) resolve(undefined);
      };
      work.then(resolve, reject);
    });
  }

  /** Whether the turn is over, and readers know it. One that waits for authorisation is held open for a while (S-63). */
  protected over(): boolean {
    const { status } = this.feed.task;
    if (isTerminal(status.state)) return true;
    if (this.base && sameStatus(this.base, status)) return false;
    if (status.state === 'TASK_STATE_INPUT_REQUIRED') return true;
    if (status.state === 'TASK_STATE_AUTH_REQUIRED') this.hold();
    return false;
  }

  protected hold(): void {
    this.holding ??= setTimeout(() => {
      this.feed.end();
      if (!this.feed.wanted) this.stop();
    }, this.parts.hold);
  }

  protected done(): void {
    this.ending = true;
    clearTimeout(this.holding);
  }
}

/** Follows a task at its agent, by a stream or by asking. */
export class AgentFollower extends Following {
  readonly kind = 'agent';
  private readonly began = performance.now();

  constructor(
    feed: Feed,
    parts: FollowParts,
    private readonly agent: Agent,
    private readonly caller: Caller,
    base: TaskStatus | undefined,
    override readonly persistent: boolean,
    readonly cancellation = new Cancellation(),
  ) {
    super(feed, parts, base);
  }

  get exchange(): Exchange {
    return ownExchange(this.cancellation);
  }

  override stop(): void {
    super.stop();
    this.cancellation.cancel('nobody follows the task any more');
  }

  /** Opens what the agent has to tell of the task, and brings it up to date. Throws where the agent cannot be asked. */
  async open(): Promise<AsyncIterator<Passed<StreamResponse>> | undefined> {
    const { can } = this.agent.known() ?? (await this.agent.facts());
    if (can.subscribe) {
      try {
        const { upstreamId } = this.feed.record;
        const events = await this.agent.subscribe(this.caller, { id: upstreamId }, this.exchange);
        const iterator = events[Symbol.asyncIterator]();
        const first = await iterator.next();
        if (!first.done) {
          const { task } = first.value.value;
          if (task) await this.feed.put(taskForClient({ value: task }, this.feed.record).value);
          else await this.take(first.value);
          return iterator;
        }
      } catch (error) {
        if (isAway(error)) throw error;
        this.parts.log.debug({ err: error, agent: this.agent.name }, 'an agent let nobody subscribe to its task');
      }
    }
    await this.ask();
    return undefined;
  }

  /** Resolves when there is nothing more to follow. `opened` is a stream of the task's events. */
  async run(opened: AsyncIterator<Passed<StreamResponse>> | undefined): Promise<void> {
    const { feed } = this;
    let off = (): void => {};
    const look = (): void => void feed.recheck().catch(() => {});
    const listening = setTimeout(() => {
      off = this.parts.records.onMeddled(feed.record, look);
      look();
    }, LONG);
    try {
      if (opened) await this.read(opened);
      if (!this.finished() && (!opened || feed.wanted)) await this.poll();
    } catch (error) {
      if (!this.stopped) feed.fail(error);
    } finally {
      clearTimeout(listening);
      off();
      this.done();
    }
  }

  private async read(events: AsyncIterator<Passed<StreamResponse>>): Promise<void> {
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
      // Not awaited: an agent that does not let go of its stream holds nobody up.
      events.return?.().catch(() => {});
    } catch (error) {
      if (!this.stopped) this.feed.fail(error);
    }
  }

  /** The agent closed its stream. Where the task does not rest, the agent is asked once what became of it (G-28). */
  private async closed(): Promise<void> {
    if (!this.finished()) await this.ask();
    if (!this.feed.pushed) this.done();
    this.feed.end();
  }

  async take(event: Passed<StreamResponse>): Promise<void> {
    const { task, statusUpdate, artifactUpdate } = event.value;
    const named = task?.id ?? statusUpdate?.taskId ?? artifactUpdate?.taskId;
    if (named !== undefined && named !== this.feed.record.upstreamId) {
      checkId(named);
      this.parts.log.warn({ agent: this.agent.name }, 'an agent told of another task in the stream of this one');
      return;
    }
    await this.feed.publish(eventForClient(event, this.feed.record), () => !this.stopped);
  }

  private async poll(): Promise<void> {
    let wait = ASK.first;
    for (let failures = 0; !this.finished(); ) {
      await this.sleep(wait);
      if (this.stopped || !this.feed.wanted) {
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
        if (failures === FAILURES || !isAway(error)) this.feed.fail(error);
        // Whoever does not know its task any more is not going to.
        if (error instanceof ProtocolError && error.reason === 'task_not_found') {
          this.done();
          return;
        }
        wait = Math.min(wait * 2, ASK.longestFailing);
      }
    }
    if (!this.stopped) this.feed.end();
  }

  private async ask(): Promise<boolean> {
    const { record } = this.feed;
    const task = await this.agent.getTask(this.caller, { id: record.upstreamId }, this.exchange);
    return this.feed.put(taskForClient(task, record).value);
  }

  private finished(): boolean {
    if (this.stopped) return true;
    if (!this.over()) return false;
    this.done();
    this.feed.end();
    return true;
  }
}

/** Reads what another replica writes of a task, and takes over when that one is gone. */
export class TailFollower extends Following {
  readonly kind = 'tail';

  constructor(
    feed: Feed,
    parts: FollowParts,
    /** Follows the task at its agent. */
    private readonly takeOver: () => void,
  ) {
    super(feed, parts, feed.task.status);
  }

  async run(): Promise<void> {
    const { records, lease } = this.parts;
    const { feed } = this;
    let changed = false;
    const off = records.onChanged(feed.record, () => {
      changed = true;
      this.poke();
    });
    if (feed.record.task.status.state === 'TASK_STATE_INPUT_REQUIRED') this.hold();
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
      if (!this.stopped) feed.fail(error);
    } finally {
      off();
      this.done();
    }
  }

  /** True where there is nothing more to read. */
  private async look(): Promise<boolean> {
    const { feed } = this;
    await this.sync();
    if (this.stopped) return true;
    if (this.over()) {
      this.done();
      feed.end();
      return true;
    }
    if (!(await this.orphaned())) return false;
    // What was written since is known before anything is put on top of it.
    await this.sync();
    this.takeOver();
    return true;
  }

  private async sync(): Promise<void> {
    const { records } = this.parts;
    const { feed } = this;
    const before = feed.record.seq;
    const events = await records.events(feed.record, before);
    if (events?.length === 0) return;
    const record = await records.find(feed.record);
    if (!record) throw new ProtocolError('task_not_found', 'Task not found: it is no longer kept');
    await feed.adopt(record, complete(events, before, record.seq));
  }

  /** A task that waits for its client needs no follower. */
  private async orphaned(): Promise<boolean> {
    const { feed, parts } = this;
    if (feed.record.task.status.state === 'TASK_STATE_INPUT_REQUIRED') return false;
    return parts.records.claimOne(feed.record, parts.now() + parts.lease);
  }
}

/** More may have been written between the two readings. */
function complete<T extends { seq: number }>(events: T[] | undefined, after: number, last: number): T[] | undefined {
  return events && events.length >= last - after ? events : undefined;
}

/** The agent could not be asked, as opposed to: it was asked and refused. */
export function isAway(error: unknown): boolean {
  return (
    error instanceof ProtocolError && (error.reason === 'upstream_unavailable' || error.reason === 'upstream_timeout')
  );
}
