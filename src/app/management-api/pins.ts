/** `/api/v1/pins`: lists, approves and forgets pinned definitions. */
import type { Operation } from '../../inbound/api/operation.js';
import { listOf, PAGE_QUERY, paged, pageOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import { PinCommands } from '../commands/pins.js';
import type { Runtime } from '../runtime.js';
import { missing } from './missing.js';

const text = { type: 'string', maxLength: 200 } as const;

export function pinOperations({ state, audit }: Runtime): Operation[] {
  const common = { tag: 'Pins', access: 'admin' } as const;
  const server = { description: 'Only the pins of this server.', schema: { type: 'string' } } as const;
  const keyOf = (pin: { server: string; kind: string; name: string }): string =>
    `${pin.server}\0${pin.kind}\0${pin.name}`;
  return [
    {
      ...common,
      method: 'GET',
      path: '/api/v1/pins',
      description: 'The pinned definitions of tools, prompts and resources',
      query: {
        ...PAGE_QUERY,
        server,
        waiting: {
          description: '`true`: only those that need an approval.',
          schema: { type: 'string', enum: ['true', 'false'] },
        },
      },
      answer: { description: 'One page', schema: listOf(ref('Pin')) },
      run: async ({ query }) => {
        const pins = await state.pins.list(query['server']?.toLowerCase());
        const shown = query['waiting'] === 'true' ? pins.filter(({ seen }) => seen !== undefined) : pins;
        return { body: paged(shown, pageOf(query), keyOf) };
      },
    },
    {
      ...common,
      method: 'POST',
      path: '/api/v1/pins/approve',
      description: 'Approves the definition that a server has now',
      body: {
        type: 'object',
        required: ['server', 'kind', 'name', 'seen'],
        additionalProperties: false,
        properties: {
          ...{ server: text, kind: text, name: { type: 'string', maxLength: 2_000 } },
          seen: { ...text, description: 'The hash that was read.' },
        },
      },
      answer: { status: 204, description: 'Approved' },
      errors: [404, 412],
      run: async ({ body, by }) => {
        const { server: of, kind, name, seen } = body as { server: string; kind: string; name: string; seen: string };
        const pin = (await state.pins.list(of.toLowerCase(), name)).find((each) => each.kind === kind);
        if (!pin) throw missing('pin', name);
        if (pin.seen !== seen || !(await new PinCommands(state.pins, audit, by).approve(pin)))
          throw new ProtocolError('precondition_failed', 'The definition has changed since it was read; read it again');
        return {};
      },
    },
    {
      ...common,
      method: 'DELETE',
      path: '/api/v1/pins/{of}',
      description: 'Forgets the pins of a server, or of one of its items',
      query: { name: { description: 'Only the item of this name.', schema: { type: 'string' } } },
      answer: { status: 204, description: 'Forgotten' },
      errors: [404],
      run: async ({ params, query, by }) => {
        const removed = await new PinCommands(state.pins, audit, by).forget(params['of']!, query['name']);
        if (removed === 0) throw missing('pin of the server', params['of']!);
        return {};
      },
    },
  ];
}
