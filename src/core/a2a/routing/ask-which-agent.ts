import { randomUUID } from 'node:crypto';
import type {
  AgentCard,
  CancelTaskRequest,
  GetTaskRequest,
  Message,
  Part,
  SendMessageRequest,
  SendMessageResponse,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
  TaskState,
} from '../../../protocol/a2a/model.js';
import { isTerminal, ROUTE } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { isObject, type JsonObject, type JsonValue } from '../../../protocol/jsonrpc/raw.js';
import type { Caller } from '../../caller.js';
import type { Agent, AgentFacts, AgentHealth, Events, Exchange, Passed } from '../agent.js';
import type { Cards } from '../cards/published-cards.js';
import { wordsOf } from '../cards/text-ranking.js';
import type { AgentGateway } from '../gateway.js';
import type { AgentRecords, TaskRecord } from '../tasks/task-records.js';
import { AgentRouter, type Candidate, hintIn, type MessageRouter, ROUTING_AGENT } from './agent-router.js';
import type { EqualSkills } from './choice-among-equal-skills.js';

export interface RoutingAgentOptions {
  readonly records: Pick<AgentRecords, 'findUpstream'>;
  /** Finds the agents that may fit a message, best first. */
  candidates(caller: Caller, request: SendMessageRequest): Promise<readonly Candidate[]>;
  /** The gateway that sends a message to the chosen agent. */
  gateway(): AgentGateway;
}

/** Not published: the gateway reads only the modes and capabilities of this card. */
const CARD: AgentCard = {
  name: 'Routing agent',
  description: 'Asks which agent a message is for.',
  supportedInterfaces: [],
  version: '1',
  capabilities: { streaming: true },
  defaultInputModes: ['*/*'],
  defaultOutputModes: ['text/plain', 'application/json'],
  skills: [],
};

/**
 * The agent that asks the client when the router cannot choose an agent (G-4). Its task waits for an answer that names
 * an agent. The routing agent then sends the first message to that agent as a new task, and its own task ends with the
 * outcome. From then on, the client uses the ids of the agent's task.
 */
export class RoutingAgent implements Agent {
  readonly name = ROUTING_AGENT;

  constructor(private readonly options: RoutingAgentOptions) {}

  known(): AgentFacts {
    return {
      card: CARD,
      original: { text: JSON.stringify(CARD), signature: 'unsigned' },
      can: { stream: true, push: false, subscribe: true },
    };
  }

  async facts(): Promise<AgentFacts> {
    return this.known();
  }

  onChanged(): () => void {
    return () => {};
  }

  async send(
    caller: Caller,
    { value: request }: Passed<SendMessageRequest>,
    exchange: Exchange,
  ): Promise<Passed<SendMessageResponse>> {
    const { message } = request;
    if (!message.taskId) return { value: { task: await this.ask(caller, request) } };
    const record = await this.find(caller, message.taskId);
    return { value: { task: await this.answered(caller, record, request, exchange) } };
  }

  async stream(caller: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Events> {
    const { value } = await this.send(caller, request, exchange);
    return once(value.task!);
  }

  async getTask(caller: Caller, { id }: GetTaskRequest): Promise<Passed<Task>> {
    return { value: (await this.find(caller, id)).task };
  }

  async cancelTask(caller: Caller, { id }: CancelTaskRequest): Promise<Passed<Task>> {
    const { task } = await this.find(caller, id);
    if (isTerminal(task.status.state)) throw new ProtocolError('task_not_cancelable', `Task "${id}" is finished`);
    return { value: { ...task, status: { state: 'TASK_STATE_CANCELED', timestamp: now() } } };
  }

  async subscribe(caller: Caller, { id }: SubscribeToTaskRequest): Promise<Events> {
    return once((await this.find(caller, id)).task);
  }

  async setCallback(): Promise<void> {
    throw new ProtocolError(
      'push_not_supported',
      'The routing agent has no push notifications of its own; the gateway sends them',
    );
  }

  health(): AgentHealth {
    return { status: 'up' };
  }

  async close(): Promise<void> {}

  /** Reads the stored record of a task, because the routing agent has no state of its own. */
  private async find(caller: Caller, id: string): Promise<TaskRecord> {
    const record = await this.options.records.findUpstream(ROUTING_AGENT, id);
    if (record?.owner !== caller.principal.key) {
      throw new ProtocolError('task_not_found', `Task not found: "${id}"`);
    }
    // The record has the client's task id, but the routing agent uses its own id.
    return { ...record, task: { ...record.task, id } };
  }

  private async ask(caller: Caller, request: SendMessageRequest): Promise<Task> {
    const id = randomUUID();
    const contextId = request.message.contextId || randomUUID();
    const first: Message = { ...request.message, taskId: id, contextId };
    return question({ id, contextId }, [first], await this.options.candidates(caller, request), false);
  }

  private async answered(
    caller: Caller,
    { task, contextId, dialect }: TaskRecord,
    request: SendMessageRequest,
    exchange: Exchange,
  ): Promise<Task> {
    const ids = { id: task.id, contextId };
    const history = [
      ...(task.history ?? []),
      ...(task.status.message ? [task.status.message] : []),
      { ...request.message, taskId: task.id, contextId },
    ];
    const [first] = history;
    const asked = { ...request, message: first ?? request.message };
    const candidates = await this.options.candidates(caller, asked);
    const chosen = chosenIn(request, candidates);
    if (chosen === undefined) return question(ids, history, candidates, true);
    const { taskId: _, contextId: __, ...fresh } = asked.message;
    const handed: SendMessageRequest = {
      ...request,
      message: fresh as Message,
      ...(request.configuration && { configuration: { ...request.configuration } }),
    };
    // The webhook of this message belongs to the task of the question, which the gateway reports. The agent's task must
    // not get the same webhook.
    delete handed.configuration?.taskPushNotificationConfig;
    delete handed.tenant;
    const answer = await this.options.gateway().handle(caller, {
      agent: chosen,
      operation: 'SendMessage',
      request: { value: handed },
      dialect,
      exchange,
      nested: true,
      routed: true,
    });
    if (answer.kind !== 'result') throw new ProtocolError('internal', 'Expected a result from the agent gateway');
    return outcome(ids, history, chosen, answer.result.value as SendMessageResponse);
  }
}

/** Builds the router together with its routing agent. `gateway` is called when a message goes to the chosen agent. */
export function buildRouter(parts: {
  readonly cards: Cards;
  readonly records: Pick<AgentRecords, 'findUpstream' | 'findAll' | 'contextAgent'>;
  readonly gateway: () => AgentGateway;
  readonly threshold?: number;
  readonly equalSkills?: EqualSkills;
}): MessageRouter {
  const routingAgent = new RoutingAgent({
    records: parts.records,
    candidates: (caller, request) => router.candidates(caller, request),
    gateway: parts.gateway,
  });
  const router = new AgentRouter({ ...parts, routingAgent });
  return router;
}

interface Ids {
  readonly id: string;
  readonly contextId: string;
}

const now = (): string => new Date().toISOString();

const agentMessage = ({ id, contextId }: Ids, parts: Part[], more: Partial<Message> = {}): Message => ({
  messageId: randomUUID(),
  role: 'ROLE_AGENT',
  taskId: id,
  contextId,
  parts,
  ...more,
});

function question(ids: Ids, history: Message[], candidates: readonly Candidate[], again: boolean): Task {
  const lines = candidates.map(({ agent, name, description, needs = [] }) => {
    const fits = needs.length > 0 ? ` Fits: ${needs.map((need) => JSON.stringify(need)).join(', ')}` : '';
    return `- ${agent}: ${name}. ${description}${fits}`;
  });
  const several = candidates.some(({ needs }) => needs !== undefined);
  const opening = again
    ? 'None of the agents has that name.'
    : several
      ? 'Parts of this message fit different agents; you can send each part as a separate message.'
      : 'Several agents may fit this message.';
  const listed: JsonValue = candidates.map(({ needs, ...candidate }) => ({
    ...candidate,
    ...(needs && { needs: [...needs] }),
  }));
  const message = agentMessage(ids, [
    { text: `${opening} Which agent is this message for? Answer with its name.\n${lines.join('\n')}` },
    { data: { question: 'agent', candidates: listed }, mediaType: 'application/json' },
  ]);
  return {
    ...ids,
    status: { state: 'TASK_STATE_INPUT_REQUIRED', message, timestamp: now() },
    history,
    metadata: { [ROUTE]: { agent: null, why: 'ask', candidates: candidates.map(({ agent }) => agent) } },
  };
}

/** Ends the question with the agent's answer: the task contains the agent's artifacts and names the agent's task. */
function outcome(ids: Ids, history: Message[], agent: string, { task, message }: SendMessageResponse): Task {
  const route: JsonObject = { agent, why: 'hint' };
  if (message) {
    return {
      ...ids,
      status: { state: 'TASK_STATE_COMPLETED', message: agentMessage(ids, message.parts), timestamp: now() },
      history,
      metadata: { [ROUTE]: { ...route, ...(message.contextId && { contextId: message.contextId }) } },
    };
  }
  if (!task)
    throw new ProtocolError('invalid_agent_response', `Agent "${agent}" answered with neither a task nor a message`);
  const { state } = task.status;
  const told = task.status.message?.parts ?? [];
  const text = `Agent "${agent}" continues this request as task ${task.id}.`;
  // The question is finished even if the agent's task now waits for input.
  const ended: TaskState = isTerminal(state) ? state : 'TASK_STATE_COMPLETED';
  return {
    ...ids,
    status: {
      state: ended,
      message: agentMessage(ids, [{ text }, ...told], { referenceTaskIds: [task.id] }),
      timestamp: now(),
    },
    ...(task.artifacts && { artifacts: task.artifacts }),
    history,
    metadata: {
      [ROUTE]: { ...route, taskId: task.id, state, ...(task.contextId && { contextId: task.contextId }) },
    },
  };
}

/** The agent that the client's answer names: by a hint, in data, or in the text. */
function chosenIn({ message, metadata }: SendMessageRequest, candidates: readonly Candidate[]): string | undefined {
  const data = message.parts.flatMap((part) => (isObject(part.data) ? [part.data] : []));
  for (const wish of [hintIn(message.metadata), hintIn(metadata), ...data]) {
    const named = wish?.['agent'] ?? wish?.['skillId'];
    const found = typeof named === 'string' ? byName(named, candidates) : undefined;
    if (found !== undefined) return found;
  }
  const words = message.parts.map(({ text }) => text ?? '').join(' ');
  return byName(words, candidates) ?? inWords(words, candidates);
}

function byName(name: string, candidates: readonly Candidate[]): string | undefined {
  const given = name.trim().toLowerCase();
  const found = candidates.find(
    ({ agent, name: title, skillId }) =>
      agent.toLowerCase() === given || title.toLowerCase() === given || skillId?.toLowerCase() === given,
  );
  return found?.agent ?? candidates.find(({ agent }) => given.startsWith(`${agent.toLowerCase()}.`))?.agent;
}

/** The only candidate whose name occurs in the text; undefined if two names occur. */
function inWords(words: string, candidates: readonly Candidate[]): string | undefined {
  const said = ` ${wordsOf(words).join(' ')} `;
  const named = candidates.filter(({ agent, name }) =>
    [agent, name].some((title) => {
      const spoken = wordsOf(title).join(' ');
      return spoken !== '' && said.includes(` ${spoken} `);
    }),
  );
  return named.length === 1 ? named[0]!.agent : undefined;
}

async function* once(task: Task): AsyncGenerator<Passed<StreamResponse>> {
  yield { value: { task } };
}
