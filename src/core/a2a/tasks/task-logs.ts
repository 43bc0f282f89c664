import { isSettled, isTerminal, type StreamResponse, type TaskStatus } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { type Caller, type Cancellation, GATEWAY, ownerOf } from '../../caller.js';
import type { Agent, Passed } from '../agent.js';
import { AgentFollower, type FollowParts, isAway, ownExchange, TailFollower } from './task-follower.js';
import { taskForClient } from './task-ids.js';
import { Feed, type FeedKeeper, type FeedParts, isBusy } from './task-log.js';
import { keyOf, type TaskKey, type TaskRecord } from './task-records.js';

export interface FeedsParts extends FeedParts, FollowParts {
  agent(name: string): Agent | undefined;
}

export interface Attachment {
  /** How the task stood before the message that is followed. */
  readonly base?: TaskStatus | undefined;
  readonly persistent?: boolean;
  /** The claim to follow it is written already. */
  readonly held?: boolean;
  /** Lets go of the stream that was opened already. */
  readonly cancellation?: Cancellation;
}

/** Tasks of dead replicas that are taken over at once; the rest waits for the next round. */
const CLAIMS = 50;
/** How often it is looked after tasks of which their agents should tell by themselves, or whose agents are away. */
const LOOK = { called: 30_000, away: 30_000 };

const nameOf = ({ agent, owner, id }: TaskKey): string => JSON.stringify([agent, owner, id]);
const callerOf = (owner: string): Caller => ({ ...GATEWAY, principal: ownerOf(owner) });

/** The tasks that something happens to in this process, and who tells of them. */
export class Feeds {
  private readonly feeds = new Map<string, Feed>();
  /** Claims that are just being given up: whoever wants one of them waits for that. */
  private readonly leaving = new Map<string, Promise<void>>();
  private beat: NodeJS.Timeout | undefined;
  private beating: Promise<void> = Promise.resolve();
  private closed = false;
  /** Claimed and not followed yet. */
  private readonly inheriting = new Map<string, TaskKey>();
  private readonly keeper: FeedKeeper = { idle: (feed) => this.tidy(feed), lost: (feed) => this.lost(feed) };

  constructor(private readonly parts: FeedsParts) {}

  get(key: TaskKey): Feed | undefined {
    return this.feeds.get(nameOf(key));
  }

  /** Whether a replica, this one or another, follows the task, as far as its record tells. */
  claimed({ followedUntil }: TaskRecord): boolean {
    return (followedUntil ?? 0) > this.parts.now();
  }

  /** The feed of a task, for the time of `work` at least. A new task's record has the number 0. */
  async with<T>(record: TaskRecord, work: (feed: Feed) => Promise<T>): Promise<T> {
    const name = nameOf(record);
    const feed = this.feeds.get(name) ?? new Feed(record, this.parts, this.keeper);
    this.feeds.set(name, feed);
    feed.users += 1;
    try {
      return await work(feed);
    } finally {
      feed.users -= 1;
      this.tidy(feed);
    }
  }

  /** From now on this replica follows the task; who did so before no longer does. */
  attach(feed: Feed, agent: Agent, caller: Caller, how: Attachment = {}): AgentFollower {
    feed.follower?.stop();
    const { base, persistent = false, held = false, cancellation } = how;
    const follower = new AgentFollower(feed, this.parts, agent, caller, base, persistent, cancellation);
    feed.follower = follower;
    feed.held = held;
    return follower;
  }

  /** Nobody follows the task here from now on. */
  release(feed: Feed): void {
    const { follower } = feed;
    if (!follower) return;
    follower.stop();
    feed.follower = undefined;
    feed.held = false;
    if (follower.kind === 'agent') void this.letGo(feed.record);
  }

  run(feed: Feed, follower: AgentFollower, opened: AsyncIterator<Passed<StreamResponse>> | undefined): void {
    void follower.run(opened).finally(() => this.detach(feed, follower));
  }

  async detach(feed: Feed, follower: AgentFollower): Promise<void> {
    if (feed.follower !== follower) return;
    feed.follower = undefined;
    feed.held = false;
    this.tidy(feed);
    await this.letGo(feed.record);
  }

  /** The agent tells of the task by itself. It is looked after nevertheless, now and then: what it posts may get lost. */
  async called(feed: Feed): Promise<void> {
    await this.parts.records.remind(feed.record, this.parts.now() + LOOK.called);
  }

  /** The agent is away at this moment, and is asked later: the task is due for whoever looks next. */
  async away(feed: Feed): Promise<void> {
    await this.parts.records.remind(feed.record, this.parts.now());
  }

  /** Another replica follows the task by now: here it is read what that one writes. */
  private lost(feed: Feed): void {
    const { follower, record } = feed;
    if (follower?.kind !== 'agent') return;
    follower.stop();
    feed.follower = undefined;
    const agent = this.parts.agent(record.agent);
    const open = !isTerminal(record.task.status.state);
    if (open && feed.heard && agent && !this.closed) this.tail(feed, agent, callerOf(record.owner))();
    else this.tidy(feed);
  }

  /** Gives up the claim to follow a task. */
  private letGo(record: TaskRecord): Promise<void> {
    if (this.closed || record.seq === 0 || isTerminal(record.task.status.state)) return Promise.resolve();
    const name = nameOf(record);
    const leaving = this.dueAgain(record)
      .then((due) => this.parts.records.letGo([keyOf(record)], due))
      .catch((error: unknown) => {
        this.parts.log.debug({ err: error }, 'a task that needs no follower was not let go; its claim lapses');
      })
      .finally(() => {
        if (this.leaving.get(name) === leaving) this.leaving.delete(name);
      });
    this.leaving.set(name, leaving);
    return leaving;
  }

  /** Who is to be notified of a task may have registered at another replica, which may be gone by now. */
  private async dueAgain(record: TaskRecord): Promise<number | null> {
    if (isSettled(record.task.status.state)) return null;
    return (await this.parts.records.pushes(record)).length > 0 ? this.parts.now() + LOOK.called : null;
  }

  /**
   * Sees to it that the feed gets the task's news: from the agent, or from the replica that follows it already. Rejects
   * where the agent cannot be asked. Nothing is told before what this resolves with is called.
   */
  async watch(feed: Feed, agent: Agent, caller: Caller): Promise<() => void> {
    const nothing = (): void => {};
    if (feed.follower?.active) return nothing;
    this.release(feed);
    await this.leaving.get(nameOf(feed.record));
    const waits = feed.record.task.status.state === 'TASK_STATE_INPUT_REQUIRED';
    if (waits || !(await this.parts.records.claimOne(feed.record, this.parts.now() + this.parts.lease))) {
      return feed.follower?.active ? nothing : this.tail(feed, agent, caller);
    }
    if (feed.follower?.active) return nothing;
    const follower = this.attach(feed, agent, caller, { held: true });
    try {
      const opened = await follower.open();
      return () => this.run(feed, follower, opened);
    } catch (error) {
      await this.detach(feed, follower);
      throw error;
    }
  }

  /** Begins to take over what dead replicas followed. */
  start(): void {
    if (this.beat || this.closed) return;
    const round = (): void => {
      this.beating = this.beating.then(() => this.round());
    };
    this.beat = setInterval(round, this.parts.lease / 3).unref();
    round();
  }

  /** Lets go of everything: what this replica followed is due for another at once. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.beat);
    const feeds = [...this.feeds.values()];
    const followed = [...this.followed(), ...this.inheriting.values()];
    for (const feed of feeds) feed.follower?.stop();
    await this.beating;
    await Promise.all(feeds.map((feed) => feed.flush().catch(() => {})));
    for (const feed of feeds) {
      feed.drop();
      feed.end();
    }
    await this.parts.records.letGo(followed, this.parts.now()).catch(() => {});
    this.feeds.clear();
  }

  private tail(feed: Feed, agent: Agent, caller: Caller): () => void {
    const follower = new TailFollower(feed, this.parts, () => {
      if (feed.follower !== follower || this.closed) return;
      const next = this.attach(feed, agent, caller, { held: true });
      next.open().then(
        (opened) => this.run(feed, next, opened),
        (error: unknown) => {
          feed.fail(error);
          return this.detach(feed, next);
        },
      );
    });
    feed.follower = follower;
    return () =>
      void follower.run().finally(() => {
        if (feed.follower === follower) feed.follower = undefined;
        this.tidy(feed);
      });
  }

  private tidy(feed: Feed): void {
    if (feed.users > 0) return;
    const { follower } = feed;
    if (follower && !follower.persistent && !feed.wanted) follower.stop();
    const name = nameOf(feed.record);
    if (!feed.inUse && this.feeds.get(name) === feed) this.feeds.delete(name);
  }

  private followed(): TaskKey[] {
    const own = [...this.feeds.values()].filter(({ follower, held, record }) => {
      return follower?.kind === 'agent' && held && !isTerminal(record.task.status.state);
    });
    return own.map(({ record }) => keyOf(record));
  }

  private async round(): Promise<void> {
    const { records, lease, log, now } = this.parts;
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
      // Not waited for: an agent that takes its time must not cost this replica its other claims.
      for (const record of due) void this.inherit(record);
    } catch (error) {
      log.warn({ err: error }, 'the tasks of other replicas were not looked after');
    }
  }

  /** Claims what is followed here although nothing has been written of it since. */
  private async claim(): Promise<void> {
    const { records, lease, now } = this.parts;
    for (const feed of this.feeds.values()) {
      const { follower, record } = feed;
      const own = follower?.kind === 'agent' && follower.active && feed.kept && !feed.held;
      if (own && !isSettled(record.task.status.state) && (await records.claimOne(record, now() + lease)))
        feed.held = feed.follower === follower;
    }
  }

  private async inherit(record: TaskRecord): Promise<void> {
    const name = nameOf(record);
    this.inheriting.set(name, keyOf(record));
    let due: number | null | undefined;
    try {
      due = await this.with(record, (feed) => this.takeOver(feed, record));
    } catch (error) {
      this.parts.log.debug({ err: error, agent: record.agent }, 'a task of another replica was not brought up to date');
      // Who was asked and refused is not asked again.
      if (isAway(error)) due = this.parts.now() + LOOK.away;
      else if (error instanceof ProtocolError && !isBusy(error)) due = null;
    } finally {
      this.inheriting.delete(name);
    }
    // Where this fails its claim lapses, and the next round tries again.
    if (due !== undefined && !this.closed) await this.parts.records.letGo([keyOf(record)], due).catch(() => {});
  }

  /**
   * A task whose replica is gone: followed on where somebody waits for its news, else just brought up to date. Returns when
   * it is to be looked at again; undefined where it is followed from now on.
   */
  private async takeOver(feed: Feed, record: TaskRecord): Promise<number | null | undefined> {
    const { records, now } = this.parts;
    const agent = this.parts.agent(record.agent);
    if (!agent) return now() + LOOK.away;
    const caller = callerOf(record.owner);
    if (feed.follower?.kind === 'agent' && feed.follower.active) {
      feed.held = true;
      return undefined;
    }
    if (record.seq > feed.record.seq) await feed.adopt(record, await records.events(record, feed.record.seq));
    feed.pushed ||= (await records.pushes(record)).length > 0;
    // The agent may have been asked to call back, and nobody may have heard it: the address may be a dead replica's own.
    feed.called = false;
    if (feed.wanted) {
      const follower = this.attach(feed, agent, caller, { held: true });
      const opened = await follower.open().catch((error: unknown) => {
        if (!isAway(error)) feed.fail(error);
        return undefined;
      });
      this.run(feed, follower, opened);
      return undefined;
    }
    const task = await agent.getTask(caller, { id: record.upstreamId }, ownExchange());
    await feed.put(taskForClient(task, record).value);
    return null;
  }
}
