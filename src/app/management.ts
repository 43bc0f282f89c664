/** Composes the management API below `/api/v1`, and its description. */
import { showConfig } from '../config/show.js';
import { serverTarget, visible } from '../core/admission.js';
import { callerOf, isAdmin } from '../core/caller.js';
import { isWholeAdmin } from '../core/whole-admin.js';
import { hideCredentials } from '../identity/mask-secrets.js';
import { ApiDocs } from '../inbound/api/docs-page.js';
import { type Operation, routeOf } from '../inbound/api/operation.js';
import { listOf } from '../inbound/api/paging.js';
import { ref } from '../inbound/api/schemas.js';
import { toolOperations } from '../inbound/api/tools.js';
import { upstreamOperations } from '../inbound/api/upstreams.js';
import { viewOperations } from '../inbound/api/views.js';
import type { Route } from '../inbound/http/route.js';
import { ProtocolError } from '../protocol/errors.js';
import type { ConfigReloader } from './config-reloader.js';
import {
  auditOperations,
  keyOperations,
  pinOperations,
  stateOperations,
  webhookOperations,
} from './management-records.js';
import { routingOperations } from './management-routing.js';
import type { Overview } from './overview.js';
import { CaseError, type PolicyCase, PolicyCases } from './policy-cases.js';
import { VERSION } from './product-info.js';
import type { Runtime } from './runtime.js';
import { scoreOperations } from './score-records.js';

export interface ManagementOptions {
  readonly runtime: Runtime;
  readonly overview: Overview;
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
  const { runtime, overview, table } = options;
  const upstreams = {
    registry: runtime.registry,
    states: overview.statesFor.bind(overview),
    state: overview.stateFor.bind(overview),
  };
  const { admission, gateway, catalog, views } = runtime.mcp;
  const operations = [
    ...gatewayOperations(options),
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
    ...stateOperations(runtime, options.endSession),
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

function gatewayOperations({ runtime, overview, sessions }: ManagementOptions): Operation[] {
  const { state, replica } = runtime;
  const tag = 'Gateway';
  return [
    {
      method: 'GET',
      path: '/api/v1/me',
      access: 'user',
      tag,
      description: 'The caller as the gateway knows it',
      answer: { description: 'The caller', schema: ref('Me') },
      run: ({ principal }) => {
        const { key: caller, issuer, subject, tenant, roles, scopes, groups } = principal;
        return { body: { caller, issuer, subject, tenant, roles, scopes, groups, admin: isAdmin(principal) } };
      },
    },
    {
      method: 'GET',
      path: '/api/v1/status',
      access: 'user',
      tag,
      description: 'The gateway, its storage, and the servers and agents that the caller may see',
      answer: { description: 'The status', schema: ref('Status') },
      run: async ({ principal }) => {
        const states = await overview.statesFor(callerOf(principal));
        const count = (kind: string) => {
          const of = (wanted: string): number =>
            states.filter((each) => each.kind === kind && each.state === wanted).length;
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

function policyOperations(runtime: Runtime): Operation[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/policy',
      access: 'admin',
      tag: 'Policy',
      description: 'The rules in effect, and the proposed ones',
      answer: { description: 'The policy', schema: ref('Anything') },
      run: () => {
        const { rules, mode, proposed } = runtime.live().policy;
        return { body: { mode, rules, proposed } };
      },
    },
    {
      method: 'POST',
      path: '/api/v1/policy/explain',
      access: 'admin',
      tag: 'Policy',
      description: 'Says what the policy decides about a call, without making the call',
      body: { type: 'object', required: ['caller'], description: 'A case as in the files of parley policy test.' },
      answer: { description: 'The decision, with every rule', schema: ref('Anything') },
      run: ({ body }) => {
        try {
          return { body: new PolicyCases(runtime.live()).explain(body as unknown as PolicyCase) };
        } catch (error) {
          if (!(error instanceof CaseError)) throw error;
          throw new ProtocolError('invalid_settings', `The case ${error.message}`, { data: { problems: [] } });
        }
      },
    },
  ];
}

function configOperations({ runtime, reloader }: ManagementOptions): Operation[] {
  const common = { tag: 'Configuration', access: 'admin' } as const;
  return [
    {
      ...common,
      method: 'GET',
      path: '/api/v1/config',
      description: 'The configuration in effect, with every secret masked',
      answer: { description: 'The configuration', schema: ref('Anything') },
      run: () => ({ body: showConfig(runtime.live(), hideCredentials) }),
    },
    {
      ...common,
      method: 'POST',
      path: '/api/v1/config/reload',
      description: 'Reads the configuration again and applies it; an invalid one changes nothing',
      body: {
        type: 'object',
        additionalProperties: false,
        properties: { preview: { type: 'boolean', description: 'Only compares, and changes nothing.' } },
      },
      optionalBody: true,
      answer: { description: 'The changes, and the keys that need a restart', schema: ref('Anything') },
      run: async ({ body, by }) => {
        if (!reloader)
          throw new ProtocolError(
            'unsupported_operation',
            'This gateway was started without a configuration to read again',
          );
        const result = await reloader.reload({ by, preview: body['preview'] === true });
        if (result.outcome === 'invalid')
          throw new ProtocolError('invalid_settings', 'The configuration has errors and was not applied', {
            data: { ...result },
          });
        if (result.outcome === 'failed')
          throw new ProtocolError('internal', 'The configuration was not applied completely; the log says why');
        return { body: result };
      },
    },
  ];
}
