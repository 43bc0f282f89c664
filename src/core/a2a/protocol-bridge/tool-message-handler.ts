import { randomUUID } from 'node:crypto';
import type { Message, Part, SendMessageRequest, Task, TaskState } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import type { InputRequests, Notification } from '../../../protocol/mcp/model.js';
import { NEWEST } from '../../../protocol/mcp/revisions/index.js';
import { partsOf, textOf } from '../../../protocol/protocol-bridge/parts-and-content.js';
import { answersIn } from '../../../protocol/protocol-bridge/task-questions.js';
import { problemsWith, selectTool, type Tool } from '../../../protocol/protocol-bridge/tool-skill.js';
import { type Caller, Cancellation } from '../../caller.js';
import type { CallState } from '../../era-bridge/call-state.js';
import { ALL_SERVERS, type Call, type Gateway, type Outcome, plainCall } from '../../gateway.js';
import type { Seal } from '../../seal.js';
import { gatewayNote, noteIn } from '../tasks/gateway-notes.js';
import type { TaskRun } from './task-run.js';
import { missing, names, progress, questionsOf, status, whichTool } from './tool-status.js';

export interface ToolMessageHandlerOptions {
  /** The MCP side of the gateway. */
  readonly gateway: Gateway;
  readonly seal: Seal;
  /** How long a task may wait for its client, in milliseconds. */
  readonly patience: number;
  /** Checks arguments against the whole input schema of a tool. If absent, only `problemsWith` checks arguments. */
  readonly check?: (definition: JsonObject, args: JsonObject) => readonly string[];
}

/**
 * What a waiting task still needs. Without `asked`: the name of the tool or missing arguments. With `asked`: the
 * answers to the tool's questions.
 */
interface Waiting {
  readonly tool: string | undefined;
  readonly args: JsonObject;
  readonly state?: CallState;
  readonly asked?: InputRequests;
}

/** Questions of servers reach the A2A client as INPUT_REQUIRED. An A2A client has no sampling and no roots. */
const CAPABILITIES = { elicitation: { form: {}, url: {} } };

/**
 * Handles a message to a tool agent: chooses the tool, checks its arguments and calls it. Missing arguments and
 * questions of the tool go to the client, and the next message continues from there.
 */
export class ToolMessageHandler {
  constructor(private readonly options: ToolMessageHandlerOptions) {}

  /** `before` is the task that the message continues. */
  async work(
    caller: Caller,
    run: TaskRun,
    request: SendMessageRequest,
    tools: readonly Tool[],
    before: Task | undefined,
  ): Promise<void> {
    const waiting = before && this.waitingIn(caller, before);
    const known = tools.find(({ name }) => name === waiting?.tool);
    if (known && waiting?.asked && waiting.state) return this.answer(caller, run, known, waiting, request.message);
    const { tool, args } = selectTool(request, known ? [known] : tools, waiting?.args);
    if (!tool) return this.ask(caller, run, whichTool(tools), { tool: undefined, args });
    const top = problemsWith(tool, args);
    const problems = top.length > 0 ? top : (this.options.check?.(tool.definition, args) ?? []);
    if (problems.length > 0) return this.ask(caller, run, missing(tool, problems), { tool: tool.name, args });
    return this.run(caller, run, tool, args, {});
  }

  private answer(
    caller: Caller,
    run: TaskRun,
    tool: Tool,
    waiting: Waiting,
    message: Message,
  ): Promise<void> | undefined {
    const { asked = {}, args, state } = waiting;
    const inputResponses = answersIn(message, asked);
    if (inputResponses) return this.run(caller, run, tool, args, { inputResponses }, state);
    this.ask(caller, run, questionsOf(asked), waiting, stateFor(asked));
    return undefined;
  }

  private async run(
    caller: Caller,
    run: TaskRun,
    tool: Tool,
    args: JsonObject,
    more: JsonObject,
    state?: CallState,
  ): Promise<void> {
    const params = RawObject.from({ name: tool.name, arguments: args, ...more });
    const call = callOf('tools/call', params, run.cancellation, (notification) => {
      if (notification.method === 'notifications/progress') run.emit(progress(run.task, notification.params));
    });
    const outcome = await this.options.gateway.call(asking(caller), { ...call, state, nested: true });
    this.conclude(caller, run, tool, args, outcome);
  }

  private conclude(caller: Caller, run: TaskRun, tool: Tool, args: JsonObject, outcome: Outcome): void {
    if (outcome.kind === 'error') throw outcome.error;
    if (outcome.kind === 'task') throw new ProtocolError('internal', `Tool "${tool.name}" answered with a task`);
    if (outcome.kind === 'input_required') {
      const { inputRequests: asked = {}, state } = outcome;
      const waiting = { tool: tool.name, args, asked, ...(state && { state }) };
      this.ask(caller, run, questionsOf(asked), waiting, stateFor(asked));
      return;
    }
    const result = outcome.result.value();
    const parts = partsOf(result);
    const failed = result['isError'] === true;
    if (parts.length > 0) {
      run.emit({
        artifactUpdate: {
          ...names(run.task),
          artifact: { artifactId: randomUUID(), name: failed ? 'error' : tool.name, parts },
          lastChunk: true,
        },
      });
    }
    const state = failed ? 'TASK_STATE_FAILED' : 'TASK_STATE_COMPLETED';
    run.emit(status(run.task, state, failed ? [{ text: textOf(parts) || `Tool "${tool.name}" failed` }] : undefined));
  }

  /** Asks the client. The data to continue the task is sealed for the caller and stored with the question. */
  private ask(
    caller: Caller,
    run: TaskRun,
    parts: Part[],
    waiting: Waiting,
    state: TaskState = 'TASK_STATE_INPUT_REQUIRED',
  ): void {
    const sealed = this.options.seal.close('state', caller.principal.key, waiting, this.options.patience);
    run.emit(status(run.task, state, parts, gatewayNote(sealed)));
  }

  private waitingIn(caller: Caller, task: Task): Waiting | undefined {
    const sealed = noteIn(task.status.message?.metadata);
    if (typeof sealed !== 'string') return undefined;
    try {
      return this.options.seal.open('state', caller.principal.key, sealed) as Waiting;
    } catch {
      throw new ProtocolError(
        'unsupported_operation',
        'The answer came too late: the question of the task has expired',
      );
    }
  }

  /** Answers the open question of a cancelled task as cancelled, so that the tool's server can end the call. */
  async giveUp(caller: Caller, task: Task): Promise<void> {
    try {
      const { tool, args = {}, asked = {}, state } = this.waitingIn(caller, task) ?? {};
      if (tool === undefined || !state) return;
      const inputResponses = Object.fromEntries(Object.keys(asked).map((key) => [key, { action: 'cancel' }]));
      const params = RawObject.from({ name: tool, arguments: args, inputResponses });
      const call = callOf('tools/call', params, new Cancellation());
      await this.options.gateway.call(asking(caller), { ...call, state });
    } catch {
      // If the answer cannot be sent, the call at the server expires by itself.
    }
  }
}

const asking = (caller: Caller): Caller => ({ ...caller, revision: NEWEST, capabilities: CAPABILITIES });

/** AUTH_REQUIRED if the user must visit a URL to sign in or to consent; INPUT_REQUIRED for all other questions. */
const stateFor = (asked: InputRequests): TaskState =>
  Object.values(asked).some(({ params }) => params?.['mode'] === 'url')
    ? 'TASK_STATE_AUTH_REQUIRED'
    : 'TASK_STATE_INPUT_REQUIRED';

/** A request of the tool agent to the MCP side. */
export function callOf(
  method: string,
  params: RawObject,
  cancellation: Cancellation,
  notify: (notification: Notification) => void = () => {},
): Call {
  const call = plainCall(method, params, ALL_SERVERS, { cancellation });
  return { ...call, wantsProgress: method === 'tools/call', notify };
}
