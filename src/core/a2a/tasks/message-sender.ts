import { clientChoosesTaskIds } from '../../../protocol/a2a/client-task-ids.js';
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
import type { Callbacks } from '../push/agent-callback-urls.js';
import type { PushNotifications } from '../push/push-notifications.js';
import { invalidAnswer, withHistory } from './message-checks.js';
import type { MessagePreparer, PreparedMessage } from './message-preparer.js';
import type { StreamSlots } from './stream-slots.js';
import { type AgentFollower, ownExchange } from './task-follower.js';
import { eventForClient, messageForClient } from './task-ids.js';
import type { TaskLog } from './task-log.js';
import type { TaskLogs } from './task-logs.js';
import type { TaskReader } from './task-reader.js';
import type { AgentRecords, TaskRecord } from './task-records.js';

export interface MessageSenderOptions {
  readonly preparer: MessagePreparer;
  readonly taskLogs: TaskLogs;
  readonly slots: StreamSlots;
  readonly records: AgentRecords;
  readonly pushes: PushNotifications | undefined;
  readonly callbacks: Pick<Callbacks, 'ask'> | undefined;
  /** The longest duration of a call, in milliseconds. */
  readonly callTime: number;
}

type Upstream = AsyncIterator<Passed<StreamResponse>>;

/** Sends messages to agents, as blocking calls or as streams. */
export class MessageSender {
  constructor(private readonly options: MessageSenderOptions) {}

  async send(prepared: PreparedMessage): Promise<AgentAnswer> {
    const began = performance.now();
    const answer = await prepared.agent.send(prepared.caller, prepared.request, this.exchange(prepared));
    const { message, task } = answer.value;
    if (message) return this.reply(prepared, answer);
    if (!task) invalidAnswer('The agent answered with neither a task nor a message');
    const record = this.options.preparer.recordOf(prepared, task);
    const shown = this.options.preparer.shown({ value: task }, record).value;
    return this.options.taskLogs.with(record, async (taskLog) => {
      const waits = !prepared.returnImmediately && !isSettled(shown.status.state);
      await this.take(prepared, taskLog, shown, waits);
      if (waits) {
        const { cancellation } = prepared.call.exchange;
        await taskLog.untilSettled(Math.max(0, began + this.options.callTime - performance.now()), cancellation);
      }
      const { task: now } = taskLog;
      const cut = withHistory(now, prepared.historyLength);
      const unchanged = cut === task && answer.text !== undefined;
      return result(unchanged ? answer : { value: { task: cut } }, prepared, taskLog.record);
    });
  }

  async stream(prepared: PreparedMessage): Promise<AgentAnswer> {
    const release = this.options.slots.take(prepared.caller);
    try {
      const { can } = prepared.agent.known() ?? (await prepared.agent.facts());
      return can.stream ? await this.streamed(prepared, release) : await this.emulated(prepared, release);
    } catch (error) {
      release();
      throw error;
    }
  }

  private async streamed(prepared: PreparedMessage, release: () => void): Promise<AgentAnswer> {
    // The agent's stream has a cancellation of its own, because it stays open when the client leaves (G-25).
    const cancellation = new Cancellation();
    const events = await prepared.agent.stream(prepared.caller, prepared.request, {
      ...prepared.call.exchange,
      cancellation,
    });
    const upstream = events[Symbol.asyncIterator]();
    try {
      // An error before the first event is the error of the call (S-45).
      const first = await upstream.next();
      if (first.done) invalidAnswer('The agent closed its stream without an event');
      if (!first.value.value.message) return await this.begin(prepared, first.value, upstream, cancellation, release);
      upstream.return?.().catch(() => {});
      release();
      return this.replied(prepared, first.value);
    } catch (error) {
      cancellation.cancel('the stream could not be used');
      throw error;
    }
  }

  /** G-40: the agent cannot stream, so the gateway sends the message and polls the task. */
  private async emulated(prepared: PreparedMessage, release: () => void): Promise<AgentAnswer> {
    const { request, caller, agent } = prepared;
    const configuration = { ...request.value.configuration, returnImmediately: true };
    const answer = await agent.send(caller, { value: { ...request.value, configuration } }, this.exchange(prepared));
    if (!answer.value.message) return this.begin(prepared, answer, undefined, undefined, release);
    release();
    return this.replied(prepared, answer);
  }

  /** Handles the first event of a task's stream. */
  private begin(
    prepared: PreparedMessage,
    first: Passed<StreamResponse>,
    upstream: Upstream | undefined,
    cancellation: Cancellation | undefined,
    release: () => void,
  ): Promise<AgentAnswer> {
    const { preparer, taskLogs } = this.options;
    const task = first.value.task ?? made(prepared, first.value);
    const record = preparer.recordOf(prepared, task);
    const shown = preparer.shown({ value: task }, record).value;
    return taskLogs.with(record, async (taskLog) => {
      const follower = taskLogs.attach(taskLog, prepared.agent, prepared.caller, {
        base: prepared.record?.task.status,
        persistent: upstream !== undefined,
        ...(cancellation && { cancellation }),
      });
      const reading = { historyLength: prepared.historyLength, left: release };
      try {
        await this.register(prepared, taskLog);
        if (taskLog.kept) {
          // The stream of a continued task begins with the current task.
          if (first.value.task) await taskLog.put(shown);
          const reader = taskLog.read({ ...reading, snapshot: true });
          if (!first.value.task) await follower.take(first);
          return this.follow(prepared, taskLog, follower, upstream, reader);
        }
        const reader = taskLog.read({ ...reading, snapshot: false });
        await taskLog.put(shown, shown === first.value.task ? first : { value: { ...rest(first.value), task: shown } });
        if (first.value.artifactUpdate) await taskLog.publish(eventForClient(first, record));
        return this.follow(prepared, taskLog, follower, upstream, reader);
      } catch (error) {
        follower.stop();
        await taskLogs.detach(taskLog, follower);
        await this.unregister(prepared, taskLog);
        taskLog.fail(error);
        throw error;
      }
    });
  }

  private follow(
    prepared: PreparedMessage,
    taskLog: TaskLog,
    follower: AgentFollower,
    upstream: Upstream | undefined,
    events: TaskReader,
  ): AgentAnswer {
    events.until(prepared.call.exchange.cancellation);
    this.options.taskLogs.run(taskLog, follower, upstream);
    return { kind: 'stream', events, createdIn: taskLog.record.dialect, ...extensionsOf(prepared) };
  }

  /** Applies the task of an agent's answer, and follows the task if a client or a webhook waits for updates. */
  private async take(prepared: PreparedMessage, taskLog: TaskLog, task: Task, waits: boolean): Promise<void> {
    const { taskLogs } = this.options;
    const { caller, agent } = prepared;
    const open = !isSettled(task.status.state);
    const ours = taskLog.follower?.kind === 'agent';
    let follower: AgentFollower | undefined;
    try {
      await this.register(prepared, taskLog);
      // The answer is newer than the events of the old stream, so a new follower replaces the old follower. Otherwise
      // both followers would publish the same change.
      if (open && (waits || (ours && taskLog.wanted))) follower = taskLogs.attach(taskLog, agent, caller);
      else taskLogs.release(taskLog);
      await taskLog.put(task, { value: { task } });
    } catch (error) {
      if (follower) {
        follower.stop();
        await taskLogs.detach(taskLog, follower);
      }
      await this.unregister(prepared, taskLog);
      throw error;
    }
    if (!open) {
      taskLog.end();
      return;
    }
    if (taskLog.pushed) taskLog.called = await this.callBack(prepared, taskLog);
    if (taskLog.called && !follower) await taskLogs.called(taskLog);
    if (follower) taskLogs.run(taskLog, follower, await follower.open().catch(() => undefined));
    else if (taskLog.wanted) await this.watch(prepared, taskLog);
  }

  private async watch({ agent, caller }: PreparedMessage, taskLog: TaskLog): Promise<void> {
    const { taskLogs } = this.options;
    try {
      (await taskLogs.watch(taskLog, agent, caller))();
    } catch {
      await taskLogs.away(taskLog);
    }
  }

  /** Registers the push configuration of the message before the first change that its webhook must get. */
  private async register(prepared: PreparedMessage, taskLog: TaskLog): Promise<void> {
    const { pushes, records } = this.options;
    const { push, caller, call } = prepared;
    if (push && pushes) {
      await pushes.create(caller, taskLog.record, push, call.dialect, call.exchange);
      taskLog.pushed = true;
    } else if (taskLog.kept && !taskLog.pushed) {
      taskLog.pushed = (await records.pushes(taskLog.record)).length > 0;
    }
  }

  private async unregister({ push, caller }: PreparedMessage, taskLog: TaskLog): Promise<void> {
    if (!push || taskLog.kept) return;
    const id = push.id || taskLog.record.id;
    await this.options.pushes?.remove(caller, taskLog.record, { taskId: taskLog.record.id, id }).catch(() => {});
  }

  private async callBack({ agent, caller }: PreparedMessage, taskLog: TaskLog): Promise<boolean> {
    const { callbacks } = this.options;
    if (!callbacks || isTerminal(taskLog.record.task.status.state)) return false;
    return callbacks.ask(agent, caller, taskLog.record, ownExchange());
  }

  /** Returns a reply without a task. Nothing is stored. */
  private async reply(prepared: PreparedMessage, answer: Passed<SendMessageResponse>): Promise<AgentAnswer> {
    const task = await this.replyAsTask(prepared, answer);
    if (task) return result({ value: { task: withHistory(task.task, prepared.historyLength) } }, prepared, task);
    return result(this.renamed(prepared, answer), prepared, prepared.record);
  }

  private async replied(prepared: PreparedMessage, event: Passed<StreamResponse>): Promise<AgentAnswer> {
    const task = await this.replyAsTask(prepared, event);
    const only = task
      ? { value: { task: withHistory(task.task, prepared.historyLength) } }
      : this.renamed(prepared, event);
    return { kind: 'stream', events: once(only), ...extensionsOf(prepared) };
  }

  private async replyAsTask(
    prepared: PreparedMessage,
    { value }: Passed<StreamResponse>,
  ): Promise<TaskRecord | undefined> {
    const { preparer, taskLogs } = this.options;
    const message = value.message;
    if (!message) return undefined;
    preparer.checkReply(prepared, message);
    if (prepared.chosenId === undefined || !clientChoosesTaskIds(prepared.call.dialect)) return undefined;
    const record = preparer.finished(prepared, message);
    return taskLogs.with(record, async (taskLog) => {
      await this.register(prepared, taskLog);
      await taskLog.put(record.task);
      return taskLog.record;
    });
  }

  private renamed<T extends SendMessageResponse>({ record }: PreparedMessage, answer: Passed<T>): Passed<T> {
    const { message } = answer.value;
    if (!record || !message) return answer;
    const named = messageForClient(message, record);
    return named === message ? answer : { value: { ...answer.value, message: named } };
  }

  /**
   * The exchange for a sent message. A message continues if its client leaves, and the answer is stored for a later
   * read (G-25).
   */
  private exchange({ call }: PreparedMessage): Exchange {
    return { ...call.exchange, cancellation: new Cancellation() };
  }
}

async function* once(event: Passed<StreamResponse>): Events & AsyncGenerator<Passed<StreamResponse>> {
  yield event;
}

/** G-28: makes the task for a stream that does not begin with one. */
function made({ message, contextId, record }: PreparedMessage, { statusUpdate, artifactUpdate }: StreamResponse): Task {
  const event = statusUpdate ?? artifactUpdate;
  if (!event?.taskId) invalidAnswer('The first event of the agent has no task id');
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

function result(
  answer: Passed<SendMessageResponse>,
  prepared: PreparedMessage,
  record: TaskRecord | undefined,
): AgentAnswer {
  return {
    kind: 'result',
    result: answer as Passed<JsonValue>,
    ...(record && { createdIn: record.dialect }),
    ...extensionsOf(prepared),
  };
}

/** S-14: the requested extensions that the agent supports. */
function extensionsOf({ call, agent }: PreparedMessage): { readonly extensions?: readonly string[] } {
  const { extensions: asked } = call.exchange;
  if (asked.length === 0) return {};
  const offered = agent.known()?.card.capabilities?.extensions ?? [];
  return { extensions: asked.filter((uri) => offered.some((extension) => extension.uri === uri)) };
}
