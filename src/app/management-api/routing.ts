/** The management API: explains the ranking of a search, shows what search has learned, and removes it. */
import { callerOf } from '../../core/caller.js';
import { ALL_SERVERS, type View } from '../../core/gateway.js';
import type { Operation } from '../../inbound/api/operation.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import { forget } from '../commands/forget-routing.js';
import type { Runtime } from '../runtime.js';

const MOST_RESULTS = 50;
const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;

export function routingOperations({ mcp, state, audit }: Runtime): Operation[] {
  const common = { tag: 'Routing', access: 'admin' } as const;
  const text = { type: 'string', minLength: 1, maxLength: 200 } as const;
  const only = (what: string) => ({ description: `Only outcomes of this ${what}.`, schema: text });
  const viewOf = (name: string | undefined): View => {
    const view = name === undefined ? ALL_SERVERS : mcp.views.get(name.toLowerCase());
    if (view) return view;
    throw new ProtocolError('not_found', `There is no view ${JSON.stringify(name)}`);
  };
  return [
    {
      ...common,
      method: 'POST',
      path: '/api/v1/routing/explain',
      description: 'Says which tools and servers a search finds, and why, among the tools that the administrator sees',
      body: {
        type: 'object',
        required: ['query'],
        additionalProperties: false,
        properties: {
          query: { type: 'string', minLength: 1, maxLength: 4_000 },
          limit: { type: 'integer', minimum: 1, maximum: MOST_RESULTS },
          ...{ server: text, view: text },
          caller: { ...text, description: 'Ranks with what was learned for this caller.' },
        },
      },
      answer: { description: 'The results with the parts of their scores', schema: ref('RoutingExplanation') },
      errors: [404],
      run: async ({ principal, body }) => {
        const {
          query,
          limit = 5,
          server,
          view,
          caller,
        } = body as {
          query: string;
          limit?: number;
          server?: string;
          view?: string;
          caller?: string;
        };
        const { learning } = mcp;
        const request = { query, limit, server: server?.toLowerCase() };
        const learned = learning.for({ key: caller ?? principal.key });
        const found = await mcp.tools.explain(callerOf(principal), viewOf(view), request, learned);
        const tools = found.hits.map(({ name, server: of, score, terms, learned: share, plainRank, ...hit }) => ({
          ...{ name, server: of, score: rounded(score), learned: rounded(share), plainRank: plainRank ?? null },
          terms: terms.map((term) => ({ ...term, worth: rounded(term.worth) })),
          ...{ stuffed: hit.stuffed, duplicates: hit.duplicates },
        }));
        const terms = found.terms.map(({ term, rarity }) => ({ term, rarity: rounded(rarity) }));
        const servers = found.servers.map(({ server: of, score }) => ({ server: of, score: rounded(score) }));
        const { mode, weights } = learning;
        return { body: { mode, weights, needs: found.needs, terms, tools, servers } };
      },
    },
    {
      ...common,
      method: 'GET',
      path: '/api/v1/routing/stats',
      description: 'What search has learned from calls, and how well it ranks',
      answer: { description: 'The numbers', schema: ref('RoutingStats') },
      run: () => ({ body: mcp.learning.stats() }),
    },
    {
      ...common,
      method: 'DELETE',
      path: '/api/v1/routing/outcomes',
      description: 'Deletes the learned outcomes of search on all replicas: all, or those that match every parameter',
      query: { caller: only('caller'), server: only('server'), tool: only('tool, by its name at its server') },
      answer: {
        description: 'The number of forgotten outcomes',
        schema: { type: 'object', required: ['removed'], properties: { removed: { type: 'integer' } } },
      },
      run: async ({ query: { caller, server, tool }, by }) => ({
        body: { removed: await forget({ state, audit, by }, { caller, server, tool }) },
      }),
    },
  ];
}
