import type { Cards, VisibleAgent } from '../../core/a2a/cards/published-cards.js';
import { unknownAgent } from '../../core/admission.js';
import type { Caller } from '../../core/caller.js';
import { hybridCard } from '../../protocol/a2a/index.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { CardReader } from '../a2a/card-endpoint.js';
import type { RequestContext, Route } from '../http/route.js';
import { REST_ERRORS } from './rest-errors.js';
import { restCaller, send } from './rest-request.js';

/** An agent as it was configured or registered. */
export interface AgentEntry {
  readonly name: string;
  readonly createdAt?: number;
  readonly createdBy?: string;
  readonly updatedAt?: number;
  readonly updatedBy?: string;
}

export interface LiteLlmAgentsOptions {
  readonly gateway: CardReader;
  readonly cards: Cards;
  entry(name: string): AgentEntry | undefined;
}

/** The routes with which clients of LiteLLM read about A2A agents. */
export class LiteLlmAgents {
  constructor(private readonly options: LiteLlmAgentsOptions) {}

  routes(): Route[] {
    const route = { method: 'GET', access: 'user', errors: REST_ERRORS } as const;
    return [
      {
        ...route,
        path: '/v1/agents',
        description: 'The A2A agents that the caller may use (`health_check`)',
        handle: (context) => this.list(context),
      },
      {
        ...route,
        path: '/v1/agents/{id}',
        description: 'One A2A agent',
        handle: async (context) => send(context, await this.row(context, context.params['id']!)),
      },
    ];
  }

  private async list(context: RequestContext): Promise<void> {
    const { gateway } = this.options;
    const caller = restCaller(context);
    const cards = this.cards(caller);
    const found = await gateway.read(caller, undefined, () => cards.visibleAgents(caller));
    const wanted = context.query.get('health_check') === 'true' ? found.filter(isReachable) : found;
    send(context, await Promise.all(wanted.map(({ name, facts }) => this.described(caller, cards, name, !!facts))));
  }

  /** One agent as LiteLLM shows it. Throws `agent_not_found`. */
  async row(context: RequestContext, id: string): Promise<object> {
    const caller = restCaller(context);
    const cards = this.cards(caller);
    const name = id.toLowerCase();
    return this.options.gateway.read(caller, name, async () => {
      if (!(await cards.visible(caller)).includes(name)) throw unknownAgent(id);
      return this.described(caller, cards, name, true);
    });
  }

  private cards({ gatewayUrl }: Caller): Cards {
    return this.options.cards.at(gatewayUrl);
  }

  /**
   * The card is written by the gateway: its URL is the URL of the gateway, and it contains no credentials for the
   * agent.
   */
  private async described(caller: Caller, cards: Cards, name: string, reached: boolean): Promise<object> {
    const card = reached ? await cards.agent(caller, name).catch(withoutCard) : undefined;
    const entry = this.options.entry(name);
    return {
      agent_id: name,
      agent_name: name,
      agent_card_params: card ? hybridCard(card) : null,
      litellm_params: {},
      created_at: timeOf(entry?.createdAt),
      created_by: entry?.createdBy ?? null,
      updated_at: timeOf(entry?.updatedAt),
      updated_by: entry?.updatedBy ?? null,
    };
  }
}

const isReachable = ({ agent, facts }: VisibleAgent): boolean =>
  facts !== undefined && agent.health().status !== 'down';

/** An agent that cannot be reached is listed without a card. */
function withoutCard(error: unknown): undefined {
  if (!(error instanceof ProtocolError) || error.reason === 'agent_not_found') throw error;
}

const timeOf = (value: number | undefined): string | null =>
  value === undefined ? null : new Date(value).toISOString();
