import { randomUUID } from 'node:crypto';
import {
  type CancelTaskRequest,
  type GetTaskRequest,
  isTerminal,
  type Message,
  type SendMessageRequest,
  type SendMessageResponse,
  type StreamResponse,
  type SubscribeToTaskRequest,
  type Task,
  type TaskPushNotificationConfig,
} from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import { BoundedCache } from '../bounded-cache.js';
import type { Caller } from '../caller.js';
import type { Agent, AgentFacts, AgentHealth, Events, Exchange, Passed } from './agent.js';
import {
  asking,
  type Binding,
  bindingIn,
  completed,
  isSignInTask,
  newSignIn,
  renamed,
  signInStatus,
} from './sign-in-task.js';
import type { AgentRecords, TaskRecord } from './tasks/task-records.js';

export interface SignInAgentOptions {
  readonly agent: Agent;
  readonly records: Pick<AgentRecords, 'findUpstream'>;
  /**
   * Reserves the delivery of a task's first message over all replicas. Returns the function that ends the reservation,
   * or undefined if the delivery is already reserved.
   */
  claim(task: string): Promise<(() => Promise<void>) | undefined>;
}

const MOST_BINDINGS = 10_000;

/** A task of the gateway, and the ids of the corresponding task at the agent once that task exists. */
interface Known {
  readonly task: Task;
  readonly contextId: string;
  readonly binding: Binding;
}

/**
 * An agent at which every user has an account. If the user is not signed in, a message becomes a task of the gateway in
 * the state AUTH_REQUIRED, and the status contains the link (S-63). When the client sends the next message to this
 * task, the gateway delivers the first message to the agent. From then on, the client's task id stands for the agent's
 * task.
 */
export class SignInAgent implements Agent {
  readonly name: string;
  private readonly agent: Agent;
  /** The bindings that this process made. Some may not be stored yet. */
  private readonly bindings = new BoundedCache<string, Binding>(MOST_BINDINGS);

  constructor(private readonly options: SignInAgentOptions) {
    this.agent = options.agent;
    this.name = options.agent.name;
  }

  facts(): Promise<AgentFacts> {
    return this.agent.facts();
  }

  known(): AgentFacts | undefined {
    return this.agent.known();
  }

  onChanged(listener: () => void): () => void {
    return this.agent.onChanged(listener);
  }

  health(): AgentHealth {
    return this.agent.health();
  }

  close(): Promise<void> {
    return this.agent.close();
  }

  async send(
    caller: Caller,
    request: Passed<SendMessageRequest>,
    exchange: Exchange,
  ): Promise<Passed<SendMessageResponse>> {
    return this.deliver(caller, request, {
      pass: (given) => this.agent.send(caller, given, exchange),
      answer: async (known, answer) => ({ value: this.bound(known, answer.value) as SendMessageResponse }),
      ask: (task) => ({ value: { task } }),
    });
  }

  async stream(caller: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Events> {
    return this.deliver(caller, request, {
      pass: (given) => this.agent.stream(caller, given, exchange),
      answer: async (known, events) => this.boundEvents(known, events),
      ask: (task) => waiting(task, exchange),
    });
  }

  async getTask(caller: Caller, request: GetTaskRequest, exchange: Exchange): Promise<Passed<Task>> {
    if (!isSignInTask(request.id)) return this.agent.getTask(caller, request, exchange);
    const known = await this.find(caller, request.id);
    const { task: id } = known.binding;
    if (id === undefined) return { value: known.task };
    return this.shown(known, await this.agent.getTask(caller, { ...request, id }, exchange));
  }

  async cancelTask(caller: Caller, request: CancelTaskRequest, exchange: Exchange): Promise<Passed<Task>> {
    if (!isSignInTask(request.id)) return this.agent.cancelTask(caller, request, exchange);
    const known = await this.find(caller, request.id);
    const { task: id } = known.binding;
    if (id !== undefined) return this.shown(known, await this.agent.cancelTask(caller, { ...request, id }, exchange));
    const { task } = known;
    if (isTerminal(task.status.state)) throw new ProtocolError('task_not_cancelable', 'The task is finished');
    return { value: { ...task, status: { state: 'TASK_STATE_CANCELED', timestamp: new Date().toISOString() } } };
  }

  async subscribe(caller: Caller, request: SubscribeToTaskRequest, exchange: Exchange): Promise<Events> {
    if (!isSignInTask(request.id)) return this.agent.subscribe(caller, request, exchange);
    const known = await this.find(caller, request.id);
    const { task: id } = known.binding;
    if (id === undefined) return waiting(known.task, exchange);
    return this.boundEvents(known, await this.agent.subscribe(caller, { ...request, id }, exchange));
  }

  async setCallback(caller: Caller, config: TaskPushNotificationConfig, exchange: Exchange): Promise<void> {
    const { taskId = '' } = config;
    if (!isSignInTask(taskId)) return this.agent.setCallback(caller, config, exchange);
    const { task } = (await this.find(caller, taskId)).binding;
    if (task === undefined)
      throw new ProtocolError('push_not_supported', 'The agent does not know this task until the user has signed in');
    return this.agent.setCallback(caller, { ...config, taskId: task }, exchange);
  }

  /** Passes a message on to the agent. If the agent requires a sign-in, returns a task that asks for it. */
  private async deliver<T>(caller: Caller, request: Passed<SendMessageRequest>, how: Delivery<T>): Promise<T> {
    const { message } = request.value;
    const { taskId } = message;
    const known = taskId !== undefined && isSignInTask(taskId) ? await this.find(caller, taskId) : undefined;
    const release = known && known.binding.task === undefined ? await this.claimed(known) : undefined;
    try {
      // The task is read again, because another replica may have delivered the message just before this claim.
      const now = release ? await this.find(caller, known!.task.id) : known;
      if (!now) return await how.pass(request);
      return await how.answer(now, await how.pass({ value: { ...request.value, message: outgoing(now, message) } }));
    } catch (error) {
      // If the message may have been delivered, the claim stays, so that the message is not delivered again for a
      // while.
      if (error instanceof ProtocolError && error.detail.outcome === 'not_executed') await release?.();
      const status = signInStatus(error);
      if (!status) throw error;
      if (known) return how.ask(asking(known.task, status));
      if (taskId === undefined) return how.ask(newSignIn(message, status));
      // The agent already knows the task. The task now waits for the sign-in, and the client must send the message
      // again.
      const record = await this.options.records.findUpstream(this.name, taskId);
      if (record?.owner !== caller.principal.key) throw error;
      return how.ask(asking({ ...record.task, id: taskId }, status));
    }
  }

  private async claimed({ task }: Known): Promise<() => Promise<void>> {
    const release = await this.options.claim(task.id);
    if (release) return release;
    throw new ProtocolError(
      'unsupported_operation',
      'An earlier message is still being delivered; read the task, and send your message again later',
      {
        outcome: 'not_executed',
      },
    );
  }

  private async find(caller: Caller, id: string): Promise<Known> {
    const record: TaskRecord | undefined = await this.options.records.findUpstream(this.name, id);
    if (record?.owner !== caller.principal.key)
      throw new ProtocolError('task_not_found', 'Task not found', { outcome: 'not_executed' });
    const { task, contextId } = record;
    const binding = this.bindings.get(id) ?? bindingIn(task) ?? { context: undefined };
    // The record has the client's task id, but this class needs the agent's own id.
    return { task: { ...task, id }, contextId, binding };
  }

  private shown(known: Known, { value }: Passed<Task>): Passed<Task> {
    return { value: renamed({ task: value }, namesOf(known)).task! };
  }

  /**
   * The answer of the agent with the ids that the client knows. The first answer binds the client's task to the agent's
   * task.
   */
  private bound(known: Known, answer: StreamResponse): StreamResponse {
    const { task, message } = answer;
    const isFirst = known.binding.task === undefined;
    if (message && isFirst) return { task: completed(known.task, known.contextId, message) };
    if (!task || !isFirst) return renamed(answer, namesOf(known));
    return renamed(answer, namesOf(this.bind(known, task.id, task.contextId)));
  }

  private async *boundEvents(before: Known, events: Events): AsyncGenerator<Passed<StreamResponse>> {
    let known = before;
    for await (const { value } of events) {
      const { task, message, statusUpdate, artifactUpdate } = value;
      const update = statusUpdate ?? artifactUpdate;
      if (known.binding.task !== undefined || message) {
        yield { value: this.bound(known, value) };
        continue;
      }
      known = this.bind(known, task?.id ?? update?.taskId ?? '', task?.contextId ?? update?.contextId);
      // The binding is stored with a task, but not every stream begins with a task.
      if (!task) {
        const working: Task = { ...known.task, id: known.binding.task!, status: { state: 'TASK_STATE_WORKING' } };
        yield { value: renamed({ task: working }, namesOf(known)) };
      }
      yield { value: renamed(value, namesOf(known)) };
    }
  }

  private bind(known: Known, task: string, context: string | undefined): Known {
    const binding = { task, context };
    this.bindings.set(known.task.id, binding);
    return { ...known, binding };
  }
}

interface Delivery<T> {
  pass(request: Passed<SendMessageRequest>): Promise<T>;
  answer(known: Known, answer: T): Promise<T>;
  ask(task: Task): T;
}

const namesOf = ({ task, contextId, binding }: Known) => ({
  from: binding,
  to: { task: task.id, context: contextId },
});

/**
 * The message for the agent. The first delivery sends the first message of the task; later deliveries send the given
 * message.
 */
function outgoing({ task, binding }: Known, message: Message): Message {
  const isFirst = binding.task === undefined;
  const { taskId: _, contextId: __, ...rest } = isFirst ? (task.history?.[0] ?? message) : message;
  return {
    ...(rest as Message),
    ...(isFirst && { messageId: randomUUID() }),
    ...(binding.task !== undefined && { taskId: binding.task }),
    ...(binding.context !== undefined && { contextId: binding.context }),
  };
}

/** S-63: a stream stays open while its task waits for the sign-in. The gateway limits the time. */
async function* waiting(task: Task, { cancellation }: Exchange): AsyncGenerator<Passed<StreamResponse>> {
  yield { value: { task } };
  await new Promise<void>((resolve) => cancellation.onCancel(() => resolve()));
}
