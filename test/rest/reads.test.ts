/** The routes of LiteLLM and RouteIQ that read about servers and agents. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADA, BOB, type RestWorld, rest, startRestWorld } from './world.js';

let world: RestWorld;
beforeAll(async () => {
  world = await startRestWorld();
});
afterAll(() => world?.close());

const ids = (rows: readonly { server_id: string }[]): string[] => rows.map(({ server_id }) => server_id).sort();
const SECRETS = /operator-key-5521|secret|echo|broken|cloaked/;

describe('S0-07: /v1/mcp for callers', () => {
  test('lists the servers that the caller may use, without their addresses and credentials', async () => {
    const { status, body } = await rest(world, '/v1/mcp/server');
    expect(status).toBe(200);
    expect(ids(body)).toEqual(['open', 'quiet']);
    expect(body[0]).toMatchObject({
      server_id: 'open',
      server_name: 'open',
      alias: 'open',
      url: null,
      transport: 'http',
      auth_type: 'none',
      tools: ['add'],
      resources: ['open://one'],
      mcp_access_groups: [],
      status: 'healthy',
    });
    expect(JSON.stringify(body)).not.toMatch(SECRETS);
  });

  test('shows administrators all servers with their URLs', async () => {
    const { body } = await rest(world, '/v1/mcp/server', { token: ADA });
    expect(ids(body)).toEqual(['broken', 'echo', 'login', 'open', 'quiet', 'secret']);
    expect(body.find(({ server_id: id }: { server_id: string }) => id === 'echo').url).toBe(world.echo.url);
    expect(JSON.stringify(body)).not.toContain('operator-key-5521');
  });

  test('one server; the same answer for a hidden and an absent one', async () => {
    expect((await rest(world, '/v1/mcp/server/OPEN')).body).toMatchObject({ server_id: 'open', tools: ['add'] });
    for (const id of ['secret', 'nobody']) {
      const { status, body } = await rest(world, `/v1/mcp/server/${id}`);
      expect([status, body.detail.message]).toEqual([404, `MCP Server with id ${id} not found`]);
    }
  });

  test('S0-55: health is that of the last contact', async () => {
    const { body } = await rest(world, '/v1/mcp/server/health', { token: ADA });
    const states = Object.fromEntries(
      body.map((row: { server_id: string; status: string }) => [row.server_id, row.status]),
    );
    expect(states).toMatchObject({ open: 'healthy', echo: 'healthy', broken: 'unhealthy' });
    const some = await rest(world, '/v1/mcp/server/health?server_ids=open&server_ids=secret');
    expect(some.body).toEqual([{ server_id: 'open', status: 'healthy', health_check_error: null }]);
  });

  test('S3-08: tools have the names of /mcp', async () => {
    const { body } = await rest(world, '/v1/mcp/tools');
    const page = await rest(world, '/mcp');
    expect(body.tools).toEqual(page.body.result.tools);
    expect(body.tools[0]).toMatchObject({ name: 'open__add', inputSchema: { type: 'object' } });
  });

  test('S2-39: registry.json names the endpoints of the gateway, and only visible servers', async () => {
    const { body } = await rest(world, '/v1/mcp/registry.json');
    const remote = (path: string) => [{ type: 'streamable-http', url: `${world.url}${path}` }];
    expect(body.servers.map(({ server }: { server: { name: string } }) => server.name)).toEqual([
      'parley',
      'open',
      'quiet',
    ]);
    expect(body.servers[0].server.remotes).toEqual(remote('/mcp'));
    expect(body.servers[1].server).toMatchObject({ title: 'open', version: '1.0.0', remotes: remote('/open/mcp') });
    const reply = await fetch(body.servers[1].server.remotes[0].url, { headers: { authorization: `Bearer ${BOB}` } });
    expect(reply.status).toBe(200);
  });

  test('access_groups are those of the visible servers', async () => {
    expect((await rest(world, '/v1/mcp/access_groups')).body).toEqual({ access_groups: [] });
    expect((await rest(world, '/v1/llmrouter/mcp/access_groups')).body).toEqual({ access_groups: [], count: 0 });
  });
});

describe('S0-09, S3-19: the endpoint of one server', () => {
  test.each(['/open/mcp', '/mcp/open', '/OPEN/mcp'])('%s describes the server under its own names', async (path) => {
    const { status, body } = await rest(world, path);
    expect([status, body.result.tools.map(({ name }: { name: string }) => name)]).toEqual([200, ['add']]);
  });

  test('an unknown and a hidden server are 404 with the same answer', async () => {
    const [hidden, absent] = [await rest(world, '/secret/mcp'), await rest(world, '/nobody/mcp')];
    expect([hidden.status, absent.status]).toEqual([404, 404]);
    expect(JSON.stringify(hidden.body).replace('secret', 'nobody')).toBe(JSON.stringify(absent.body));
  });
});

describe('S1-32, S1-33: /llmrouter/mcp', () => {
  test('servers, and one of them', async () => {
    const { body } = await rest(world, '/llmrouter/mcp/servers');
    expect(body.servers[0]).toEqual({
      server_id: 'open',
      name: 'open',
      url: null,
      transport: 'streamable_http',
      tools: ['add'],
      resources: ['open://one'],
    });
    const one = await rest(world, '/llmrouter/mcp/servers/open', { token: ADA });
    expect(one.body).toMatchObject({ server_id: 'open', auth_type: 'none', metadata: {} });
    expect(one.body.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    expect(JSON.stringify(one.body)).not.toContain('operator-key-5521');
    expect((await rest(world, '/llmrouter/mcp/servers/secret')).body.detail.error).toBe('server_not_found');
  });

  test('tools: names, definitions, one of them', async () => {
    expect((await rest(world, '/llmrouter/mcp/tools')).body).toEqual({
      tools: ['open', 'quiet'].map((server) => ({ server_id: server, server_name: server, tool: 'add' })),
    });
    const { body } = await rest(world, '/llmrouter/mcp/tools/list', { token: ADA });
    expect(body.count).toBe(body.tools.length);
    const one = await rest(world, '/llmrouter/mcp/tools/wait', { token: ADA });
    expect(one.body).toMatchObject({ name: 'wait', server_id: 'echo', description: 'Returns the text later' });
    expect(one.body.input_schema.type).toBe('object');
    expect((await rest(world, '/llmrouter/mcp/tools/wait')).status).toBe(404);
  });

  test('S0-14: a tool of several servers needs the name of its server', async () => {
    const call = (tool_name: string, token = ADA) =>
      rest(world, '/llmrouter/mcp/tools/call', { token, body: { tool_name, arguments: { text: 'hi' } } });
    const ambiguous = await call('add');
    expect([ambiguous.status, ambiguous.body.detail.error]).toEqual([400, 'ambiguous_name']);
    expect(ambiguous.body.detail.message).toContain('open.add, secret.add, quiet.add');
    const { body } = await call('secret.add');
    expect(body).toEqual({
      status: 'success',
      tool_name: 'add',
      server_id: 'secret',
      result: { content: [{ type: 'text', text: 'done by secret' }] },
    });
    expect((await call('echo')).body.result.content).toEqual([{ type: 'text', text: 'hi' }]);
    const hidden = await call('secret.add', BOB);
    expect([hidden.status, hidden.body.detail.error]).toEqual([404, 'tool_not_found']);
    expect((await call('quiet.add', BOB)).status).toBe(501);
  });

  test('resources, health and registry', async () => {
    expect((await rest(world, '/llmrouter/mcp/resources')).body.resources).toContainEqual({
      server_id: 'open',
      server_name: 'open',
      resource: 'open://one',
    });
    const health = await rest(world, '/v1/llmrouter/mcp/server/health', { token: ADA });
    expect(health.body.summary).toEqual({ total: 6, healthy: 4, unhealthy: 1 });
    const one = await rest(world, '/v1/llmrouter/mcp/server/open/health');
    expect(one.body).toMatchObject({
      server_id: 'open',
      status: 'healthy',
      tool_count: 1,
      resource_count: 1,
      url: null,
    });
    const { body } = await rest(world, '/v1/llmrouter/mcp/registry.json');
    expect(body).toMatchObject({ version: '1.0', server_count: 2 });
    expect(body.servers[0]).toMatchObject({ id: 'open', url: `${world.url}/mcp/open`, tools: ['add'] });
    const none = await rest(world, '/v1/llmrouter/mcp/registry.json?access_groups=research');
    expect(none.body.servers).toEqual([]);
  });
});

test('S0-55: the health of an unused server has the latency that a probe measured', async () => {
  const probing = await startRestWorld({ health: { interval: '100ms' } });
  try {
    const latencies = async (): Promise<Record<string, unknown>> => {
      const { body } = await rest(probing, '/v1/llmrouter/mcp/server/health', { token: ADA });
      const rows: readonly { server_id: string; latency_ms: unknown }[] = body.servers;
      return Object.fromEntries(rows.map((row) => [row.server_id, row.latency_ms]));
    };
    // A server that answered a short time ago is not probed.
    await expect.poll(latencies, { timeout: 30_000, interval: 500 }).toMatchObject({
      open: expect.any(Number),
      broken: null,
    });
    const row = await rest(probing, '/v1/mcp/server/open', { token: ADA });
    expect(Date.parse(row.body.last_health_check)).toBeGreaterThan(0);
  } finally {
    await probing.close();
  }
}, 45_000);

test('S0-55: a program that answers is healthy without an error, and a registry leads clients to it over HTTP', async () => {
  const args = [fileURLToPath(new URL('../../examples/units.mjs', import.meta.url))];
  const own = await startRestWorld({ servers: { program: { command: process.execPath, args } }, agents: {} });
  try {
    const { body } = await rest(own, '/v1/mcp/server/health?server_ids=Program', { token: ADA });
    expect(body).toEqual([{ server_id: 'program', status: 'healthy', health_check_error: null }]);
    const row = await rest(own, '/v1/mcp/server/program', { token: ADA });
    expect(row.body).toMatchObject({ transport: 'stdio', last_health_check: null, health_check_error: null });
    const registry = await rest(own, '/v1/llmrouter/mcp/registry.json', { token: ADA });
    expect(registry.body.servers).toMatchObject([{ id: 'program', transport: 'streamable_http' }]);
  } finally {
    await own.close();
  }
});

describe('S1-37: /v1/agents', () => {
  test('lists the agents that the caller may use, with cards that lead to the gateway', async () => {
    const { status, body } = await rest(world, '/v1/agents');
    expect(status).toBe(200);
    expect(body.map(({ agent_id }: { agent_id: string }) => agent_id)).toEqual(['openagent']);
    expect(JSON.stringify(body[0].agent_card_params)).toContain(`${world.url}/a2a/openagent`);
    expect(JSON.stringify(body)).not.toContain(new URL(world.agent.url).host);
    expect((await rest(world, '/v1/agents?health_check=true')).body).toHaveLength(1);
    expect((await rest(world, '/v1/agents/openagent')).body).toEqual(body[0]);
  });

  test('an unknown and a hidden agent are 404', async () => {
    const { status, body } = await rest(world, '/v1/agents/nobody');
    expect([status, body.detail.error]).toEqual([404, 'agent_not_found']);
  });
});

test('S0-59: every REST route answers 401 without a credential, and 403 to users if it is for administrators', async () => {
  const routes = world.gateway.routes.filter(({ errors }) => errors.name === 'rest');
  expect(routes.length).toBeGreaterThan(15);
  for (const { method, path, access } of routes) {
    const sample = path.replace(/\{(\w+)\}/g, 'x');
    const body = method === 'GET' || method === 'DELETE' ? {} : { body: {} };
    expect([method, path, (await rest(world, sample, { method, token: '', ...body })).status]).toEqual([
      method,
      path,
      401,
    ]);
    const { status } = await rest(world, sample, { method, ...body });
    if (access === 'admin') expect([method, path, status]).toEqual([method, path, 403]);
    else expect([401, 403]).not.toContain(status);
  }
});
