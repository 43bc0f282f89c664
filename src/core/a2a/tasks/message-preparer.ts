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
import { type A2aLimits, checkFollowUp, checkId, checkMessage, invalidAnswer, refuse, taskNotFound } from './checks.js';
import { messageForAgent, taskForClient } from './task-ids.js';
import type { AgentRecords, TaskRecord } from './task-records.js';

/** One message of a client, looked at and ready for its agent. */
export interface PreparedMessage {
  readonly caller: Caller;
  readonly call: AgentCall;
  readonly name: string;
  readonly agent: Agent;
  /** As the client sent it, in its own ids. */
  readonly message: Message;
  /** What the agent gets. */
  readonly request: Passed<SendMessageRequest>;
  /** The task it goes on with. */
  readonly record: TaskRecord | undefined;
  /** The id that the client has chosen for a task that is not there yet. */
  readonly chosenId: string | undefined;
  readonly contextId: string | undefined;
  readonly push: TaskPushNotificationConfig | undefined;
  readonly historyLength: number | undefined;
  readonly returnImmediately: boolean;
}

export interface MessagePreparerOptions {
  readonly records: AgentRecords;
  readonly limits: A2aLimits;
  readonly hops: LoopGuard;
  readonly pushes: Pick<PushNotifications, 'check'> | undefined;
  /** The time of day that replicas share. */
  readonly now: () => number;
}

const MOST_CONTEXTS = 10_000;

/** Looks at messages before any agent does, and at what agents answer before anything is kept. */
export class MessagePreparer {
  /** Whose a context is, as far as it was seen here: saves asking for it with every message. */
  private readonly contexts = new BoundedCache<string, string>(MOST_CONTEXTS);

  constructor(private readonly options: MessagePreparerOptions) {}

  async begin(caller: Caller, call: AgentCall, name: string, agent: Agent): Promise<PreparedMessage> {
    const sent = call.request.value as unknown as SendMessageRequest;
    checkMessage(sent, this.options.limits);
    const metadata = this.options.hops.next(sent, name);
    const { message, configuration } = sent;
    const push = configuration?.taskPushNotificationConfig;
    if (push) this.checkPush(push);
    checkExtensions(agent.known() ?? (await agent.facts()), call);
    const taskId = message.taskId || undefined;
    const record = taskId === undefined ? undefined : await this.options.records.find(ownKey(caller, name, taskId));
    const chosenId = record ? undefined : taskId;
    if (chosenId !== undefined && !clientChoosesTaskIds(call.dialect)) taskNotFound();
    if (record) checkFollowUp(message, record);
    const contextId = record?.contextId ?? (message.contextId || undefined);
    if (contextId !== undefined && !record) await this.checkContext(caller, name, contextId);
    const { referenceTaskIds: named } = message;
    const references = named && named.length > 0 ? await this.references(caller, name, named) : undefined;
    const renamed = asAgentNames(message, record, contextId);
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
        { ...withoutOwn(sent), message: outgoing, metadata },
        outgoing === message && !configuration && !sent.metadata ? call.request.text : undefined,
      ),
    };
  }

  /** The record of the task an agent answered with: the one that was gone on with, or a new one of the number 0. */
  recordOf(prepared: PreparedMessage, task: Pick<Task, 'id' | 'contextId' | 'status'>): TaskRecord {
    const { record, caller, call, name } = prepared;
    checkId(task.id);
    const answered = task.contextId || undefined;
    if (prepared.contextId !== undefined && answered !== undefined && answered !== prepared.contextId)
      invalidAnswer('The agent put the message into another context than the one it was sent to');
    if (record?.upstreamId === task.id) return record;
    const now = this.options.now();
    const id = prepared.chosenId ?? task.id;
    const contextId = prepared.contextId ?? answered ?? randomUUID();
    this.remember(name, contextId, caller.principal.key);
    return {
      ...{ agent: name, owner: caller.principal.key, id, upstreamId: task.id, contextId },
      ...{ task: { ...task, id, contextId }, seq: 0, dialect: call.dialect, createdAt: now, updatedAt: now },
    };
  }

  /** The task as its client is to see it. */
  shown(task: Passed<Task>, record: TaskRecord): Passed<Task> {
    const named = taskForClient(task, record);
    return named.value.contextId ? named : { value: { ...named.value, contextId: record.contextId } };
  }

  /** A reply without a task. */
  checkReply({ contextId: asked, name, caller }: PreparedMessage, { contextId }: Message): void {
    if (!contextId) return;
    if (asked !== undefined && contextId !== asked)
      invalidAnswer('The agent replied in another context than it was asked');
    this.remember(name, contextId, caller.principal.key);
  }

  /** A task that was answered at once, for a client whose version knows nothing but tasks. */
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
      throw new ProtocolError('push_not_supported', 'Push notifications are switched off here', {
        outcome: 'not_executed',
      });
    this.options.pushes.check(push);
  }

  /** Tasks a message refers to are the caller's own, or none that this gateway knows of (G-22). */
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
    if (owners.length > 0 && !owners.includes(key)) refuse('There is no such context');
    if (known === undefined) this.remember(agent, contextId, key);
  }

  private remember(agent: string, contextId: string, owner: string): void {
    this.contexts.set(`${agent}\0${contextId}`, owner);
  }
}

export const ownKey = ({ principal }: Caller, agent: string, id: string) => ({ agent, owner: principal.key, id });

/** The message with its agent's names for task and context; the same where they are the client's. */
function asAgentNames(message: Message, record: TaskRecord | undefined, contextId: string | undefined): Message {
  let outgoing = record ? messageForAgent(message, record) : message;
  if (!record && message.taskId !== undefined) {
    const { taskId: _, ...rest } = outgoing;
    outgoing = rest as Message;
  }
  return contextId === undefined || outgoing.contextId === contextId ? outgoing : { ...outgoing, contextId };
}

/** The request with its text, where that lacks nothing but the metadata. */
function withText(value: SendMessageRequest, lacking: string | undefined): Passed<SendMessageRequest> {
  if (lacking === undefined) return { value };
  return { value, text: `{"metadata":${JSON.stringify(value.metadata)},${lacking.trimStart().slice(1)}` };
}

/** A request without what the gateway does itself: it calls back, and cuts the history. */
function withoutOwn(sent: SendMessageRequest): SendMessageRequest {
  if (!sent.configuration) return sent;
  const { configuration, ...rest } = sent;
  const { taskPushNotificationConfig: _, historyLength: __, ...kept } = configuration;
  return Object.keys(kept).length > 0 ? { ...rest, configuration: kept } : rest;
}

/** S-15: an agent that cannot do without an extension is not asked by a client that does not know it. */
function checkExtensions({ card }: AgentFacts, { exchange }: AgentCall): void {
  for (const { uri, required } of card.capabilities?.extensions ?? []) {
    if (!required || exchange.extensions.includes(uri)) continue;
    throw new ProtocolError('extension_required', `The agent needs its clients to know the extension ${uri}`, {
      outcome: 'not_executed',
      data: { extension: uri },
    });
  }
}
