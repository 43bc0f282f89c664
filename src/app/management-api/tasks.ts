/** `/api/v1/tasks`, `/api/v1/agent-tasks` and `/api/v1/parked`: tasks, and calls that wait for their caller. */
import { serverTarget, visible } from '../../core/admission.js';
import { callerOf } from '../../core/caller.js';
import type { HostedTaskRecord } from '../../core/era-bridge/hosted-task-record.js';
import type { Operation } from '../../inbound/api/operation.js';
import { cut, PAGE_QUERY, pageOf } from '../../inbound/api/paging.js';
import type { Documents } from '../../state/index.js';
import type { Runtime } from '../runtime.js';
import { idOf, listOperation, readPage, times } from './stored-records.js';

export function taskOperations({ state, a2a, mcp }: Runtime): Operation[] {
  return [
    {
      ...listOperation('/api/v1/tasks', 'Tasks', 'Tasks that the gateway hosts', 'Task'),
      run: async (request) => {
        const [found, { limit }] = await readPage(state.tasks as Documents<HostedTaskRecord>, request);
        const shown = found.map((each) => {
          const { server, status, owner } = each.value;
          return {
            id: each.id,
            protocol: 'mcp',
            caller: each.principal,
            server,
            status,
            replica: owner,
            ...times(each),
          };
        });
        const page = cut(shown, limit, idOf);
        // If a caller has lost the right to a server, its tasks there look absent, as in the methods of the protocols.
        const items = await visible(mcp.admission, callerOf(request.principal), page.items, ({ server }) =>
          serverTarget(server),
        );
        return { body: { ...page, items } };
      },
    },
    {
      ...listOperation('/api/v1/agent-tasks', 'Tasks', 'Tasks of agents, newest first', 'Task'),
      description: 'The latest tasks of the caller at agents, newest first',
      query: { limit: PAGE_QUERY.limit },
      run: async ({ principal, query }) => {
        const { limit } = pageOf(query);
        const agents = await a2a.cards.visible(callerOf(principal));
        const { tasks } = await state.agentTasks.list({ owner: principal.key, agents: [...agents], limit });
        const shown = tasks.map(({ id, agent, state: status, createdAt, updatedAt }) => {
          return { id, protocol: 'a2a', caller: principal.key, server: agent, status, createdAt, updatedAt };
        });
        return { body: { items: shown } };
      },
    },
    {
      ...listOperation('/api/v1/parked', 'Tasks', 'Stored calls that wait for an answer of their caller', 'ParkedCall'),
      run: async (request) => {
        const [found, { limit }] = await readPage(state.parked, request);
        const shown = found.map((each) => ({
          id: each.id,
          caller: each.principal,
          replica: each.owner,
          ...times(each),
        }));
        return { body: cut(shown, limit, idOf) };
      },
    },
  ];
}
