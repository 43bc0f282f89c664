import type { AgentCard, AgentSkill } from '../../../protocol/a2a/model.js';
import type { JsonObject, JsonValue } from '../../../protocol/jsonrpc/raw.js';
import type { Caller } from '../../caller.js';
import type { Cards } from './published-cards.js';
import { Ranking } from './text-ranking.js';

export interface AgentCatalogQuery {
  /** A capability of the agent, an extension of the agent, or a tag of one of its skills. */
  readonly capability?: string | undefined;
  /** The id or the name of a skill. */
  readonly skill?: string | undefined;
  readonly tag?: string | undefined;
  /** Words to search for; the best match comes first. */
  readonly q?: string | undefined;
}

/** The media type and profile of an API catalog (RFC 9727). */
export const LINKSET = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"';

interface Listed {
  readonly name: string;
  readonly status: string;
  readonly card: AgentCard | undefined;
}

/** The catalog of agents for a caller. It contains only agents that the caller sees (G-3). */
export class AgentCatalog {
  constructor(private readonly cards: Cards) {}

  /** Answers `GET /a2a/agents`. Without a filter, an agent without a known card is listed by its name. */
  async list(caller: Caller, query: AgentCatalogQuery = {}): Promise<JsonObject> {
    const found = (await this.listed(caller)).filter(({ card }) => matches(card, query));
    return { agents: sorted(found, query.q).map((listed) => this.entry(listed)) };
  }

  /** Answers `GET /.well-known/api-catalog`. Each agent is an API, and its card is the description of the API. */
  async linkset(caller: Caller): Promise<JsonObject> {
    const listed = await this.listed(caller);
    const places = [
      { href: this.cards.url(undefined), card: this.cards.beside('.well-known/agent-card.json'), doc: undefined },
      ...listed.map(({ name, card }) => ({
        href: this.cards.url(name),
        card: this.cards.url(name, '.well-known/agent-card.json'),
        doc: card?.documentationUrl,
      })),
    ];
    const anchor = this.cards.beside('.well-known/api-catalog');
    return {
      linkset: [
        { anchor, item: places.map(({ href }) => ({ href })) },
        ...places.map(({ href, card, doc }) => ({
          anchor: href,
          'service-desc': [{ href: card, type: 'application/json' }],
          ...(doc !== undefined && { 'service-doc': [{ href: doc }] }),
        })),
      ],
    };
  }

  private async listed(caller: Caller): Promise<Listed[]> {
    const visibleAgents = await this.cards.visibleAgents(caller);
    return Promise.all(
      visibleAgents.map(async ({ name, agent, facts }) => ({
        name,
        status: agent.health().status,
        card: facts && (await this.cards.agent(caller, name).catch(() => undefined)),
      })),
    );
  }

  private entry({ name, status, card }: Listed): JsonObject {
    return {
      agent_id: name,
      agent_name: card?.name ?? name,
      description: card?.description ?? '',
      url: this.cards.url(name),
      card_url: this.cards.url(name, '.well-known/agent-card.json'),
      status,
      skills: (card?.skills ?? []) as JsonValue[],
      capabilities: (card?.capabilities ?? {}) as JsonObject,
    };
  }
}

function matches(card: AgentCard | undefined, { capability, skill, tag, q }: AgentCatalogQuery): boolean {
  const skills = card?.skills ?? [];
  if (!card) return capability === undefined && skill === undefined && tag === undefined && q === undefined;
  if (capability !== undefined && !isCapableOf(card, capability)) return false;
  if (skill !== undefined && !skills.some(({ id, name }) => same(id, skill) || same(name, skill))) return false;
  return tag === undefined || tagged(skills, tag);
}

function isCapableOf({ capabilities, skills }: AgentCard, wanted: string): boolean {
  const { extensions = [], ...flags } = capabilities;
  const named = Object.entries(flags).some(([key, value]) => value === true && same(key, wanted));
  return named || extensions.some(({ uri }) => same(uri, wanted)) || tagged(skills, wanted);
}

const tagged = (skills: readonly AgentSkill[], wanted: string): boolean =>
  skills.some(({ tags }) => tags.some((tag) => same(tag, wanted)));

const same = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

function sorted(listed: readonly Listed[], q: string | undefined): readonly Listed[] {
  if (q === undefined || q.trim() === '') return listed;
  const passages = listed.map((key) => ({
    key,
    fields: [
      { text: `${key.name} ${key.card?.name}`, weight: 3 },
      { text: key.card?.description ?? '', weight: 2 },
      ...(key.card?.skills ?? []).map(({ name, description, tags, examples = [] }) => ({
        text: [name, description, ...tags, ...examples].join(' '),
        weight: 1,
      })),
    ],
  }));
  const ranked = new Ranking(passages).rank(q);
  return ranked.filter(({ score }) => score > 0).map(({ key }) => key);
}
