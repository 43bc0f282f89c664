import { NATIVE } from '../../protocol/a2a/dialect.js';
import type {
  AgentCard,
  ListPushConfigsRequest,
  ListTasksRequest,
  Operation,
  PushConfigRequest,
  StreamResponse,
  TaskPushNotificationConfig,
} from '../../protocol/a2a/model.js';
import { isTerminal } from '../../protocol/a2a/model.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { isObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Log } from '../../telemetry/log.js';
import {
  type Admission,
  agentTarget,
  type Target as CallTarget,
  type CatalogTarget,
  unknownAgent,
  visible,
} from '../admission.js';
import { A2aContext, type A2aRoute } from '../call.js';
import { type Caller, GATEWAY, ownerOf } from '../caller.js';
import type { Pipeline } from '../pipeline.js';
import type { Seal } from '../seal.js';
import type { Agent } from './agent.js';
import type { AgentAnswer, AgentCall, AgentGateway } from './gateway.js';
import type { Callbacks } from './push/agent-callback-urls.js';
import type { PushNotifications } from './push/push-notifications.js';
import type { Directory } from './routing/agent-directory.js';
import {
  type MessageRouter,
  ROUTING_AGENT,
  type RouteDecision,
  tracedRoute,
  withRouteNote,
} from './routing/agent-router.js';
import { LoopGuard } from './routing/loop-guard.js';
import { outwardAnswer } from './tasks/gateway-notes.js';
import { type A2aLimits, taskNotFound } from './tasks/message-checks.js';
import { MessagePreparer, ownKey } from './tasks/message-preparer.js';
import { MessageSender } from './tasks/message-sender.js';
import { ExistingTasks } from './tasks/read-and-cancel-tasks.js';
import { StoredTaskLimit } from './tasks/stored-task-limit.js';
import { StreamSlots } from './tasks/stream-slots.js';
import { ownExchange } from './tasks/task-follower.js';
import { TaskLogs } from './tasks/task-logs.js';
import type { AgentRecords, TaskKey, TaskRecord } from './tasks/task-records.js';

export interface DispatchTimes {
  /** How long a call waits for its agent. */
  readonly call: number;
  /** How long `GetTask` waits for an agent before it answers with the stored task. */
  readonly refresh?: number;
  /** How long a stream stays open for a task that waits for its client. */
  readonly hold?: number;
  /**
   * The duration of a claim to a task. If the replica that follows a task does not renew its claim in this time,
   * another replica takes over.
   */
  readonly lease?: number;
}

export interface AgentDispatcherOptions {
  readonly agents: Pick<Directory, 'get' | 'names'>;
  readonly admission: Admission;
  /** Whether the gateway makes spans. If so, calls about a task continue the trace of the task. */
  readonly traced?: boolean;
  readonly pipeline: Pipeline;
  readonly records: AgentRecords;
  readonly seal: Seal;
  readonly limits: A2aLimits;
  /** The time limits, in milliseconds. */
  readonly timeouts: DispatchTimes;
  /**
   * The name of this gateway in the list of gateways that a message has passed. All replicas have the same name (G-6).
   */
  readonly instance: string;
  readonly log: Log;
  /** The clock that replicas share; by default the clock of this machine. */
  readonly now?: () => number;
  /** If absent, there is no routing agent. */
  readonly router?: MessageRouter;
  /** If absent, there are no push notifications. */
  readonly pushes?: PushNotifications;
  readonly callbacks?: Pick<Callbacks, 'ask'>;
  readonly cards?: { extended(caller: Caller, agent: string | undefined): Promise<AgentCard> };
}

/** The agent that receives a call. */
interface Target {
  readonly name: string;
  readonly agent: Agent;
  readonly decision?: RouteDecision;
}

const TIMES = { refresh: 10_000, hold: 10 * 60_000, lease: 6_000 };

/**
 * The entry point for every A2A call of every endpoint. It checks that the caller may use the agent, that the task
 * belongs to the caller and that the operation is possible, and then calls the agent. A request for a task of another
 * caller never reaches an agent (G-22).
 */
export class AgentDispatcher implements AgentGateway {
  private readonly taskLogs: TaskLogs;
  private readonly preparer: MessagePreparer;
  private readonly sender: MessageSender;
  private readonly existingTasks: ExistingTasks;
  private readonly slots: StreamSlots;

  constructor(private readonly options: AgentDispatcherOptions) {
    const { pushes, callbacks, limits, log, seal, timeouts, now = Date.now } = options;
    const storedTasks = new StoredTaskLimit(options.records, limits.tasks, log);
    const records = storedTasks.counted();
    const times = { ...TIMES, ...timeouts };
    const slots = new StreamSlots(limits.streams, limits.streamsPerCaller);
    this.slots = slots;
    this.taskLogs = new TaskLogs({
      ...{ records, pushes, limits, log, now, lease: times.lease, hold: times.hold },
      agent: (name) => this.known(name),
    });
    this.preparer = new MessagePreparer({
      records,
      storedTasks,
      taskLogs: this.taskLogs,
      limits,
      pushes,
      now,
      hops: new LoopGuard(options.instance, limits.maxHops),
    });
    const { taskLogs, preparer } = this;
    this.sender = new MessageSender({ preparer, taskLogs, slots, records, pushes, callbacks, callTime: times.call });
    this.existingTasks = new ExistingTasks({ records, taskLogs, slots, seal, log, refreshTime: times.refresh });
  }

  /** The number of open streams. */
  get streams(): number {
    return this.slots.size;
  }

  /** The number of active tasks of this process. */
  get tasks(): number {
    return this.taskLogs.size;
  }

  /** Starts taking over tasks whose replica is gone. */
  start(): void {
    this.taskLogs.start();
  }

  /** Releases all tasks. Other replicas continue to follow them, or this replica does after its next start. */
  close(): Promise<void> {
    return this.taskLogs.close();
  }

  async handle(caller: Caller, call: AgentCall): Promise<AgentAnswer> {
    const began = performance.now();
    const { pipeline } = this.options;
    let route = this.resolved(caller, call);
    if (route instanceof Promise) route = await route.catch(unresolved);
    const trace =
      this.options.traced && route.target?.kind === 'agent'
        ? await this.taskTrace(caller, call, route.target.name)
        : undefined;
    if (trace !== undefined) route = { ...route, trace };
    return await pipeline.run(new A2aContext(caller, call, route, began));
  }

  /** The trace of the task that a request is about; undefined for a new task. */
  private async taskTrace(
    caller: Caller,
    { operation, request }: AgentCall,
    agent: string,
  ): Promise<string | undefined> {
    const { message } = request.value;
    const sends = operation === 'SendMessage' || operation === 'SendStreamingMessage';
    const id = sends ? isObject(message) && message['taskId'] : (request.value['taskId'] ?? request.value['id']);
    if (typeof id !== 'string' || id === '') return undefined;
    const record = await this.options.records.find(ownKey(caller, agent, id)).catch(() => undefined);
    return record?.trace;
  }

  /** Reads a card: runs `work` after the interceptors have admitted the request for the card. */
  async read<T>(caller: Caller, agent: string | undefined, work: () => Promise<T>): Promise<T> {
    const operation = 'GetExtendedAgentCard';
    const call: AgentCall = {
      ...{ agent, operation, request: { value: {} } },
      ...{ dialect: NATIVE, exchange: ownExchange(), nested: true },
    };
    const target: CallTarget =
      agent === undefined ? { kind: 'catalog', server: undefined, name: operation } : agentTarget(agent);
    let value: { readonly read: T } | undefined;
    const forward = async (): Promise<AgentAnswer> => {
      value = { read: await work() };
      return { kind: 'result', result: { value: null } };
    };
    await this.options.pipeline.run(new A2aContext(caller, call, { target, forward }, performance.now()));
    if (value) return value.read;
    throw new ProtocolError(
      'internal',
      'An interceptor returned an answer for a request whose result must be a card or an error',
    );
  }

  /** A request that cannot be resolved also passes the interceptors; its `forward` then fails with the reason. */
  private resolved(caller: Caller, call: AgentCall): A2aRoute | Promise<A2aRoute> {
    try {
      return this.resolve(caller, call);
    } catch (error) {
      return unresolved(error);
    }
  }

  private resolve(caller: Caller, call: AgentCall): A2aRoute | Promise<A2aRoute> {
    const { operation, exchange, agent } = call;
    if (exchange.cancellation.cancelled)
      throw new ProtocolError('cancelled', 'The client no longer waits for the answer', { outcome: 'not_executed' });
    const catalog = operation === 'ListTasks' || operation === 'GetExtendedAgentCard';
    if (agent === undefined) return catalog ? this.ownRoute(operation) : this.routed(caller, call);
    const found = this.seen(caller, agent);
    return found instanceof Promise
      ? found.then((target) => this.agentRoute(operation, target))
      : this.agentRoute(operation, found);
  }

  private agentRoute(operation: Operation, target: Target): A2aRoute {
    const { name } = target;
    switch (operation) {
      case 'ListTasks':
        return { target: agentTarget(name), forward: (context) => outward(this.list(context, [name])) };
      case 'GetExtendedAgentCard':
        return { target: agentTarget(name), forward: (context) => this.extendedCard(context) };
      default:
        return { target: agentTarget(name), forward: (context) => outward(this.answer(context, target)) };
    }
  }

  /** The route of an operation that the gateway answers for all agents together. */
  private ownRoute(operation: Operation): A2aRoute {
    const target: CatalogTarget = { kind: 'catalog', server: undefined, name: operation };
    return operation === 'ListTasks'
      ? { target, forward: (context) => outward(this.listAll(context)) }
      : { target, forward: (context) => this.extendedCard(context) };
  }

  private async answer({ caller, call, notes }: A2aContext, { name, agent, decision }: Target): Promise<AgentAnswer> {
    const { operation } = call;
    if (decision) notes.route = tracedRoute(decision);
    if (operation !== 'SendMessage' && operation !== 'SendStreamingMessage')
      return this.onTask(caller, call, agent, await this.own(caller, call, name));
    const prepared = await this.preparer.begin(caller, call, name, agent);
    const send = (): Promise<AgentAnswer> =>
      operation === 'SendMessage' ? this.sender.send(prepared) : this.sender.stream(prepared);
    const answer = await (decision?.kind === 'agent' && decision.choice ? decision.choice.run(send) : send());
    return decision ? withRouteNote(answer, decision) : answer;
  }

  /**
   * Handles a callback of an agent about a task. A callback is only a hint: the gateway reads the task from the agent.
   * If the agent is unreachable, the gateway applies the posted events, but only events that are safe to apply twice.
   */
  async handleCallback(key: TaskKey, events: readonly StreamResponse[]): Promise<void> {
    const { agent: name, owner, id } = key;
    const [record, agent] = [await this.options.records.find(key), this.known(name)];
    if (!record || !agent) taskNotFound();
    if (isTerminal(record.task.status.state)) return;
    // The follower of the task also gets this update from the agent.
    if (this.taskLogs.get(key)?.followed || this.taskLogs.claimed(record)) return;
    const caller: Caller = { ...GATEWAY, principal: ownerOf(owner) };
    const call: AgentCall = {
      ...{ agent: name, operation: 'GetTask', request: { value: { id } } },
      ...{ dialect: record.dialect, exchange: ownExchange(), nested: true, resumed: true },
    };
    const forward = async (): Promise<AgentAnswer> => {
      await this.applyPosted(caller, agent, record, events);
      return { kind: 'result', result: { value: null } };
    };
    const target = targetOf(name, 'GetTask');
    await this.options.pipeline.run(new A2aContext(caller, call, { target, forward }, performance.now()));
  }

  private async applyPosted(
    caller: Caller,
    agent: Agent,
    record: TaskRecord,
    events: readonly StreamResponse[],
  ): Promise<void> {
    if (await this.existingTasks.refresh(caller, agent, record)) return;
    await this.taskLogs.with(record, async (taskLog) => {
      for (const { task, statusUpdate } of events) {
        const told = task ?? (statusUpdate && { ...taskLog.record.task, status: statusUpdate.status });
        if (told && (told.id === record.upstreamId || told.id === record.id))
          await taskLog.put({ ...told, id: record.id });
      }
    });
  }

  private async onTask(caller: Caller, call: AgentCall, agent: Agent, record: TaskRecord): Promise<AgentAnswer> {
    const { existingTasks } = this;
    switch (call.operation) {
      case 'GetTask':
        return existingTasks.get(caller, call, agent, record);
      case 'CancelTask':
        return existingTasks.cancel(caller, call, agent, record);
      case 'SubscribeToTask':
        return existingTasks.subscribe(caller, call, agent, record);
      default:
        return this.onPush(caller, call, agent, record);
    }
  }

  private async onPush(caller: Caller, call: AgentCall, agent: Agent, record: TaskRecord): Promise<AgentAnswer> {
    const { pushes } = this.options;
    if (!pushes)
      throw new ProtocolError('push_not_supported', 'Push notifications are disabled on this gateway', {
        outcome: 'not_executed',
      });
    const request = call.request.value as unknown;
    const answer = (value: unknown): AgentAnswer => ({
      kind: 'result',
      result: { value: value as JsonValue },
      createdIn: record.dialect,
    });
    switch (call.operation) {
      case 'CreateTaskPushNotificationConfig': {
        const config = request as TaskPushNotificationConfig;
        this.taskLogs.checkRoom(caller.principal.key);
        const created = await pushes.create(caller, record, config, call.dialect, call.exchange);
        await this.ensureUpdates(caller, agent, record);
        return answer(created);
      }
      case 'GetTaskPushNotificationConfig':
        return answer(await pushes.get(caller, record, request as PushConfigRequest));
      case 'ListTaskPushNotificationConfigs':
        return answer(await pushes.list(caller, record, request as ListPushConfigsRequest));
      case 'DeleteTaskPushNotificationConfig':
        await pushes.remove(caller, record, request as PushConfigRequest);
        return answer(null);
      default:
        throw new ProtocolError('method_not_found', `Unknown operation: ${call.operation}`);
    }
  }

  /**
   * Called when a webhook is registered. The gateway asks the agent to call back. If the agent cannot, the gateway
   * follows the task (G-41).
   */
  private async ensureUpdates(caller: Caller, agent: Agent, record: TaskRecord): Promise<void> {
    if (isTerminal(record.task.status.state)) return;
    await this.taskLogs.with(record, async (taskLog) => {
      taskLog.pushed = true;
      taskLog.called = (await this.options.callbacks?.ask(agent, caller, record, ownExchange())) ?? false;
      if (taskLog.called) return this.taskLogs.called(taskLog);
      try {
        (await this.taskLogs.watch(taskLog, agent, caller))();
      } catch (error) {
        this.options.log.debug(
          { err: error, agent: agent.name },
          'cannot reach the agent to follow its task; trying again later',
        );
        await this.taskLogs.away(taskLog);
      }
    });
  }

  private async listAll(context: A2aContext): Promise<AgentAnswer> {
    const { caller } = context;
    const names = await this.visible(caller);
    if (caller.principal === GATEWAY.principal) return this.list(context, names);
    const admitted = await Promise.all(names.map((name) => name === ROUTING_AGENT || this.mayList(context, name)));
    return this.list(
      context,
      names.filter((_, index) => admitted[index]),
    );
  }

  /**
   * Whether the caller may list tasks at the endpoint of the agent. Tasks contain results, and reading results may
   * require a scope.
   */
  private async mayList({ caller, call }: A2aContext, name: string): Promise<boolean> {
    const target = agentTarget(name);
    try {
      await this.options.admission.admit({
        ...{ caller, protocol: 'a2a', method: call.operation, target },
        ...{ arguments: undefined, call: { nested: true } },
      });
      return true;
    } catch (error) {
      if (error instanceof ProtocolError) return false;
      throw error;
    }
  }

  private async list({ caller, call }: A2aContext, agents: readonly string[]): Promise<AgentAnswer> {
    const value = await this.existingTasks.list(caller, call.request.value as unknown as ListTasksRequest, agents);
    return { kind: 'result', result: { value: value as unknown as JsonValue } };
  }

  private async extendedCard({ caller, call }: A2aContext): Promise<AgentAnswer> {
    const { cards } = this.options;
    if (!cards) throw new ProtocolError('extended_card_not_configured', 'This gateway has no extended card');
    const value = await cards.extended(caller, call.agent);
    return { kind: 'result', result: { value: value as unknown as JsonValue } };
  }

  /** The route to the agent that the router chooses for a call, with the reason. */
  private async routed(caller: Caller, call: AgentCall): Promise<A2aRoute> {
    const { router } = this.options;
    if (!router)
      throw new ProtocolError('agent_not_found', 'This endpoint needs the name of an agent', {
        outcome: 'not_executed',
      });
    const decision = await router.route(caller, call);
    const isDesk = decision.kind === 'ask' || decision.agent === ROUTING_AGENT;
    const found = isDesk
      ? { name: ROUTING_AGENT, agent: router.routingAgent }
      : await this.seen(caller, decision.agent);
    return {
      target: targetOf(found.name, call.operation),
      forward: (context) => outward(this.answer(context, { ...found, decision })),
    };
  }

  /** Throws the error for an absent agent if the caller may not see the agent. */
  private seen(caller: Caller, name: string): Target | Promise<Target> {
    const agent = this.options.agents.get(name);
    const found = (sees: boolean): Target => {
      if (agent && sees) return { name, agent };
      throw unknownAgent(name);
    };
    const sees = this.options.admission.sees?.(caller, agentTarget(name)) ?? true;
    return sees instanceof Promise ? sees.then(found) : found(sees);
  }

  private async visible(caller: Caller): Promise<readonly string[]> {
    const { agents, admission, router } = this.options;
    const names = await visible(admission, caller, agents.names(), agentTarget);
    return router ? [...names, ROUTING_AGENT] : names;
  }

  private known(name: string): Agent | undefined {
    return name === ROUTING_AGENT ? this.options.router?.routingAgent : this.options.agents.get(name);
  }

  private async own(caller: Caller, call: AgentCall, name: string): Promise<TaskRecord> {
    const { operation, request } = call;
    const id = operation.includes('PushNotification') ? request.value['taskId'] : request.value['id'];
    const record =
      typeof id === 'string' && id !== '' ? await this.options.records.find(ownKey(caller, name, id)) : undefined;
    return record ?? taskNotFound();
  }
}

const outward = async (answer: Promise<AgentAnswer>): Promise<AgentAnswer> => outwardAnswer(await answer);

/** The target of the routing agent is the gateway itself. */
const targetOf = (agent: string, operation: Operation): CallTarget =>
  agent === ROUTING_AGENT ? { kind: 'catalog', server: undefined, name: operation } : agentTarget(agent);

/** The route of a request whose agent does not exist or is hidden: `forward` fails with the reason. */
function unresolved(error: unknown): A2aRoute {
  if (!(error instanceof ProtocolError || error instanceof UpstreamRpcError)) throw error;
  return { target: undefined, forward: () => Promise.reject(error) };
}
