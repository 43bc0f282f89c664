/** Limits of failed authentications at a running gateway, and discovery without a credential. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { MODERN_METHODS, SESSION_METHODS } from '../../src/protocol/mcp/methods.js';
import { SILENT } from '../../src/telemetry/log.js';
import { BOTH, initializeBody, modernBody, modernHeaders } from '../input/support/speak.js';
import { ask, type Reply } from '../input/support/wire.js';
import { type CountedUpstream, startCountedServer } from '../pipeline/upstreams.js';

const TOKEN = 'user-0123456789-Kj8sLq2vXz7mNw4pRt6y';
const OTHER = 'user-9876543210-Zx8sLq2vXz7mNw4pRt6y';
const as = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

let folder: string;
let server: CountedUpstream;
let gateway: RunningGateway;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-attempts-'));
  server = await startCountedServer();
  const { config } = configFrom({
    listen: '127.0.0.1:0',
    data: join(folder, 'data'),
    trustedProxies: ['127.0.0.1'],
    servers: { one: { url: server.url } },
    auth: {
      tokens: [
        { name: 'ada', token: TOKEN },
        { name: 'bob', token: OTHER },
      ],
      publicDiscovery: true,
      failures: { perAddress: 5, window: '10m' },
    },
  });
  gateway = await startServe(config, { log: SILENT });
  await gateway.settled(10_000);
});
afterAll(async () => {
  await gateway?.close();
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

const rpc = (method: string, params: object, headers: Record<string, string> = {}): Promise<Reply> =>
  ask(`${gateway.url}/mcp`, {
    headers: { ...modernHeaders(method, params), ...headers },
    body: modernBody(method, params),
  });
const from = (address: string): Record<string, string> => ({ 'x-forwarded-for': address });
const call = { name: 'one__add', arguments: {} };

describe('failed authentications', () => {
  test('are limited by address; callers at other addresses, and callers that authenticated there before, are never locked out', async () => {
    expect((await rpc('tools/call', call, { ...from('192.0.2.1'), ...as(TOKEN) })).status).toBe(200);
    for (let i = 0; i < 4; i++)
      expect((await rpc('tools/call', call, { ...from('192.0.2.1'), ...as(`wrong-${i}`) })).status).toBe(401);
    await rpc('tools/call', call, { ...from('192.0.2.1'), ...as('wrong-5') });
    const refused = await rpc('tools/call', call, { ...from('192.0.2.1'), ...as('wrong-6') });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect((await rpc('tools/call', call, { ...from('192.0.2.1'), ...as(OTHER) })).status).toBe(429);
    expect((await rpc('tools/call', call, { ...from('192.0.2.1'), ...as(TOKEN) })).status).toBe(200);
    expect((await rpc('tools/call', call, { ...from('192.0.2.2'), ...as(OTHER) })).status).toBe(200);
  });

  test('a request without a credential is not an attempt', async () => {
    for (let i = 0; i < 10; i++) expect((await rpc('tools/call', call, from('192.0.2.3'))).status).toBe(401);
    expect((await rpc('tools/call', call, { ...from('192.0.2.3'), ...as(TOKEN) })).status).toBe(200);
  });
});

describe('C-14: with auth.publicDiscovery', () => {
  const OPEN = ['server/discover', 'tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'];

  test('a scanner reads the lists without a credential; every other method needs one', async () => {
    for (const method of MODERN_METHODS) {
      const reply = await rpc(method, { name: 'one__add', uri: 'counted://one', taskId: 'x' });
      expect([method, reply.status]).toEqual([method, OPEN.includes(method) ? 200 : 401]);
    }
    const before = server.contacts.filter((method) => method === 'tools/call').length;
    const refused = await rpc('tools/call', call);
    expect([refused.status, refused.headers['www-authenticate']]).toEqual([401, 'Bearer realm="parley"']);
    expect(server.contacts.filter((method) => method === 'tools/call').length).toBe(before);
  });

  test('a scanner of an older revision gets a session for the lists only', async () => {
    const headers = { accept: BOTH };
    const opened = await ask(`${gateway.url}/mcp`, { headers, body: initializeBody('2025-11-25') });
    expect(opened.status).toBe(200);
    const session = { ...headers, 'mcp-session-id': String(opened.headers['mcp-session-id']) };
    const open = ['ping', 'tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'];
    for (const method of SESSION_METHODS) {
      const params = { name: 'one__add', uri: 'counted://one', taskId: 'x' };
      const body = { jsonrpc: '2.0', id: 1, method, params };
      const reply = await ask(`${gateway.url}/mcp`, { headers: session, body });
      if (method === 'initialize') continue;
      expect([method, reply.status]).toEqual([method, open.includes(method) ? 200 : 401]);
    }
    expect(
      (await ask(`${gateway.url}/mcp`, { method: 'GET', headers: { ...session, accept: 'text/event-stream' } })).status,
    ).toBe(401);
  });

  test('a wrong credential is refused, also for the lists, and so is everything outside of MCP', async () => {
    expect((await rpc('tools/list', {}, as('wrong-0123456789'))).status).toBe(401);
    expect((await ask(`${gateway.url}/servers/one/logs`, { method: 'GET' })).status).toBe(401);
    expect((await ask(`${gateway.url}/sse`, { method: 'GET' })).status).toBe(401);
  });
});
