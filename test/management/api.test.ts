/** The management API: every route is described and guarded, changes have versions and reach the other replica. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';
import { type EchoServer, startEcho } from '../input/support/echo.js';
import { Session } from '../input/support/speak.js';
import { eventually } from '../support/eventually.js';

const USER = 'user-0123456789abcdef0123456789abcdef';
const ADMIN = 'admin-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH';
const PLACE = { url: 'http://127.0.0.1:9/mcp' };

let folder: string;
let echo: EchoServer;
let a: RunningGateway;
let b: RunningGateway;

const start = (): Promise<RunningGateway> =>
  startServe(
    configFrom(
      {
        listen: '127.0.0.1:0',
        data: join(folder, 'data'),
        servers: {
          echo: { url: echo.url },
          hidden: { url: 'http://127.0.0.1:9/', headers: { 'X-Key': 'canary-file' } },
        },
        policy: {
          rules: [
            { name: 'admins', effect: 'allow', when: '"admin" in caller.roles' },
            { name: 'no hidden', effect: 'deny', when: 'server == "hidden"' },
            { name: 'others', effect: 'allow', when: 'true' },
          ],
        },
        views: { open: { servers: ['echo'] }, inner: { servers: ['hidden'] } },
        mcp: { rawProxy: true },
        egress: { allowPrivate: true },
        timeouts: { drain: '1s' },
        auth: {
          keys: true,
          tokens: [
            { name: 'ada', token: USER },
            { name: 'root', token: ADMIN, admin: true },
          ],
        },
      },
      { env: {} },
    ).config,
    { log: SILENT },
  );

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-management-'));
  echo = await startEcho();
  a = await start();
  b = await start();
  await a.settled(5_000);
});
afterAll(async () => {
  await b?.close();
  await a?.close();
  await echo?.close();
  await rm(folder, { recursive: true, force: true });
});

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the bodies of many routes
  readonly body: any;
}

async function ask(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
  token = ADMIN,
  at = a,
): Promise<Reply> {
  const reply = await fetch(at.url + path, {
    method,
    headers: {
      ...(token !== '' && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await reply.text();
  return { status: reply.status, headers: reply.headers, body: text === '' ? undefined : JSON.parse(text) };
}
/** The parts of an operation in the OpenAPI document that the tests read. */
interface Described {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
}
const asUser = (method: string, path: string, body?: unknown): Promise<Reply> => ask(method, path, body, {}, USER);
const tag = ({ headers }: Reply): string => headers.get('etag')!;

describe('the description of the API', () => {
  it('S2-34: is a valid OpenAPI document that lists every route with its access', async () => {
    const { body } = await ask('GET', '/openapi.json', undefined, {}, '');
    const { valid, errors } = await new Validator().validate(structuredClone(body));
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
    const listed = Object.entries(body.paths as Record<string, Record<string, { 'x-parley-access': string }>>).flatMap(
      ([path, methods]) =>
        Object.entries(methods).map(([method, each]) => `${method.toUpperCase()} ${path} ${each['x-parley-access']}`),
    );
    const served = a.routes.map(({ method, path, access }) => `${method} ${path.replace('*}', '}')} ${access}`);
    expect(listed.sort()).toEqual(served.sort());
  });

  it('S2-34: names each operation once, and declares every parameter of a path', async () => {
    const { body } = await ask('GET', '/openapi.json', undefined, {}, '');
    const operations = Object.entries(body.paths as Record<string, Record<string, Described>>).flatMap(
      ([path, methods]) => Object.values(methods).map((operation) => ({ path, ...operation })),
    );
    const ids = operations.map(({ operationId }) => operationId);
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
    for (const { path, parameters = [] } of operations) {
      const declared = parameters.flatMap(({ name, in: place }) => (place === 'path' ? [name] : []));
      expect([path, declared]).toEqual([path, [...path.matchAll(/\{([^}]*)\}/g)].map(([, name]) => name)]);
    }
    expect(operations.filter(({ path }) => path.startsWith('/mcp-proxy/')).length).toBeGreaterThan(0);
  });

  it('groups routes by what they are for', async () => {
    const { body } = await ask('GET', '/openapi.json', undefined, {}, '');
    const tagsOf = (path: string): string[] =>
      Object.values(body.paths[path] as Record<string, Described>).flatMap(({ tags }) => tags);
    expect(
      new Set(['/mcp-rest/tools/call', '/v1/mcp/server', '/mcp-proxy/{id}', '/v1/agents'].flatMap(tagsOf)),
    ).toEqual(new Set(['REST']));
    expect([tagsOf('/metrics'), tagsOf('/mcp')[0], tagsOf('/a2a/{agent}'), tagsOf('/api/v1/tail')]).toEqual([
      ['Operation'],
      'MCP',
      ['A2A'],
      ['Calls'],
    ]);
  });

  it('has schemas for every route of the management API, and none of them is public', () => {
    const own = a.routes.filter(({ path }) => path.startsWith('/api/v1'));
    expect(own.length).toBeGreaterThan(35);
    for (const { api, access, path } of own) {
      if (path === '/api/v1/tail') continue;
      expect([path, api !== undefined, access === 'public']).toEqual([path, true, false]);
    }
  });

  it('is a page without scripts and without foreign parts', async () => {
    const reply = await fetch(`${a.url}/docs`);
    const page = await reply.text();
    expect(reply.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(page).toContain('/api/v1/servers/{name}');
    expect(page).toContain('name="viewport"');
    expect(page).not.toMatch(/<script|https?:\/\/|style="|\ufffd/);
    expect((await fetch(`${a.url}/docs/style.css`)).headers.get('content-type')).toContain('text/css');
  });
});

describe('access', () => {
  it('refuses every route without a token, and every administrative route to users, with problem details', async () => {
    for (const { method, path, access } of a.routes.filter(({ path }) => path.startsWith('/api/v1'))) {
      const url = path.replace(/\{\w+\}/g, 'echo');
      const body = method === 'GET' || method === 'DELETE' ? undefined : {};
      expect([url, (await ask(method, url, body, {}, '')).status]).toEqual([url, 401]);
      if (access !== 'admin') continue;
      const reply = await asUser(method, url, body);
      expect([url, reply.status, reply.body.reason]).toEqual([url, 403, 'forbidden']);
      expect(reply.headers.get('content-type')).toBe('application/problem+json');
    }
  });

  it('S3: shows a user only what the user may use, without settings, and answers for all else as if it did not exist', async () => {
    const { body } = await asUser('GET', '/api/v1/servers');
    expect(body.items).toEqual([{ name: 'echo', status: 'up', since: expect.any(Number), count: expect.any(Number) }]);
    const [hidden, absent] = await Promise.all(
      ['hidden', 'absent'].map((name) => asUser('GET', `/api/v1/servers/${name}`)),
    );
    expect([hidden!.status, hidden!.body.detail.replace('hidden', 'absent')]).toEqual([404, absent!.body.detail]);
    expect((await asUser('GET', '/api/v1/tools?server=hidden')).status).toBe(404);
    const status = await asUser('GET', '/api/v1/status');
    expect(status.body).toMatchObject({ servers: { up: 1, down: 0 } });
    expect(status.body.replicas).toBeUndefined();
    const admin = await ask('GET', '/api/v1/servers');
    expect(admin.body.items.map(({ name }: { name: string }) => name)).toEqual(['echo', 'hidden']);
    expect(JSON.stringify(admin.body)).not.toContain('canary');
    expect((await asUser('GET', '/api/v1/me')).body).toMatchObject({ caller: 'ada', admin: false });
  });

  it('refuses bodies with too many levels before it parses them (P6)', async () => {
    const deep = `{"name":"x","arguments":{"a":${'['.repeat(200_000)}${']'.repeat(200_000)}}}`;
    const refused = await asUser('POST', '/api/v1/tools/call', deep);
    expect(refused.status).toBe(400);
    expect(JSON.stringify(refused.body)).toContain('levels');
  });

  it('refuses an administrator whose key is restricted, so that it cannot widen itself', async () => {
    const made = await ask('POST', '/api/v1/keys', {
      name: 'part',
      roles: ['admin'],
      servers: ['echo'],
      expires: '1h',
    });
    expect(made.status).toBe(201);
    const part = (method: string, path: string, body?: unknown) => ask(method, path, body, {}, made.body.key);
    expect((await part('POST', '/api/v1/keys', { name: 'wide', roles: ['admin'], expires: '1h' })).status).toBe(403);
    expect((await part('GET', '/api/v1/audit')).status).toBe(403);
    // The routes of LiteLLM and RouteIQ change the same registry.
    const moved = { server_id: 'echo', url: 'https://elsewhere.example/mcp' };
    expect((await part('PUT', '/v1/mcp/server', moved)).status).toBe(403);
    expect((await part('DELETE', '/v1/mcp/server/echo')).status).toBe(403);
    expect((await part('DELETE', '/llmrouter/mcp/servers/echo')).status).toBe(403);
    expect((await part('POST', '/v1/agents', { agent_name: 'new', agent_card_params: {} })).status).toBe(403);
    expect((await part('POST', '/mcp-rest/test/connection', { url: 'https://elsewhere.example/mcp' })).status).toBe(
      403,
    );
    expect((await part('GET', '/api/v1/servers')).body.items.map(({ name }: { name: string }) => name)).toEqual([
      'echo',
    ]);
    const listed = await ask('GET', '/api/v1/keys');
    expect(JSON.stringify(listed.body)).not.toContain(made.body.key);
    expect((await ask('DELETE', `/api/v1/keys/${made.body.id}`)).status).toBe(204);
    await eventually(
      () => part('GET', '/api/v1/me'),
      ({ status }) => status === 401,
    );
  });
});

describe('servers', () => {
  it('are registered, changed and removed on one replica and seen on the other, with versions', async () => {
    const made = await ask('POST', '/api/v1/servers', { name: 'Fresh', settings: PLACE });
    expect([made.status, made.headers.get('location')]).toEqual([201, '/api/v1/servers/fresh']);
    const there = await eventually(
      () => ask('GET', '/api/v1/servers/fresh', undefined, {}, ADMIN, b),
      ({ status }) => status === 200,
      5_000,
    );
    expect(tag(there)).toBe(tag(made));
    const path = '/api/v1/servers/fresh';
    expect((await ask('PUT', path, PLACE)).status).toBe(428);
    expect((await ask('PUT', path, PLACE, { 'if-none-match': '*' })).status).toBe(412);
    expect((await ask('DELETE', path)).status).toBe(428);
    const changed = await ask('PATCH', path, { pool: 2 }, { 'if-match': tag(made) });
    expect([changed.status, changed.body.settings]).toEqual([200, { ...PLACE, pool: 2 }]);
    expect((await ask('PUT', path, PLACE, { 'if-match': tag(made) })).status).toBe(412);
    expect((await ask('GET', path, undefined, { 'if-none-match': tag(changed) })).status).toBe(304);
    expect((await ask('DELETE', path, undefined, { 'if-match': tag(made) })).status).toBe(412);
    expect((await ask('DELETE', path, undefined, { 'if-match': tag(changed) })).status).toBe(204);
    await eventually(
      () => ask('GET', path, undefined, {}, ADMIN, b),
      ({ status }) => status === 404,
      5_000,
    );
    expect((await ask('PUT', '/api/v1/agents/helper', PLACE)).status).toBe(201);
    expect((await ask('DELETE', '/api/v1/agents/helper', undefined, { 'if-match': '*' })).status).toBe(204);
  });

  it('S0-55: show since when they are down, and start a new period after a change of their settings', async () => {
    const path = '/api/v1/servers/moved';
    const is = (status: string) =>
      eventually(
        () => ask('GET', path),
        ({ body }) => body.status === status,
      );
    const began = Date.now();
    await ask('PUT', path, PLACE);
    const { body } = await is('down');
    expect(body).toMatchObject({ problem: expect.stringContaining('cannot be reached'), since: expect.any(Number) });
    expect(body.since).toBeGreaterThanOrEqual(began);
    const changed = await ask('PUT', path, { url: echo.url }, { 'if-match': '*' });
    expect(changed.body).not.toHaveProperty('problem');
    expect((await is('up')).body.since).toBeGreaterThanOrEqual(body.since);
    await ask('DELETE', path, undefined, { 'if-match': '*' });
  });

  it.each([
    ['not JSON', '{', 400],
    ['no settings', { name: 'x' }, 422],
    ['an unknown member', { name: 'x', settings: PLACE, more: 1 }, 422],
    ['S1: a program', { name: 'x', settings: { command: 'sh' } }, 422],
    ['a variable', { name: 'x', settings: { ...PLACE, headers: { A: '$' + '{HOME}' } } }, 422],
    ['a taken name', { name: 'echo', settings: PLACE }, 409],
  ])('are refused: %s', async (_, body, status) => {
    const reply = await ask('POST', '/api/v1/servers', body);
    expect([reply.status, reply.body.status, reply.body.type]).toEqual([
      status,
      status,
      `urn:parley:error:${reply.body.reason}`,
    ]);
    if (status === 422) expect(reply.body.problems.length).toBeGreaterThan(0);
  });

  it('S26: are not changed by the form of another site', async () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    expect((await ask('POST', '/api/v1/servers', 'name=x', form)).status).toBe(415);
  });

  it('are listed in pages within bounds', async () => {
    for (const name of ['p1', 'p2', 'p3']) await ask('PUT', `/api/v1/servers/${name}`, { ...PLACE, enabled: false });
    const names: string[] = [];
    for (let path = '/api/v1/servers?limit=2', pages = 0; path !== '' && pages < 10; pages++) {
      const { body } = await ask('GET', path);
      expect(body.items.length).toBeLessThanOrEqual(2);
      names.push(...body.items.map(({ name }: { name: string }) => name));
      path = body.next === undefined ? '' : `/api/v1/servers?limit=2&cursor=${body.next}`;
    }
    expect(names).toEqual(['echo', 'hidden', 'p1', 'p2', 'p3']);
    for (const query of ['limit=0', 'limit=201', 'limit=x', 'cursor=%00', 'nothing=1', 'limit=1&limit=2'])
      expect([query, (await ask('GET', `/api/v1/servers?${query}`)).status]).toEqual([query, 400]);
    for (const name of ['p1', 'p2', 'p3'])
      await ask('DELETE', `/api/v1/servers/${name}`, undefined, { 'if-match': '*' });
  });
});

describe('sessions', () => {
  it('end at once, with their streams, when an administrator ends them', async () => {
    const own = { authorization: `Bearer ${USER}` };
    const session = await Session.open(`${a.url}/mcp`, '2025-06-18', own);
    const stream = await session.listen();
    const { body } = await asUser('GET', '/api/v1/sessions');
    expect(body.items).toMatchObject([{ caller: 'ada', revision: '2025-06-18', client: { name: 'by-hand' } }]);
    const path = `/api/v1/sessions/${body.items[0].id}`;
    expect((await ask('DELETE', path)).status).toBe(204);
    expect((await session.request('ping')).status).toBe(404);
    await stream.end();
    expect((await ask('DELETE', path)).status).toBe(404);
    expect((await asUser('GET', '/api/v1/sessions')).body.items).toEqual([]);
  });
});

describe('the other resources', () => {
  it('S24: records every change with its caller', async () => {
    const { body } = await ask('GET', '/api/v1/audit?kind=change&limit=200');
    const records = body.items.map(({ value }: { value: object }) => value);
    for (const action of ['server.put', 'server.remove', 'agent.put', 'key.create', 'key.revoke'])
      expect(records).toContainEqual(expect.objectContaining({ action, caller: 'root', address: expect.any(String) }));
    const one = await ask('GET', '/api/v1/audit?limit=1');
    const two = await ask('GET', `/api/v1/audit?limit=1&cursor=${one.body.next}`);
    expect(two.body.items[0].hash).not.toBe(one.body.items[0].hash);
    expect((await ask('GET', '/api/v1/audit/verify')).body.ok).toBe(true);
  });

  it.each([
    'views',
    'sessions',
    'tasks',
    'agent-tasks',
    'parked',
    'keys',
    'pins',
    'webhooks',
    'replicas',
    'agents',
    'tools',
  ])('lists %s', async (name) => {
    const { status, body } = await ask('GET', `/api/v1/${name}`);
    expect([status, Array.isArray(body.items)]).toEqual([200, true]);
  });

  it('shows a view to the callers that may use it, and its settings to administrators', async () => {
    const full = await ask('GET', '/api/v1/views');
    expect(full.body.items).toEqual([
      expect.objectContaining({ name: 'inner', path: '/mcp/inner', servers: ['hidden'] }),
      expect.objectContaining({
        name: 'open',
        servers: ['echo'],
        settings: expect.objectContaining({ servers: ['echo'] }),
      }),
    ]);
    expect((await asUser('GET', '/api/v1/views')).body.items).toEqual([{ name: 'open', path: '/mcp/open' }]);
    expect((await asUser('GET', '/api/v1/views/OPEN')).body).toEqual({ name: 'open', path: '/mcp/open' });
    const [hidden, absent] = [await asUser('GET', '/api/v1/views/inner'), await asUser('GET', '/api/v1/views/other')];
    expect([hidden.status, hidden.body.detail.replace('inner', 'other')]).toEqual([404, absent.body.detail]);
  });

  it('calls a tool as its caller, and shows policy and configuration without secrets', async () => {
    const { body: list } = await asUser('GET', '/api/v1/tools');
    expect(list.items[0].name).toMatch(/^echo__/);
    const unknown = await asUser('POST', '/api/v1/tools/call', { name: 'hidden__x' });
    expect([unknown.status, unknown.body.reason]).toEqual([404, 'tool_not_found']);
    const explained = await ask('POST', '/api/v1/policy/explain', { caller: 'ada', server: 'hidden', tool: 'x' });
    expect(explained.body).toMatchObject({ effect: 'deny', rule: 'no hidden' });
    expect((await ask('GET', '/api/v1/policy')).body.rules).toHaveLength(3);
    const config = await ask('GET', '/api/v1/config');
    expect(config.body.servers.echo.url).toBe(echo.url);
    expect(JSON.stringify(config.body)).not.toMatch(new RegExp(`canary|${ADMIN}`));
    expect((await ask('POST', '/api/v1/config/reload')).body.reason).toBe('unsupported_operation');
    expect(
      (await ask('POST', '/api/v1/pins/approve', { server: 'echo', kind: 'tool', name: 'x', seen: 'y' })).status,
    ).toBe(404);
    expect((await ask('DELETE', '/api/v1/pins/nobody')).status).toBe(404);
    expect((await ask('DELETE', '/api/v1/sessions/x')).status).toBe(404);
    expect((await ask('POST', '/api/v1/webhooks/x/retry')).status).toBe(404);
    expect((await ask('POST', '/api/v1/servers/x/check', PLACE)).body).toEqual({ name: 'x' });
    expect((await ask('POST', '/api/v1/servers/x/restore')).status).toBe(404);
    expect((await ask('GET', '/api/v1/nothing')).body.reason).toBe('not_found');
  });

  it('docs/management.md: its tour works as it is written', async () => {
    const text = await readFile(new URL('../../docs/management.md', import.meta.url), 'utf8');
    const tour = [...text.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block).join('\n');
    expect(tour).toContain('curl');
    const env = { ...process.env, PARLEY: a.url, TOKEN: ADMIN };
    const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', tour], { env, timeout: 60_000 });
    for (const expected of ['"name":"search"', '"pool":8', 'HTTP/1.1 204', 'precondition_required'])
      expect(stdout).toContain(expected);
  });
});
