import { createHash, randomUUID } from 'node:crypto';
import { NATIVE } from '../../../protocol/a2a/dialect.js';
import {
  isInterrupted,
  isSettled,
  type Operation,
  type SendMessageRequest,
  type StreamResponse,
  type Task,
} from '../../../protocol/a2a/model.js';
import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import {
  type InputRequest,
  isObject,
  type ServerDescription,
  type SubscriptionFilter,
} from '../../../protocol/mcp/model.js';
import { methodNotFound } from '../../../protocol/mcp/recognised-upstream-errors.js';
import { declares, requiredCapability } from '../../../protocol/mcp/translate/questions.js';
import {
  type AgentTool,
  replyResult,
  requestOf,
  taskResult,
  toolsOf,
  wordOf,
} from '../../../protocol/protocol-bridge/agent-tool.js';
import { textOf } from '../../../protocol/protocol-bridge/parts-and-content.js';
import { answerParts, questionKey, questionOf } from '../../../protocol/protocol-bridge/task-questions.js';
import { type Caller, Cancellation } from '../../caller.js';
import { complete, failed, type Outcome } from '../../gateway.js';
import type { TraceContext } from '../../trace-context.js';
import type { Upstream, UpstreamCall, UpstreamHealth, Watch, WatchEvent } from '../../upstream.js';
import type { Agent, Exchange } from '../agent.js';
import type { AgentAnswer, AgentGateway } from '../gateway.js';
import { waitForAgent } from './wait-for-agent.js';

/** The TTL of an agent's list of tools. */
const LIST_TTL = 60_000;

/**
 * The state of a question, which the client returns with the answer. The gateway seals this state like the
 * `requestState` of any server.
 */
interface Waiting {
  readonly taskId: string;
  readonly contextId?: string;
  readonly key: string;
  /** A digest of the question, for agents whose messages have no ids. */
  readonly asked: string;
}

/** A call of one of the agent's tools. */
interface ToolCall {
  readonly caller: Caller;
  readonly call: UpstreamCall;
  readonly tool: AgentTool;
}

/**
 * Presents an A2A agent as an MCP server whose tools are the agent's skills. It acts as a server of the newest
 * revision, so the era bridge serves clients of every revision. If the agent's task requires input, the call returns a
 * question, and the answer continues the task.
 */
export class AgentUpstream implements Upstream {
  readonly name: string;
  /** The A2A context of each client session, for calls that name no context. */
  private readonly contexts = new Map<string, string>();

  constructor(
    private readonly agent: Agent,
    private readonly gateway: AgentGateway,
    /** The longest duration of a call, in milliseconds. */
    private readonly callMax: number,
  ) {
    this.name = agent.name;
  }

  async describe(): Promise<ServerDescription> {
    const { card } = await this.agent.facts();
    return {
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: this.name, title: card.name, version: card.version },
      instructions: card.description,
    };
  }

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    try {
      switch (call.method) {
        case 'tools/list':
          return complete(RawObject.from(await this.list()));
        case 'tools/call':
          return await this.callTool(caller, call);
        default:
          return failed(methodNotFound(call.method));
      }
    } catch (error) {
      if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return failed(error);
      throw error;
    }
  }

  private async tools(): Promise<AgentTool[]> {
    return toolsOf((await this.agent.facts()).card);
  }

  private async list(): Promise<JsonObject> {
    const tools = (await this.tools()).map(({ definition }) => definition);
    return { resultType: 'complete', tools, ttlMs: LIST_TTL, cacheScope: 'public' };
  }

  private async callTool(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const name = call.params.get('name');
    const tool = (await this.tools()).find((each) => each.name === name);
    if (!tool) throw new ProtocolError('tool_not_found', `Unknown tool: ${String(name)}`);
    const state = call.params.get('requestState');
    const toolCall: ToolCall = { caller, call, tool };
    if (typeof state === 'string') return this.answer(toolCall, waitingIn(state));
    const args = call.params.get('arguments') ?? {};
    if (!isObject(args)) throw new ProtocolError('invalid_params', '"arguments" must be an object');
    const request = requestOf(tool, args, randomUUID());
    const { message } = request;
    const { session } = caller;
    if (message.taskId !== undefined) return this.send(toolCall, request, await this.task(caller, message.taskId));
    const context = session === undefined ? undefined : this.contexts.get(session);
    if (context !== undefined) message.contextId ??= context;
    return this.send(toolCall, request, undefined);
  }

  /** Continues a task that asked a question. */
  private async answer(toolCall: ToolCall, waiting: Waiting): Promise<Outcome> {
    const { caller, call } = toolCall;
    const { taskId, contextId, key } = waiting;
    const answers = call.params.get('inputResponses');
    const answer = isObject(answers) ? answers[key] : undefined;
    if (!isObject(answer)) throw new ProtocolError('invalid_params', `"inputResponses" has no answer for "${key}"`);
    const parts = answerParts(answer);
    if (!parts) {
      const task = await this.ask(caller, 'CancelTask', { id: taskId });
      return complete(RawObject.from(taskResult(this.name, task as unknown as Task)));
    }
    const task = await this.task(caller, taskId);
    // The task no longer asks this question, because the user answered on a web page or the same answer arrived before.
    // The answer must not go to a later question.
    if (!isInterrupted(task.status.state) || !stillAsks(task, waiting)) return this.follow(toolCall, task);
    const message = { messageId: randomUUID(), role: 'ROLE_USER' as const, taskId, parts };
    return this.send(toolCall, { message: { ...message, ...(contextId !== undefined && { contextId }) } }, task);
  }

  private send(toolCall: ToolCall, request: SendMessageRequest, before: Task | undefined): Promise<Outcome> {
    return this.wait(toolCall, 'SendStreamingMessage', request as unknown as JsonObject, before);
  }

  private follow(toolCall: ToolCall, task: Task): Outcome | Promise<Outcome> {
    if (isSettled(task.status.state)) return this.settled(toolCall, task);
    return this.wait(toolCall, 'SubscribeToTask', { id: task.id }, task);
  }

  /** Sends a request and waits until the agent waits for the client or has finished. Reports events as progress. */
  private async wait(
    toolCall: ToolCall,
    operation: Operation,
    request: JsonObject,
    before: Task | undefined,
  ): Promise<Outcome> {
    const { caller, call } = toolCall;
    let steps = 0;
    const limit = new WaitLimit(call.cancellation, call.timeouts?.callMax ?? this.callMax);
    const heard = await waitForAgent(this.handle(caller, operation, request, call.trace), {
      cancellation: limit.cancellation,
      before: before?.status,
      onEvent: (event) => {
        if (call.wantsProgress) call.notify(progressOf(event, ++steps));
      },
    }).finally(() => limit.end());
    switch (heard.kind) {
      case 'task':
        return this.settled(toolCall, heard.task);
      case 'message':
        this.remember(caller, heard.message.contextId);
        return complete(RawObject.from(replyResult(this.name, heard.message)));
      case 'left':
        // A client that leaves a call no longer needs its result, so the gateway cancels the task. The agent decides
        // whether to stop.
        void heard.task.then((task) => task && this.cancel(caller, task.id)).catch(() => {});
        if (!call.cancellation.cancelled) {
          const late = `Agent "${this.name}" did not finish in time`;
          throw new ProtocolError('upstream_timeout', late, { outcome: 'unknown', data: { server: this.name } });
        }
        throw new ProtocolError('cancelled', call.cancellation.reason ?? 'The request was cancelled', {
          outcome: 'unknown',
        });
    }
  }

  private settled({ caller, tool }: ToolCall, task: Task): Outcome {
    this.remember(caller, task.contextId);
    if (isInterrupted(task.status.state)) {
      const question = questionOf(task);
      if (declares(caller.capabilities, requiredCapability(question))) {
        const key = questionKey(task);
        const waiting: Waiting = {
          taskId: task.id,
          key,
          asked: digestOf(question),
          ...(task.contextId !== undefined && { contextId: task.contextId }),
        };
        return {
          kind: 'input_required',
          inputRequests: { [key]: question },
          requestState: JSON.stringify(waiting),
        };
      }
    }
    return complete(RawObject.from(taskResult(this.name, task, tool)));
  }

  /** Called when the client will not answer the agent's question. Cancels the task. */
  abandon(caller: Caller, state: string): void {
    this.cancel(caller, waitingIn(state).taskId);
  }

  private cancel(caller: Caller, id: string): void {
    this.ask(caller, 'CancelTask', { id }).catch(() => {});
  }

  private async task(caller: Caller, id: string): Promise<Task> {
    return (await this.ask(caller, 'GetTask', { id })) as unknown as Task;
  }

  private remember({ session }: Caller, contextId: string | undefined): void {
    if (session !== undefined && contextId !== undefined) this.contexts.set(session, contextId);
  }

  private handle(
    caller: Caller,
    operation: Operation,
    request: JsonObject,
    trace?: TraceContext,
  ): Promise<AgentAnswer> {
    // The exchange has a cancellation of its own, because this class cancels the task when the client leaves.
    const exchange: Exchange = { cancellation: new Cancellation(), extensions: [], forward: { ...trace } };
    return this.gateway.handle(caller, {
      agent: this.name,
      operation,
      request: { value: request },
      dialect: NATIVE,
      exchange,
      nested: true,
    });
  }

  private async ask(caller: Caller, operation: Operation, request: JsonObject): Promise<JsonObject> {
    const answer = await this.handle(caller, operation, request);
    if (answer.kind !== 'result' || !isObject(answer.result.value))
      throw new ProtocolError('internal', 'Expected a result from the agent gateway');
    return answer.result.value;
  }

  watch(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<Watch> {
    const wants = filter.toolsListChanged === true;
    const stop = wants ? this.agent.onChanged(() => deliver({ kind: 'toolsListChanged' })) : () => {};
    return Promise.resolve({ honoured: wants ? { toolsListChanged: true } : {}, close: stop });
  }

  keepWatching(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<unknown> {
    return this.watch(filter, deliver);
  }

  /** `polled`, because the agent's lists have a TTL. */
  listNews(): 'polled' {
    return 'polled';
  }

  rootsChanged(): void {}

  release(session: string): void {
    this.contexts.delete(session);
  }

  health(): UpstreamHealth {
    const { status, detail } = this.agent.health();
    return { status, speaks: [], ...(detail !== undefined && { detail }) };
  }

  /** Closes nothing, because the owner of the agent closes the agent. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}

const digestOf = (question: InputRequest): string =>
  createHash('sha256').update(JSON.stringify(question)).digest('base64url').slice(0, 16);

const stillAsks = (task: Task, { key, asked }: Waiting): boolean =>
  questionKey(task) === key || digestOf(questionOf(task)) === asked;

/** Cancels the wait for the agent when the client leaves or the call takes too long. */
class WaitLimit {
  readonly cancellation = new Cancellation();
  private readonly off: () => void;
  private readonly timer: NodeJS.Timeout;

  constructor(ofCall: Cancellation, longest: number) {
    this.off = ofCall.onCancel((reason) => this.cancellation.cancel(reason));
    this.timer = setTimeout(() => this.cancellation.cancel('the call timed out'), longest);
  }

  end(): void {
    clearTimeout(this.timer);
    this.off();
  }
}

function waitingIn(state: string): Waiting {
  try {
    const value = JSON.parse(state) as Partial<Waiting>;
    if (typeof value.taskId === 'string' && typeof value.key === 'string') return value as Waiting;
  } catch {
    // The error below covers a state that is not JSON.
  }
  throw new ProtocolError('invalid_state', 'The request state belongs to another server');
}

function progressOf(event: StreamResponse, progress: number): { method: string; params: JsonObject } {
  const message = saidIn(event);
  return { method: 'notifications/progress', params: { progress, ...(message !== '' && { message }) } };
}

function saidIn({ task, statusUpdate, artifactUpdate }: StreamResponse): string {
  const status = statusUpdate?.status ?? task?.status;
  if (status) return textOf(status.message?.parts) || wordOf(status.state);
  const artifact = artifactUpdate?.artifact;
  return artifact ? `${artifact.name ?? artifact.artifactId}: ${textOf(artifact.parts)}`.slice(0, 200) : '';
}
