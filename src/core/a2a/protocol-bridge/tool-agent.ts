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
import { backoff, sleep } from '../../timing.js';
import type { Agent, AgentFacts, AgentHealth, Events, Exchange, Passed } from '../agent.js';
import { taskForAgent } from '../tasks/task-ids.js';
import type { AgentRecords, TaskKey } from '../tasks/task-records.js';
import { TaskRun } from './task-run.js';
import { callOf, ToolMessageHandler, type ToolMessageHandlerOptions } from './tool-message-handler.js';
import { failure, moved, runnerOf, status, working } from './tool-status.js';

export interface ToolAgentOptions extends ToolMessageHandlerOptions {
  readonly name: string;
  readonly description: string | undefined;
  /** Names of tools as the gateway lists them, `*` standing for any characters. */
  readonly tools: readonly string[];
  /** Tells of changed lists of tools. */
  readonly onToolsChanged: (listener: () => void) => () => void;
  /** Where the tasks of this agent are kept, as every agent's are. */
  readonly records: Pick<AgentRecords, 'findUpstream'>;
  /** Has a task of this agent written as it stands, where nobody follows it. */
  readonly tell: (key: TaskKey) => Promise<void>;
  readonly cluster: Cluster;
}

/** What replicas ask each other of tasks that one of them works on. */
const CANCEL = 'tool-agent:cancel';
const TASK = 'tool-agent:task';
/** How often it is looked whether the end of a turn is written, and how long between two looks at most. */
const LOOKS = { most: 40, first: 20, longest: 5_000 };

/** An A2A agent whose skills are MCP tools of this gateway: each message is one call, and each call a task. */
export class ToolAgent implements Agent {
  readonly name: string;
  /** The turns that are worked on, and those whose end is not written yet. */
  private readonly runs = new Map<string, TaskRun>();
  private readonly turns: ToolMessageHandler;
  private readonly patterns: readonly Glob[];
  private facing: AgentFacts | undefined;
  private readonly stops: (() => void)[];
  private closed = false;

  constructor(private readonly options: ToolAgentOptions) {
    this.name = options.name;
    this.turns = new ToolMessageHandler(options);
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
      // An empty list may be one of servers that are not up yet: it is asked for again.
      if (tools.length === 0) return facts;
      this.facing = facts;
    }
    return this.facing;
  }

  /** The skills are the tools that the caller may use. */
  async factsFor(caller: Caller): Promise<AgentFacts> {
    return this.factsOf(await this.tools(caller));
  }

  private factsOf(tools: readonly Tool[]): AgentFacts {
    const card = this.cardOf(tools);
    return {
      card,
      original: { text: JSON.stringify(card), signature: 'unsigned' },
      can: { stream: true, push: false, subscribe: true },
    };
  }

  known(): AgentFacts | undefined {
    return this.facing;
  }

  private cardOf(tools: readonly Tool[]): AgentCard {
    const text = JSON.stringify(tools.map(({ definition }) => definition));
    return {
      name: this.name,
      description: this.options.description ?? `Calls the tools ${this.options.tools.join(', ')}.`,
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

  /** A task is there before it is worked on, so that it can be asked for and canceled; whoever wants to wait waits for it. */
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
    // Asked for again and again instead.
    if (!isSettled(task.status.state))
      throw new ProtocolError('unsupported_operation', 'Another replica works on the task');
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
    if (isInterrupted(task.status.state)) void this.turns.giveUp(caller, task);
    else {
      const runner = runnerOf(task);
      const { cluster } = this.options;
      if (runner !== undefined) await cluster.ask(runner, `${CANCEL}:${this.name}`, id).catch(() => {});
    }
    return { value: moved(task, 'TASK_STATE_CANCELED') };
  }

  /** A task whose process is gone has failed, and the call with it; it is not run again. */
  private async find(id: string): Promise<Task> {
    const run = this.runs.get(id);
    if (run) return run.task;
    const written = await this.written(id);
    if (isSettled(written.status.state)) return written;
    const held = await this.held(written);
    if (held) return held;
    // It may have come to its end between the two looks.
    const now = await this.written(id);
    if (isSettled(now.status.state)) return now;
    return moved(now, 'TASK_STATE_FAILED', [{ text: 'The gateway process that ran the task is gone' }]);
  }

  private async written(id: string): Promise<Task> {
    const record = await this.options.records.findUpstream(this.name, id);
    if (!record) throw new ProtocolError('task_not_found', `Task not found: ${id}`);
    return taskForAgent(record.task, record);
  }

  /** The task as the replica that works on it has it. */
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
    return Promise.reject(new ProtocolError('push_not_supported', 'The gateway follows its own tasks'));
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

  /** Finds out what is to be done, and does it while the caller hears or goes. */
  private async begin(caller: Caller, request: SendMessageRequest): Promise<TaskRun> {
    const { message } = request;
    const tools = await this.tools(caller);
    const before = message.taskId === undefined ? undefined : await this.find(message.taskId);
    if (before) this.checkWaits(before);
    const run = new TaskRun(working(before ?? newTask(message), message, this.options.cluster.self));
    const { id } = run.task;
    this.runs.set(id, run);
    void this.turns
      .work(caller, run, request, tools, before)
      .catch((error: unknown) => run.emit(failure(run.task, error)))
      .finally(() => this.keep(run));
    return run;
  }

  /** A task takes a message when it waits for one: of two answers to one question only the first counts. */
  private checkWaits(task: Task): void {
    const run = this.runs.get(task.id);
    if (isInterrupted(task.status.state) && (!run || run.task === task)) return;
    throw new ProtocolError('unsupported_operation', 'The task is worked on; it takes messages when it asks for them', {
      outcome: 'not_executed',
    });
  }

  /** Remembers how a turn ended until that is written: not everybody who began one stays to hear of it. */
  private async keep(run: TaskRun): Promise<void> {
    const { id } = run.task;
    const { records, tell, cluster } = this.options;
    for (let look = 0; look < LOOKS.most && !this.closed && this.runs.get(id) === run; look++) {
      await sleep(backoff(look + 1, LOOKS), { ref: false });
      try {
        const record = await records.findUpstream(this.name, id);
        if (!record) continue;
        const { status: written } = record.task;
        if (isTerminal(written.state) || sameStatus(written, run.task.status)) break;
        // Another replica has gone on with it.
        if (runnerOf(record.task) !== cluster.self) break;
        await tell({ agent: record.agent, owner: record.owner, id: record.id });
      } catch {
        // The store is away, and is asked again.
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
