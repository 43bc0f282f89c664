/** The raw proxy: requests of administrators to servers, with the credential of the gateway. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { ADA, BOB, type RestWorld, startRestWorld } from './world.js';

let upstream: Server;
let world: RestWorld;
const seen: { req: IncomingMessage; body: string }[] = [];
const closed: string[] = [];

beforeAll(async () => {
  upstream = createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    if (req.headers['mcp-method'] === undefined && !body.includes('"initialize"')) seen.push({ req, body });
    if (req.url?.startsWith('/base/mcp/redirect')) res.writeHead(302, { location: 'http://169.254.169.254/' }).end();
    else if (req.url?.startsWith('/base/mcp/locked')) res.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
    else if (req.url?.startsWith('/base/mcp/broken')) {
      res.writeHead(200, { 'content-type': 'text/plain' }).write('half');
      setTimeout(() => res.destroy(), 20);
    } else if (req.url?.startsWith('/base/mcp/stream')) {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: one\n\n');
      req.socket.on('close', () => closed.push('stream'));
    } else {
      const headers = { 'content-type': 'text/html', 'set-cookie': 'a=b', 'x-powered-by': 'node', etag: '"7"' };
      res.writeHead(418, headers).end('<script>1</script>');
    }
  });
  upstream.listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/base/mcp?tenant=7`;
  world = await startRestWorld({
    mcp: { rawProxy: true },
    auth: {
      keys: true,
      tokens: [
        { name: 'ada', token: ADA, admin: true },
        { name: 'bob', token: BOB },
      ],
    },
    policy: { rules: [{ name: 'all', when: 'true', effect: 'allow' }] },
    servers: {
      raw: { url, headers: { Authorization: 'Bearer operator-5521' }, revision: 'modern' },
      off: { url, invocation: false },
      program: { command: process.execPath, args: ['-e', ''] },
    },
  });
});
afterAll(async () => {
  await world?.close();
  upstream?.closeAllConnections();
  upstream?.close();
});

const ask = (path: string, init: RequestInit = {}, token = ADA): Promise<Response> =>
  fetch(`${world.url}/mcp-proxy/${path}`, {
    redirect: 'manual',
    ...init,
    headers: { authorization: `Bearer ${token}`, ...(init.headers as Record<string, string>) },
  });

describe('S0-08: /mcp-proxy', () => {
  test.each(['GET', 'POST', 'PUT', 'DELETE'])(
    '%s passes path, query and body on, and the reply back',
    async (method) => {
      const body = method === 'GET' ? {} : { body: '{"a":1}', headers: { 'content-type': 'application/json' } };
      const reply = await ask('raw/admin/stats%20x?b=2&c', { method, ...body });
      const { req, body: sent } = seen.at(-1)!;
      expect([req.method, req.url]).toEqual([method, '/base/mcp/admin/stats%20x?tenant=7&b=2&c']);
      expect(sent).toBe(method === 'GET' ? '' : '{"a":1}');
      expect([reply.status, await reply.text()]).toEqual([418, '<script>1</script>']);
      expect([reply.headers.get('content-type'), reply.headers.get('etag')]).toEqual(['text/html', '"7"']);
      expect(reply.headers.get('content-security-policy')).toContain('sandbox');
      for (const name of ['set-cookie', 'x-powered-by']) expect(reply.headers.get(name)).toBeNull();
    },
  );

  test('the request has the credential of the gateway, and no headers of the caller with credentials', async () => {
    const headers = {
      cookie: 'session=caller',
      'x-admin-api-key': ADA,
      'x-api-key': ADA,
      'x-litellm-api-key': ADA,
      'x-forwarded-for': '1.2.3.4',
      'proxy-authorization': 'Basic eA==',
      'mcp-session-id': 'upstream-session',
    };
    await ask('raw', { headers });
    const { req } = seen.at(-1)!;
    expect(req.url).toBe('/base/mcp?tenant=7');
    expect(req.headers.authorization).toBe('Bearer operator-5521');
    expect(req.headers['mcp-session-id']).toBe('upstream-session');
    expect(JSON.stringify(req.rawHeaders)).not.toMatch(new RegExp(`${ADA}|session=caller|1\\.2\\.3\\.4|Basic`));
    expect(req.headers.host).toBe(
      new URL(world.url).hostname + req.headers.host!.slice(req.headers.host!.indexOf(':')),
    );
  });

  test.each(['raw/a%2fb', 'raw/a%5cb', 'raw/..%2f..%2fetc'])(
    'a path that leads elsewhere is refused: %s',
    async (path) => {
      const before = seen.length;
      const reply = await ask(path);
      expect([reply.status, seen.length]).toEqual([400, before]);
    },
  );

  test('users are refused, and unknown servers do not exist', async () => {
    const before = seen.length;
    expect((await ask('raw/x', {}, BOB)).status).toBe(403);
    expect((await fetch(`${world.url}/mcp-proxy/raw/x`)).status).toBe(401);
    expect([(await ask('nobody/x')).status, (await ask('program/x')).status]).toEqual([404, 400]);
    const off = await ask('off/x');
    expect([off.status, seen.length]).toEqual([501, before]);
  });

  test('an administrator of a tenant is refused, because the server does not separate tenants', async () => {
    const created = await fetch(`${world.url}/api/v1/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADA}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'eve', roles: ['admin'], tenant: 'acme', expires: '1h' }),
    });
    expect(created.status).toBe(201);
    const { key } = (await created.json()) as { key: string };
    const before = seen.length;
    const reply = await ask('raw/x', {}, key);
    expect([reply.status, seen.length]).toEqual([403, before]);
    expect(await reply.text()).toContain('without a tenant');
  });

  test('no redirect is followed, and a refused credential is not the fault of the caller', async () => {
    const reply = await ask('raw/redirect');
    expect([reply.status, reply.headers.get('location')]).toEqual([302, 'http://169.254.169.254/']);
    const locked = await ask('raw/locked');
    expect([locked.status, ((await locked.json()) as { detail: { error: string } }).detail.error]).toEqual([
      502,
      'upstream_unauthorized',
    ]);
  });

  test('an event stream arrives while it is open, and ends at the server when the caller leaves', async () => {
    const abort = new AbortController();
    const reply = await ask('raw/stream', { headers: { accept: 'text/event-stream' }, signal: abort.signal });
    const { value } = await reply.body!.getReader().read();
    expect(new TextDecoder().decode(value)).toBe('data: one\n\n');
    abort.abort();
    await eventually(
      () => closed,
      (names) => names.length === 1,
    );
  });

  test('a reply that breaks off is not passed on as complete', async () => {
    await expect((async () => (await ask('raw/broken')).text())()).rejects.toThrow();
  });
});

test('docs/rest.md has the table of the routes', () => {
  const text = readFileSync(new URL('../../docs/rest.md', import.meta.url), 'utf8');
  const written = [...text.matchAll(/^\| (GET|POST|PUT|PATCH|DELETE) \| `(\S+)` \| (\w+) \| (.+) \|$/gm)];
  const isRest = ({ errors, path, access }: RestWorld['gateway']['routes'][number]): boolean =>
    errors.name === 'rest' || (path.startsWith('/a2a/agents') && access === 'admin');
  const served = world.gateway.routes.filter(isRest);
  expect(written.map(([, method, path, access, effect]) => [method, path, access, effect])).toEqual(
    served.map(({ method, path, access, description }) => [method, path, access, description]),
  );
});
