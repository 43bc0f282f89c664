import { createHash, randomUUID } from 'node:crypto';
import {
  type AgentCard,
  type CancelTaskRequest,
  type GetTaskRequest,
  isInterrupted,
  isSettled,
  isTerminal,
  type Message,
  type SendMessageRequest,
  type SendMessageResponse,
  type SubscribeToTaskRequest,
  type Task,
  type TaskStatus,
} from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import { isObject } from '../../../protocol/mcp/model.js';
import { schemasOf, skillOf, TOOLS_EXTENSION, type Tool } from '../../../protocol/protocol-bridge/tool-skill.js';
import { type Caller, Cancellation, GATEWAY } from '../../caller.js';
import { type Glob, globOf } from '../../catalog/glob.js';
import { type Cluster, ReplicaGone } from '../../cluster.js';
import type { TaskSlots } from '../../era-bridge/task-slots.js';
import { backoff, sleep } from '../../timing.js';
import type { Agent, AgentFacts, AgentHealth, Events, Exchange, Passed } from '../agent.js';
import { taskForAgent } from '../tasks/task-ids.js';
import type { AgentRecords, TaskKey } from '../tasks/task-records.js';
import { sizeOfEvent } from '../tasks/task-size-limit.js';
import { TaskRun } from './task-run.js';
import { callOf, ToolMessageHandler, type ToolMessageHandlerOptions } from './tool-message-handler.js';
import { failure, moved, runnerOf, status, working } from './tool-status.js';

export interface ToolAgentOptions extends ToolMessageHandlerOptions {
  readonly name: string;
  readonly description: string | undefined;
  /** Names of tools as the gateway lists them; `*` stands for any characters. */
  readonly tools: readonly string[];
  /** Reports changed lists of tools. */
  readonly onToolsChanged: (listener: () => void) => () => void;
  /** The store of this agent's tasks. */
  readonly records: Pick<AgentRecords, 'findUpstream'>;
  /** Stores the current state of a task that no follower updates. */
  readonly tell: (key: TaskKey) => Promise<void>;
  readonly cluster: Cluster;
  /** Limits the running tasks of all tool agents, because a task may run on after its caller got an answer. */
  readonly slots: Pick<TaskSlots, 'take'>;
}

/** Subjects of requests between replicas about running tasks. */
const CANCEL = 'tool-agent:cancel';
const TASK = 'tool-agent:task';
/** The most checks whether the end of a run is stored, and the pauses between the checks. */
const STORE_CHECKS = { most: 40, first: 20, longest: 5_000 };

/** The most tools that the description of a card names. */
const MOST_NAMED = 20;

/** An A2A agent whose skills are MCP tools of this gateway: each message is one tool call, and each call is a task. */
export class ToolAgent implements Agent {
  readonly name: string;
  /** The current runs, and the runs whose end is not stored yet. */
  private readonly runs = new Map<string, TaskRun>();
  private readonly messages: ToolMessageHandler;
  private readonly patterns: readonly Glob[];
  private facing: AgentFacts | undefined;
  private readonly stops: (() => void)[];
  private closed = false;

  constructor(private readonly options: ToolAgentOptions) {
    this.name = options.name;
    this.messages = new ToolMessageHandler(options);
    this.patterns = options.tools.map(globOf);
    this.stops = [
      options.onToolsChanged(() => {
        this.facing = undefined;
      }),
      options.cluster.handle(`${CANCEL}:${options.name}`, async (id) => {
        const run = this.runs.get(String(id));
        if (run) stop(run);
        return null;
      }),
      options.cluster.handle(
        `${TASK}:${options.name}`,
        async (id) => (this.runs.get(String(id))?.task as unknown as JsonObject) ?? null,
      ),
    ];
  }

  private async tools(caller: Caller): Promise<Tool[]> {
    const call = { ...callOf('tools/list', RawObject.from({}), new Cancellation()), whole: true as const };
    const outcome = await this.options.gateway.call(caller, call);
    if (outcome.kind === 'error') throw outcome.error;
    const { tools } = outcome.kind === 'complete' ? outcome.result.value() : {};
    const definitions = Array.isArray(tools) ? tools.filter(isObject) : [];
    return definitions
      .map((definition): Tool => ({ name: String(definition['name']), definition }))
      .filter(({ name }) => this.patterns.some((pattern) => pattern.test(name)));
  }

  async facts(): Promise<AgentFacts> {
    if (!this.facing) {
      const tools = await this.tools(GATEWAY);
      const facts = this.factsOf(tools);
      // An empty list may mean that the servers are not up yet, so it is not cached.
      if (tools.length === 0) return facts;
      this.facing = facts;
    }
    return this.facing;
  }

  /** The skills are the tools that the caller may use. */
  async factsFor(caller: Caller): Promise<AgentFacts> {
    const tools = await this.tools(caller);
    // The description names these tools instead of the configured patterns, which may name tools that the caller may
    // not see (S3).
    return this.factsOf(
      tools,
      tools.map(({ name }) => name),
    );
  }

  private factsOf(tools: readonly Tool[], named: readonly string[] = this.options.tools): AgentFacts {
    const card = this.cardOf(tools, named);
    return {
      card,
      original: { text: JSON.stringify(card), signature: 'unsigned' },
      can: { stream: true, push: false, subscribe: true },
    };
  }

  known(): AgentFacts | undefined {
    return this.facing;
  }

  private cardOf(tools: readonly Tool[], named: readonly string[]): AgentCard {
    const text = JSON.stringify(tools.map(({ definition }) => definition));
    return {
      name: this.name,
      description:
        this.options.description ??
        `Calls the tools ${named.slice(0, MOST_NAMED).join(', ')}${named.length > MOST_NAMED ? ' …' : ''}.`,
      supportedInterfaces: [],
      // The version changes with the tools.
      version: `1.0.0+${createHash('sha256').update(text).digest('hex').slice(0, 12)}`,
      capabilities: {
        streaming: true,
        pushNotifications: true,
        extensions: [{ uri: TOOLS_EXTENSION, required: false, params: { tools: schemasOf(tools) } }],
      },
      defaultInputModes: ['application/json', 'text/plain'],
      defaultOutputModes: ['text/plain', 'application/json'],
      skills: tools.map(skillOf),
    };
  }

  onChanged(listener: () => void): () => void {
    return this.options.onToolsChanged(listener);
  }

  /** The task exists before the tool call starts, so that clients can read and cancel it at once. */
  async send(caller: Caller, { value }: Passed<SendMessageRequest>, _: Exchange): Promise<Passed<SendMessageResponse>> {
    return { value: { task: (await this.begin(caller, value)).task } };
  }

  async stream(caller: Caller, { value }: Passed<SendMessageRequest>, _: Exchange): Promise<Events> {
    return (await this.begin(caller, value)).listen(true);
  }

  async getTask(_: Caller, { id }: GetTaskRequest): Promise<Passed<Task>> {
    return { value: await this.find(id) };
  }

  async subscribe(_: Caller, { id }: SubscribeToTaskRequest): Promise<Events> {
    const run = this.runs.get(id);
    if (run) return run.listen(false);
    const task = await this.find(id);
    // A subscription to a task of another replica is emulated by polling.
    if (!isSettled(task.status.state))
      throw new ProtocolError('unsupported_operation', 'Another replica runs the task');
    return (async function* (): Events {
      yield { value: { task } };
    })();
  }

  async cancelTask(caller: Caller, { id }: CancelTaskRequest): Promise<Passed<Task>> {
    const task = await this.find(id);
    const run = this.runs.get(id);
    if (run && !run.over) return { value: stop(run) };
    this.runs.delete(id);
    if (isTerminal(task.status.state)) return { value: task };
    if (isInterrupted(task.status.state)) void this.messages.giveUp(caller, task);
    else {
      const runner = runnerOf(task);
      const { cluster } = this.options;
      if (runner !== undefined) await cluster.ask(runner, `${CANCEL}:${this.name}`, id).catch(() => {});
    }
    return { value: moved(task, 'TASK_STATE_CANCELED') };
  }

  /** Finds a task. If the process that ran the task is gone, the task has failed. Its call is not repeated. */
  private async find(id: string): Promise<Task> {
    const run = this.runs.get(id);
    if (run) return run.task;
    const written = await this.written(id);
    if (isSettled(written.status.state)) return written;
    const held = await this.held(written);
    if (held) return held;
    // The task may have ended between the two reads.
    const now = await this.written(id);
    if (isSettled(now.status.state)) return now;
    return moved(now, 'TASK_STATE_FAILED', [{ text: 'The gateway process that ran the task is gone' }]);
  }

  private async written(id: string): Promise<Task> {
    const record = await this.options.records.findUpstream(this.name, id);
    if (!record) throw new ProtocolError('task_not_found', `Task not found: ${id}`);
    return taskForAgent(record.task, record);
  }

  /** The task from the replica that runs it. */
  private async held(task: Task): Promise<Task | undefined> {
    const runner = runnerOf(task);
    const { cluster } = this.options;
    if (runner === undefined || runner === cluster.self || !(await cluster.alive(runner))) return undefined;
    try {
      const held = await cluster.ask(runner, `${TASK}:${this.name}`, task.id);
      return isObject(held) ? (held as unknown as Task) : undefined;
    } catch (error) {
      if (error instanceof ReplicaGone) return undefined;
      throw error;
    }
  }

  setCallback(): Promise<void> {
    return Promise.reject(
      new ProtocolError(
        'push_not_supported',
        'A tool agent accepts no callback URL: the gateway follows the task itself',
      ),
    );
  }

  health(): AgentHealth {
    return { status: 'up' };
  }

  close(): Promise<void> {
    this.closed = true;
    for (const run of this.runs.values()) run.cancellation.cancel('The agent was removed');
    for (const stopping of this.stops) stopping();
    return Promise.resolve();
  }

  /** Chooses the tool and starts the call, which continues whether or not the caller waits. */
  private async begin(caller: Caller, request: SendMessageRequest): Promise<TaskRun> {
    const { message } = request;
    const tools = await this.tools(caller);
    const before = message.taskId === undefined ? undefined : await this.find(message.taskId);
    if (before) this.checkWaits(before);
    const task = working(before ?? newTask(message), message, this.options.cluster.self);
    const bytes = sizeOfEvent({ value: { task } });
    const release = this.options.slots.take(caller.principal.key, bytes, 'not_executed');
    const run = new TaskRun(task);
    this.runs.set(task.id, run);
    void this.messages
      .work(caller, run, request, tools, before)
      .catch((error: unknown) => run.emit(failure(run.task, error)))
      .finally(() => this.keep(run).finally(release));
    return run;
  }

  /** Throws unless the task waits for a message. Of two answers to one question, only the first counts. */
  private checkWaits(task: Task): void {
    const run = this.runs.get(task.id);
    if (isInterrupted(task.status.state) && (!run || run.task === task)) return;
    throw new ProtocolError('unsupported_operation', 'The task is running; send a message when it asks for input', {
      outcome: 'not_executed',
    });
  }

  /** Keeps the end of a run in memory until that end is stored, because the client may not wait for it. */
  private async keep(run: TaskRun): Promise<void> {
    const { id } = run.task;
    const { records, tell, cluster } = this.options;
    for (let look = 0; look < STORE_CHECKS.most && !this.closed && this.runs.get(id) === run; look++) {
      await sleep(backoff(look + 1, STORE_CHECKS), { ref: false });
      try {
        const record = await records.findUpstream(this.name, id);
        if (!record) continue;
        const { status: written } = record.task;
        if (isTerminal(written.state) || sameStatus(written, run.task.status)) break;
        // Another replica has continued the task.
        if (runnerOf(record.task) !== cluster.self) break;
        await tell({ agent: record.agent, owner: record.owner, id: record.id });
      } catch {
        // The store is unavailable; the loop tries again.
      }
    }
    if (this.runs.get(id) === run) this.runs.delete(id);
  }
}

function stop(run: TaskRun): Task {
  run.emit(status(run.task, 'TASK_STATE_CANCELED'));
  run.cancellation.cancel('The task was cancelled');
  return run.task;
}

function newTask(message: Message): Task {
  return {
    id: randomUUID(),
    contextId: message.contextId ?? randomUUID(),
    status: { state: 'TASK_STATE_SUBMITTED', timestamp: new Date().toISOString() },
  };
}

const sameStatus = (a: TaskStatus, b: TaskStatus): boolean =>
  a.state === b.state && a.timestamp === b.timestamp && a.message?.messageId === b.message?.messageId;
