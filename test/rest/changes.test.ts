/** Servers and agents registered, changed and removed through the routes of LiteLLM and RouteIQ. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openDb } from '../../src/state/open-db.js';
import type { CountedUpstream } from '../pipeline/upstreams.js';
import { modern, startItems } from '../policy/world.js';
import { eventually } from '../support/eventually.js';
import { ADA, BOB, type RestWorld, rest, startRestWorld } from './world.js';

let world: RestWorld;
let extra: CountedUpstream;
const SECRET = 'upstream-secret-9931';
beforeAll(async () => {
  [world, extra] = [await startRestWorld(), await startItems('extra')];
});
afterAll(async () => {
  await world?.close();
  await extra?.close();
});

const admin = (path: string, method: string, body?: object) =>
  rest(world, path, { token: ADA, method, ...(body && { body }) });

/** The tools of a server on every surface. */
async function surfaces(server: string): Promise<string[]> {
  const at: string[] = [];
  const read = async (name: string, path: string, has: (body: never) => boolean): Promise<void> => {
    const { status, body } = await rest(world, path, { token: ADA });
    if (status === 200 && has(body as never)) at.push(name);
  };
  const { text } = await modern(world.url, 'tools/list', {}, { token: ADA });
  if (text.includes(`"${server}__add"`)) at.push('mcp');
  await read(
    'mcp-rest',
    `/mcp-rest/tools/list?server_id=${server}`,
    ({ tools }: { tools: object[] }) => tools.length > 0,
  );
  await read('v1', '/v1/mcp/tools', (body: object) => JSON.stringify(body).includes(`"${server}__add"`));
  await read('llmrouter', '/llmrouter/mcp/tools', (body: object) => JSON.stringify(body).includes(`"${server}"`));
  await read('namespace', `/${server}/mcp`, ({ result }: { result: { tools: object[] } }) => result.tools.length > 0);
  return at;
}
const ALL = ['mcp', 'mcp-rest', 'v1', 'llmrouter', 'namespace'];

describe('S0-01, S0-07: POST, PUT and DELETE /v1/mcp/server', () => {
  test('a registered server is on every surface at once, and on no surface after its removal', async () => {
    const made = await admin('/v1/mcp/server', 'POST', {
      alias: 'made',
      url: extra.url,
      transport: 'http',
      auth_type: 'bearer_token',
      credentials: { auth_value: SECRET },
      description: 'Made by a test',
      mcp_info: { logo_url: 'https://example.com/logo.png' },
      env: {},
      args: [],
      teams: null,
    });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({
      server_id: 'made',
      alias: 'made',
      url: extra.url,
      transport: 'http',
      auth_type: 'bearer_token',
      description: 'Made by a test',
      mcp_info: { logo_url: 'https://example.com/logo.png', server_name: 'made' },
      created_by: 'ada',
    });
    await eventually(
      () => surfaces('made'),
      (at) => at.join() === ALL.join(),
    );
    const read = await admin('/v1/mcp/server/made', 'GET');
    expect(JSON.stringify([made.body, read.body])).not.toContain(SECRET);
    expect((await rest(world, '/v1/mcp/server/made')).status).toBe(404);
    const removed = await admin('/v1/mcp/server/made', 'DELETE');
    expect([removed.status, removed.body]).toEqual([202, { server_id: 'made' }]);
    expect(await surfaces('made')).toEqual([]);
    expect((await admin('/v1/mcp/server/made', 'DELETE')).status).toBe(404);
  });

  test('PUT changes the named members, and a refused change leaves the server as it is', async () => {
    await admin('/v1/mcp/server', 'POST', {
      server_id: 'kept',
      url: extra.url,
      static_headers: { 'X-Tenant': SECRET },
    });
    const changed = await admin('/v1/mcp/server', 'PUT', { server_id: 'kept', allowed_tools: ['add'], timeout: 5 });
    expect(changed.status).toBe(202);
    const bad = await admin('/v1/mcp/server', 'PUT', { server_id: 'kept', url: 'ftp://example.com' });
    expect([bad.status, bad.body.detail.error]).toEqual([400, 'invalid_request']);
    const { body } = await eventually(
      () => admin('/v1/mcp/server/kept', 'GET'),
      ({ body: row }) => row.tools.length > 0,
    );
    expect(body).toMatchObject({ url: extra.url, tools: ['add'], updated_by: 'ada' });
    expect((await admin('/v1/mcp/server', 'PUT', { server_id: 'nobody', url: extra.url })).status).toBe(404);
    await admin('/v1/mcp/server/kept', 'DELETE');
  });

  test('S0-09: x-mcp-access-groups selects the servers of a group', async () => {
    await admin('/v1/mcp/server', 'POST', { server_id: 'grouped', url: extra.url, mcp_access_groups: ['research'] });
    const listed = async (groups: string): Promise<string[]> => {
      const headers = { 'x-mcp-access-groups': groups };
      const { text } = await modern(world.url, 'tools/list', {}, { token: ADA, headers });
      return (JSON.parse(text) as { result: { tools: { name: string }[] } }).result.tools.map(({ name }) => name);
    };
    await eventually(
      () => listed('research'),
      (names) => names.join() === 'grouped__add,grouped__cloaked',
    );
    expect(await listed('nobody')).toEqual([]);
    const groups = await rest(world, '/v1/mcp/access_groups', { token: ADA });
    expect(groups.body).toEqual({ access_groups: ['research'] });
    await admin('/v1/mcp/server/grouped', 'DELETE');
  });

  test('an id is generated if the body has none', async () => {
    const { body } = await admin('/v1/mcp/server', 'POST', { url: extra.url });
    expect(body.server_id).toMatch(/^s[0-9a-f]{15}$/);
    await admin(`/v1/mcp/server/${body.server_id}`, 'DELETE');
  });

  test.each([
    [{ server_id: 'open', url: 'http://example.com' }, 'already_exists', /already/],
    [{ server_id: 'x', transport: 'stdio', command: 'sh' }, 'invalid_request', /configuration file/],
    [{ server_id: 'x', command: 'sh', args: ['-c', 'id'] }, 'invalid_request', /configuration file/],
    [{ server_id: 'x', url: 'http://e.example', transport: 'carrier-pigeon' }, 'invalid_request', /transport/],
    [{ server_id: 'x', url: 'http://e.example', alias: 'y' }, 'invalid_request', /must be the same/],
    [{ server_id: 'x', url: 'http://e.example', allow_all_keys: true }, 'invalid_request', /allow_all_keys/],
    [{ server_id: 'x', spec_path: '/etc/passwd' }, 'invalid_request', /cannot name files/],
    [{ server_id: 'x', url: 'http://e.example', auth_type: 'api_key' }, 'missing_parameter', /auth_value/],
    [{ server_id: 'x', url: 'http://e.example', credentials: { auth_value: 'a' } }, 'invalid_request', /auth_type/],
    [{ server_id: 'x' }, 'invalid_request', /url/],
  ])('S0-10: %j is refused with 400', async (body, error, message) => {
    const reply = await admin('/v1/mcp/server', 'POST', body);
    expect([reply.status, reply.body.detail.error]).toEqual([400, error]);
    expect(reply.body.detail.message).toMatch(message);
    expect((await admin('/v1/mcp/server', 'GET')).body).toHaveLength(6);
  });

  test('S0-16: an address that egress forbids is refused', async () => {
    const reply = await admin('/v1/mcp/server', 'POST', { server_id: 'x', url: 'http://169.254.169.254/mcp' });
    expect([reply.status, reply.body.detail.error]).toEqual([400, 'ssrf_blocked']);
  });

  test('users may not change servers, and operations without a counterpart are refused', async () => {
    const refused = await rest(world, '/v1/mcp/server', { token: BOB, body: { server_id: 'x', url: extra.url } });
    expect([refused.status, refused.body.detail.error]).toEqual([403, 'access_denied']);
    const shared = await admin('/v1/mcp/make_public', 'POST', { mcp_server_ids: ['open'] });
    expect([shared.status, shared.body.detail.error]).toEqual([501, 'unsupported_operation']);
    expect((await admin('/llmrouter/mcp/servers/open/tools', 'POST', { name: 'x' })).status).toBe(501);
  });
});

describe('S1-32: POST, PUT and DELETE /llmrouter/mcp/servers', () => {
  test('the life of a server; its secret is not shown', async () => {
    const made = await admin('/llmrouter/mcp/servers', 'POST', {
      server_id: 'iq',
      name: 'Server of RouteIQ',
      url: extra.url,
      transport: 'streamable_http',
      tools: ['typed', 'by hand'],
      resources: [],
      auth_type: 'api_key',
      metadata: { api_key: SECRET, description: 'Of RouteIQ' },
    });
    expect([made.status, made.body]).toEqual([200, { status: 'registered', server_id: 'iq' }]);
    const one = await admin('/llmrouter/mcp/servers/iq', 'GET');
    expect(one.body).toMatchObject({
      transport: 'streamable_http',
      auth_type: 'api_key',
      metadata: { description: 'Of RouteIQ' },
    });
    expect(JSON.stringify(one.body)).not.toMatch(new RegExp(`${SECRET}|by hand`));
    const changed = await admin('/llmrouter/mcp/servers/iq', 'PUT', { auth_type: 'none', transport: 'sse' });
    expect(changed.body).toMatchObject({ status: 'updated', server_id: 'iq', server: { transport: 'sse' } });
    const gone = await admin('/llmrouter/mcp/servers/iq', 'DELETE');
    expect(gone.body).toEqual({ status: 'unregistered', server_id: 'iq' });
    expect((await admin('/llmrouter/mcp/servers/iq', 'DELETE')).body.detail.error).toBe('server_not_found');
  });
});

describe('S1-37: POST, PUT, PATCH and DELETE of agents', () => {
  const url = () => world.agent.url;

  test('/v1/agents: an agent is used at once, changed and removed', async () => {
    const made = await admin('/v1/agents', 'POST', {
      agent_name: 'Helper',
      agent_card_params: { name: 'Helper', url: url(), version: '1.0.0', skills: [] },
      litellm_params: { make_public: false },
      static_headers: { 'X-Tenant': SECRET },
    });
    expect([made.status, made.body.agent_id]).toEqual([200, 'helper']);
    expect(made.body).toMatchObject({ created_by: 'ada', agent_card_params: { skills: expect.any(Array) } });
    expect(JSON.stringify(made.body)).not.toContain(SECRET);
    const changed = await admin('/v1/agents/helper', 'PATCH', { description: 'Helps with tests' });
    expect(changed.body.agent_card_params.description).toBe('Helps with tests');
    const twice = await admin('/v1/agents', 'POST', { agent_name: 'helper', agent_card_params: { url: url() } });
    expect([twice.status, twice.body.detail.error]).toEqual([400, 'already_exists']);
    const gone = await admin('/v1/agents/helper', 'DELETE');
    expect(gone.body).toMatchObject({ status: 'unregistered', agent_id: 'helper' });
    for (const method of ['GET', 'DELETE']) expect((await admin('/v1/agents/helper', method)).status).toBe(404);
  });

  test('S1-56: /a2a/agents in both of its forms, beside the agents themselves', async () => {
    const made = await admin('/a2a/agents', 'POST', { agent_id: 'iq-agent', name: 'An agent', url: url() });
    expect(made.body).toEqual({ status: 'registered', agent_id: 'iq-agent', agent_name: 'iq-agent' });
    const { body } = await rest(world, '/a2a/agents', { token: ADA });
    expect(JSON.stringify(body)).toContain('iq-agent');
    expect((await admin('/a2a/agents/iq-agent', 'DELETE')).body.status).toBe('unregistered');
    expect((await admin('/a2a/agents/iq-agent', 'DELETE')).status).toBe(404);
  });

  test.each([
    [{ agent_card_params: { url: 'http://e.example' } }, 'missing_parameter'],
    [{ agent_name: 'x' }, 'invalid_request'],
    [{ agent_name: 'x', url: 'http://e.example', tpm_limit: 5 }, 'invalid_request'],
    [{ agent_name: 'x', url: 'http://e.example', litellm_params: { make_public: true } }, 'invalid_request'],
    [{ agent_name: 'x', url: 'http://169.254.169.254/' }, 'ssrf_blocked'],
  ])('%j is refused with 400', async (body, error) => {
    const reply = await admin('/v1/agents', 'POST', body);
    expect([reply.status, reply.body.detail.error]).toEqual([400, error]);
  });

  test('users may not change agents', async () => {
    for (const path of ['/v1/agents', '/a2a/agents'])
      expect((await rest(world, path, { token: BOB, body: { agent_name: 'x', url: url() } })).status).toBe(403);
    expect((await admin('/v1/agents/openagent/make_public', 'POST', {})).status).toBe(501);
  });
});

describe('S0-06: POST /mcp-rest/test', () => {
  const trial = (path: string, body: object, token = ADA) =>
    rest(world, `/mcp-rest/test/${path}`, { token, method: 'POST', body });

  test('tries a server without adding it', async () => {
    const connected = await trial('connection', { url: extra.url, server_name: 'tried' });
    expect([connected.status, connected.body]).toEqual([200, { status: 'ok' }]);
    const { body } = await trial('tools/list', { server_id: 'open', url: extra.url });
    expect(body).toMatchObject({ error: null, message: 'Successfully retrieved tools' });
    expect(body.tools.map(({ name }: { name: string }) => name)).toEqual(['add', 'cloaked']);
    expect((await admin('/v1/mcp/server', 'GET')).body).toHaveLength(6);
    expect((await admin('/v1/mcp/server/open', 'GET')).body.url).not.toBe(extra.url);
  });

  test('stores nothing about the servers that it tries', async () => {
    const db = await openDb({ data: world.data });
    const verdicts = () => db.q('SELECT target FROM era_verdicts ORDER BY target');
    try {
      const before = await verdicts();
      expect(before.length).toBeGreaterThan(0);
      for (let i = 0; i < 5; i++) expect((await trial('connection', { url: extra.url })).status).toBe(200);
      expect(await verdicts()).toEqual(before);
    } finally {
      await db.close();
    }
  });

  test('reports the failure of the server, and refuses what a registration may not contain', async () => {
    const { status, body } = await trial('connection', { url: 'http://127.0.0.1:9/mcp' });
    expect([status, body.status, body.error]).toEqual([200, 'error', true]);
    expect(body.message).toContain('cannot be reached');
    const blocked = await trial('connection', { url: 'http://169.254.169.254/' });
    expect([blocked.status, blocked.body.detail.error]).toEqual([400, 'ssrf_blocked']);
    expect((await trial('connection', { transport: 'stdio', command: 'sh' })).status).toBe(400);
    expect((await trial('connection', { url: extra.url }, BOB)).status).toBe(403);
  });
});

describe('S0-45: the OAuth routes of /v1/mcp', () => {
  const authorize = (query = '', id = 'login', token = ADA): Promise<Response> =>
    fetch(`${world.url}/v1/mcp/server/oauth/${id}/authorize${query}`, {
      redirect: 'manual',
      headers: { authorization: `Bearer ${token}` },
    });

  test('authorize leads to the page of the gateway, with a link for this caller', async () => {
    const reply = await authorize();
    expect(reply.status).toBe(307);
    expect(reply.headers.get('location')).toMatch(/\/connect\/login\?link=/);
    expect(await reply.json()).toEqual({ url: reply.headers.get('location'), code: expect.any(String) });
    expect([(await authorize('', 'open')).status, (await authorize('', 'login', BOB)).status]).toEqual([400, 404]);
  });

  test('no route hands out codes or tokens of servers', async () => {
    expect((await authorize('?redirect_uri=https://client.example/callback')).status).toBe(501);
    for (const path of ['login/token', 'login/register', 'session'])
      expect((await admin(`/v1/mcp/server/oauth/${path}`, 'POST', {})).status).toBe(501);
  });
});
