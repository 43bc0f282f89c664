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

/** The extension on every agent's card that contains the URL of the original card and the verdict on its signatures. */
export const ORIGIN = `${PARLEY}/origin/v1`;

export interface CardsOptions {
  readonly agents: Directory;
  readonly admission: Admission;
  /**
   * The URL at which callers reach the gateway: the configured URL, or the URL of the listener. Read for every card.
   */
  readonly base: () => string;
  /** Whether `base` applies to every caller. Otherwise the URL that a trusted proxy reports replaces it. */
  readonly fixed?: boolean;
  /** `host:port` of the gRPC listener as callers reach it; undefined if there is no gRPC listener. */
  readonly grpc: () => string | undefined;
  /** Whether callers must authenticate with a bearer token. */
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
  /** The configured description of an agent, which replaces the description on its card. */
  readonly describe?: (agent: string) => string | undefined;
  /** Further extensions of the gateway for every card. */
  readonly extensions?: readonly AgentExtension[];
  /** How long a card of several agents waits for an agent without a known card, in milliseconds. */
  readonly patience?: number;
}

/** A skill on the routing agent's card, with the id that its agent gives the skill. */
export interface UnionSkill {
  readonly skill: AgentSkill;
  readonly ownId: string;
}

/** One agent as a caller sees it. */
export interface VisibleAgent {
  readonly name: string;
  readonly agent: Agent;
  /** Undefined if the agent has never been reached. */
  readonly facts: AgentFacts | undefined;
}

export interface OriginalCard {
  readonly agent: string;
  /** The original card of the agent. */
  readonly card: string;
  readonly signature: SignatureVerdict;
  readonly why: string | undefined;
}

const LIMITS = { name: 200, line: 200, text: 4_000, skills: 500, list: 50 };

const BEARER = 'bearer';

/** The gateway's cards: one for each agent, and one for the routing agent. */
export class Cards {
  constructor(
    private readonly options: CardsOptions,
    /**
     * Skills by card. Cached because every routed message reads the skills, and they change only with the agent's card.
     */
    private readonly unions = new WeakMap<
      AgentCard,
      { readonly agent: string; readonly skills: readonly UnionSkill[] }
    >(),
  ) {}

  /** The same cards with the URL at which a caller reached the gateway. */
  at(url: string | undefined): Cards {
    if (url === undefined || this.options.fixed) return this;
    return new Cards({ ...this.options, base: () => url }, this.unions);
  }

  /** The names of the agents that this caller sees. */
  async visible(caller: Caller): Promise<readonly string[]> {
    const { admission, agents } = this.options;
    return visible(admission, caller, agents.names(), agentTarget);
  }

  /** The URL of an agent at the gateway, or of the routing agent; `within` is a path below it. */
  url(agent: string | undefined, within = ''): string {
    const base = this.options.base();
    const path = `a2a${agent === undefined ? '' : `/${encodeURIComponent(agent)}`}${within && `/${within}`}`;
    return new URL(path, base.endsWith('/') ? base : `${base}/`).href;
  }

  /** The URL of a path outside the agents' endpoints, such as a well-known path. */
  beside(path: string): string {
    const base = this.options.base();
    return new URL(path, base.endsWith('/') ? base : `${base}/`).href;
  }

  /** The card of one agent. Throws `agent_not_found`, or the error that prevents reading the agent's card. */
  async agent(caller: Caller, name: string): Promise<AgentCard> {
    return this.write(name, await this.facts(caller, await this.find(caller, name)));
  }

  /** The card of the routing agent: the skills of all agents that this caller sees. */
  async routingAgent(caller: Caller): Promise<AgentCard> {
    const { routingAgent, extensions = [] } = this.options;
    const visibleAgents = await this.visibleAgents(caller);
    const missing = visibleAgents.filter(({ facts }) => !facts).map(({ name }) => name);
    const cards = visibleAgents.flatMap(({ name, facts }) => (facts ? [{ name, card: facts.card }] : []));
    const skills = cards.flatMap(({ name, card }) => this.skills(name, card).map(({ skill }) => skill));
    const route: AgentExtension = {
      uri: ROUTE,
      description: 'Selects the agent or the skill for a message, in the metadata of the request or of the message',
      // Names the agents whose skills are missing.
      ...(missing.length > 0 && { params: { missing } }),
    };
    const foreign = new Map<string, AgentExtension>();
    for (const { card } of cards) {
      for (const extension of this.passing(card)) {
        const { required: _, ...optional } = extension;
        // An extension that one agent requires is optional at the routing agent.
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

  /** The extended card: the agents that this authenticated caller may use (S-60). */
  async extended(caller: Caller, agent: string | undefined): Promise<AgentCard> {
    if (!this.options.identified) {
      throw new ProtocolError(
        'unsupported_operation',
        'This gateway has no authentication, so it has no extended card; the public card is complete',
      );
    }
    if (caller.principal.key === '') {
      throw new ProtocolError('unauthorized', 'The extended card requires authentication');
    }
    const cards = this.at(caller.gatewayUrl);
    return agent === undefined ? cards.routingAgent(caller) : cards.agent(caller, agent);
  }

  /** An agent's original card, with the verdict on its signatures (G-13). */
  async original(caller: Caller, name: string): Promise<OriginalCard> {
    const { original } = await this.facts(caller, await this.find(caller, name));
    return { agent: name, card: original.text, signature: original.signature, why: original.why };
  }

  /** Every agent that this caller sees, with its known facts. */
  async visibleAgents(caller: Caller): Promise<VisibleAgent[]> {
    const { agents, patience = 3_000 } = this.options;
    return Promise.all(
      (await this.visible(caller)).flatMap((name) => {
        const agent = agents.get(name);
        return agent ? [this.known(caller, agent, patience).then((facts) => ({ name, agent, facts }))] : [];
      }),
    );
  }

  /** The facts of an agent for this caller. Waits up to `patience` milliseconds if no facts are known. */
  private async known(caller: Caller, agent: Agent, patience: number): Promise<AgentFacts | undefined> {
    const shared = !this.options.admission.sees || !agent.factsFor;
    return (shared ? agent.known() : undefined) ?? factsOf(agent, () => this.facts(caller, agent), patience);
  }

  /** The description of an agent: the configured description, or the description on its card. */
  about(name: string, card: AgentCard): string {
    return this.options.describe?.(name) || card.description || '';
  }

  /**
   * The skills of an agent for the routing agent's card. Their ids and tags contain the name of the agent, and they
   * have the default media types of the agent (G-2).
   */
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

  /** The facts of an agent for this caller. */
  private async facts(caller: Caller, agent: Agent): Promise<AgentFacts> {
    if (this.options.admission.sees && agent.factsFor) return agent.factsFor(caller);
    return agent.known() ?? (await agent.facts());
  }

  /**
   * The gateway's card for an agent. It contains only statements that are true through the gateway. Unknown members of
   * the agent's card appear only in the original card.
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
      description: 'The URL of the original card of the agent, and whether its signature is valid',
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

  /** Every served binding at every version, the preferred one first (S-3, G-10). */
  private interfaces(agent: string | undefined): AgentInterface[] {
    const url = this.url(agent);
    const grpc = this.options.grpc();
    return DECLARED_VERSIONS.flatMap(({ version: protocolVersion, tenants }): AgentInterface[] => {
      const overHttp = HTTP_BINDINGS.map((protocolBinding) => ({ url, protocolBinding, protocolVersion }));
      if (grpc === undefined) return overHttp;
      // A gRPC request without a tenant goes to the routing agent. A version without tenants therefore cannot name an
      // agent.
      if (agent !== undefined && !tenants) return overHttp;
      const tenant = agent === undefined ? {} : { tenant: agent };
      return [...overHttp, { url: grpc, protocolBinding: 'GRPC', protocolVersion, ...tenant }];
    });
  }

  /** The capabilities of the gateway, independent of the agent's (G-12). */
  private capabilities(extensions: readonly AgentExtension[]): AgentCapabilities {
    return {
      streaming: true,
      pushNotifications: this.options.push,
      ...(extensions.length > 0 && { extensions: [...extensions] }),
      ...(this.options.identified && { extendedAgentCard: true }),
    };
  }

  /** The security requirements of the gateway. Callers need not know those of the agent (G-11, S1-46). */
  private security(): Pick<AgentCard, 'securitySchemes' | 'securityRequirements'> {
    if (!this.options.identified) return {};
    return {
      securitySchemes: {
        [BEARER]: { httpAuthSecurityScheme: { description: 'A token of this gateway', scheme: 'Bearer' } },
      },
      // An empty list of scopes is omitted, so that every canonical form of the card has the same members (S-6).
      securityRequirements: [{ schemes: { [BEARER]: {} } }],
    };
  }

  /**
   * The agent's extensions that work through the gateway. Of the extensions that gateways define, only `own` passes,
   * because the others apply to a single hop.
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

/** A card must have a skill: an agent without skills gets one that stands for the whole agent. */
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
    // The list must not be empty, because some canonical forms omit an empty required member and others keep it (S-6).
    tags: written.length > 0 ? written : [skill.id],
    ...(examples.length > 0 && { examples }),
    ...(skill.inputModes?.length && { inputModes: modes(skill.inputModes) }),
    ...(skill.outputModes?.length && { outputModes: modes(skill.outputModes) }),
  };
}

const NO_SKILL: AgentSkill = {
  id: 'none',
  name: 'No agent yet',
  description: 'This caller sees no agent.',
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

/**
 * The security schemes that the agent names for its skills, for information: callers authenticate to the gateway
 * (G-11).
 */
function skillSecurity({ skills }: AgentCard): JsonObject {
  const named = (skills ?? []).flatMap(({ id, securityRequirements }): [string, string[]][] => {
    const schemes = (securityRequirements ?? []).flatMap((requirement) => Object.keys(requirement['schemes'] ?? {}));
    return schemes.length > 0 ? [[id, texts(schemes, LIMITS.line)]] : [];
  });
  return named.length > 0 ? { skillSecurity: Object.fromEntries(named) } : {};
}

/** The facts of an agent, if they arrive within the given time. */
async function factsOf(
  agent: Agent,
  asked: () => Promise<AgentFacts>,
  patience: number,
): Promise<AgentFacts | undefined> {
  if (agent.health().status === 'down') {
    // The read continues in the background, because a card does not wait for an agent that is known to be unreachable.
    void agent.facts().catch(() => {});
    return undefined;
  }
  return within(
    asked().catch(() => undefined),
    patience,
  );
}
