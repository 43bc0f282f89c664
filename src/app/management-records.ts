/** The management API: API keys, pins, the audit trail, undelivered webhooks, sessions, tasks and parked calls. */
import { serverTarget, visible } from '../core/admission.js';
import { callerOf } from '../core/caller.js';
import type { HostedTaskRecord } from '../core/era-bridge/hosted-task-record.js';
import { isWholeAdmin } from '../core/whole-admin.js';
import type { ApiRequest, Operation } from '../inbound/api/operation.js';
import { cut, listOf, PAGE_QUERY, type Page, paged, pageOf } from '../inbound/api/paging.js';
import { ref } from '../inbound/api/schemas.js';
import type { SessionRecord } from '../inbound/mcp/session/records.js';
import { ProtocolError } from '../protocol/errors.js';
import type { Document, Documents } from '../state/index.js';
import { ApiKeyProblem, createApiKeyIn, type NewApiKey } from './api-keys.js';
import { matcherOf } from './audit-reader.js';
import { PinCommands } from './pin-records.js';
import type { Runtime } from './runtime.js';

const text = { type: 'string', maxLength: 200 } as const;
const texts = { type: 'array', items: text, maxItems: 100 } as const;
const missing = (what: string, id: string): ProtocolError =>
  new ProtocolError('not_found', `There is no ${what} ${JSON.stringify(id)}`);

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

/** Limit on the records that a request reads in order to find matching records. */
const SCANNED = 20_000;

export function auditOperations({ state }: Runtime): Operation[] {
  const pattern = (what: string) => ({
    description: `${what}; \`*\` matches any characters.`,
    schema: { type: 'string' },
  });
  return [
    {
      method: 'GET',
      path: '/api/v1/audit',
      access: 'admin',
      tag: 'Audit',
      description: 'The audit trail in the order of time, over all replicas',
      query: {
        ...PAGE_QUERY,
        ...{ caller: pattern('The caller'), server: pattern('The server or agent'), tool: pattern('The tool') },
        ...{ decision: pattern('The decision'), kind: pattern('The kind of record') },
        since: { description: 'Milliseconds since 1970, inclusive.', schema: { type: 'integer' } },
        until: { description: 'Milliseconds since 1970, exclusive.', schema: { type: 'integer' } },
      },
      answer: { description: 'One page; it may be empty and have a next page', schema: listOf(ref('AuditRecord')) },
      run: async ({ query }) => {
        const { limit, after } = pageOf(query);
        const { caller, server, tool, decision, kind } = query;
        const matches = matcherOf({ caller, server, tool, decision, kind });
        const from = after === '' ? timeOf('since', query['since']) : Number(after.split(' ')[0]);
        const until = timeOf('until', query['until']);
        const found: { at: number; chain: string; seq: number }[] = [];
        let passed = after === '';
        let scanned = 0;
        let last: string | undefined;
        for await (const record of state.audit.read({
          ...(from !== undefined && { since: from }),
          ...(until !== undefined && { until }),
        })) {
          const key = `${record.at} ${record.chain} ${record.seq}`;
          if (!passed) {
            passed = key === after || record.at > Number(after.split(' ')[0]);
            if (key === after) continue;
          }
          if (found.length === limit || ++scanned > SCANNED)
            return {
              body: { items: found, ...(last !== undefined && { next: Buffer.from(last).toString('base64url') }) },
            };
          last = key;
          if (matches(record.value)) found.push(record);
        }
        return { body: { items: found } };
      },
    },
    {
      method: 'GET',
      path: '/api/v1/audit/verify',
      access: 'admin',
      tag: 'Audit',
      description: 'Checks the hashes and signatures of the audit trail',
      answer: { description: 'The result', schema: ref('Anything') },
      run: async () => ({ body: await state.audit.verify() }),
    },
  ];
}

function timeOf(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (!/^\d{1,15}$/.test(value)) throw new ProtocolError('invalid_envelope', `${name} is a number of milliseconds`);
  return Number(value);
}

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

export function stateOperations({ state, a2a, mcp }: Runtime, endSession: (key: string) => Promise<void>): Operation[] {
  const read = async <T>(store: Documents<T>, { principal, query }: ApiRequest): Promise<[Document<T>[], Page]> => {
    const page = pageOf(query);
    const wanted = { after: page.after, limit: page.limit + 1 };
    return [
      await (isWholeAdmin(principal) ? store.listAll(wanted) : store.listByPrincipal(principal.key, wanted)),
      page,
    ];
  };
  const times = ({ createdAt, updatedAt, expiresAt }: Document<unknown>) => ({
    createdAt,
    updatedAt,
    ...(expiresAt !== null && { expiresAt }),
  });
  const list = (path: string, tag: string, description: string, name: 'Session' | 'Task' | 'ParkedCall') =>
    ({
      method: 'GET',
      path,
      access: 'user',
      tag,
      description: `${description}: those of the caller, or all for administrators`,
      query: PAGE_QUERY,
      answer: { description: 'One page', schema: listOf(ref(name)) },
    }) as const;
  const idOf = ({ id }: { id: string }): string => id;
  return [
    {
      ...list('/api/v1/sessions', 'Sessions', 'Sessions of clients over HTTP', 'Session'),
      run: async (request) => {
        const [found, { limit }] = await read(state.sessions as Documents<SessionRecord>, request);
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
    {
      ...list('/api/v1/tasks', 'Tasks', 'Tasks that the gateway hosts', 'Task'),
      run: async (request) => {
        const [found, { limit }] = await read(state.tasks as Documents<HostedTaskRecord>, request);
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
      ...list('/api/v1/agent-tasks', 'Tasks', 'Tasks of agents, newest first', 'Task'),
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
      ...list('/api/v1/parked', 'Tasks', 'Stored calls that wait for an answer of their caller', 'ParkedCall'),
      run: async (request) => {
        const [found, { limit }] = await read(state.parked, request);
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
