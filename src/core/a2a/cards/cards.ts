import { DECLARED_VERSIONS, HTTP_BINDINGS } from '../../../protocol/a2a/declared-interfaces.js';
import type {
  AgentCapabilities,
  AgentCard,
  AgentExtension,
  AgentInterface,
  AgentSkill,
} from '../../../protocol/a2a/model.js';
import { PARLEY, ROUTE } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { TOOLS_EXTENSION } from '../../../protocol/protocol-bridge/tool-skill.js';
import { type Admission, agentTarget, unknownAgent, visible } from '../../admission.js';
import type { Caller } from '../../caller.js';
import { within } from '../../timing.js';
import type { Agent, AgentFacts, SignatureVerdict } from '../agent.js';
import type { Directory } from '../routing/agent-directory.js';
import { plainLine, plainText, webLink } from './card-text.js';

/** An extension of every agent's card here: where its own card is found, and what became of that card's signatures. */
export const ORIGIN = `${PARLEY}/origin/v1`;

export interface CardsOptions {
  readonly agents: Directory;
  readonly admission: Admission;
  /** The URL callers reach the gateway under: the configured one, or the listener's. Asked anew for every card. */
  readonly base: () => string;
  /** Whether that URL holds for everybody: then none that a proxy tells counts. */
  readonly fixed?: boolean;
  /** `host:port` of the gRPC listener as callers reach it; undefined while there is none. */
  readonly grpc: () => string | undefined;
  /** Whether callers have to prove who they are, by a bearer token. */
  readonly identified: boolean;
  /** Whether webhooks are delivered. */
  readonly push: boolean;
  readonly routingAgent: {
    readonly name: string;
    readonly description: string;
    readonly version: string;
    readonly provider?: { readonly organization: string; readonly url: string } | undefined;
    readonly documentationUrl?: string | undefined;
    readonly iconUrl?: string | undefined;
  };
  /** What an agent is for, where the operator knows better than its card. */
  readonly describe?: (agent: string) => string | undefined;
  /** Extensions of the gateway's own on every card, beside those named here. */
  readonly extensions?: readonly AgentExtension[];
  /** How long a card of several agents waits for one that nothing is known of yet, in milliseconds. */
  readonly patience?: number;
}

/** A skill as the routing agent's card has it, and its id at its agent. */
export interface UnionSkill {
  readonly skill: AgentSkill;
  readonly ownId: string;
}

/** What a caller sees of one agent. */
export interface VisibleAgent {
  readonly name: string;
  readonly agent: Agent;
  /** Undefined where the agent cannot be reached and never could. */
  readonly facts: AgentFacts | undefined;
}

export interface OriginalCard {
  readonly agent: string;
  /** The card as the agent wrote it. */
  readonly card: string;
  readonly signature: SignatureVerdict;
  readonly why: string | undefined;
}

const LIMITS = { name: 200, line: 200, text: 4_000, skills: 500, list: 50 };

const BEARER = 'bearer';

/** The gateway's cards: for each agent, and for the routing agent that stands before them all. */
export class Cards {
  constructor(
    private readonly options: CardsOptions,
    /** Asked for with every message that has to be routed, and the same until the agent has another card. */
    private readonly unions = new WeakMap<
      AgentCard,
      { readonly agent: string; readonly skills: readonly UnionSkill[] }
    >(),
  ) {}

  /** The same cards with other URLs: for a caller that reached the gateway under `url`. */
  at(url: string | undefined): Cards {
    if (url === undefined || this.options.fixed) return this;
    return new Cards({ ...this.options, base: () => url }, this.unions);
  }

  /** The names of the agents this caller may know of. */
  async visible(caller: Caller): Promise<readonly string[]> {
    const { admission, agents } = this.options;
    return visible(admission, caller, agents.names(), agentTarget);
  }

  /** The URL of an agent here, or of the routing agent; `within` is a path below it. */
  url(agent: string | undefined, within = ''): string {
    const base = this.options.base();
    const path = `a2a${agent === undefined ? '' : `/${encodeURIComponent(agent)}`}${within && `/${within}`}`;
    return new URL(path, base.endsWith('/') ? base : `${base}/`).href;
  }

  /** A path beside the endpoints, such as a well-known one. */
  beside(path: string): string {
    const base = this.options.base();
    return new URL(path, base.endsWith('/') ? base : `${base}/`).href;
  }

  /** The card of one agent. Throws `agent_not_found`, or what keeps the agent from telling about itself. */
  async agent(caller: Caller, name: string): Promise<AgentCard> {
    return this.write(name, await this.facts(caller, await this.find(caller, name)));
  }

  /** The card of the routing agent: the skills of all that this caller may know of. */
  async routingAgent(caller: Caller): Promise<AgentCard> {
    const { routingAgent, extensions = [] } = this.options;
    const visibleAgents = await this.visibleAgents(caller);
    const missing = visibleAgents.filter(({ facts }) => !facts).map(({ name }) => name);
    const cards = visibleAgents.flatMap(({ name, facts }) => (facts ? [{ name, card: facts.card }] : []));
    const skills = cards.flatMap(({ name, card }) => this.skills(name, card).map(({ skill }) => skill));
    const route: AgentExtension = {
      uri: ROUTE,
      description: 'Names the agent or the skill that a message is for, in the metadata of a request or its message',
      // A list that misses an agent says so.
      ...(missing.length > 0 && { params: { missing } }),
    };
    const foreign = new Map<string, AgentExtension>();
    for (const { card } of cards) {
      for (const extension of this.passing(card)) {
        const { required: _, ...optional } = extension;
        // One agent's requirement is not everybody's.
        if (!foreign.has(extension.uri)) foreign.set(extension.uri, optional as AgentExtension);
      }
    }
    return {
      name: plainLine(routingAgent.name, LIMITS.name),
      description: plainText(routingAgent.description, LIMITS.text),
      supportedInterfaces: this.interfaces(undefined),
      ...(routingAgent.provider && { provider: { ...routingAgent.provider } }),
      version: routingAgent.version,
      ...(routingAgent.documentationUrl !== undefined && { documentationUrl: routingAgent.documentationUrl }),
      capabilities: this.capabilities([...foreign.values(), route, ...extensions]),
      ...this.security(),
      defaultInputModes: modes(cards.flatMap(({ card }) => card.defaultInputModes)),
      defaultOutputModes: modes(cards.flatMap(({ card }) => card.defaultOutputModes)),
      skills: skills.length > 0 ? skills : [NO_SKILL],
      ...(routingAgent.iconUrl !== undefined && { iconUrl: routingAgent.iconUrl }),
    };
  }

  /** The extended card: what this caller, who has proved who it is, may use (S-60). */
  async extended(caller: Caller, agent: string | undefined): Promise<AgentCard> {
    if (!this.options.identified) {
      throw new ProtocolError(
        'unsupported_operation',
        'This gateway knows no callers, so it has no card for one of them; the public card says everything',
      );
    }
    if (caller.principal.key === '') {
      throw new ProtocolError('unauthorized', 'The extended card is for callers that prove who they are');
    }
    const cards = this.at(caller.gatewayUrl);
    return agent === undefined ? cards.routingAgent(caller) : cards.agent(caller, agent);
  }

  /** An agent's own card as it came, with what became of its signatures (G-13). */
  async original(caller: Caller, name: string): Promise<OriginalCard> {
    const { original } = await this.facts(caller, await this.find(caller, name));
    return { agent: name, card: original.text, signature: original.signature, why: original.why };
  }

  /** Every agent this caller may know of, each with what is known of it. */
  async visibleAgents(caller: Caller): Promise<VisibleAgent[]> {
    const { agents, patience = 3_000 } = this.options;
    return Promise.all(
      (await this.visible(caller)).flatMap((name) => {
        const agent = agents.get(name);
        return agent ? [this.known(caller, agent, patience).then((facts) => ({ name, agent, facts }))] : [];
      }),
    );
  }

  /** What this caller may know of an agent, waiting a while where nothing is known. */
  private async known(caller: Caller, agent: Agent, patience: number): Promise<AgentFacts | undefined> {
    const shared = !this.options.admission.sees || !agent.factsFor;
    return (shared ? agent.known() : undefined) ?? factsOf(agent, () => this.facts(caller, agent), patience);
  }

  /** What an agent is for, in the words of the configuration or its own. */
  about(name: string, card: AgentCard): string {
    return this.options.describe?.(name) || card.description || '';
  }

  /** The skills of an agent as the routing agent's card has them: named by agent, and complete without the agent's defaults (G-2). */
  skills(agent: string, card: AgentCard): readonly UnionSkill[] {
    const known = this.unions.get(card);
    if (known?.agent === agent) return known.skills;
    const skills = skillsOf(agent, card).map((given) => ({
      ownId: given.id,
      skill: {
        ...writeSkill(given, [agent]),
        id: `${agent}.${given.id}`,
        inputModes: modes(given.inputModes?.length ? given.inputModes : card.defaultInputModes),
        outputModes: modes(given.outputModes?.length ? given.outputModes : card.defaultOutputModes),
      },
    }));
    this.unions.set(card, { agent, skills });
    return skills;
  }

  private async find(caller: Caller, name: string): Promise<Agent> {
    const { admission, agents } = this.options;
    const agent = agents.get(name);
    if (!agent || (admission.sees && !(await admission.sees(caller, agentTarget(name))))) throw unknownAgent(name);
    return agent;
  }

  /** What this caller may know of an agent. */
  private async facts(caller: Caller, agent: Agent): Promise<AgentFacts> {
    if (this.options.admission.sees && agent.factsFor) return agent.factsFor(caller);
    return agent.known() ?? (await agent.facts());
  }

  /**
   * The gateway's own card for an agent. It states what is known to hold through the gateway and nothing else: members of
   * the agent's card that nobody here knows stay in the original.
   */
  private write(name: string, { card, original }: AgentFacts): AgentCard {
    const title = plainLine(card.name || name, LIMITS.name) || name;
    const description = plainText(this.about(name, card), LIMITS.text) || title;
    const provider = providerOf(card);
    const documentationUrl = webLink(card.documentationUrl);
    const iconUrl = webLink(card.iconUrl);
    const skills = skillsOf(name, card).map((skill) => writeSkill(skill, []));
    const origin: AgentExtension = {
      uri: ORIGIN,
      description: "Where the agent's own card is found, and whether its signature holds",
      params: {
        card: this.url(name, '.well-known/original-card.json'),
        signature: original.signature,
        ...skillSecurity(card),
      },
    };
    return {
      name: title,
      description,
      supportedInterfaces: this.interfaces(name),
      ...(provider && { provider }),
      version: plainLine(card.version || '', LIMITS.line) || '0',
      ...(documentationUrl !== undefined && { documentationUrl }),
      capabilities: this.capabilities([
        ...this.passing(card, TOOLS_EXTENSION),
        origin,
        ...(this.options.extensions ?? []),
      ]),
      ...this.security(),
      defaultInputModes: modes(card.defaultInputModes),
      defaultOutputModes: modes(card.defaultOutputModes),
      skills,
      ...(iconUrl !== undefined && { iconUrl }),
    };
  }

  /** Every binding at every version declared, the preferred one first; never one that is not served (S-3, G-10). */
  private interfaces(agent: string | undefined): AgentInterface[] {
    const url = this.url(agent);
    const grpc = this.options.grpc();
    return DECLARED_VERSIONS.flatMap(({ version: protocolVersion, tenants }): AgentInterface[] => {
      const overHttp = HTTP_BINDINGS.map((protocolBinding) => ({ url, protocolBinding, protocolVersion }));
      if (grpc === undefined) return overHttp;
      // Where a version has no tenant, metadata names the agent, and without it the routing agent finds one.
      const tenant = agent === undefined || !tenants ? {} : { tenant: agent };
      return [...overHttp, { url: grpc, protocolBinding: 'GRPC', protocolVersion, ...tenant }];
    });
  }

  /** What the gateway delivers, whether the agent does or not (G-12). */
  private capabilities(extensions: readonly AgentExtension[]): AgentCapabilities {
    return {
      streaming: true,
      pushNotifications: this.options.push,
      ...(extensions.length > 0 && { extensions: [...extensions] }),
      ...(this.options.identified && { extendedAgentCard: true }),
    };
  }

  /** What the gateway asks of callers; what an agent asks of the gateway is no business of theirs (G-11, S1-46). */
  private security(): Pick<AgentCard, 'securitySchemes' | 'securityRequirements'> {
    if (!this.options.identified) return {};
    return {
      securitySchemes: {
        [BEARER]: { httpAuthSecurityScheme: { description: 'A token of this gateway', scheme: 'Bearer' } },
      },
      // An empty list of scopes is not written, so that every canonical form of the card has the same members (S-6).
      securityRequirements: [{ schemes: { [BEARER]: {} } }],
    };
  }

  /**
   * Extensions of an agent that can be used through the gateway, as its card describes them. Of a gateway's own only the
   * one that is named: the others speak of the hop they were written for.
   */
  private passing(card: AgentCard, own?: string): AgentExtension[] {
    const passes = (uri: string): boolean => uri === own || !uri.startsWith(PARLEY);
    const given = Array.isArray(card.capabilities?.extensions) ? card.capabilities.extensions : [];
    return given
      .filter(({ uri }) => typeof uri === 'string' && uri !== '' && passes(uri))
      .slice(0, LIMITS.list)
      .map(({ uri, description, required, params }) => ({
        uri,
        ...(description && { description: plainText(description, LIMITS.text) }),
        ...(required === true && { required }),
        ...(params !== undefined && { params }),
      }));
  }
}

/** A card must have a skill: an agent that names none has the one it is there for. */
function skillsOf(agent: string, card: AgentCard): AgentSkill[] {
  const skills = (card.skills ?? []).filter(({ id }) => typeof id === 'string' && id !== '').slice(0, LIMITS.skills);
  if (skills.length > 0) return skills;
  return [{ id: agent, name: card.name || agent, description: card.description || agent, tags: [agent] }];
}

function writeSkill(skill: AgentSkill, tags: readonly string[]): AgentSkill {
  const name = plainLine(skill.name || skill.id, LIMITS.name) || skill.id;
  const written = texts([...(skill.tags ?? []), ...tags], LIMITS.line);
  const examples = texts(skill.examples ?? [], LIMITS.text);
  return {
    id: skill.id,
    name,
    description: plainText(skill.description || '', LIMITS.text) || name,
    // A required member that is empty is left out by some canonical forms and kept by others (S-6).
    tags: written.length > 0 ? written : [skill.id],
    ...(examples.length > 0 && { examples }),
    ...(skill.inputModes?.length && { inputModes: modes(skill.inputModes) }),
    ...(skill.outputModes?.length && { outputModes: modes(skill.outputModes) }),
  };
}

const NO_SKILL: AgentSkill = {
  id: 'none',
  name: 'No agent yet',
  description: 'No agent is known here to this caller.',
  tags: ['none'],
};

const texts = (given: readonly unknown[], most: number): string[] => [
  ...new Set(
    given
      .filter((text) => typeof text === 'string')
      .map((text) => plainText(text, most))
      .filter((text) => text !== '')
      .slice(0, LIMITS.list),
  ),
];

function modes(given: readonly string[] | undefined): string[] {
  const written = texts(given ?? [], LIMITS.line);
  return written.length > 0 ? written : ['text/plain'];
}

function providerOf({ provider }: AgentCard): AgentCard['provider'] {
  const url = webLink(provider?.url);
  const organization = plainLine(provider?.organization ?? '', LIMITS.name);
  return url !== undefined && organization !== '' ? { url, organization } : undefined;
}

/** Which schemes the agent names for its skills: for information, as the gateway answers for them (G-11). */
function skillSecurity({ skills }: AgentCard): JsonObject {
  const named = (skills ?? []).flatMap(({ id, securityRequirements }): [string, string[]][] => {
    const schemes = (securityRequirements ?? []).flatMap((requirement) => Object.keys(requirement['schemes'] ?? {}));
    return schemes.length > 0 ? [[id, texts(schemes, LIMITS.line)]] : [];
  });
  return named.length > 0 ? { skillSecurity: Object.fromEntries(named) } : {};
}

/** The facts of an agent, if they come within a while. */
async function factsOf(
  agent: Agent,
  asked: () => Promise<AgentFacts>,
  patience: number,
): Promise<AgentFacts | undefined> {
  if (agent.health().status === 'down') {
    // Found again in the background: a card is not kept waiting for one that is known to be away.
    void agent.facts().catch(() => {});
    return undefined;
  }
  return within(
    asked().catch(() => undefined),
    patience,
  );
}
