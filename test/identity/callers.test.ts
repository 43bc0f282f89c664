/** API keys and access tokens of other issuers at a running gateway, over every transport. */
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { createApiKey, listApiKeys, type NewApiKey, revokeApiKeys } from '../../src/app/commands/api-keys.js';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import type { Config } from '../../src/config/schema.js';
import { SILENT } from '../../src/telemetry/log.js';
import { BOTH, initializeBody, modernBody, modernHeaders, Session } from '../input/support/speak.js';
import { ask, type Reply } from '../input/support/wire.js';
import { type CountedUpstream, startCountedAgent, startCountedServer } from '../pipeline/upstreams.js';
import { type Issuer, startIssuer } from './support.js';

const TOKEN = 'user-0123456789-Kj8sLq2vXz7mNw4pRt6y';
const BOTH_TYPES = { accept: BOTH };
const as = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

let folder: string;
let upstreams: CountedUpstream[];
let issuer: Issuer;
let config: Config;
let gateway: RunningGateway;
let other: RunningGateway;
let grpcAddress: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-callers-'));
  issuer = await startIssuer();
  const [one, two, agent] = await Promise.all([startCountedServer(), startCountedServer(), startCountedAgent()]);
  upstreams = [one, two, agent];
  ({ config } = configFrom({
    listen: '127.0.0.1:0',
    grpc: { listen: '127.0.0.1:0' },
    data: join(folder, 'data'),
    egress: { allowPrivate: true },
    servers: { one: { url: one.url }, two: { url: two.url } },
    agents: { helper: { url: agent.url } },
    auth: {
      tokens: [{ name: 'ada', token: TOKEN }],
      keys: true,
      jwt: [{ issuer: issuer.url, requiredScopes: ['mcp:use'], claims: { groups: 'groups' } }],
      roles: [{ role: 'admin', groups: ['ops'] }],
      scopes: [{ scope: 'two:write', servers: ['two'] }],
      failures: { perAddress: 1_000_000 },
    },
  }));
  // Two gateways on one database: two replicas.
  gateway = await startServe(config, { log: SILENT });
  other = await startServe(config, { log: SILENT });
  await Promise.all([gateway.settled(10_000), other.settled(10_000)]);
  grpcAddress = gateway.summary().endpoints.find(({ label }) => label === 'A2A gRPC')!.address;
});
afterAll(async () => {
  await gateway?.close();
  await other?.close();
  await Promise.all(upstreams.map((upstream) => upstream.close()));
  await issuer.close();
  await rm(folder, { recursive: true, force: true });
});

const key = async (name: string, scope: Partial<NewApiKey> = {}): Promise<string> =>
  (await createApiKey(config, { name, roles: [], servers: [], tools: [], tenant: undefined, expires: '1h', ...scope }))
    .key;

const rpc = (method: string, params: object, token: string, at = `${gateway.url}/mcp`): Promise<Reply> =>
  ask(at, { headers: { ...modernHeaders(method, params), ...as(token) }, body: modernBody(method, params) });

const toolsOf = async (token: string): Promise<string[]> => {
  const { json } = await rpc('tools/list', {}, token);
  return (json.result as unknown as { tools: { name: string }[] }).tools.map(({ name }) => name).sort();
};

describe('S17: API keys', () => {
  test('S1-81: identify a caller, are listed with their last use, and are not in the database', async () => {
    const made = await key('ci');
    expect(made).toMatch(/^parley_[0-9A-Za-z]{49}$/);
    expect((await rpc('tools/list', {}, made)).status).toBe(200);
    const listed = await listApiKeys(config, 'ci');
    expect(JSON.stringify(listed)).not.toContain(made);
    const files = await Promise.all(
      ['parley.db', 'parley.db-wal'].map((name) => readFile(join(folder, 'data', name)).catch(() => '')),
    );
    for (const file of files) expect(String(file)).not.toContain(made.slice(7, 50));
  });

  test('S17: a revoked key is refused by both replicas within a second', async () => {
    const made = await key('short-lived');
    for (const { url } of [gateway, other]) expect((await rpc('tools/list', {}, made, `${url}/mcp`)).status).toBe(200);
    const session = await ask(`${other.url}/mcp`, {
      headers: { ...BOTH_TYPES, ...as(made) },
      body: initializeBody('2025-11-25'),
    });
    expect(session.status).toBe(200);
    expect(await revokeApiKeys(config, 'short-lived')).toHaveLength(1);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    for (const { url } of [gateway, other]) expect((await rpc('tools/list', {}, made, `${url}/mcp`)).status).toBe(401);
    const headers = { ...BOTH_TYPES, ...as(made), 'mcp-session-id': String(session.headers['mcp-session-id']) };
    const inSession = await ask(`${other.url}/mcp`, { headers, body: { jsonrpc: '2.0', id: 2, method: 'ping' } });
    expect(inSession.status).toBe(401);
  });

  test('S17: revoking a key ends the streams that were opened with it', async () => {
    const made = await key('listener');
    const reply = await fetch(`${gateway.url}/sse`, { headers: { accept: 'text/event-stream', ...as(made) } });
    expect(reply.status).toBe(200);
    await revokeApiKeys(config, 'listener');
    await expect(reply.text()).rejects.toThrow();
  });

  /** For each kind: opens a stream, and returns a promise of its end. */
  const STREAMS: Readonly<Record<string, (token: string) => Promise<{ readonly ended: Promise<unknown> }>>> = {
    'the stream of a session': async (token) => {
      const { headers } = await ask(`${gateway.url}/mcp`, {
        headers: { ...BOTH_TYPES, ...as(token) },
        body: initializeBody('2025-11-25'),
      });
      return opened('/mcp', { 'mcp-session-id': String(headers['mcp-session-id']), ...as(token) });
    },
    'the live tail': (token) => opened('/api/v1/tail', as(token)),
    'a WebSocket': async (token) => {
      const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/ws`, { headers: as(token) });
      await once(socket, 'open');
      return { ended: once(socket, 'close').then(([code]) => expect(code).toBe(1008)) };
    },
  };
  const opened = async (path: string, headers: Record<string, string>): Promise<{ ended: Promise<unknown> }> => {
    const reply = await fetch(gateway.url + path, { headers: { accept: 'text/event-stream', ...headers } });
    expect(reply.status).toBe(200);
    return { ended: expect(reply.text()).rejects.toThrow() };
  };
  test.each(Object.keys(STREAMS))('S17: revoking a key ends %s', async (kind) => {
    const name = `stream-${kind.replaceAll(' ', '-')}`;
    const { ended } = await STREAMS[kind]!(await key(name));
    await revokeApiKeys(config, name);
    await ended;
  });

  test('a scope hides other servers like missing ones, in lists and calls, prompts and resources', async () => {
    const made = await key('narrow', { servers: ['one'] });
    expect(await toolsOf(made)).toEqual(['one__add']);
    expect(await toolsOf(TOKEN)).toContain('two__add');
    const hidden = await rpc('tools/call', { name: 'two__add', arguments: {} }, made);
    const missing = await rpc('tools/call', { name: 'six__add', arguments: {} }, made);
    expect(hidden.status).toBe(missing.status);
    expect(hidden.body.replaceAll('two', 'six')).toBe(missing.body);
    expect((await rpc('tools/call', { name: 'one__add', arguments: {} }, made)).json.error).toBeUndefined();
    expect((await rpc('prompts/get', { name: 'two__ask' }, made)).json.error).toBeDefined();
    expect((await rpc('prompts/get', { name: 'one__ask' }, made)).json).not.toMatchObject({
      error: { data: { reason: 'prompt_not_found' } },
    });
    expect((await rpc('tools/list', {}, made, `${gateway.url}/mcp/two`)).status).toBe(404);
    const agents = await ask(`${gateway.url}/a2a/helper`, {
      headers: as(made),
      body: { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { id: 'x' } },
    });
    const nobody = await ask(`${gateway.url}/a2a/nobody`, {
      headers: as(made),
      body: { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { id: 'x' } },
    });
    expect([agents.status, agents.body.replaceAll('helper', 'nobody')]).toEqual([nobody.status, nobody.body]);
  });

  test('a scope of tools leaves only these tools', async () => {
    const made = await key('tool-only', { tools: ['two__a*'] });
    expect(await toolsOf(made)).toEqual(['two__add']);
    expect((await rpc('prompts/list', {}, made)).json.result).toMatchObject({ prompts: [] });
    expect((await rpc('resources/list', {}, made)).json.result).toMatchObject({ resources: [] });
    expect((await rpc('resources/read', { uri: 'counted://one' }, made)).json.error).toBeDefined();
  });

  test('an expired key and a mistyped key are refused, and so is a second key of the same name with another scope', async () => {
    const made = await key('strict', { servers: ['one'] });
    expect((await rpc('tools/list', {}, `${made.slice(0, -1)}${made.endsWith('0') ? '1' : '0'}`)).status).toBe(401);
    await expect(key('strict')).rejects.toThrow('another scope');
    await expect(key('ada')).rejects.toThrow('auth.tokens');
    await expect(key('past', { expires: '2020-01-01' })).rejects.toThrow('past');
    await expect(key('odd', { tools: ['add'] })).rejects.toThrow('SERVER__TOOL');
  });

  test('the roles of a key open the administrative routes', async () => {
    const [user, admin] = [await key('plain'), await key('boss', { roles: ['admin'] })];
    const at = `${gateway.url}/servers/one/logs`;
    expect((await ask(at, { method: 'GET', headers: as(user) })).status).toBe(403);
    expect((await ask(at, { method: 'GET', headers: as(admin) })).status).not.toBe(403);
  });
});

test('the scope of an administrator limits the administrative routes and the numbers in /health', async () => {
  const made = await key('narrow-boss', { roles: ['admin'], servers: ['one'] });
  const get = (path: string): Promise<Reply> => ask(`${gateway.url}${path}`, { method: 'GET', headers: as(made) });
  const [hidden, missing] = [await get('/servers/two/logs'), await get('/servers/six/logs')];
  expect([hidden.status, hidden.body.replaceAll('two', 'six')]).toEqual([404, missing.body]);
  expect(hidden.body).toContain('the servers are one');
  expect((await get('/servers/one/logs')).body).toContain('is not a process');
  expect(JSON.parse((await get('/health')).body)).toMatchObject({ serverCounts: { up: 1 }, servers: { one: 'up' } });
});

describe('S13: access tokens of another issuer', () => {
  const token = (claims: object = {}): Promise<string> =>
    issuer.token({ sub: 'eve', aud: `${gateway.url}/mcp`, scope: 'mcp:use', ...claims });

  test('S3-16: identify a caller at the endpoint that they are for', async () => {
    expect((await rpc('tools/list', {}, await token())).status).toBe(200);
    const foreign = await rpc('tools/list', {}, await token({ aud: 'https://elsewhere.example/mcp' }));
    expect(foreign.status).toBe(401);
    expect((await rpc('tools/list', {}, await token(), `${gateway.url}/`)).status).toBe(401);
    expect((await rpc('tools/list', {}, await token({ aud: gateway.url }), `${gateway.url}/`)).status).toBe(200);
  });

  test('S13: a flood of unknown keys fetches the keys once', async () => {
    await rpc('tools/list', {}, await token());
    const before = issuer.asked.filter((path) => path === '/jwks').length;
    for (let i = 0; i < 20; i++)
      expect(
        (await rpc('tools/list', {}, await issuer.token({ sub: 'x', aud: gateway.url }, { kid: `k${i}` }))).status,
      ).toBe(401);
    expect(issuer.asked.filter((path) => path === '/jwks').length - before).toBeLessThanOrEqual(1);
  });

  test('a mapped group is an administrator', async () => {
    const at = `${gateway.url}/servers/one/logs`;
    const aud = gateway.url;
    expect((await ask(at, { method: 'GET', headers: as(await token({ aud })) })).status).toBe(403);
    const ops = as(await token({ aud, groups: ['ops'] }));
    expect((await ask(at, { method: 'GET', headers: ops })).status).not.toBe(403);
  });

  test('S7: the session of another caller does not exist for a caller, and its id alone gives no access', async () => {
    const opened = await ask(`${gateway.url}/mcp`, {
      headers: { ...BOTH_TYPES, ...as(await token()) },
      body: initializeBody('2025-11-25'),
    });
    const session = { ...BOTH_TYPES, 'mcp-session-id': String(opened.headers['mcp-session-id']) };
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' };
    const post = async (headers: Record<string, string>) =>
      (await ask(`${gateway.url}/mcp`, { headers, body: ping })).status;
    expect(await post({ ...session, ...as(await token()) })).toBe(200);
    expect(await post({ ...session, ...as(await token({ sub: 'mallory' })) })).toBe(404);
    expect(await post({ ...session, ...as(TOKEN) })).toBe(404);
    expect(await post(session)).toBe(401);
    const end = await ask(`${gateway.url}/mcp`, { method: 'DELETE', headers: { ...session, ...as(await token()) } });
    expect(end.status).toBe(200);
    expect(await post({ ...session, ...as(await token()) })).toBe(404);
  });

  test('S7: a token for one endpoint sends nothing into a stream of another endpoint', async () => {
    const stop = new AbortController();
    const whole = await token({ sub: 'fay', aud: gateway.url });
    const reply = await fetch(`${gateway.url}/sse`, {
      headers: { accept: 'text/event-stream', ...as(whole) },
      signal: stop.signal,
    });
    const session = reply.headers.get('mcp-session-id')!;
    const post = (path: string, bearer: string): Promise<Reply> =>
      ask(`${gateway.url}${path}?sessionId=${session}`, { headers: as(bearer), body: initializeBody('2024-11-05') });
    const part = await token({ sub: 'fay', aud: `${gateway.url}/mcp/one` });
    expect((await post('/messages', part)).status).toBe(401);
    expect((await post('/mcp/one/messages', part)).status).toBe(404);
    expect((await post('/mcp/messages', whole)).status).toBe(202);
    stop.abort();
  });

  test('S3: a token for the endpoint of one server reaches no task of another server', async () => {
    const claims = { sub: 'gil', scope: 'mcp:use two:write' };
    const [whole, part] = [
      await token({ ...claims, aud: gateway.url }),
      await token({ ...claims, aud: `${gateway.url}/mcp/one` }),
    ];
    const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
    const send = (method: string, params: object, bearer: string, path: string): Promise<Reply> =>
      ask(`${gateway.url}${path}`, {
        headers: {
          ...modernHeaders(method, params),
          ...('taskId' in params && { 'mcp-name': String(params.taskId) }),
          ...as(bearer),
        },
        body: modernBody(method, params, { capabilities }),
      });
    const session = await Session.open(`${gateway.url}/mcp`, '2025-11-25', as(whole));
    const hosted = await session.request('tools/call', { name: 'two__add', arguments: {}, task: { ttl: 60_000 } });
    const { taskId } = (hosted.json.result as unknown as { task: { taskId: string } }).task;
    const relayed = await send('tools/call', { name: 'two__add', arguments: {} }, whole, '/mcp');
    const ids = [taskId, (relayed.json.result as unknown as { taskId: string }).taskId];
    const unknown = await send('tasks/get', { taskId: 'absent' }, part, '/mcp/one');
    for (const id of ids) {
      for (const path of ['/mcp', '/mcp/two'])
        expect((await send('tasks/get', { taskId: id }, whole, path)).json.result, path).toMatchObject({ taskId: id });
      const answer = await send('tasks/get', { taskId: id }, part, '/mcp/one');
      expect([answer.status, answer.body.replaceAll(id, 'absent')]).toEqual([unknown.status, unknown.body]);
    }
    const narrow = await Session.open(`${gateway.url}/mcp/one`, '2025-11-25', as(part));
    expect((await narrow.request('tasks/list')).json.result).toMatchObject({ tasks: [] });
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
      expect((await narrow.request(method, { taskId })).json.error?.message, method).toMatch(/Unknown task/);
    expect((await session.request('tasks/list')).json.result).toMatchObject({ tasks: [{ taskId }] });
    await Promise.all([session.end(), narrow.end()]);
  });

  test('S14 S1-03: 401 and 403 name the metadata and the scopes', async () => {
    const metadata = `${gateway.url}/.well-known/oauth-protected-resource/mcp`;
    const unknown = await ask(`${gateway.url}/mcp`, {
      body: modernBody('tools/list', {}),
      headers: modernHeaders('tools/list', {}),
    });
    expect([unknown.status, unknown.headers['www-authenticate']]).toEqual([
      401,
      `Bearer realm="parley", scope="mcp:use", resource_metadata="${metadata}"`,
    ]);
    const lacking = await rpc('tools/list', {}, await token({ scope: 'x' }));
    expect([lacking.status, lacking.headers['www-authenticate']]).toEqual([
      403,
      `Bearer realm="parley", error="insufficient_scope", scope="mcp:use", resource_metadata="${metadata}"`,
    ]);
    const inQuery = `${gateway.url}/mcp?access_token=${await token()}`;
    const alone = await ask(inQuery, { body: modernBody('tools/list', {}), headers: modernHeaders('tools/list', {}) });
    expect(alone.status).toBe(401);
    const query = await rpc('tools/list', {}, TOKEN, inQuery);
    expect(query.status).toBe(400);
    expect(query.body).toContain('refused');
  });

  test('S14: a call that needs more scopes is answered with 403 and all of them, and succeeds with them', async () => {
    const call = { name: 'two__add', arguments: {} };
    const refused = await rpc('tools/call', call, await token());
    expect([refused.status, refused.headers['www-authenticate']]).toEqual([
      403,
      `Bearer realm="parley", error="insufficient_scope", scope="mcp:use two:write", resource_metadata="${gateway.url}/.well-known/oauth-protected-resource"`,
    ]);
    expect((await rpc('tools/call', call, await token({ scope: 'mcp:use two:write' }))).status).toBe(200);
    expect((await rpc('tools/call', call, TOKEN)).status).toBe(200);
  });

  test('S14: the result of a task needs the scopes of its server, like the call', async () => {
    const full = as(await token({ sub: 'hal', scope: 'mcp:use two:write' }));
    const session = await Session.open(`${gateway.url}/mcp`, '2025-11-25', full);
    const hosted = await session.request('tools/call', { name: 'two__add', arguments: {}, task: { ttl: 60_000 } });
    const { taskId } = (hosted.json.result as unknown as { task: { taskId: string } }).task;
    const result = async (bearer: Record<string, string>): Promise<string> => {
      const body = { jsonrpc: '2.0', id: 2, method: 'tasks/result', params: { taskId } };
      return (await session.post(body, bearer)).body;
    };
    expect(await result(as(await token({ sub: 'hal' })))).toContain('needs the scopes two:write');
    expect(await result(full)).toContain('"content"');
    await session.end();
  });

  test('S14 S1-03: the metadata is public, for the gateway and for every endpoint', async () => {
    for (const endpoint of ['', '/mcp', '/mcp/one', '/one/mcp', '/sse', '/a2a', '/a2a/helper']) {
      const reply = await ask(`${gateway.url}/.well-known/oauth-protected-resource${endpoint}`, { method: 'GET' });
      expect([endpoint, reply.status, JSON.parse(reply.body)]).toMatchObject([
        endpoint,
        200,
        {
          resource: `${gateway.url}${endpoint}`,
          authorization_servers: [issuer.url],
          scopes_supported: ['mcp:use', 'two:write'],
        },
      ]);
    }
    const published = await ask(`${gateway.url}/.well-known/oauth-authorization-server`, { method: 'GET' });
    expect(JSON.parse(published.body)).toMatchObject({
      issuer: issuer.url,
      code_challenge_methods_supported: ['S256'],
    });
  });
});

describe('every credential works over every transport', () => {
  const GET_TASK = '/lf.a2a.v1.A2AService/GetTask';
  const asIs = (bytes: Buffer): Buffer => bytes;
  const grpc = (token: string | undefined): Promise<number> =>
    new Promise((resolve) => {
      const client = new Client(grpcAddress, credentials.createInsecure());
      const metadata = new Metadata();
      if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
      client.makeUnaryRequest(GET_TASK, asIs, asIs, Buffer.alloc(0), metadata, (error) => {
        client.close();
        resolve(error?.code ?? 0);
      });
    });

  test.each(['token', 'key', 'jwt'])('%s', async (kind) => {
    const secret =
      kind === 'token'
        ? TOKEN
        : kind === 'key'
          ? await key('everywhere')
          : await issuer.token({ sub: 'eve', aud: gateway.url, scope: 'mcp:use' });
    expect((await rpc('tools/list', {}, secret)).status).toBe(200);
    expect(
      (
        await ask(`${gateway.url}/mcp`, {
          headers: { ...BOTH_TYPES, ...as(secret) },
          body: initializeBody('2025-11-25'),
        })
      ).status,
    ).toBe(200);
    const stream = new AbortController();
    const sse = await fetch(`${gateway.url}/sse`, {
      headers: { accept: 'text/event-stream', ...as(secret) },
      signal: stream.signal,
    });
    stream.abort();
    expect(sse.status).toBe(200);
    expect(await grpc(secret)).not.toBe(16);
    expect(await grpc(`${secret}x`)).toBe(16);
    expect(await grpc(undefined)).toBe(16);
  });
});
