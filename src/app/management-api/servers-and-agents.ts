import type { Caller } from '../../core/caller.js';
import { callerOf, isAdmin, type Principal } from '../../core/caller.js';
import { forOperators, type UpstreamState } from '../../core/upstream-monitor.js';
import type { UpstreamEntry, UpstreamKind, UpstreamRegistry } from '../../core/upstream-registry.js';
import { isWholeAdmin } from '../../core/whole-admin.js';
import { type Answer, type ApiRequest, expectedOf, type Operation, tagsOf } from '../../inbound/api/operation.js';
import { listOf, PAGE_QUERY, paged, pageOf } from '../../inbound/api/paging.js';
import { ref, SETTINGS } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';

export interface UpstreamsOptions {
  readonly registry: UpstreamRegistry;
  /** The states of the servers and agents that a caller may know of. */
  states(caller: Caller): Promise<readonly UpstreamState[]>;
  /** The state of one server or agent. */
  state(caller: Caller, kind: UpstreamKind, name: string): Promise<UpstreamState | undefined>;
}

const IF_MATCH = { 'If-Match': 'The ETag of the version to change, or `*` for any version.' } as const;

/**
 * Servers or agents. Callers read the servers and agents that they may use. Administrators also read and change the
 * settings.
 */
export function upstreamOperations(kind: UpstreamKind, { registry, states, state }: UpstreamsOptions): Operation[] {
  const section = kind === 'server' ? 'servers' : 'agents';
  const tag = kind === 'server' ? 'Servers' : 'Agents';
  const schema = ref(kind === 'server' ? 'Server' : 'Agent');
  const base = `/api/v1/${section}`;
  const one = `${base}/{name}`;
  const common = { tag, access: 'admin' } as const;
  const missing = (name: string): ProtocolError =>
    new ProtocolError('not_found', `There is no ${kind} ${JSON.stringify(name)}`);

  /**
   * The names that a caller may know, and a function that shows one of them. Only the entries of a page are shown, so
   * the other entries cost nothing.
   */
  const all = async (principal: Principal): Promise<{ names: readonly string[]; show(name: string): object }> => {
    const seen = new Map(
      (await states(callerOf(principal))).filter((state) => state.kind === kind).map((state) => [state.name, state]),
    );
    const full = isAdmin(principal);
    return {
      names: isWholeAdmin(principal) ? registry.names(kind) : [...seen.keys()],
      show: (name) => shown(seen.get(name), full ? registry.get(kind, name) : undefined),
    };
  };
  const answer = async (entry: UpstreamEntry, { principal }: ApiRequest, more: Answer = {}): Promise<Answer> => {
    const found = await state(callerOf(principal), kind, entry.name);
    return { ...more, body: shown(found, entry), etag: entry.version };
  };
  const created = async (name: string, settings: Record<string, unknown>, request: ApiRequest): Promise<Answer> => {
    const entry = await registry.create(kind, name, { by: request.by, settings });
    return answer(entry, request, { status: 201, location: `${base}/${encodeURIComponent(entry.name)}` });
  };

  return [
    {
      ...common,
      method: 'GET',
      path: base,
      access: 'user',
      description: `The ${section} that the caller may see`,
      query: PAGE_QUERY,
      answer: { description: 'One page', schema: listOf(schema) },
      run: async ({ principal, query }) => {
        const { names, show } = await all(principal);
        const page = paged(names, pageOf(query), (name) => name);
        return { body: { ...page, items: page.items.map(show) } };
      },
    },
    {
      ...common,
      method: 'POST',
      path: base,
      description: `Registers ${kind === 'server' ? 'a server' : 'an agent'} on all replicas`,
      body: {
        type: 'object',
        required: ['name', 'settings'],
        additionalProperties: false,
        properties: { name: { type: 'string', minLength: 1, maxLength: 100 }, settings: SETTINGS },
      },
      answer: { status: 201, description: 'Registered; Location and ETag name it', schema },
      errors: [409],
      run: (request) =>
        created(request.body['name'] as string, request.body['settings'] as Record<string, unknown>, request),
    },
    {
      ...common,
      method: 'GET',
      path: one,
      access: 'user',
      description: `One of the ${section} that the caller may see`,
      answer: { description: `The ${kind}, with its ETag for administrators`, schema },
      errors: [404],
      run: async ({ principal, params }) => {
        const name = params['name']!.toLowerCase();
        const seen = await state(callerOf(principal), kind, name);
        const entry = isAdmin(principal) ? registry.get(kind, name) : undefined;
        if (!seen && !(entry && isWholeAdmin(principal))) throw missing(name);
        return { body: shown(seen, entry), ...(entry && { etag: entry.version }) };
      },
    },
    {
      ...common,
      method: 'PUT',
      path: one,
      description: `Replaces the settings of ${kind === 'server' ? 'a server' : 'an agent'}, or registers it`,
      headers: { ...IF_MATCH, 'If-None-Match': '`*` registers a new name only.' },
      body: SETTINGS,
      answer: { description: 'Replaced, or registered (201)', schema },
      errors: [409, 412, 428],
      run: async (request) => {
        const { params, body, by, header } = request;
        const name = params['name']!;
        const fresh = tagsOf(header('if-none-match')) === '*';
        if (header('if-match') === undefined && (fresh || !registry.get(kind, name))) {
          if (fresh && registry.get(kind, name))
            throw new ProtocolError('precondition_failed', `There is a ${kind} ${JSON.stringify(name)} already`);
          return created(name, body, request);
        }
        return answer(
          await registry.replace(kind, name, { by, settings: body, expected: expectedOf(header) }),
          request,
        );
      },
    },
    {
      ...common,
      method: 'PATCH',
      path: one,
      description: `Changes some settings of ${kind === 'server' ? 'a server' : 'an agent'} (RFC 7396)`,
      headers: IF_MATCH,
      body: SETTINGS,
      answer: { description: 'Changed', schema },
      errors: [404, 412, 428],
      run: async (request) => {
        const { params, body, by, header } = request;
        const given = { by, settings: body, expected: expectedOf(header) };
        return answer(await registry.patch(kind, params['name']!, given), request);
      },
    },
    {
      ...common,
      method: 'DELETE',
      path: one,
      description: `Removes ${kind === 'server' ? 'a server' : 'an agent'} on all replicas`,
      headers: IF_MATCH,
      answer: { status: 204, description: 'Removed' },
      errors: [404, 412, 428],
      run: async ({ params, by, header }) => {
        const name = params['name']!;
        if (!registry.get(kind, name)) throw missing(name);
        if (!(await registry.remove(kind, name, { by, expected: expectedOf(header) }))) throw missing(name);
        return {};
      },
    },
    {
      ...common,
      method: 'POST',
      path: `${one}/check`,
      description: 'Checks settings without storing them',
      body: SETTINGS,
      answer: {
        description: 'The settings are valid',
        schema: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
      },
      run: ({ params, body }) => ({ body: { name: registry.check(kind, params['name']!, body) } }),
    },
    {
      ...common,
      method: 'POST',
      path: `${one}/restore`,
      description: 'Drops the registration, so that the entry of the configuration file is in effect',
      answer: { description: 'The entry of the configuration file', schema },
      errors: [404],
      run: async (request) =>
        answer(await registry.restore(kind, request.params['name']!, { by: request.by }), request),
    },
  ];
}

/**
 * Callers read the state and the problem. Administrators also read the settings, the cause of a failure and the
 * replicas.
 */
function shown(state: UpstreamState | undefined, entry: UpstreamEntry | undefined): { readonly name: string } {
  const seen = state && entry ? forOperators(state) : state;
  const problem = entry?.problem ?? seen?.problem;
  const { kind: _, meta: __, name = seen?.name ?? '', problem: ___, ...rest } = entry ?? ({} as Partial<UpstreamEntry>);
  return {
    name,
    status: seen?.state ?? (entry?.enabled === false ? 'off' : 'starting'),
    ...(seen && { since: seen.since }),
    ...(seen?.count !== undefined && { count: seen.count }),
    ...(problem !== undefined && { problem }),
    ...(entry && seen?.replicas && { replicas: seen.replicas }),
    ...(seen?.violations && { violations: seen.violations }),
    ...rest,
  } as { readonly name: string };
}
