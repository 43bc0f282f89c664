/** Servers and agents are assessed before they are registered, as `assess.onRegister` says. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Runtime } from '../../src/app/runtime.js';
import { configFrom } from '../../src/config/load.js';
import { OPERATOR } from '../../src/core/audit-trail.js';
import { type Log, SILENT } from '../../src/telemetry/log.js';
import { closeHttp, listen } from '../fixtures/a2a/agent.js';
import { COLUMNS, startAgent } from '../fixtures/a2a/agents.js';

let folder: string;
const closing: (() => unknown)[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-on-register-'));
});

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  await rm(folder, { recursive: true, force: true });
});

async function start(assess: object, log: Log = SILENT, servers: object = {}): Promise<Runtime> {
  const { config } = configFrom(
    { data: join(folder, 'data'), assess, servers, egress: { allowPrivate: true }, timeouts: { drain: '1s' } },
    { env: {} },
  );
  const runtime = await Runtime.build(config, { name: 'parley', version: 'test' }, log);
  closing.push(() => runtime.close());
  return runtime;
}

/** A server that answers every request with an empty object. */
async function poorServer(): Promise<string> {
  const { server, url } = await listen((_, response) => response.end('{}'));
  closing.push(() => closeHttp(server));
  return `${url}/mcp`;
}

async function goodAgent(): Promise<string> {
  // The SDK of the agent writes errors that it sends to clients.
  vi.spyOn(console, 'error').mockReturnValue();
  const agent = await startAgent(COLUMNS.find(({ name }) => name === 'one-rpc')!);
  closing.push(() => agent.close());
  return agent.url;
}

it('refuses a server with a low score, with an error that names the score and the gaps, and stores nothing', async () => {
  const { registry } = await start({ onRegister: 'refuse', below: 80, time: '10s' });
  const url = await poorServer();
  const refused = registry.create('server', 'poor', { by: OPERATOR, settings: { url } });
  await expect(refused).rejects.toMatchObject({
    reason: 'invalid_settings',
    message: expect.stringMatching(/"poor" has the score 0, and assess\.below is 80: .*recognised/),
    data: { score: 0, below: 80 },
  });
  expect(registry.list('server')).toEqual([]);
});

it('registers an agent with a good score, and does not assess it again while its URL stays', async () => {
  const { registry } = await start({ onRegister: 'refuse', below: 60 });
  const url = await goodAgent();
  await registry.create('agent', 'echo', { by: OPERATOR, settings: { url } });
  await closing.pop()!();
  const switched = registry.patch('agent', 'echo', { by: OPERATOR, settings: { enabled: false } });
  expect((await switched).enabled).toBe(false);
  const moved = registry.patch('agent', 'echo', { by: OPERATOR, settings: { url: await poorServer() } });
  await expect(moved).rejects.toMatchObject({ reason: 'invalid_settings' });
  expect(registry.get('agent', 'echo')?.settings['url']).toBe(url);
});

it('refuses an agent below the wanted score, and names its gaps', async () => {
  const { registry } = await start({ onRegister: 'refuse', below: 95 });
  const refused = registry.create('agent', 'echo', { by: OPERATOR, settings: { url: await goodAgent() } });
  await expect(refused).rejects.toMatchObject({ message: expect.stringContaining('A2A-S-10a') });
});

it('warns about a low score and registers the server', async () => {
  const lines: object[] = [];
  const log = { ...SILENT, warn: (fields: object) => void lines.push(fields) } as Log;
  const { registry } = await start({ onRegister: 'warn', below: 80, time: '10s' }, log);
  await registry.create('server', 'poor', { by: OPERATOR, settings: { url: await poorServer() } });
  expect(registry.get('server', 'poor')).toBeDefined();
  expect(lines).toContainEqual(expect.objectContaining({ server: 'poor', score: 0, below: 80 }));
});

it('uses the API key of the settings, in its header', async () => {
  const keys = new Set<unknown>();
  const { server, url } = await listen((request, response) => {
    keys.add(request.headers['x-key'] ?? request.headers.authorization);
    response.end('{}');
  });
  closing.push(() => closeHttp(server));
  const { registry } = await start({ onRegister: 'refuse', below: 80, time: '10s' });
  const create = (name: string, auth: object): Promise<unknown> =>
    registry.create('server', name, { by: OPERATOR, settings: { url: `${url}/mcp`, auth } });
  await expect(create('one', { apiKey: 'key-one-0123456789', header: 'X-Key' })).rejects.toThrow();
  expect(keys).toContain('key-one-0123456789');
  await expect(create('two', { apiKey: 'key-two-0123456789' })).rejects.toThrow();
  expect(keys).toContain('Bearer key-two-0123456789');
});

it('assesses every replica of a server, and no HTTP API', async () => {
  const url = await poorServer();
  const servers = { pool: { url: `${url}/a` } };
  const { registry } = await start({ onRegister: 'refuse', below: 80, time: '10s' }, SILENT, servers);
  const by = OPERATOR;
  const more = registry.patch('server', 'pool', { by, settings: { replicas: [url] } });
  await expect(more).rejects.toMatchObject({ reason: 'invalid_settings' });
  await registry.create('server', 'api', { by, settings: { openapi: `${url}/openapi.json`, url } });
  const changed = registry.replace('server', 'api', { by, settings: { url } });
  await expect(changed).rejects.toMatchObject({ reason: 'invalid_settings' });
});
