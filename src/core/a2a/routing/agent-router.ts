import {
  type Message,
  type Part,
  ROUTE,
  type SendMessageResponse,
  type StreamResponse,
} from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { isObject, type JsonObject, type JsonValue } from '../../../protocol/jsonrpc/raw.js';
import { unknownAgent } from '../../admission.js';
import type { CallNotes } from '../../audit-trail.js';
import type { Caller } from '../../caller.js';
import type { Agent, Events, Passed } from '../agent.js';
import { plainLine } from '../cards/card-text.js';
import type { Cards } from '../cards/published-cards.js';
import type { AgentAnswer, AgentCall } from '../gateway.js';
import type { AgentRecords } from '../tasks/task-records.js';
import type { EqualSkills, SkillChoice } from './choice-among-equal-skills.js';
import { accepts, modeOf } from './media-modes.js';
import { equalSkillsOf, isEqual, withoutEqualSkills } from './skill-equality.js';
import { type AgentRanking, type RankableSkill, type RankedNeed, SkillRanking } from './skill-ranking.js';

/** The name of the routing agent in task records. No configured agent can have it. */
export const ROUTING_AGENT = '';

/** An agent that may fit a message. */
export interface Candidate {
  readonly agent: string;
  readonly name: string;
  readonly description: string;
  /** The best-matching skill, by its id on the routing agent's card. */
  readonly skillId?: string;
  /** The parts of the message that this agent fits best, if the parts fit different agents. */
  readonly needs?: readonly string[];
}

/** Why the words of a message decided, or why they did not decide. */
export interface RouteReasons {
  /**
   * Why the routing agent asks: no skill matches, two agents match almost equally, or the needs fit different agents.
   */
  readonly unsure?: 'no_match' | 'close' | 'several';
  /** The terms of the message that the best skill has. */
  readonly matched: readonly string[];
  /** The next best agent, with its score relative to the best. */
  readonly next?: { readonly agent: string; readonly score: number };
  /** The needs of a message, if the message has several. */
  readonly needs?: readonly RankedNeed[];
}

/** The rule of G-4 that decided. The rules are listed in the order in which they apply. */
export type RouteWhy = 'task' | 'context' | 'reference' | 'hint' | 'tenant' | 'only' | 'match';

/**
 * The route of a call at the shared endpoint. `agent` may be `ROUTING_AGENT` for an answer to the routing agent's
 * question. `ask` means that no agent fits well enough, so the routing agent asks the client.
 */
export type RouteDecision =
  | {
      readonly kind: 'agent';
      readonly agent: string;
      readonly why: RouteWhy;
      readonly skillId?: string;
      /** Set if several agents have the skill. Learns from the outcome of the call. */
      readonly choice?: SkillChoice;
      readonly reasons?: RouteReasons;
    }
  | { readonly kind: 'ask'; readonly candidates: readonly Candidate[]; readonly reasons?: RouteReasons };

/** Chooses the agent for a call that names no agent. */
export interface MessageRouter {
  /**
   * The agent that asks the client when no agent fits. It handles every `ask` decision, and every decision for
   * `ROUTING_AGENT`.
   */
  readonly routingAgent: Agent;
  /** Throws `task_not_found`, `agent_not_found`, `content_type_not_supported` or `invalid_params` with candidates. */
  route(caller: Caller, call: AgentCall): Promise<RouteDecision>;
}

export interface AgentRouterOptions {
  readonly cards: Cards;
  readonly records: Pick<AgentRecords, 'findAll' | 'contextAgent'>;
  readonly routingAgent: Agent;
  /** The lowest score of an accepted match. With the default, one shared word suffices if few skills have that word. */
  readonly threshold?: number;
  /** Chooses among agents with equal skills. If absent, the first of these agents gets every message. */
  readonly equalSkills?: EqualSkills | undefined;
}

const THRESHOLD = 0.25;
const MOST_CANDIDATES = 10;
/** If another agent has at least this share of the best score, the router asks the client. */
const CLOSE = 0.9;

/**
 * Routes a call by the rules of G-4, in this order: agent of the task, agent of the context, hint of the caller, media
 * types, best match of words.
 */
export class AgentRouter implements MessageRouter {
  private readonly ranking = new SkillRanking();

  constructor(private readonly options: AgentRouterOptions) {}

  get routingAgent(): Agent {
    return this.options.routingAgent;
  }

  async route(caller: Caller, call: AgentCall): Promise<RouteDecision> {
    const request = call.request.value;
    const message = messageOf(request);
    const wish = wishOf(request, message);
    const taskId = text(message ? message.taskId : (request['taskId'] ?? request['id']));
    const owner = taskId === undefined ? undefined : await this.ownerOf(caller, taskId, wish);
    if (owner !== undefined) return { kind: 'agent', agent: owner, why: 'task' };
    // A new task may have an id that the client chose; `MessagePreparer` decides whether the client may do so.
    if (!message) throw new ProtocolError('task_not_found', `Task not found: "${taskId ?? ''}"`);
    return (await this.byContext(caller, message)) ?? this.find(caller, call, message, wish);
  }

  /** The agents that may fit a message, best first. */
  async candidates(caller: Caller, request: JsonObject): Promise<Candidate[]> {
    const message = messageOf(request);
    const found = await this.fitting(caller, request, message);
    return candidatesOf(found.fitting, this.rank(found, message));
  }

  private rank({ all, fitting }: Fitting, message: Message | undefined): AgentRanking {
    const words = (message?.parts ?? []).map(wordsIn).join(' ').slice(0, MOST_TEXT);
    return this.ranking.rank(all, fitting, words, this.threshold);
  }

  private get threshold(): number {
    return this.options.threshold ?? THRESHOLD;
  }

  /** The agent of a task. If several agents have a task of this id, the caller must name the agent (G-5). */
  private async ownerOf(caller: Caller, id: string, wish: Wish): Promise<string | undefined> {
    const found = (await this.options.records.findAll(caller.principal.key, id)).map(({ agent }) => agent);
    const owners = await this.usable(caller, new Set(found));
    // A task of an agent that is gone or hidden from this caller must not go to another agent.
    if (found.length > 0 && owners.length === 0) throw new ProtocolError('task_not_found', `Task not found: "${id}"`);
    if (owners.length <= 1) return owners[0];
    const wished = wish.agent ?? wish.tenant;
    if (wished !== undefined && owners.includes(wished)) return wished;
    throw new ProtocolError('invalid_params', `Several agents have a task "${id}" of this caller; name the agent too`, {
      outcome: 'not_executed',
      data: { candidates: owners },
    });
  }

  private async byContext(caller: Caller, message: Message): Promise<RouteDecision | undefined> {
    const { records } = this.options;
    const { contextId, referenceTaskIds = [] } = message;
    const kept = contextId ? await records.contextAgent(caller.principal.key, contextId) : undefined;
    const [owner] = kept === undefined ? [] : await this.usable(caller, [kept]);
    if (kept !== undefined && owner === undefined)
      throw new ProtocolError('agent_not_found', 'The agent of this context is no longer available', {
        outcome: 'not_executed',
      });
    // The routing agent asks only once per context. Later messages in the context are routed like messages of any other
    // context.
    if (owner !== undefined && owner !== ROUTING_AGENT) return { kind: 'agent', agent: owner, why: 'context' };
    const owners = new Set<string>();
    for (const id of referenceTaskIds.slice(0, MOST_CANDIDATES)) {
      for (const { agent } of await records.findAll(caller.principal.key, id)) if (agent) owners.add(agent);
    }
    const [agent, another] = await this.usable(caller, owners);
    return agent !== undefined && another === undefined ? { kind: 'agent', agent, why: 'reference' } : undefined;
  }

  /** The given agents that the caller still sees. Every caller sees the routing agent. */
  private async usable(caller: Caller, agents: Iterable<string>): Promise<string[]> {
    const named = [...agents];
    if (named.length === 0) return named;
    const visible = await this.options.cards.visible(caller);
    return named.filter((agent) => agent === ROUTING_AGENT || visible.includes(agent));
  }

  private async find(caller: Caller, call: AgentCall, message: Message, wish: Wish): Promise<RouteDecision> {
    const request = call.request.value;
    const wished = await this.wished(caller, call, wish);
    if (wished) return wished;
    const { all, fitting } = await this.fitting(caller, request, message);
    const names = new Set(fitting.map(({ agent }) => agent));
    const [only] = names;
    if (only !== undefined && names.size === 1) return { kind: 'agent', agent: only, why: 'only' };
    // Equal skills count once. Otherwise their words would look common, and no skill would match well.
    const different = this.options.equalSkills ? withoutEqualSkills(fitting) : fitting;
    const ranking = this.rank({ all, fitting: different }, message);
    const reasons = reasonsOf(ranking, this.threshold);
    const [ranked] = ranking.agents;
    const best = different.find(({ agent, skillId }) => agent === ranked?.agent && skillId === ranked.skillId);
    if (best && reasons.unsure === undefined) return { ...this.among(fitting, best, 'match', call), reasons };
    // Every agent has all of the skills, so there is nothing to ask.
    const first = best ?? different[0];
    const same = new Set(different.map(({ agent }) => agent)).size === 1;
    if (first && same && fitting.every((choice) => equalSkillsOf(choice, fitting).length === names.size))
      return this.among(fitting, first, 'only', call);
    return { kind: 'ask', candidates: candidatesOf(different, ranking), reasons };
  }

  /**
   * The agent that the caller names: by agent, by tenant, by a skill id of the routing agent's card, or by a skill id
   * that only one agent has.
   */
  private async wished(caller: Caller, call: AgentCall, wish: Wish): Promise<RouteDecision | undefined> {
    const named = wish.agent ?? wish.tenant;
    if (named !== undefined) {
      if (!(await this.options.cards.visible(caller)).includes(named)) throw unknownAgent(named);
      const skillId = wish.skillId === undefined ? {} : { skillId: wish.skillId };
      return { kind: 'agent', agent: named, why: wish.agent === undefined ? 'tenant' : 'hint', ...skillId };
    }
    const { skillId } = wish;
    if (skillId === undefined) return undefined;
    const all = await this.skills(caller);
    const having = all.filter((choice) => choice.skillId === skillId);
    const found = having.length > 0 ? having : all.filter((choice) => choice.ownId === skillId);
    const owners = [...new Set(found.map(({ agent }) => agent))];
    const [first] = found;
    if (first === undefined) {
      throw new ProtocolError('invalid_params', `No agent of this gateway has a skill "${skillId}"`, {
        outcome: 'not_executed',
      });
    }
    if (owners.length > 1 && found.some((choice) => !isEqual(choice, first))) {
      throw new ProtocolError('invalid_params', `Several agents have a skill "${skillId}"; name the agent too`, {
        outcome: 'not_executed',
        data: { candidates: found.map((choice) => choice.skillId) },
      });
    }
    const up = found.filter(({ down }) => !down);
    return this.among(up.length > 0 ? up : found, up[0] ?? first, 'hint', call);
  }

  /** The agent of a skill, or one of the agents with an equal skill. */
  private among(choices: readonly Choice[], best: Choice, why: RouteWhy, call: AgentCall): RouteDecision {
    const { equalSkills } = this.options;
    const equal = equalSkills ? equalSkillsOf(best, choices) : [];
    const agents = [...new Set(equal.map(({ agent }) => agent))];
    if (!equalSkills || agents.length < 2) return { kind: 'agent', agent: best.agent, why, skillId: best.skillId };
    const choice = equalSkills.choose(best.ownId, call.operation, agents);
    const { skillId } = equal.find(({ agent }) => agent === choice.agent) ?? best;
    return { kind: 'agent', agent: choice.agent, why, skillId, choice };
  }

  /**
   * The skills that accept the parts of the message, produce an accepted output mode, and belong to a reachable agent.
   */
  private async fitting(caller: Caller, request: JsonObject, message: Message | undefined): Promise<Fitting> {
    const all = await this.skills(caller);
    if (all.length === 0) throw new ProtocolError('agent_not_found', 'This gateway has no agent for this caller');
    const parts = message?.parts ?? [];
    const takers = (modes: readonly (string | undefined)[]): Choice[] =>
      all.filter(({ inputModes }) => modes.every((mode) => mode === undefined || accepts(inputModes, mode)));
    const said = parts.map(({ mediaType }) => mediaType || undefined);
    const exact = takers(parts.map((part) => modeOf(part)));
    // Declared media types are compared first. Without a match, guessed types are ignored, because many agents accept
    // more than they declare (S-22).
    const taking = exact.length > 0 ? exact : takers(said);
    if (taking.length === 0) {
      throw new ProtocolError(
        'content_type_not_supported',
        `No agent of this gateway accepts ${[...new Set(said)].join(', ')}`,
        {
          outcome: 'not_executed',
        },
      );
    }
    const wanted = (request['configuration'] as JsonObject | undefined)?.['acceptedOutputModes'];
    const readable = Array.isArray(wanted) ? wanted.filter((mode) => typeof mode === 'string') : [];
    // Accepted output modes are preferences: if no agent matches, agents with other modes stay.
    const giving = taking.filter(
      ({ outputModes }) => readable.length === 0 || outputModes.some((mode) => accepts(readable, mode)),
    );
    const left = giving.length > 0 ? giving : taking;
    const up = left.filter(({ down }) => !down);
    return { all, fitting: up.length > 0 ? up : left };
  }

  private async skills(caller: Caller): Promise<Choice[]> {
    const { cards } = this.options;
    return (await cards.visibleAgents(caller)).flatMap(({ name, agent, facts }) => {
      if (!facts) return [];
      const down = agent.health().status === 'down';
      return cards.skills(name, facts.card).map(({ skill, ownId }) => ({
        agent: name,
        title: facts.card.name || name,
        about: cards.about(name, facts.card),
        skillId: skill.id,
        ownId,
        skill,
        card: facts.card,
        inputModes: skill.inputModes ?? [],
        outputModes: skill.outputModes ?? [],
        down,
      }));
    });
  }
}

interface Choice extends RankableSkill {
  /** The id that the agent gives the skill. */
  readonly ownId: string;
  readonly inputModes: readonly string[];
  readonly outputModes: readonly string[];
  readonly down: boolean;
}

/** `all`: the skills that a caller sees. `fitting`: the skills among these that can take the message. */
interface Fitting {
  readonly all: readonly Choice[];
  readonly fitting: readonly Choice[];
}

/**
 * Why the words of the message decide or do not decide. A nearly equal skill of another agent does not make the choice
 * uncertain, because either agent can serve the message.
 */
function reasonsOf({ agents, strength, needs }: AgentRanking, threshold: number): RouteReasons {
  const [best] = agents;
  const next = agents.find((other) => other !== best && !other.equivalent);
  const owners = new Set(needs.map(({ agent }) => agent));
  const unsure =
    !best || strength < threshold
      ? 'no_match'
      : owners.size > 1
        ? 'several'
        : next && next.score >= CLOSE
          ? 'close'
          : undefined;
  return {
    ...(unsure !== undefined && { unsure }),
    matched: best?.matched ?? [],
    ...(next && { next: { agent: next.agent, score: Math.round(next.score * 100) / 100 } }),
    ...(needs.length > 0 && { needs }),
  };
}

/** The most characters of a message that are used for matching. */
const MOST_TEXT = 8_000;

function wordsIn({ text, data, filename }: Part): string {
  const told = data === undefined ? '' : JSON.stringify(data).slice(0, MOST_TEXT);
  return `${text ?? ''} ${told} ${filename ?? ''}`;
}

/** The candidates, each agent once: first the ranked agents, then the other agents in their order. */
function candidatesOf(fitting: readonly Choice[], { agents, needs }: AgentRanking): Candidate[] {
  const best = new Map(agents.map(({ agent, skillId }) => [agent, skillId]));
  const several = new Set(needs.map(({ agent }) => agent)).size > 1;
  const choiceOf = (agent: string): Choice | undefined =>
    fitting.find((choice) => choice.agent === agent && (best.get(agent) ?? choice.skillId) === choice.skillId);
  return [...new Set([...best.keys(), ...fitting.map(({ agent }) => agent)])]
    .flatMap((agent) => choiceOf(agent) ?? [])
    .slice(0, MOST_CANDIDATES)
    .map(({ agent, about, skill, title, skillId }): Candidate => {
      const own = several ? needs.filter((each) => each.agent === agent).map(({ need }) => plainLine(need, 120)) : [];
      const description = plainLine(about || skill.description, 300);
      return { agent, name: plainLine(title, 100), description, skillId, ...(own.length > 0 && { needs: own }) };
    });
}

interface Wish {
  readonly agent: string | undefined;
  readonly skillId: string | undefined;
  readonly tenant: string | undefined;
}

function wishOf(request: JsonObject, message: Message | undefined): Wish {
  const wish = hintIn(message?.metadata) ?? hintIn(request['metadata']) ?? {};
  return { agent: text(wish['agent']), skillId: text(wish['skillId']), tenant: text(request['tenant']) };
}

/** The routing hint in a `metadata` object of a client or a gateway. */
export function hintIn(metadata: JsonValue | undefined): JsonObject | undefined {
  const hint = isObject(metadata) ? metadata[ROUTE] : undefined;
  return isObject(hint) ? hint : undefined;
}

/** The decision as a value for the `metadata` of the answer (G-4). */
export function routeNote(decision: RouteDecision): JsonObject {
  const { reasons } = decision;
  const more: JsonObject = reasons ? { reasons: { ...reasons } as unknown as JsonObject } : {};
  if (decision.kind === 'ask') return { agent: null, why: 'ask', ...more };
  const { agent, why, skillId } = decision;
  return { agent: agent || null, why, ...(skillId !== undefined && { skillId }), ...more };
}

/** The decision without words of the message, for the trace. */
export function tracedRoute(decision: RouteDecision): NonNullable<CallNotes['route']> {
  const { unsure, next } = decision.reasons ?? {};
  if (decision.kind === 'ask') return { why: 'ask', unsure, next };
  return { why: decision.why, skill: decision.skillId, next };
}

/** Adds the decision to a task or a message. */
export function withRoute<T extends { metadata?: JsonObject }>(answer: T, decision: RouteDecision): T {
  // An answer of the routing agent names the candidates, or the agent that the client chose.
  const own = hintIn(answer.metadata);
  if (own && decision.kind !== 'ask') return answer;
  return { ...answer, metadata: { ...answer.metadata, [ROUTE]: { ...routeNote(decision), ...own } } };
}

/** Adds the decision to an answer: to its task or message, or to the first event of a stream. */
export function withRouteNote(answer: AgentAnswer, decision: RouteDecision): AgentAnswer {
  if (answer.kind === 'result') {
    return {
      ...answer,
      result: { value: notedValue(answer.result.value as SendMessageResponse, decision) as JsonValue },
    };
  }
  const { events } = answer;
  return { ...answer, events: notedEvents(events, decision) };
}

function notedValue({ task, message, ...more }: SendMessageResponse, decision: RouteDecision): SendMessageResponse {
  return {
    ...more,
    ...(task && { task: withRoute(task, decision) }),
    ...(message && { message: withRoute(message, decision) }),
  };
}

async function* notedEvents(events: Events, decision: RouteDecision): AsyncGenerator<Passed<StreamResponse>> {
  let first = true;
  for await (const event of events) {
    yield first ? { value: notedValue(event.value, decision) } : event;
    first = false;
  }
}

function messageOf(request: JsonObject): Message | undefined {
  const { message } = request;
  return isObject(message) && Array.isArray(message['parts']) ? (message as unknown as Message) : undefined;
}

const text = (value: JsonValue | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;
