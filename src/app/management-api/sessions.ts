/** `/api/v1/sessions`: lists and ends sessions of clients. */
import { isWholeAdmin } from '../../core/whole-admin.js';
import type { Operation } from '../../inbound/api/operation.js';
import { cut } from '../../inbound/api/paging.js';
import type { SessionRecord } from '../../inbound/mcp/session/session-record.js';
import type { Documents } from '../../state/index.js';
import type { Runtime } from '../runtime.js';
import { missing } from './missing.js';
import { idOf, listOperation, readPage, times } from './stored-records.js';

export function sessionOperations({ state }: Runtime, endSession: (key: string) => Promise<void>): Operation[] {
  return [
    {
      ...listOperation('/api/v1/sessions', 'Sessions', 'Sessions of clients over HTTP', 'Session'),
      run: async (request) => {
        const [found, { limit }] = await readPage(state.sessions as Documents<SessionRecord>, request);
        const shown = found.map((each) => {
          const { revision, clientInfo, server } = each.value;
          return { id: each.id, caller: each.principal, revision, client: clientInfo, server, ...times(each) };
        });
        return { body: cut(shown, limit, idOf) };
      },
    },
    {
      method: 'DELETE',
      path: '/api/v1/sessions/{id}',
      access: 'user',
      tag: 'Sessions',
      description: 'Ends a session of the caller, or any for administrators',
      answer: { status: 204, description: 'Ended' },
      errors: [404],
      run: async ({ principal, params }) => {
        const id = params['id']!;
        const found = await state.sessions.get(id);
        if (!found || (found.principal !== principal.key && !isWholeAdmin(principal))) throw missing('session', id);
        await endSession(id);
        return {};
      },
    },
  ];
}
