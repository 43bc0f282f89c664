/** Errors contain no stack, no path, no address and no token (S25). */

import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { json, type Rogue, startRogue } from './support/rogue.js';
import {
  BOTH,
  initializeBody,
  LEGACY,
  modern,
  modernBody,
  modernCall,
  modernHeaders,
  Session,
  SseClient,
} from './support/speak.js';
import { ask, exchange, type Reply } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const SECRET = 'upstream-credential-7f3a9c';
const TOKEN = 'Zq8vN2mX7pL0sT5wZ8yB4nC6dF1gHaEr';
const as = { authorization: `Bearer ${TOKEN}` };

let world: World;
let rogue: Rogue;
let closedPort: number;
beforeAll(async () => {
  const gone = createServer();
  await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve));
  closedPort = (gone.address() as AddressInfo).port;
  await new Promise((resolve) => gone.close(resolve));
  const leak = 'Error: connect ECONNREFUSED 10.1.2.3:5432\n    at Socket.<anonymous> (/srv/app/db.js:12:3)';
  rogue = await startRogue({
    silent: () => {},
    reset: ({ req }) => void req.socket.resetAndDestroy(),
    html: ({ res }) => void res.writeHead(200, { 'content-type': 'text/html' }).end(leak),
    e401: ({ res }) => json(res, 401, { error: leak }, { 'www-authenticate': 'Bearer realm="http://10.1.2.3/"' }),
    e500: ({ res }) => void res.writeHead(500).end(leak),
    e302: ({ res }) => void res.writeHead(302, { location: 'http://10.1.2.3/srv/app' }).end(),
    broken: ({ res }) =>
      void res.writeHead(200, { 'content-type': 'application/json' }).end(`{"jsonrpc":"2.0",${leak}`),
    big: ({ res }) => void res.writeHead(200, { 'content-type': 'application/json' }).end('x'.repeat(5 * 1024 * 1024)),
  });
  world = await startWorld(
    {
      auth: { tokens: [{ name: 'ada', token: TOKEN }] },
      timeouts: { connect: '700ms', call: '1s' },
      servers: {
        modern: { url: rogue.url, revision: 'modern', headers: { 'x-api-key': SECRET } },
        legacy: { url: rogue.url, revision: 'legacy', transport: 'http', headers: { 'x-api-key': SECRET } },
        gone: { url: `http://user:${SECRET}@127.0.0.1:${closedPort}/hidden/path?key=${SECRET}`, revision: 'modern' },
        tls: { url: `https://127.0.0.1:${closedPort}/hidden`, revision: 'auto' },
        nowhere: { url: `http://${'n'.repeat(64)}.invalid/hidden`, revision: 'auto' },
        program: { command: '/opt/hidden/no-such-program', args: [SECRET], revision: 'legacy' },
        dies: {
          command: process.execPath,
          args: ['-e', 'console.error("at /opt/hidden/x.js:1"); process.exit(1)'],
          revision: 'auto',
        },
      },
    },
    { bystander: as },
  );
});
afterAll(async () => {
  await world.wellBehaved();
  await world.close();
  await rogue.close();
});

function clean(reply: { body: string } & Partial<Reply>): void {
  const { port } = new URL(rogue.url);
  const text = `${reply.rawHeaders?.join('\n') ?? ''}\n${reply.body}`;
  expect(text).not.toMatch(/\n\s+at |\\n\s+at |node:internal|\.[cm]?[jt]s:\d+|node_modules/);
  expect(text).not.toMatch(/\/(srv|opt|work|tmp|home|usr|root|dist|src)\//);
  expect(text).not.toMatch(/10\.1\.2\.3|ECONNREFUSED|ENOTFOUND|127\.0\.0\.1|\.invalid|hidden/);
  expect(text).not.toContain(port);
  expect(text).not.toContain(String(closedPort));
  expect(text).not.toContain(SECRET);
  expect(text).not.toContain(TOKEN);
}

const SERVERS = ['gone', 'tls', 'nowhere', 'program', 'dies'];
const TOOLS = ['silent', 'reset', 'html', 'e401', 'e500', 'e302', 'broken', 'big'];

describe('S25: errors reveal nothing about the inside of the gateway', () => {
  it.each([
    ...SERVERS.map((server) => `${server}__x`),
    ...TOOLS.flatMap((tool) => [`modern__${tool}`, `legacy__${tool}`]),
  ])('S25: a failing call of %s, for each era', async (name) => {
    const asModern = await modernCall(world.mcp, name, {}, { headers: as });
    expect(asModern.json.error.code).toBe(-32603);
    expect(Object.keys(asModern.json.error.data).sort()).toEqual(expect.arrayContaining(['outcome', 'reason']));
    clean(asModern);
    const session = await Session.open(world.mcp, '2025-06-18', as);
    clean(await session.call(name));
  });

  it.each(['tools/list', 'resources/list', 'prompts/list', 'resources/templates/list', 'server/discover'])(
    'S25: %s with unreachable servers',
    async (method) => {
      const reply = await modern(world.mcp, method, {}, { headers: as });
      expect(reply.status).toBe(200);
      clean(reply);
    },
  );

  it.each(SERVERS)('S25: an endpoint with an unreachable server: %s', async (server) => {
    const url = `${world.url}/mcp/${server}`;
    clean(await modern(url, 'server/discover', {}, { headers: as }));
    clean(await modern(url, 'tools/list', {}, { headers: as }));
    clean(await ask(url, { headers: { accept: BOTH, ...as }, body: initializeBody('2025-11-25') }));
    clean(await ask(url, { method: 'GET', headers: as }));
  });

  it('S25: unknown resources, prompts and completions', async () => {
    for (const [method, params] of [
      ['resources/read', { uri: 'file:///etc/passwd' }],
      ['resources/read', { uri: 'x'.repeat(3_000) }],
      ['prompts/get', { name: 'gone__x' }],
      ['completion/complete', { ref: { type: 'ref/prompt', name: 'gone__x' }, argument: { name: 'a', value: 'b' } }],
      ['tools/call', { name: '../../etc/passwd' }],
    ] as const) {
      const reply = await modern(world.mcp, method, params, { headers: as });
      expect(reply.json).toHaveProperty('error');
      clean({ ...reply, body: reply.body.replaceAll('/etc/passwd', '') });
      for (const version of LEGACY.slice(1)) {
        const session = await Session.open(world.mcp, version, as);
        clean({ body: (await session.request(method, params)).body.replaceAll('/etc/passwd', '') });
      }
    }
  });

  it('S25: every refusal before dispatch', async () => {
    const headers = { accept: BOTH, ...as };
    for (const reply of [
      await ask(world.mcp, { headers, body: '{' }),
      await ask(world.mcp, { headers, body: '[]' }),
      await ask(world.mcp, { headers, body: '{"jsonrpc":"2.0","id":{},"method":1}' }),
      await ask(world.mcp, {
        headers: { ...headers, 'mcp-session-id': 'x' },
        body: { jsonrpc: '2.0', id: 1, method: 'ping' },
      }),
      await ask(world.mcp, { headers: { ...headers, 'content-type': 'text/plain' }, body: 'x' }),
      await ask(world.mcp, { method: 'PUT', headers }),
      await ask(`${world.url}/nothing`, { method: 'GET', headers }),
      await ask(world.mcp, { method: 'GET', headers: { accept: 'image/png', ...as } }),
      await ask(world.mcp, { headers: { authorization: 'Bearer x' }, body: '{}' }),
      await ask(world.mcp, {
        headers: { ...modernHeaders('tools/list'), ...as, 'mcp-method': 'x' },
        body: modernBody('tools/list'),
      }),
      await ask(`${world.url}/health`, { method: 'GET' }),
      await ask(`${world.url}/_health/ready`, { method: 'GET' }),
    ])
      clean(reply);
    clean({ body: (await exchange(world.url, 'NONSENSE\r\n\r\n')).text });
  });

  it('S25: errors on the stream of HTTP+SSE', async () => {
    const client = await SseClient.connect(`${world.url}/sse`, as);
    await client.initialize('2024-11-05');
    for (const [n, name] of ['gone__x', 'program__x', 'modern__e500', 'nobody__x'].entries())
      clean({ body: JSON.stringify(await client.request('tools/call', { name }, `s${n}`)) });
    client.close();
  });

  it('S24: neither tokens nor credentials are in the log', () => {
    expect(world.gateway.log()).not.toContain(TOKEN);
    expect(world.gateway.log()).not.toContain(SECRET);
  });
});
