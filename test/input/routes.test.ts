/** Checks the rules of the route table for every entry of a running gateway. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { RESERVED_SERVERS } from '../../src/config/reserved-names.js';
import { ANYBODY } from '../../src/identity/authenticator.js';
import { freePort } from '../support/services.js';
import { type EchoServer, startEcho } from './support/echo.js';
import { ask } from './support/wire.js';

const USER = 'user-0123456789abcdef0123456789abcdef';
const ADMIN = 'admin-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH';
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
/** Values for parameters; names are those of existing servers and agents. */
const SAMPLES: Readonly<Record<string, string>> = {
  server: 'echo',
  name: 'echo',
  agent: 'desk',
  card: 'desk',
  id: 'echo',
};

type Entry = RunningGateway['routes'][number];

let data: string;
let echo: EchoServer;
let gateway: RunningGateway;
let closed: RunningGateway;

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

const start = async (settings: {
  readonly auth?: object;
  readonly [key: string]: unknown;
}): Promise<RunningGateway> => {
  const { config } = configFrom(
    {
      listen: '127.0.0.1:0',
      servers: { echo: { url: echo.url } },
      agents: { desk: { tools: ['echo__*'] } },
      ...settings,
      auth: {
        tokens: [
          { name: 'ada', token: USER },
          { name: 'root', token: ADMIN, admin: true },
        ],
        ...settings.auth,
      },
    },
    { env: {} },
  );
  return startServe(config, { log: silent as never });
};

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'parley-routes-'));
  echo = await startEcho();
  gateway = await start({
    listen: `127.0.0.1:${await freePort()}`,
    data: join(data, 'on'),
    mcp: { rawProxy: true },
    auth: { builtin: { enabled: true } },
  });
  closed = await start({ data: join(data, 'off'), mcp: { enabled: false }, a2a: { enabled: false } });
  await gateway.settled(5_000);
});
afterAll(async () => {
  await gateway?.close();
  await closed?.close();
  await echo?.close();
  await rm(data, { recursive: true, force: true });
});

/** The routes by path, each with a URL to request. */
function paths(): { readonly path: string; readonly url: string; readonly routes: Entry[] }[] {
  const all = new Map<string, Entry[]>();
  for (const route of gateway.routes) all.set(route.path, [...(all.get(route.path) ?? []), route]);
  return [...all].map(([path, routes]) => {
    const sample = path.replace(/\{(\w+)\*?\}/g, (_, name: string) => SAMPLES[name] ?? `${name}-1`);
    return { path, url: `${gateway.url}${sample}`, routes };
  });
}

/**
 * Routes with their own authentication: the callbacks of agents, which the sealed URL authorises
 * (`callback-endpoint.test.ts`).
 */
const ownCallers = ([first]: readonly Entry[]): boolean =>
  first!.authenticator !== undefined && first!.authenticator !== ANYBODY;
/** Routes at which every caller is anonymous: the probes of orchestrators, and the authorization server. */
const anonymous = ([first]: readonly Entry[]): boolean => first!.authenticator === ANYBODY;

const allowOf = (routes: readonly Entry[]): string =>
  [...routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(', ');

const as = (token: string | undefined): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` };

/** Detects the format of an error. */
function formatOf(body: string): string {
  const value = JSON.parse(body) as {
    jsonrpc?: string;
    error?: unknown;
    code?: unknown;
    type?: string;
    detail?: unknown;
  };
  if (value.type?.startsWith('urn:parley:error:') === true) return 'problem';
  if (value.jsonrpc === '2.0') return 'jsonrpc';
  if (typeof value.detail === 'object') return 'rest';
  if (typeof value.error === 'string') return 'error_description' in value ? 'oauth' : 'callback';
  if (typeof value.error === 'object') return 'a2a-rest';
  return typeof value.code === 'number' ? 'a2a-rest-v1' : 'none';
}
const EXPECTED: Readonly<Record<string, string>> = { mcp: 'jsonrpc', 'a2a-jsonrpc': 'jsonrpc' };
const expectedFormat = ({ errors: { name } }: Entry): string => EXPECTED[name] ?? name;

describe('every route', () => {
  it('uses the gateway’s authentication, except the callbacks of agents and the probes', () => {
    const own = new Set(paths().flatMap(({ path, routes }) => (ownCallers(routes) ? [path] : [])));
    expect([...own]).toEqual(['/a2a/push/{address}']);
    for (const { path, routes } of paths().filter((each) => anonymous(each.routes))) {
      expect(path).toMatch(/^(\/_health\/(live|ready)|\/oauth\/[^/].*|\/\.well-known\/(oauth-|openid-).*)$/);
      for (const { access } of routes) expect([path, access]).toEqual([path, 'public']);
    }
    expect(paths().filter(({ path }) => path.startsWith('/oauth/')).length).toBeGreaterThan(10);
  });

  it('is described in one line', () => {
    expect(gateway.routes.length).toBeGreaterThan(100);
    for (const { description } of gateway.routes) expect(description).toMatch(/^.{5,100}$/);
  });

  it('answers other methods with 405, Allow and its own error format', async () => {
    for (const { path, url, routes } of paths()) {
      if (ownCallers(routes)) continue;
      const allow = allowOf(routes);
      for (const method of METHODS.filter((each) => !allow.split(', ').includes(each))) {
        const reply = await ask(url, { method, headers: as(ADMIN) });
        expect([path, method, reply.status, reply.headers['allow']]).toEqual([path, method, 405, allow]);
        if (method !== 'HEAD') expect([path, formatOf(reply.body)]).toEqual([path, expectedFormat(routes[0]!)]);
      }
    }
  });

  it('serves the callers that its access allows: everybody, authenticated callers, or administrators', async () => {
    for (const { path, url, routes } of paths()) {
      if (ownCallers(routes)) continue;
      for (const route of routes) {
        const { method, access } = route;
        const status = async (token: string | undefined) => {
          const { status: given, body } = await ask(url, { method, headers: as(token), ...bodyFor(method) });
          if (given === 401 || given === 403) expect([path, formatOf(body)]).toEqual([path, expectedFormat(route)]);
          return given;
        };
        const stranger = await status(undefined);
        if (access === 'public') expect([path, method, stranger]).not.toEqual([path, method, 401]);
        else expect([path, method, stranger]).toEqual([path, method, 401]);
        if (method !== 'GET' || access === 'public') continue;
        const head = await ask(url, { method: 'HEAD', headers: as(USER) });
        if (access === 'admin') expect([path, await status(USER), head.status]).toEqual([path, 403, 403]);
        else expect([401, 403]).not.toContain(head.status);
      }
    }
  });

  it('serves HEAD with the headers of GET', async () => {
    for (const { path, url, routes } of paths()) {
      if (!routes.some(({ method }) => method === 'GET')) continue;
      // A stream has no end, so the test checks only its head.
      const head = await ask(url, { method: 'HEAD', headers: as(ADMIN) });
      expect([path, head.body]).toEqual([path, '']);
      // The raw proxy passes the status of the server on.
      if (!path.startsWith('/mcp-proxy/')) expect([path, head.status]).not.toEqual([path, 405]);
      if (head.headers['content-type']?.startsWith('text/event-stream')) continue;
      const get = await ask(url, { method: 'GET', headers: as(ADMIN) });
      expect([path, head.status, head.headers['content-type']]).toEqual([
        path,
        get.status,
        get.headers['content-type'],
      ]);
    }
  });

  it('answers a preflight without a token, with the methods it has', async () => {
    for (const { path, url, routes } of paths()) {
      const reply = await ask(url, { method: 'OPTIONS', headers: { origin: 'http://localhost:3000' } });
      const methods = [...routes.map(({ method }) => method), 'OPTIONS'].join(', ');
      expect([path, reply.status, reply.headers['allow']]).toEqual([path, 200, allowOf(routes)]);
      expect([path, reply.headers['access-control-allow-methods']]).toEqual([path, methods]);
    }
  });
});

describe('the documents', () => {
  const read = (name: string): Promise<string> => readFile(new URL(`../../${name}`, import.meta.url), 'utf8');

  it.each(['README.md', 'docs/management.md', 'docs/rest.md', 'docs/views.md'])(
    '%s names only paths that are served',
    async (document) => {
      const patterns = gateway.routes.map(
        ({ path }) => new RegExp(`^${path.replace(/\{\w+\*\}/g, '.+').replace(/\{\w+\}/g, '[^/]+')}$`),
      );
      const named = [...(await read(document)).matchAll(/`(?:[A-Z]+ )?(\/[^\s`?]*)[^`]*`/g)].map(([, path]) => path!);
      expect(named.length).toBeGreaterThan(2);
      // `/api/v1` and `/mcp-rest` stand for all paths below them.
      const served = (path: string): boolean =>
        patterns.some((pattern) => pattern.test(path)) ||
        gateway.routes.some((each) => each.path.startsWith(`${path}/`));
      expect(named.filter((path) => !served(path))).toEqual([]);
    },
  );

  it('docs/management.md names every resource of the management API', async () => {
    const table = (await read('docs/management.md')).match(/^\| .* \|$/gm)!.slice(2);
    const named = table.flatMap((row) => [...row.split('|')[2]!.matchAll(/`([\w-]+)/g)].map(([, name]) => name!));
    const resources = gateway.routes.flatMap(({ path }) => /^\/api\/v1\/([\w-]+)/.exec(path)?.[1] ?? []);
    expect([...new Set(resources)].filter((name) => !named.includes(name))).toEqual([]);
  });
});

it('no server can have the name of a path that the gateway serves itself', () => {
  const taken = gateway.routes.flatMap(({ path }) => {
    // The paths of a server are /mcp/NAME and /NAME/mcp.
    const below = /^\/mcp\/([\w-]+)$/.exec(path)?.[1];
    const [, above, rest = ''] = /^\/([\w-]+)\/([^/]+)$/.exec(path) ?? [];
    return [...(below === undefined ? [] : [below]), ...(above !== undefined && /^\{|^mcp$/.test(rest) ? [above] : [])];
  });
  // /mcp/mcp is the endpoint of a server of this name in both forms.
  expect(new Set(taken.filter((name) => name !== 'mcp'))).toEqual(new Set(RESERVED_SERVERS.keys()));
});

describe('an unknown path', () => {
  it.each([
    ['/nothing', 'jsonrpc', 'not_found'],
    ['/mcp/nobody', 'jsonrpc', 'not_found'],
    ['/mcp/nobody/sse', 'jsonrpc', 'not_found'],
    ['/mcp/echo/nothing', 'jsonrpc', 'not_found'],
    ['/a2a/nobody', 'jsonrpc', 'agent_not_found'],
    ['/a2a/nobody/nothing', 'a2a-rest', 'NOT_FOUND'],
    ['/a2a/desk/nothing', 'a2a-rest', 'NOT_FOUND'],
  ])('%s is 404 for callers, and 401 without authentication', async (path, format, reason) => {
    for (const method of ['GET', 'POST', 'PUT']) {
      const stranger = await ask(`${gateway.url}${path}`, { method });
      expect([stranger.status, formatOf(stranger.body)]).toEqual([401, format]);
      const reply = await ask(`${gateway.url}${path}`, { method, headers: as(USER) });
      expect([reply.status, formatOf(reply.body)]).toEqual([404, format]);
      expect(reply.body).toContain(`"${reason}"`);
    }
  });

  it('has no methods for a preflight', async () => {
    expect((await ask(`${gateway.url}/nothing`, { method: 'OPTIONS' })).status).toBe(404);
  });
});

describe('S1-58: a disabled protocol', () => {
  it.each([
    [true, true],
    [true, false],
    [false, true],
    [false, false],
  ])('S1-57: one program serves MCP (%s) and A2A (%s)', async (mcp, a2a) => {
    const one = await start({ data: join(data, `${mcp}-${a2a}`), mcp: { enabled: mcp }, a2a: { enabled: a2a } });
    try {
      const tools = await ask(`${one.url}/mcp`, { method: 'GET', headers: as(USER) });
      expect(tools.status).toBe(mcp ? 200 : 404);
      if (!mcp) expect(tools.json.error.data.reason).toBe('mcp_gateway_disabled');
      const card = await ask(`${one.url}/.well-known/agent-card.json`, { method: 'GET' });
      expect(card.status).toBe(a2a ? 200 : 404);
      if (!a2a) expect(card.body.toLowerCase()).toContain('a2a_gateway_disabled');
      expect((await ask(`${one.url}/health`, { method: 'GET' })).status).toBe(200);
    } finally {
      await one.close();
    }
  });

  it.each([
    ['/', 'mcp_gateway_disabled'],
    ['/mcp', 'mcp_gateway_disabled'],
    ['/mcp/echo', 'mcp_gateway_disabled'],
    ['/a2a', 'a2a_gateway_disabled'],
    ['/a2a/desk', 'a2a_gateway_disabled'],
    ['/a2a/agents', 'a2a_gateway_disabled'],
    ['/v1/a2a/desk', 'a2a_gateway_disabled'],
    ['/a2a/desk/tasks/t1:cancel', 'a2a_gateway_disabled'],
    ['/.well-known/agent.json', 'a2a_gateway_disabled'],
    ['/.well-known/agents/desk.json', 'a2a_gateway_disabled'],
  ])('answers at %s that it is disabled, to every caller', async (path, reason) => {
    const reply = await ask(`${closed.url}${path}`, { method: 'POST', body: {} });
    // A2A's JSON-RPC sends this error with status 200.
    expect(reply.status).toBe(/^(\/v1)?\/a2a(\/\w+)?$/.test(path) ? 200 : 404);
    expect(reply.body.toLowerCase()).toContain(`"${reason}"`);
  });
});

const bodyFor = (method: string): { body?: object } => (method === 'POST' ? { body: {} } : {});
