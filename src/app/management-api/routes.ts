/** The routes of the management API below `/api/v1`: composes the operations of the files beside this one. */
import { serverTarget, visible } from '../../core/admission.js';
import { callerOf } from '../../core/caller.js';
import { ApiDocs } from '../../inbound/api/docs-page.js';
import { routeOf } from '../../inbound/api/operation.js';
import type { Route } from '../../inbound/http/route.js';
import type { ConfigReloader } from '../config-reloader.js';
import { VERSION } from '../product-info.js';
import type { Runtime } from '../runtime.js';
import type { UpstreamStates } from '../upstream-states.js';
import { auditOperations } from './audit.js';
import { configOperations } from './config.js';
import { keyOperations } from './keys.js';
import { callerOperations } from './me.js';
import { pinOperations } from './pins.js';
import { policyOperations } from './policy.js';
import { routingOperations } from './routing.js';
import { scoreOperations } from './scores.js';
import { upstreamOperations } from './servers-and-agents.js';
import { sessionOperations } from './sessions.js';
import { statusOperations } from './status.js';
import { taskOperations } from './tasks.js';
import { toolOperations } from './tools.js';
import { viewOperations } from './views.js';
import { webhookOperations } from './webhooks.js';

export interface ManagementOptions {
  readonly runtime: Runtime;
  readonly upstreamStates: UpstreamStates;
  /** The number of open sessions at this replica. */
  readonly sessions: () => number;
  /** Ends a stored session, at every replica. */
  readonly endSession: (key: string) => Promise<void>;
  /** All routes, for the description; called at the first request. */
  readonly table: () => readonly Route[];
  /**
   * Reads the configuration again and applies it, or only compares it; absent if the gateway has no configuration file.
   */
  readonly reloader: Pick<ConfigReloader, 'reload'> | undefined;
}

export function managementRoutes(options: ManagementOptions): Route[] {
  const { runtime, upstreamStates, table } = options;
  const upstreams = {
    registry: runtime.registry,
    states: upstreamStates.statesFor.bind(upstreamStates),
    state: upstreamStates.stateFor.bind(upstreamStates),
  };
  const { admission, gateway, catalog, views } = runtime.mcp;
  const operations = [
    ...callerOperations(),
    ...statusOperations({ runtime, states: upstreams.states, sessions: options.sessions }),
    ...upstreamOperations('server', upstreams),
    ...upstreamOperations('agent', upstreams),
    ...toolOperations({
      gateway,
      knows: async ({ principal }, server) =>
        catalog.servers.includes(server) &&
        (await visible(admission, callerOf(principal), [server], serverTarget)).length > 0,
    }),
    ...viewOperations({
      names: () => views.names,
      sees: (principal, name) => {
        const view = views.get(name);
        return view !== undefined && views.sees(principal, view);
      },
      settings: (name) => Object.entries(runtime.live().views).find(([key]) => key.toLowerCase() === name)?.[1],
      servers: (name) => {
        const view = views.get(name);
        return view ? catalog.servers.filter((server) => catalog.inView(view, server)) : [];
      },
    }),
    ...sessionOperations(runtime, options.endSession),
    ...taskOperations(runtime),
    ...keyOperations(runtime),
    ...policyOperations(runtime),
    ...pinOperations(runtime),
    ...auditOperations(runtime),
    ...webhookOperations(runtime),
    ...scoreOperations(runtime),
    ...routingOperations(runtime),
    ...configOperations(options),
  ];
  return [...operations.map(routeOf), ...new ApiDocs(VERSION, table).routes()];
}
