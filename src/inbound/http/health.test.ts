import { afterEach, expect, test } from 'vitest';
import { principalOf } from '../../core/caller.js';
import { Challenge } from '../../identity/authenticator.js';
import { Health } from './health.js';
import { Origins } from './host-and-origin.js';
import type { ErrorFormat } from './route.js';
import { RouteTable } from './route-table.js';
import { sendText } from './send-body.js';
import { HttpServer } from './server.js';

const TEXT: ErrorFormat = {
  name: 'text',
  write: ({ res, headers }, error) => sendText(res, error.row.http, headers, 'text/plain', error.message),
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

test('liveness and readiness do not wait for an authenticator that never answers', async () => {
  const health = new Health({
    catalog: { servers: [], upstream: () => undefined },
    version: '0',
    sessions: () => 0,
    storage: async () => ({ ok: true, db: { ok: true }, bus: { ok: true } }),
    knows: () => true,
  });
  health.accepting = true;
  const server = new HttpServer({
    authenticator: { enabled: true, authenticate: () => new Promise(() => {}) },
    origins: new Origins({ loopback: true, hosts: [], origins: [], corsOrigins: [], credentials: false }),
    routes: new RouteTable({ routes: health.routes(TEXT), errors: TEXT }),
    failed: () => {},
  });
  const { port } = await server.listen('127.0.0.1', 0);
  closing.push(() => server.close(Promise.resolve()));
  for (const path of ['/_health/live', '/_health/ready'])
    expect((await fetch(`http://127.0.0.1:${port}${path}`)).status).toBe(200);
});

test('S24: administrators see lost audit records, and other callers do not', async () => {
  const health = new Health({
    catalog: { servers: [], upstream: () => undefined },
    version: '0',
    sessions: () => 0,
    storage: async () => ({ ok: true, db: { ok: true }, bus: { ok: true } }),
    audit: () => ({ lost: 3, waiting: 7 }),
    knows: () => true,
  });
  health.accepting = true;
  const server = new HttpServer({
    authenticator: {
      enabled: true,
      authenticate: (request) =>
        principalOf({ subject: 'ada', roles: request.header('x-role') === undefined ? [] : ['admin'] }),
    },
    origins: new Origins({ loopback: true, hosts: [], origins: [], corsOrigins: [], credentials: false }),
    routes: new RouteTable({ routes: health.routes(TEXT), errors: TEXT }),
    failed: () => {},
  });
  const { port } = await server.listen('127.0.0.1', 0);
  closing.push(() => server.close(Promise.resolve()));
  const seen = async (headers: Record<string, string>): Promise<object> =>
    (await fetch(`http://127.0.0.1:${port}/health`, { headers })).json() as Promise<object>;
  expect(await seen({ 'x-role': 'admin' })).toMatchObject({ audit: { lost: 3, waiting: 7 } });
  expect(await seen({})).not.toHaveProperty('audit');
});

test('S2-27: a caller without a credential learns the status, and neither numbers nor names of servers', async () => {
  const upstream = { health: () => ({ status: 'down', speaks: [] }) } as never;
  const health = new Health({
    catalog: { servers: ['one', 'two'], upstream: () => upstream },
    version: '0',
    sessions: () => 7,
    storage: async () => ({ ok: true, db: { ok: true }, bus: { ok: true } }),
    knows: (_, server) => server === 'one',
  });
  health.accepting = true;
  const server = new HttpServer({
    authenticator: {
      enabled: true,
      authenticate: (request) =>
        request.header('x-name') === undefined ? new Challenge('Who?') : principalOf({ subject: 'ada' }),
    },
    origins: new Origins({ loopback: true, hosts: [], origins: [], corsOrigins: [], credentials: false }),
    routes: new RouteTable({ routes: health.routes(TEXT), errors: TEXT }),
    failed: () => {},
  });
  const { port } = await server.listen('127.0.0.1', 0);
  closing.push(() => server.close(Promise.resolve()));
  const get = async (path: string, headers: Record<string, string> = {}): Promise<object> =>
    (await fetch(`http://127.0.0.1:${port}${path}`, { headers })).json() as Promise<object>;
  expect(await get('/health')).toEqual({ status: 'degraded', transport: 'streamable-http', storage: 'ok' });
  expect(JSON.stringify(await get('/_health/ready'))).not.toMatch(/\d/);
  expect(await get('/health', { 'x-name': 'ada' })).toMatchObject({
    serverCounts: { down: 1 },
    servers: { one: 'down' },
  });
});
