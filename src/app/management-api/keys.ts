/** `/api/v1/keys`: lists, creates and revokes API keys. */
import type { Operation } from '../../inbound/api/operation.js';
import { listOf, PAGE_QUERY, paged, pageOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import { ApiKeyProblem, createApiKeyIn, type NewApiKey } from '../commands/api-keys.js';
import type { Runtime } from '../runtime.js';
import { missing } from './missing.js';

const text = { type: 'string', maxLength: 200 } as const;
const texts = { type: 'array', items: text, maxItems: 100 } as const;

export function keyOperations({ config, state, audit }: Runtime): Operation[] {
  const common = { tag: 'Keys', access: 'admin' } as const;
  return [
    {
      ...common,
      method: 'GET',
      path: '/api/v1/keys',
      description: 'The API keys, without the keys themselves',
      query: { ...PAGE_QUERY, name: { description: 'Only the keys of this caller.', schema: { type: 'string' } } },
      answer: { description: 'One page', schema: listOf(ref('Key')) },
      run: async ({ query }) => ({
        body: paged(await state.apiKeys.list(query['name']), pageOf(query), ({ id }) => id),
      }),
    },
    {
      ...common,
      method: 'POST',
      path: '/api/v1/keys',
      description: 'Creates an API key; the answer is the only place that shows it',
      body: {
        type: 'object',
        required: ['name', 'expires'],
        additionalProperties: false,
        properties: {
          ...{ name: text, roles: texts, servers: texts, tools: texts, tenant: text },
          expires: { ...text, description: 'Such as 12h, 90d, 2027-01-31 or never.' },
        },
      },
      answer: { status: 201, description: 'Created', schema: { allOf: [ref('Key'), ref('NewKey')] } },
      run: async ({ body, by }) => {
        const { name, expires, roles = [], servers = [], tools = [], tenant } = body as Partial<NewApiKey>;
        const wanted = { name: name!, expires: expires!, roles, servers, tools, tenant };
        try {
          const key = await createApiKeyIn({ state, audit, by }, config, wanted);
          return { status: 201, body: key, location: `/api/v1/keys/${key.id}` };
        } catch (error) {
          if (!(error instanceof ApiKeyProblem)) throw error;
          throw new ProtocolError('invalid_settings', error.message, { data: { problems: [] } });
        }
      },
    },
    {
      ...common,
      method: 'DELETE',
      path: '/api/v1/keys/{id}',
      description: 'Revokes an API key on all replicas, and ends its streams',
      answer: { status: 204, description: 'Revoked' },
      errors: [404],
      run: async ({ params, by }) => {
        const id = params['id']!;
        // The store also revokes all keys of a name, but this route revokes only one key by its id.
        if (!(await state.apiKeys.find(id))) throw missing('key', id);
        await audit.change(
          { ...by, action: 'key.revoke', subject: id },
          () => state.apiKeys.revoke(id),
          (keys) => (keys.length > 0 ? { details: { keys } } : undefined),
        );
        return {};
      },
    },
  ];
}
