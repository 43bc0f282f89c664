import { clientMintsIds } from '../../../protocol/a2a/client-task-ids.js';
import {
  isSettled,
  isTerminal,
  type SendMessageResponse,
  type StreamResponse,
  type Task,
} from '../../../protocol/a2a/model.js';
import type { JsonValue } from '../../../protocol/jsonrpc/raw.js';
import { Cancellation } from '../../caller.js';
import type { Events, Exchange, Passed } from '../agent.js';
import type { AgentAnswer } from '../gateway.js';
import type { Callbacks } from '../push/callbacks.js';
import type { Pushes } from '../push/push-notifications.js';
import { invalidAnswer, withHistory } from './checks.js';
import type { Turn, Turns } from './message-preparer.js';
import type { Slots } from './stream-slots.js';
import { type AgentFollower, ownExchange } from './task-follower.js';
import { eventForClient, messageForClient } from './task-ids.js';
import type { Feed } from './task-log.js';
import type { Feeds } from './task-logs.js';
import type { Reader } from './task-reader.js';
import type { AgentRecords, TaskRecord } from './task-records.js';

export interface SendingParts {
  readonly turns: Turns;
  readonly feeds: Feeds;
  readonly slots: Slots;
  readonly records: AgentRecords;
  readonly pushes: Pushes | undefined;
  readonly callbacks: Pick<Callbacks, 'ask'> | undefined;
  /** How long a call may take, in milliseconds. */
  readonly callTime: number;
}

type Upstream = AsyncIterator<Passed<StreamResponse>>;

/** Messages to agents: answered, or told as they are worked on. */
export class Sending {
  constructor(private readonly parts: SendingParts) {}

  async send(turn: Turn): Promise<AgentAnswer> {
    const began = performance.now();
    const answer = await turn.agent.send(turn.caller, turn.request, this.exchange(turn));
    const { message, task } = answer.value;
    if (message) return this.reply(turn, answer);
    if (!task) invalidAnswer('The agent answered with neither a task nor a message');
    const record = this.parts.turns.recordOf(turn, task);
    const shown = this.parts.turns.shown({ value: task }, record).value;
    return this.parts.feeds.with(record, async (feed) => {
      const waits = !turn.returnImmediately && !isSettled(shown.status.state);
      await this.take(turn, feed, shown, waits);
      if (waits) {
        const { cancellation } = turn.call.exchange;
        await feed.rest(Math.max(0, began + this.parts.callTime - performance.now()), cancellation);
      }
      const { task: now } = feed;
      const cut = withHistory(now, turn.historyLength);
      const unchanged = cut === task && answer.text !== undefined;
      return result(unchanged ? answer : { value: { task: cut } }, turn, feed.record);
    });
  }

  async stream(turn: Turn): Promise<AgentAnswer> {
    const release = this.parts.slots.take(turn.caller);
    try {
      const { can } = turn.agent.known() ?? (await turn.agent.facts());
      return can.stream ? await this.streamed(turn, release) : await this.emulated(turn, release);
    } catch (error) {
      release();
      throw error;
    }
  }

  private async streamed(turn: Turn, release: () => void): Promise<AgentAnswer> {
    // The client's leaving is no reason to let go of the agent's stream (G-25): it has a cancellation of its own.
    const cancellation = new Cancellation();
    const events = await turn.agent.stream(turn.caller, turn.request, { ...turn.call.exchange, cancellation });
    const upstream = events[Symbol.asyncIterator]();
    try {
      // What fails before the first event is refused as a plain call would be (S-45).
      const first = await upstream.next();
      if (first.done) invalidAnswer('The agent closed its stream without a word');
      if (!first.value.value.message) return await this.begin(turn, first.value, upstream, cancellation, release);
      upstream.return?.().catch(() => {});
      release();
      return this.replied(turn, first.value);
    } catch (error) {
      cancellation.cancel('the stream is of no use');
      throw error;
    }
  }

  /** G-40: the agent cannot stream, so it is sent the message and then asked. */
  private async emulated(turn: Turn, release: () => void): Promise<AgentAnswer> {
    const { request, caller, agent } = turn;
    const configuration = { ...request.value.configuration, returnImmediately: true };
    const answer = await agent.send(caller, { value: { ...request.value, configuration } }, this.exchange(turn));
    if (!answer.value.message) return this.begin(turn, answer, undefined, undefined, release);
    release();
    return this.replied(turn, answer);
  }

  /** The first event of a task's stream. */
  private begin(
    turn: Turn,
    first: Passed<StreamResponse>,
    upstream: Upstream | undefined,
    cancellation: Cancellation | undefined,
    release: () => void,
  ): Promise<AgentAnswer> {
    const { turns, feeds } = this.parts;
    const task = first.value.task ?? made(turn, first.value);
    const record = turns.recordOf(turn, task);
    const shown = turns.shown({ value: task }, record).value;
    return feeds.with(record, async (feed) => {
      const follower = feeds.attach(feed, turn.agent, turn.caller, {
        base: turn.record?.task.status,
        persistent: upstream !== undefined,
        ...(cancellation && { cancellation }),
      });
      const reading = { historyLength: turn.historyLength, left: release };
      try {
        await this.register(turn, feed);
        if (feed.kept) {
          // A task that is gone on with begins with how it stands.
          if (first.value.task) await feed.put(shown);
          const reader = feed.read({ ...reading, snapshot: true });
          if (!first.value.task) await follower.take(first);
          return this.follow(turn, feed, follower, upstream, reader);
        }
        const reader = feed.read({ ...reading, snapshot: false });
        await feed.put(shown, shown === first.value.task ? first : { value: { ...rest(first.value), task: shown } });
        if (first.value.artifactUpdate) await feed.publish(eventForClient(first, record));
        return this.follow(turn, feed, follower, upstream, reader);
      } catch (error) {
        follower.stop();
        await feeds.detach(feed, follower);
        await this.unregister(turn, feed);
        feed.fail(error);
        throw error;
      }
    });
  }

  private follow(
    turn: Turn,
    feed: Feed,
    follower: AgentFollower,
    upstream: Upstream | undefined,
    events: Reader,
  ): AgentAnswer {
    events.until(turn.call.exchange.cancellation);
    this.parts.feeds.run(feed, follower, upstream);
    return { kind: 'stream', events, createdIn: feed.record.dialect, ...extensionsOf(turn) };
  }

  /** Takes the task that an agent answered with, and follows it where somebody waits for what becomes of it. */
  private async take(turn: Turn, feed: Feed, task: Task, waits: boolean): Promise<void> {
    const { feeds } = this.parts;
    const { caller, agent } = turn;
    const open = !isSettled(task.status.state);
    const ours = feed.follower?.kind === 'agent';
    let follower: AgentFollower | undefined;
    try {
      await this.register(turn, feed);
      // What the agent answers is newer than what its stream has told so far, and is not to be told by both.
      if (open && (waits || (ours && feed.wanted))) follower = feeds.attach(feed, agent, caller);
      else feeds.release(feed);
      await feed.put(task, { value: { task } });
    } catch (error) {
      if (follower) {
        follower.stop();
        await feeds.detach(feed, follower);
      }
      await this.unregister(turn, feed);
      throw error;
    }
    if (!open) {
      feed.end();
      return;
    }
    if (feed.pushed) feed.called = await this.callBack(turn, feed);
    if (feed.called && !follower) await feeds.called(feed);
    if (follower) feeds.run(feed, follower, await follower.open().catch(() => undefined));
    else if (feed.wanted) await this.watch(turn, feed);
  }

  private async watch({ agent, caller }: Turn, feed: Feed): Promise<void> {
    const { feeds } = this.parts;
    try {
      (await feeds.watch(feed, agent, caller))();
    } catch {
      await feeds.away(feed);
    }
  }

  /** A configuration that came with the message is there before the first change it is to be told of. */
  private async register(turn: Turn, feed: Feed): Promise<void> {
    const { pushes, records } = this.parts;
    const { push, caller, call } = turn;
    if (push && pushes) {
      await pushes.create(caller, feed.record, push, call.dialect, call.exchange);
      feed.pushed = true;
    } else if (feed.kept && !feed.pushed) {
      feed.pushed = (await records.pushes(feed.record)).length > 0;
    }
  }

  private async unregister({ push, caller }: Turn, feed: Feed): Promise<void> {
    if (!push || feed.kept) return;
    const id = push.id || feed.record.id;
    await this.parts.pushes?.remove(caller, feed.record, { taskId: feed.record.id, id }).catch(() => {});
  }

  private async callBack({ agent, caller }: Turn, feed: Feed): Promise<boolean> {
    const { callbacks } = this.parts;
    if (!callbacks || isTerminal(feed.record.task.status.state)) return false;
    return callbacks.ask(agent, caller, feed.record, ownExchange());
  }

  /** A message and nothing else: no task, so nothing to keep. */
  private async reply(turn: Turn, answer: Passed<SendMessageResponse>): Promise<AgentAnswer> {
    const task = await this.replyAsTask(turn, answer);
    if (task) return result({ value: { task: withHistory(task.task, turn.historyLength) } }, turn, task);
    return result(this.renamed(turn, answer), turn, turn.record);
  }

  private async replied(turn: Turn, event: Passed<StreamResponse>): Promise<AgentAnswer> {
    const task = await this.replyAsTask(turn, event);
    const only = task ? { value: { task: withHistory(task.task, turn.historyLength) } } : this.renamed(turn, event);
    return { kind: 'stream', events: once(only), ...extensionsOf(turn) };
  }

  private async replyAsTask(turn: Turn, { value }: Passed<StreamResponse>): Promise<TaskRecord | undefined> {
    const { turns, feeds } = this.parts;
    const message = value.message;
    if (!message) return undefined;
    turns.checkReply(turn, message);
    if (turn.chosenId === undefined || !clientMintsIds(turn.call.dialect)) return undefined;
    const record = turns.finished(turn, message);
    return feeds.with(record, async (feed) => {
      await this.register(turn, feed);
      await feed.put(record.task);
      return feed.record;
    });
  }

  private renamed<T extends SendMessageResponse>({ record }: Turn, answer: Passed<T>): Passed<T> {
    const { message } = answer.value;
    if (!record || !message) return answer;
    const named = messageForClient(message, record);
    return named === message ? answer : { value: { ...answer.value, message: named } };
  }

  /** What an agent was sent goes on without the client: its answer is kept for when that one comes back (G-25). */
  private exchange({ call }: Turn): Exchange {
    return { ...call.exchange, cancellation: new Cancellation() };
  }
}

async function* once(event: Passed<StreamResponse>): Events & AsyncGenerator<Passed<StreamResponse>> {
  yield event;
}

/** G-28: a stream that does not begin with its task is given one, of what is known. */
function made({ message, contextId, record }: Turn, { statusUpdate, artifactUpdate }: StreamResponse): Task {
  const event = statusUpdate ?? artifactUpdate;
  if (!event?.taskId) invalidAnswer('The agent told of no task');
  const context = event.contextId || contextId;
  const status = statusUpdate?.status ?? { state: 'TASK_STATE_WORKING' };
  const named = { taskId: event.taskId, ...(context && { contextId: context }) };
  return {
    ...{ id: event.taskId, status },
    ...(context && { contextId: context }),
    ...(!record && { history: [{ ...message, ...named }] }),
  };
}

function rest({ statusUpdate: _, artifactUpdate: __, ...others }: StreamResponse): StreamResponse {
  return others;
}

function result(answer: Passed<SendMessageResponse>, turn: Turn, record: TaskRecord | undefined): AgentAnswer {
  return {
    kind: 'result',
    result: answer as Passed<JsonValue>,
    ...(record && { createdIn: record.dialect }),
    ...extensionsOf(turn),
  };
}

/** S-14: the extensions that were asked for and that the agent has. */
function extensionsOf({ call, agent }: Turn): { readonly extensions?: readonly string[] } {
  const { extensions: asked } = call.exchange;
  if (asked.length === 0) return {};
  const offered = agent.known()?.card.capabilities?.extensions ?? [];
  return { extensions: asked.filter((uri) => offered.some((extension) => extension.uri === uri)) };
}
