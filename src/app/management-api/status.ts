/** `/api/v1/status` and `/api/v1/replicas`. */
import { type Caller, callerOf } from '../../core/caller.js';
import type { UpstreamState } from '../../core/upstream-monitor.js';
import { isWholeAdmin } from '../../core/whole-admin.js';
import type { Operation } from '../../inbound/api/operation.js';
import { listOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import { VERSION } from '../product-info.js';
import type { Runtime } from '../runtime.js';

/** The parts of the gateway that the status counts. */
export interface StatusOptions {
  readonly runtime: Runtime;
  readonly states: (caller: Caller) => Promise<readonly UpstreamState[]>;
  /** The number of open sessions at this replica. */
  readonly sessions: () => number;
}

export function statusOperations({ runtime, states, sessions }: StatusOptions): Operation[] {
  const { state, replica } = runtime;
  const tag = 'Gateway';
  return [
    {
      method: 'GET',
      path: '/api/v1/status',
      access: 'user',
      tag,
      description: 'The gateway, its storage, and the servers and agents that the caller may see',
      answer: { description: 'The status', schema: ref('Status') },
      run: async ({ principal }) => {
        const shown = await states(callerOf(principal));
        const count = (kind: string) => {
          const of = (wanted: string): number =>
            shown.filter((each) => each.kind === kind && each.state === wanted).length;
          return { up: of('up'), down: of('down'), starting: of('starting') };
        };
        const { ok } = await state.health();
        return {
          body: {
            version: VERSION,
            ...{ servers: count('server'), agents: count('agent'), storage: ok ? 'ok' : 'unavailable' },
            ...(isWholeAdmin(principal) && {
              ...{ replica: replica.cluster.self, replicas: replica.replicas(), sessions: sessions() },
            }),
          },
        };
      },
    },
    {
      method: 'GET',
      path: '/api/v1/replicas',
      access: 'admin',
      tag,
      description: 'The replicas that share the database',
      answer: {
        description: 'This replica, and the number of all that are alive',
        schema: { allOf: [listOf(ref('Replica')), { type: 'object', properties: { alive: { type: 'integer' } } }] },
      },
      run: () => ({ body: { items: [{ id: replica.cluster.self, self: true }], alive: replica.replicas() } }),
    },
  ];
}
