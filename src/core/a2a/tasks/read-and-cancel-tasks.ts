import { createHash } from 'node:crypto';
import {
  type CancelTaskRequest,
  type GetTaskRequest,
  isTerminal,
  type ListTasksRequest,
  type ListTasksResponse,
  type SubscribeToTaskRequest,
  TASK_STATES,
  type Task,
} from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { JsonValue } from '../../../protocol/jsonrpc/raw.js';
import type { Log } from '../../../telemetry/log.js';
import { type Caller, Cancellation } from '../../caller.js';
import { type Seal, SealBroken } from '../../seal.js';
import { within } from '../../timing.js';
import type { Agent, Exchange, Passed } from '../agent.js';
import type { AgentAnswer, AgentCall } from '../gateway.js';
import { checkHistoryLength, refuse, withHistory } from './message-checks.js';
import type { StreamSlots } from './stream-slots.js';
import { ownExchange } from './task-follower.js';
import { taskForClient } from './task-ids.js';
import type { TaskLog } from './task-log.js';
import type { TaskLogs } from './task-logs.js';
import type { AgentRecords, TaskFilter, TaskRecord } from './task-records.js';

export interface ExistingTasksOptions {
  readonly records: AgentRecords;
  readonly taskLogs: TaskLogs;
  readonly slots: StreamSlots;
  readonly seal: Seal;
  readonly log: Log;
  /** How long a read waits for the agent before the gateway answers with the stored task. */
  readonly refreshTime: number;
}

const PAGE = { standard: 50, most: 100 };
const CURSOR_LIFE = 24 * 60 * 60 * 1000;

/** Operations on existing tasks: get, list, subscribe and cancel. */
export class ExistingTasks {
  constructor(private readonly options: ExistingTasksOptions) {}

  async get(caller: Caller, call: AgentCall, agent: Agent, record: TaskRecord): Promise<AgentAnswer> {
    const { historyLength } = call.request.value as unknown as GetTaskRequest;
    checkHistoryLength(historyLength);
    const task = await this.current(caller, call, agent, record);
    const cut = withHistory(task.value, historyLength);
    return answer(cut === task.value ? task : { value: cut }, record);
  }

  async cancel(caller: Caller, call: AgentCall, agent: Agent, record: TaskRecord): Promise<AgentAnswer> {
    const { metadata } = call.request.value as unknown as CancelTaskRequest;
    const known = this.options.taskLogs.get(record)?.task ?? record.task;
    const { state } = known.status;
    if (state === 'TASK_STATE_CANCELED') return answer({ value: known }, record);
    if (isTerminal(state)) {
      throw new ProtocolError('task_not_cancelable', 'The task is finished', {
        outcome: 'not_executed',
        data: { state },
      });
    }
    const request = { id: record.upstreamId, ...(metadata && { metadata }) };
    const exchange: Exchange = { ...call.exchange, cancellation: new Cancellation() };
    const given = named(await agent.cancelTask(caller, request, exchange), record);
    return this.options.taskLogs.with(record, async (taskLog) => answer(await this.take(taskLog, given), record));
  }

  async subscribe(caller: Caller, call: AgentCall, agent: Agent, record: TaskRecord): Promise<AgentAnswer> {
    const { historyLength } = call.request.value as unknown as SubscribeToTaskRequest & { historyLength?: number };
    const { taskLogs, slots } = this.options;
    const release = slots.take(caller);
    try {
      return await taskLogs.with(record, async (taskLog) => {
        checkOpen(taskLog.task);
        const start = await taskLogs.watch(taskLog, agent, caller);
        checkOpen(taskLog.task);
        const events = taskLog.read({ snapshot: true, historyLength, left: release });
        events.until(call.exchange.cancellation);
        start();
        return { kind: 'stream', events, createdIn: record.dialect };
      });
    } catch (error) {
      release();
      throw error;
    }
  }

  /** S-27, G-42: agents need not support lists; the gateway lists its stored tasks. */
  async list(caller: Caller, request: ListTasksRequest, agents: readonly string[]): Promise<ListTasksResponse> {
    const { contextId, status, pageSize = PAGE.standard, historyLength, includeArtifacts = false } = request;
    if (!Number.isInteger(pageSize) || pageSize < 1 || pageSize > PAGE.most)
      refuse(`pageSize must be a whole number from 1 to ${PAGE.most}`);
    checkHistoryLength(historyLength);
    if (status !== undefined && !TASK_STATES.includes(status)) refuse('status is not a state that a task can have');
    const since = timeOf(request.statusTimestampAfter);
    const owner = caller.principal.key;
    const wanted = status === undefined || status === 'TASK_STATE_UNSPECIFIED' ? undefined : status;
    const filter = {
      owner,
      agents,
      ...(contextId && { contextId }),
      ...(wanted && { state: wanted }),
      ...(since !== undefined && { since }),
    };
    const digest = createHash('sha256').update(JSON.stringify(filter)).digest('base64url').slice(0, 16);
    const after = this.readCursor(owner, request.pageToken, digest);
    // One more task than requested shows whether there is another page.
    const found = await this.options.records.list({ ...filter, ...(after && { after }), limit: pageSize + 1 });
    const page = found.records.slice(0, pageSize);
    const last = page.at(-1);
    return {
      tasks: page.map(({ task }) => listed(withHistory(task, historyLength), includeArtifacts)),
      nextPageToken:
        last && found.records.length > pageSize
          ? this.options.seal.close('cursor', owner, ['tasks', digest, placeOf(last)], CURSOR_LIFE)
          : '',
      pageSize,
      totalSize: found.total,
    };
  }

  /** Reads the task from the agent and applies it. Returns false if the agent was unreachable. */
  async refresh(caller: Caller, agent: Agent, record: TaskRecord): Promise<boolean> {
    const given = await this.asked(caller, agent, record, ownExchange());
    if (!given) return false;
    await this.options.taskLogs.with(record, (taskLog) => this.take(taskLog, given));
    return true;
  }

  /**
   * The current task. Reads the task from the agent if it may have changed. If the agent is unreachable, returns the
   * stored task.
   */
  private async current(caller: Caller, call: AgentCall, agent: Agent, record: TaskRecord): Promise<Passed<Task>> {
    const taskLog = this.options.taskLogs.get(record);
    if (taskLog && (taskLog.followed || isTerminal(taskLog.task.status.state))) return { value: taskLog.task };
    if (isTerminal(record.task.status.state)) return { value: record.task };
    const given = await this.asked(caller, agent, record, call.exchange);
    if (!given) return { value: this.options.taskLogs.get(record)?.task ?? record.task };
    // Another replica follows the task and stores its changes.
    if (this.options.taskLogs.claimed(record)) return given;
    return this.options.taskLogs.with(record, (own) => this.take(own, given));
  }

  private async asked(
    caller: Caller,
    agent: Agent,
    record: TaskRecord,
    exchange: Exchange,
  ): Promise<Passed<Task> | undefined> {
    const cancellation = new Cancellation();
    const off = exchange.cancellation.onCancel((reason) => cancellation.cancel(reason));
    const asking = agent
      .getTask(caller, { id: record.upstreamId }, { ...exchange, cancellation })
      .then((task) => named(task, record))
      .catch((error: unknown) => {
        // An agent that no longer knows the task will not know the task later, so the client gets the error.
        if (error instanceof ProtocolError && error.reason === 'task_not_found') throw error;
        this.options.log.debug(
          { err: error, agent: agent.name },
          'cannot read a task from its agent; answering with the stored task',
        );
        return undefined;
      });
    try {
      const late = (): void => cancellation.cancel('the agent did not return the task in time');
      return await within(asking, this.options.refreshTime, { late });
    } finally {
      off();
    }
  }

  private async take(taskLog: TaskLog, given: Passed<Task>): Promise<Passed<Task>> {
    // The task is not applied here, because the agent's stream will deliver the same change, and a chunk must not be
    // appended twice.
    if (taskLog.followed && !isTerminal(given.value.status.state)) return given;
    const changed = await taskLog.put(given.value);
    if (changed && taskLog.task.status.state === 'TASK_STATE_INPUT_REQUIRED') taskLog.end();
    // If the task contains nothing new, its original text can pass.
    return !changed && !isTerminal(taskLog.task.status.state) && given.text !== undefined
      ? given
      : { value: taskLog.task };
  }

  private readCursor(owner: string, token: string | undefined, digest: string): TaskFilter['after'] {
    if (token === undefined || token === '') return undefined;
    try {
      const place = this.options.seal.open('cursor', owner, token);
      if (Array.isArray(place) && place[0] === 'tasks' && place[1] === digest) return place[2] as TaskFilter['after'];
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
    }
    return refuse('The pageToken does not belong to this list, or has expired');
  }
}

function named(task: Passed<Task>, record: TaskRecord): Passed<Task> {
  if (task.value.id !== record.upstreamId) {
    throw new ProtocolError('invalid_agent_response', 'The agent answered with a task that was not requested');
  }
  const shown = taskForClient(task, record);
  return shown.value.contextId ? shown : { value: { ...shown.value, contextId: record.contextId } };
}

function checkOpen({ status: { state } }: Task): void {
  if (!isTerminal(state)) return;
  throw new ProtocolError('unsupported_operation', 'The task is finished and has no further events to subscribe to', {
    outcome: 'not_executed',
    data: { state },
  });
}

function timeOf(timestamp: string | undefined): number | undefined {
  if (timestamp === undefined || timestamp === '') return undefined;
  const time = Date.parse(timestamp);
  if (!Number.isFinite(time)) refuse('statusTimestampAfter is not a time');
  return time;
}

function listed(task: Task, includeArtifacts: boolean): Task {
  if (includeArtifacts) return task;
  const { artifacts: _, ...rest } = task;
  return rest as Task;
}

/** The position of a task in a list, computed like the order in the store. */
function placeOf({ agent, id, task, updatedAt }: TaskRecord): NonNullable<TaskFilter['after']> {
  const reached = task.status.timestamp === undefined ? Number.NaN : Date.parse(task.status.timestamp);
  return { at: Number.isFinite(reached) ? reached : updatedAt, agent, id };
}

const answer = (task: Passed<Task>, { dialect }: TaskRecord): AgentAnswer => ({
  kind: 'result',
  result: task as Passed<JsonValue>,
  createdIn: dialect,
});
