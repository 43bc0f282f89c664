import { randomUUID } from 'node:crypto';
import { clientChoosesTaskIds } from '../../../protocol/a2a/client-task-ids.js';
import type { Message, SendMessageRequest, Task, TaskPushNotificationConfig } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { BoundedCache } from '../../bounded-cache.js';
import type { Caller } from '../../caller.js';
import type { Agent, AgentFacts, Passed } from '../agent.js';
import type { AgentCall } from '../gateway.js';
import type { PushNotifications } from '../push/push-notifications.js';
import type { LoopGuard } from '../routing/loop-guard.js';
import {
  type A2aLimits,
  checkFollowUp,
  checkId,
  checkMediaTypes,
  checkMessage,
  invalidAnswer,
  refuse,
  taskNotFound,
} from './message-checks.js';
import type { StoredTaskLimit } from './stored-task-limit.js';
import { messageForAgent, taskForClient } from './task-ids.js';
import type { TaskLogs } from './task-logs.js';
import type { AgentRecords, TaskRecord } from './task-records.js';

/** One message of a client, checked and ready for its agent. */
export interface PreparedMessage {
  readonly caller: Caller;
  readonly call: AgentCall;
  readonly name: string;
  readonly agent: Agent;
  /** The message as the client sent it, with the client's ids. */
  readonly message: Message;
  /** The request for the agent. */
  readonly request: Passed<SendMessageRequest>;
  /** The task that the message continues. */
  readonly record: TaskRecord | undefined;
  /** The id that the client chose for a new task. */
  readonly chosenId: string | undefined;
  readonly contextId: string | undefined;
  readonly push: TaskPushNotificationConfig | undefined;
  readonly historyLength: number | undefined;
  readonly returnImmediately: boolean;
}

export interface MessagePreparerOptions {
  readonly records: AgentRecords;
  readonly storedTasks: Pick<StoredTaskLimit, 'check'>;
  readonly taskLogs: Pick<TaskLogs, 'checkRoom'>;
  readonly limits: A2aLimits;
  readonly hops: LoopGuard;
  readonly pushes: Pick<PushNotifications, 'check'> | undefined;
  /** The clock that replicas share. */
  readonly now: () => number;
}

const MOST_CONTEXTS = 10_000;

/** Checks messages before an agent gets them, and answers of agents before they are stored. */
export class MessagePreparer {
  /** The owners of contexts that this process has seen. Saves one query per message. */
  private readonly contexts = new BoundedCache<string, string>(MOST_CONTEXTS);

  constructor(private readonly options: MessagePreparerOptions) {}

  async begin(caller: Caller, call: AgentCall, name: string, agent: Agent): Promise<PreparedMessage> {
    const sent = call.request.value as unknown as SendMessageRequest;
    checkMessage(sent, this.options.limits);
    const metadata = this.options.hops.next(sent, name);
    const { message, configuration } = sent;
    const push = configuration?.taskPushNotificationConfig;
    if (push) this.checkPush(push);
    const facts = agent.known() ?? (await agent.facts());
    checkExtensions(facts, call);
    checkMediaTypes(message.parts, facts.card);
    const taskId = message.taskId || undefined;
    const record = taskId === undefined ? undefined : await this.options.records.find(ownKey(caller, name, taskId));
    const chosenId = record ? undefined : taskId;
    if (chosenId !== undefined && !clientChoosesTaskIds(call.dialect)) taskNotFound();
    if (record) checkFollowUp(message, record);
    else this.options.storedTasks.check(caller.principal.key);
    if (push || call.operation === 'SendStreamingMessage') this.options.taskLogs.checkRoom(caller.principal.key);
    const contextId = record?.contextId ?? (message.contextId || undefined);
    if (contextId !== undefined && !record) await this.checkContext(caller, name, contextId);
    const { referenceTaskIds: named } = message;
    const references = named && named.length > 0 ? await this.references(caller, name, named) : undefined;
    const renamed = withAgentIds(message, record, contextId);
    const outgoing = references ? { ...renamed, referenceTaskIds: references } : renamed;
    return {
      caller,
      call,
      name,
      agent,
      message,
      record,
      chosenId,
      contextId,
      push,
      historyLength: configuration?.historyLength,
      returnImmediately: configuration?.returnImmediately === true,
      request: withText(
        { ...withoutGatewaySettings(sent), message: outgoing, metadata },
        outgoing === message && !configuration && !sent.metadata ? call.request.text : undefined,
      ),
    };
  }

  /** The record for the task of an agent's answer: the record of the continued task, or a new record with `seq` 0. */
  recordOf(prepared: PreparedMessage, task: Pick<Task, 'id' | 'contextId' | 'status'>): TaskRecord {
    const { record, caller, call, name } = prepared;
    checkId(task.id);
    const answered = task.contextId || undefined;
    if (prepared.contextId !== undefined && answered !== undefined && answered !== prepared.contextId)
      invalidAnswer('The agent answered with a context that differs from that of the message');
    if (record?.upstreamId === task.id) return record;
    const now = this.options.now();
    const id = prepared.chosenId ?? task.id;
    const contextId = prepared.contextId ?? answered ?? randomUUID();
    this.remember(name, contextId, caller.principal.key);
    const { traceparent: trace } = call.exchange.forward;
    return {
      ...{ agent: name, owner: caller.principal.key, id, upstreamId: task.id, contextId },
      ...{ task: { ...task, id, contextId }, seq: 0, dialect: call.dialect, createdAt: now, updatedAt: now },
      ...(trace !== undefined && { trace }),
    };
  }

  /** The task with the client's ids. */
  shown(task: Passed<Task>, record: TaskRecord): Passed<Task> {
    const named = taskForClient(task, record);
    return named.value.contextId ? named : { value: { ...named.value, contextId: record.contextId } };
  }

  /** Checks a reply without a task. */
  checkReply({ contextId: asked, name, caller }: PreparedMessage, { contextId }: Message): void {
    if (!contextId) return;
    if (asked !== undefined && contextId !== asked)
      invalidAnswer('The agent answered with a context that differs from that of the message');
    this.remember(name, contextId, caller.principal.key);
  }

  /** A finished task that contains a direct reply, for a client whose version only has tasks. */
  finished(prepared: PreparedMessage, reply: Message): TaskRecord {
    const upstreamId = `direct/${randomUUID()}`;
    const contextId = reply.contextId || prepared.contextId;
    const status = { state: 'TASK_STATE_COMPLETED', timestamp: new Date(this.options.now()).toISOString() } as const;
    const record = this.recordOf(prepared, { id: upstreamId, status, ...(contextId && { contextId }) });
    const { id } = record;
    const named = { taskId: id, contextId: record.contextId };
    const task: Task = {
      ...{ id, contextId: record.contextId },
      status: { ...status, message: { ...reply, ...named } },
      history: [{ ...prepared.message, ...named }],
    };
    return { ...record, task };
  }

  private checkPush(push: TaskPushNotificationConfig): void {
    if (!this.options.pushes)
      throw new ProtocolError('push_not_supported', 'Push notifications are disabled on this gateway', {
        outcome: 'not_executed',
      });
    this.options.pushes.check(push);
  }

  /**
   * The agent's ids of the referenced tasks. A referenced task must belong to the caller or be unknown to this gateway
   * (G-22).
   */
  private references(caller: Caller, name: string, ids: readonly string[]): Promise<string[]> {
    const { records } = this.options;
    return Promise.all(
      ids.map(async (id) => {
        const own = await records.find(ownKey(caller, name, id));
        if (own) return own.upstreamId;
        if (await records.findUpstream(name, id)) taskNotFound();
        return id;
      }),
    );
  }

  private async checkContext(caller: Caller, agent: string, contextId: string): Promise<void> {
    const { key } = caller.principal;
    const known = this.contexts.get(`${agent}\0${contextId}`);
    const owners = known === undefined ? await this.options.records.contextOwners(agent, contextId) : [known];
    if (owners.length > 0 && !owners.includes(key)) refuse('Unknown context');
    if (known === undefined) this.remember(agent, contextId, key);
  }

  private remember(agent: string, contextId: string, owner: string): void {
    this.contexts.set(`${agent}\0${contextId}`, owner);
  }
}

export const ownKey = ({ principal }: Caller, agent: string, id: string) => ({ agent, owner: principal.key, id });

/** The message with the agent's ids for task and context. Returns the same object if the client uses the same ids. */
function withAgentIds(message: Message, record: TaskRecord | undefined, contextId: string | undefined): Message {
  let outgoing = record ? messageForAgent(message, record) : message;
  if (!record && message.taskId !== undefined) {
    const { taskId: _, ...rest } = outgoing;
    outgoing = rest as Message;
  }
  return contextId === undefined || outgoing.contextId === contextId ? outgoing : { ...outgoing, contextId };
}

/** The request. If only the metadata is missing from the original text, inserts the metadata into that text. */
function withText(value: SendMessageRequest, lacking: string | undefined): Passed<SendMessageRequest> {
  if (lacking === undefined) return { value };
  return { value, text: `{"metadata":${JSON.stringify(value.metadata)},${lacking.trimStart().slice(1)}` };
}

/** The request without the settings that the gateway handles itself: push notifications and history length. */
function withoutGatewaySettings(sent: SendMessageRequest): SendMessageRequest {
  if (!sent.configuration) return sent;
  const { configuration, ...rest } = sent;
  const { taskPushNotificationConfig: _, historyLength: __, ...kept } = configuration;
  return Object.keys(kept).length > 0 ? { ...rest, configuration: kept } : rest;
}

/** S-15: a client must support the extensions that the agent requires. */
function checkExtensions({ card }: AgentFacts, { exchange }: AgentCall): void {
  for (const { uri, required } of card.capabilities?.extensions ?? []) {
    if (!required || exchange.extensions.includes(uri)) continue;
    throw new ProtocolError(
      'extension_required',
      `The agent requires the extension ${uri}, which the request does not name`,
      {
        outcome: 'not_executed',
        data: { extension: uri },
      },
    );
  }
}
