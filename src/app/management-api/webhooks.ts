/** `/api/v1/webhooks`: lists undelivered notifications and delivers them again. */
import { isWholeAdmin } from '../../core/whole-admin.js';
import type { Operation } from '../../inbound/api/operation.js';
import { cut, listOf, PAGE_QUERY, pageOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import type { Runtime } from '../runtime.js';
import { missing } from './missing.js';

export function webhookOperations({ a2a }: Runtime): Operation[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/webhooks',
      access: 'user',
      tag: 'Webhooks',
      description: 'Notifications that could not be delivered: those of the caller, or all for administrators',
      query: PAGE_QUERY,
      answer: { description: 'One page', schema: listOf(ref('Webhook')) },
      run: async ({ principal, query }) => {
        const { limit, after } = pageOf(query);
        const owner = isWholeAdmin(principal) ? undefined : principal.key;
        const { notifications } = await a2a.deadLetters.deadLetters(owner, {
          limit: limit + 1,
          ...(after !== '' && { after }),
        });
        return { body: cut(notifications, limit, ({ id }) => id) };
      },
    },
    {
      method: 'POST',
      path: '/api/v1/webhooks/{id}/retry',
      access: 'user',
      tag: 'Webhooks',
      description: 'Delivers a notification again',
      answer: { status: 204, description: 'Queued' },
      errors: [404],
      run: async ({ principal, params }) => {
        const owner = isWholeAdmin(principal) ? undefined : principal.key;
        if (!(await a2a.deadLetters.replay(params['id']!, owner)))
          throw missing('undelivered notification', params['id']!);
        return {};
      },
    },
  ];
}
