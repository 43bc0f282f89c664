/** Authentication before the routes: when the authenticator is called, and the handling of slow or failed results. */
import { afterEach, describe, expect, it } from 'vitest';
import { ADMIN_ROLE, principalOf } from '../../core/caller.js';
import { type Authenticated, type AuthenticationRequest, Challenge } from '../../identity/authenticator.js';
import { ProtocolError } from '../../protocol/errors.js';
import { MCP_ERRORS } from '../mcp/mcp-errors.js';
import { Origins } from './host-and-origin.js';
import type { Access, ErrorFormat, Route } from './route.js';
import { RouteTable } from './route-table.js';
import { sendText } from './send-body.js';
import { HttpServer } from './server.js';

const TEXT: ErrorFormat = {
  name: 'text',
  write: ({ res, headers }, error) =>
    sendText(
      res,
      error.row.http,
      [...headers, ...Object.entries(error.detail.headers ?? {}).flat()],
      'text/plain',
      `${error.reason}: ${error.message}`,
    ),
};

const route = (path: string, access: Access, more: Partial<Route> = {}): Route => ({
  method: 'POST',
  path,
  access,
  errors: TEXT,
  description: 'Returns the caller',
  handle: async ({ req, res, principal }) => {
    const body = await req.read(1_000);
    sendText(res, 200, [], 'text/plain', `${principal.key} ${body.toString()}`);
  },
  ...more,
});

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(authenticate: (request: AuthenticationRequest) => Authenticated | Promise<Authenticated>) {
  const failures: unknown[] = [];
  const failed: object[] = [];
  const own = { enabled: true, authenticate: () => principalOf({ issuer: 'own', subject: 'agent' }) };
  const server = new HttpServer({
    authenticator: { enabled: true, authenticate },
    origins: new Origins({ loopback: true, hosts: [], origins: [], corsOrigins: [], credentials: false }),
    routes: new RouteTable({
      routes: [
        route('/public', 'public'),
        route('/user', 'user'),
        route('/admin', 'admin'),
        route('/own', 'user', { authenticator: own }),
        route('/broken', 'public', { handle: () => Promise.reject(new TypeError('a defect')) }),
        route('/broken-mcp', 'public', {
          errors: MCP_ERRORS,
          handle: () => Promise.reject(new TypeError('a defect in /srv/gateway.js')),
        }),
      ],
      errors: TEXT,
    }),
    failed: (error, path, requestId) => {
      failures.push(error);
      failed.push({ path, requestId });
    },
  });
  const { port } = await server.listen('127.0.0.1', 0);
  closing.push(() => server.close(Promise.resolve()));
  const post = async (path: string, headers: Record<string, string> = {}): Promise<[number, string]> => {
    const reply = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: 'hello', headers });
    return [reply.status, await reply.text()];
  };
  return { post, failures, failed, url: `http://127.0.0.1:${port}` };
}

const soon = <T>(value: T): Promise<T> => new Promise((resolve) => setImmediate(() => resolve(value)));
const ada = principalOf({ subject: 'ada' });
const root = principalOf({ subject: 'root', roles: [ADMIN_ROLE] });
const unknown = new Challenge('Who?', { 'WWW-Authenticate': 'Test' });

describe.each([
  ['at once', <T>(value: T): T | Promise<T> => value],
  ['later', <T>(value: T): T | Promise<T> => soon(value)],
])('a caller identified %s', (_, when) => {
  it('is admitted by the access of the route', async () => {
    const { post } = await serve((request) => when({ ada, root }[request.header('x-name') ?? ''] ?? unknown));
    expect(await post('/user', { 'x-name': 'ada' })).toEqual([200, 'ada hello']);
    expect(await post('/admin', { 'x-name': 'root' })).toEqual([200, 'root hello']);
    expect((await post('/admin', { 'x-name': 'ada' }))[0]).toBe(403);
    expect(await post('/public', { 'x-name': 'ada' })).toEqual([200, 'ada hello']);
    expect(await post('/public')).toEqual([200, ' hello']);
    expect(await post('/user')).toEqual([401, 'unauthorized: Who?']);
    expect((await post('/nothing'))[0]).toBe(401);
    expect((await post('/nothing', { 'x-name': 'ada' }))[0]).toBe(404);
  });

  it('may get the missing scope in the refusal', async () => {
    const { post, url } = await serve(() =>
      when(new Challenge('Scope missing', { 'WWW-Authenticate': 'Test x' }, 'forbidden')),
    );
    expect(await post('/user')).toEqual([403, 'forbidden: Scope missing']);
    const reply = await fetch(`${url}/user`, { method: 'POST' });
    expect(reply.headers.get('www-authenticate')).toBe('Test x');
  });
});

it('an authenticator without a principal admits nobody', async () => {
  for (const given of [{}, undefined, { key: 7 }, 'ada']) {
    const { post } = await serve(() => given as unknown as Authenticated);
    expect((await post('/user'))[0]).toBe(500);
    expect((await post('/admin'))[0]).toBe(500);
  }
});

it('an authenticator sees the whole request', async () => {
  const seen: object[] = [];
  const { post } = await serve((request) => {
    const { method, url, peer, certificate } = request;
    seen.push({ method, url, peer, certificate, given: request.header('x-given') });
    return ada;
  });
  await post('/user?a=b', { 'x-given': 'yes' });
  expect(seen).toEqual([{ method: 'POST', url: '/user?a=b', peer: '127.0.0.1', certificate: undefined, given: 'yes' }]);
});

it.each([
  [
    'at once',
    (): Authenticated => {
      throw new Error('the key service is unavailable');
    },
  ],
  ['later', (): Promise<Authenticated> => Promise.reject(new Error('the key service is unavailable'))],
])('an authenticator that fails %s admits nobody, and public routes are served', async (_, authenticate) => {
  const { post, failures } = await serve(authenticate);
  expect(await post('/user')).toEqual([500, 'internal: Internal error']);
  expect(await post('/public')).toEqual([200, ' hello']);
  expect(failures).toHaveLength(2);
});

it('an authenticator may refuse with its own error', async () => {
  const { post, failures } = await serve(() => {
    throw new ProtocolError('rate_limited', 'Too many attempts');
  });
  expect(await post('/user')).toEqual([429, 'rate_limited: Too many attempts']);
  expect(await post('/public')).toEqual([200, ' hello']);
  expect(failures).toEqual([]);
});

it('a route may have its own authenticator', async () => {
  const { post } = await serve(() => unknown);
  expect(await post('/own')).toEqual([200, 'own#agent hello']);
});

describe('S2-20, S2-23, S4-15: a request that fails in the gateway', () => {
  it.each([
    ['the one of the client', 'given.by-the_client', 'given.by-the_client'],
    ['a new one if the client sent none', undefined, expect.stringMatching(/^[0-9a-f]{12}-/)],
    ['a new one if the client sent an invalid one', 'two words', expect.stringMatching(/^[0-9a-f]{12}-/)],
  ])('has its id in the log and in the response: %s', async (_, given, expected) => {
    const { url, failed } = await serve(() => unknown);
    const headers = new Headers(given === undefined ? [] : [['x-request-id', given]]);
    const reply = await fetch(`${url}/broken`, { method: 'POST', headers });
    expect([reply.status, await reply.text()]).toEqual([500, 'internal: Internal error']);
    expect(reply.headers.get('x-request-id')).toEqual(expected);
    expect(failed).toEqual([{ path: '/broken', requestId: reply.headers.get('x-request-id') }]);
  });

  it('is -32603 in MCP, and shows nothing of the defect', async () => {
    const { post } = await serve(() => unknown);
    const [status, text] = await post('/broken-mcp');
    expect([status, JSON.parse(text)]).toEqual([
      500,
      { jsonrpc: '2.0', id: null, error: { code: -32603, message: 'Internal error', data: { reason: 'internal' } } },
    ]);
  });
});
