/** `/api/v1/me`: the caller. */
import { isAdmin } from '../../core/caller.js';
import type { Operation } from '../../inbound/api/operation.js';
import { ref } from '../../inbound/api/schemas.js';

export function callerOperations(): Operation[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/me',
      access: 'user',
      tag: 'Gateway',
      description: 'The caller as the gateway knows it',
      answer: { description: 'The caller', schema: ref('Me') },
      run: ({ principal }) => {
        const { key: caller, issuer, subject, tenant, roles, scopes, groups } = principal;
        return { body: { caller, issuer, subject, tenant, roles, scopes, groups, admin: isAdmin(principal) } };
      },
    },
  ];
}
