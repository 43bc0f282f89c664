/** An agent whose answers a test defines, and a core that keeps its tasks in a real database. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agentRecords } from '../../src/app/a2a-records.js';
import type { Agent, AgentFacts, AgentHealth, Events, Exchange, Passed } from '../../src/core/a2a/agent.js';
import { AgentDispatcher, type AgentDispatcherOptions } from '../../src/core/a2a/dispatcher.js';
import type { AgentAnswer } from '../../src/core/a2a/gateway.js';
import { OpenAdmission } from '../../src/core/admission.js';
import { type Caller, Cancellation, GATEWAY, principalOf } from '../../src/core/caller.js';
import { Pipeline } from '../../src/core/pipeline.js';
import { Seal } from '../../src/core/seal.js';
import type { DialectId } from '../../src/protocol/a2a/dialect.js';
import type {
  AgentCard,
  GetTaskRequest,
  Operation,
  SendMessageRequest,
  SendMessageResponse,
  StreamResponse,
  Task,
  TaskState,
} from '../../src/protocol/a2a/model.js';
import { ProtocolError } from '../../src/protocol/errors.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonrpc/raw.js';
import { openState, type State, type Statement } from '../../src/state/index.js';
import { SILENT } from '../../src/telemetry/log.js';

/** A stream of events that the test pushes, ends or fails. */
export class Channel implements AsyncIterable<Passed<StreamResponse>> {
  private readonly waiting: Passed<StreamResponse>[] = [];
  private over = false;
  private error: unknown;
  private wake: () => void = () => {};
  left = false;

  /** The number of pushed events that nobody has read. */
  get unread(): number {
    return this.waiting.length;
  }

  push(value: StreamResponse, text?: string): void {
    this.waiting.push(text === undefined ? { value } : { value, text });
    this.wake();
  }

  end(error?: unknown): void {
    this.over = true;
    this.error = error;
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Passed<StreamResponse>> {
    try {
      for (;;) {
        const next = this.waiting.shift();
        if (next) {
          yield next;
          continue;
        }
        if (this.over) {
          if (this.error !== undefined) throw this.error;
          return;
        }
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      }
    } finally {
      this.left = true;
    }
  }
}

const CARD: AgentCard = {
  ...{
    name: 'Scripted',
    description: 'answers as the test defines',
    version: '1',
    supportedInterfaces: [],
    skills: [],
  },
  ...{ capabilities: {}, defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'] },
};

export class ScriptedAgent implements Agent {
  can = { stream: true, push: false, subscribe: true };
  card: AgentCard = CARD;
  /** The tasks that `getTask` returns. */
  readonly tasks = new Map<string, Task>();
  readonly calls: { operation: Operation; request: unknown; exchange: Exchange }[] = [];
  onSend: (request: SendMessageRequest) => Promise<Passed<SendMessageResponse>> = async () => {
    throw new Error('the test defined no answer');
  };
  onStream: (request: SendMessageRequest) => Events = () => new Channel();
  onSubscribe: (id: string) => Events = () => new Channel();
  onCancel: (id: string) => Task = (id) => this.known(id);
  /** If set, every call fails with this error. */
  refusal: Error | undefined;

  constructor(readonly name: string) {}

  async facts(): Promise<AgentFacts> {
    return this.known_();
  }
  known(id: string): Task;
  known(): AgentFacts;
  known(id?: string): Task | AgentFacts {
    if (id === undefined) return this.known_();
    const task = this.tasks.get(id);
    if (!task) throw new ProtocolError('task_not_found', 'the agent knows no such task');
    return task;
  }
  onChanged(): () => void {
    return () => {};
  }
  async send(_: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Passed<SendMessageResponse>> {
    this.called('SendMessage', request.value, exchange);
    return this.onSend(request.value);
  }
  async stream(_: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Events> {
    this.called('SendStreamingMessage', request.value, exchange);
    return this.onStream(request.value);
  }
  async getTask(_: Caller, request: GetTaskRequest, exchange: Exchange): Promise<Passed<Task>> {
    this.called('GetTask', request, exchange);
    return { value: structuredClone(this.known(request.id)) };
  }
  async cancelTask(_: Caller, request: { id: string }, exchange: Exchange): Promise<Passed<Task>> {
    this.called('CancelTask', request, exchange);
    return { value: this.onCancel(request.id) };
  }
  async subscribe(_: Caller, request: { id: string }, exchange: Exchange): Promise<Events> {
    this.called('SubscribeToTask', request, exchange);
    return this.onSubscribe(request.id);
  }
  async setCallback(): Promise<void> {}
  health(): AgentHealth {
    return { status: 'up' };
  }
  async close(): Promise<void> {}

  count(operation: Operation): number {
    return this.calls.filter((call) => call.operation === operation).length;
  }
  last(operation: Operation): unknown {
    return this.calls.findLast((call) => call.operation === operation)?.request;
  }

  private known_(): AgentFacts {
    return { card: this.card, original: { text: '{}', signature: 'unsigned' }, can: this.can };
  }
  private called(operation: Operation, request: unknown, exchange: Exchange): void {
    this.calls.push({ operation, request, exchange });
    if (this.refusal) throw this.refusal;
  }
}

export const caller = (name: string): Caller => ({ ...GATEWAY, principal: principalOf({ subject: name }) });

let made = 0;
export const message = (more: JsonObject = {}): JsonObject => ({
  messageId: `m${++made}`,
  role: 'ROLE_USER',
  parts: [{ text: 'hello' }],
  ...more,
});

export const task = (id: string, state: TaskState, more: Partial<Task> = {}): Task => ({
  id,
  contextId: `c-${id}`,
  status: { state, timestamp: new Date().toISOString() },
  ...more,
});

export const status = (id: string, state: TaskState, more: JsonObject = {}): StreamResponse => ({
  statusUpdate: {
    ...{ taskId: id, contextId: `c-${id}` },
    status: { state, timestamp: new Date().toISOString(), ...more },
  },
});

export const chunk = (id: string, text: string, append = true): StreamResponse => ({
  artifactUpdate: { taskId: id, contextId: `c-${id}`, artifact: { artifactId: 'a', parts: [{ text }] }, append },
});

export interface CallOptions {
  readonly as?: string;
  readonly agent?: string | undefined;
  readonly dialect?: DialectId;
  readonly cancellation?: Cancellation;
  readonly extensions?: readonly string[];
}

/** A core over one database. Several cores on one database are replicas. */
export class Core {
  readonly dispatcher: AgentDispatcher;
  constructor(parts: AgentDispatcherOptions) {
    this.dispatcher = new AgentDispatcher(parts);
  }

  handle(operation: Operation, request: JsonObject, options: CallOptions = {}): Promise<AgentAnswer> {
    const { as = 'alice', dialect = '1.0', cancellation = new Cancellation(), extensions = [] } = options;
    const agent = 'agent' in options ? options.agent : 'one';
    const exchange: Exchange = { cancellation, extensions, forward: {} };
    return this.dispatcher.handle(caller(as), { agent, operation, request: { value: request }, dialect, exchange });
  }

  /** The result as a client reads it. */
  async call<T = JsonObject>(operation: Operation, request: JsonObject, options?: CallOptions): Promise<T> {
    const answer = await this.handle(operation, request, options);
    if (answer.kind !== 'result') throw new Error('got a stream instead of a result');
    return answer.result.value as unknown as T;
  }

  async open(
    operation: Operation,
    request: JsonObject,
    options?: CallOptions,
  ): Promise<AsyncIterator<Passed<StreamResponse>>> {
    const answer = await this.handle(operation, request, options);
    if (answer.kind !== 'stream') throw new Error('got a result instead of a stream');
    return answer.events[Symbol.asyncIterator]();
  }

  async send(
    more: JsonObject = {},
    configuration?: JsonObject,
    options?: CallOptions,
  ): Promise<{ task?: Task; message?: JsonValue }> {
    return this.call('SendMessage', { message: message(more), ...(configuration && { configuration }) }, options);
  }
}

export async function read(
  events: AsyncIterator<Passed<StreamResponse>>,
  most = Number.POSITIVE_INFINITY,
): Promise<StreamResponse[]> {
  const found: StreamResponse[] = [];
  while (found.length < most) {
    const next = await events.next();
    if (next.done) break;
    found.push(next.value.value);
  }
  return found;
}

/** The states of the events in order, with the text of artifacts. */
export const told = (events: readonly StreamResponse[]): string[] =>
  events.map(({ task: snapshot, statusUpdate, artifactUpdate }) => {
    if (snapshot) return `task ${snapshot.status.state.slice(11)}`;
    if (statusUpdate) return statusUpdate.status.state.slice(11);
    return artifactUpdate ? String(artifactUpdate.artifact.parts[0]?.text) : 'message';
  });

export interface Rig {
  readonly state: State;
  readonly agents: Map<string, ScriptedAgent>;
  readonly one: ScriptedAgent;
  /** Creates one more replica. */
  core(more?: Partial<AgentDispatcherOptions>): Core;
  /** Number of transactions and queries since the last call of `work`. */
  work(): { writes: number; reads: number };
  records: ReturnType<typeof agentRecords>;
  stop(): Promise<void>;
}

export async function startRig(): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), 'parley-a2a-'));
  const state = await openState({ data: folder, sweepMs: 0 });
  const one = new ScriptedAgent('one');
  const agents = new Map([['one', one]]);
  // Each replica has its own name as a follower of tasks.
  const replica = (): ReturnType<typeof agentRecords> => agentRecords(state, { taskTtl: 3_600_000, shared: false });
  const counted = { writes: 0, reads: 0 };
  const { q, tx } = state.db;
  const isWrite = (sql: string): boolean => !/^\s*(SELECT|PRAGMA)/.test(sql);
  state.db.q = (async (sql: string, params?: readonly (string | number | null)[]) => {
    counted[isWrite(sql) ? 'writes' : 'reads'] += 1;
    return q.call(state.db, sql, params);
  }) as typeof q;
  state.db.tx = async (statements: readonly Statement[]) => {
    counted[statements.some(([sql]) => isWrite(sql)) ? 'writes' : 'reads'] += 1;
    return tx.call(state.db, statements);
  };
  const cores: Core[] = [];
  return {
    ...{ state, agents, one, records: replica() },
    core: (more = {}) => {
      const core = new Core({
        agents: { get: (name) => agents.get(name), names: () => [...agents.keys()] },
        admission: new OpenAdmission(() => true),
        pipeline: new Pipeline([]),
        records: replica(),
        seal: new Seal(state.keyring),
        limits: {
          parts: 10,
          artifacts: 5,
          history: 8,
          taskSize: 1_000_000,
          tasks: 1_000,
          streams: 10,
          streamsPerCaller: 3,
          followed: 10,
          maxHops: 3,
        },
        timeouts: { call: 5_000, refresh: 300, hold: 1_000, lease: 600 },
        instance: 'here',
        log: SILENT,
        ...more,
      });
      cores.push(core);
      return core;
    },
    work: () => {
      const done = { ...counted };
      Object.assign(counted, { writes: 0, reads: 0 });
      return done;
    },
    stop: async () => {
      await Promise.all(cores.map(({ dispatcher }) => dispatcher.close()));
      await state.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
