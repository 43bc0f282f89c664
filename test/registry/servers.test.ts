/** Servers are added, changed and removed at run time, on every replica and across restarts. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Runtime } from '../../src/app/runtime.js';
import { configFrom } from '../../src/config/load.js';
import { GATEWAY } from '../../src/core/caller.js';
import { ALL_SERVERS } from '../../src/core/gateway.js';
import { sleep } from '../../src/core/timing.js';
import { SILENT } from '../../src/telemetry/log.js';
import { startFixture } from '../conformance/fixture.js';

const INFO = { name: 'parley', version: 'test' };

let folder: string;
let fixture: Awaited<ReturnType<typeof startFixture>>;
const runtimes: Runtime[] = [];

const configOf = (servers: Record<string, object>, rest: object = {}) =>
  configFrom(
    { data: join(folder, 'data'), servers, egress: { allowPrivate: true }, timeouts: { drain: '1s' }, ...rest },
    { env: {} },
  ).config;

async function start(servers: Record<string, object> = {}, rest: object = {}): Promise<Runtime> {
  const config = configOf(servers, rest);
  const built = await Runtime.build(config, INFO, SILENT);
  runtimes.push(built);
  return built;
}

async function names(of: Runtime): Promise<string[]> {
  const { parts } = await of.mcp.catalog.parts(GATEWAY, ALL_SERVERS, 'tools/list');
  return parts.map(({ server }) => server);
}

async function eventually<T>(read: () => Promise<T>, wanted: T): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    if (JSON.stringify(await read()) === JSON.stringify(wanted)) return;
    await sleep(50);
  }
  expect(await read()).toEqual(wanted);
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-registry-'));
  fixture = await startFixture('dual');
});

afterEach(async () => {
  for (const built of runtimes.splice(0)) await built.close();
  await fixture.close();
  await rm(folder, { recursive: true, force: true });
});

describe('the registry of servers', () => {
  it('S0-34: adds a server while the gateway runs, announces it, and removes it again', async () => {
    const gateway = await start();
    const changes: string[] = [];
    gateway.mcp.catalog.onChange((kind, server) => changes.push(`${kind} ${server}`));
    await gateway.mcp.catalog.warm();
    await gateway.mcp.servers.put('Everything', { url: fixture.url });
    await eventually(() => names(gateway), ['everything']);
    await eventually(async () => changes.includes('toolsListChanged everything'), true);
    expect(await gateway.mcp.servers.remove('everything')).toBe(true);
    expect(await names(gateway)).toEqual([]);
    expect(await gateway.mcp.servers.remove('everything')).toBe(false);
  });

  it('refuses invalid settings and changes nothing', async () => {
    const gateway = await start({ everything: { url: fixture.url } });
    await expect(gateway.mcp.servers.put('everything', { url: 'ftp://x' })).rejects.toThrow(/url/);
    await expect(gateway.mcp.servers.put('everything', {})).rejects.toThrow();
    await eventually(() => names(gateway), ['everything']);
  });

  it('keeps registrations across a restart, including the removal of a configured server', async () => {
    const first = await start({ configured: { url: fixture.url } });
    await first.mcp.servers.put('added', { url: fixture.url });
    await first.mcp.servers.remove('configured');
    await runtimes.splice(0)[0]!.close();
    const second = await start({ configured: { url: fixture.url } });
    await eventually(() => names(second), ['added']);
  });

  it('S0-11: shows a change at another process that shares the state', async () => {
    const a = await start();
    const b = await start();
    await a.mcp.servers.put('everything', { url: fixture.url });
    await eventually(() => names(b), ['everything']);
    await b.mcp.servers.remove('everything');
    await eventually(() => names(a), []);
  });

  it('applies the global keys of the configuration to a registered server', async () => {
    const timeouts = { connect: '7s', call: '20s', callMax: '40s', drain: '1s' };
    const gateway = await start({}, { mcp: { invocation: false }, timeouts });
    await gateway.mcp.servers.put('everything', { url: fixture.url, timeouts: { call: '10s' } });
    expect(gateway.mcp.servers.get('everything')).toMatchObject({
      invocation: false,
      timeouts: { connect: 7_000, call: 10_000, callMax: 40_000 },
    });
  });

  it('applies a reloaded configuration to servers that are already registered', async () => {
    const gateway = await start();
    await gateway.mcp.servers.put('everything', { url: fixture.url });
    expect(gateway.mcp.servers.get('everything')).toMatchObject({ invocation: true, timeouts: { call: 60_000 } });
    await gateway.reload(configOf({}, { mcp: { invocation: false }, timeouts: { call: '20s', drain: '1s' } }));
    expect(gateway.mcp.servers.get('everything')).toMatchObject({ invocation: false, timeouts: { call: 20_000 } });
  });

  it('registers a server even if PARLEY_LISTEN in the environment would be refused', async () => {
    process.env['PARLEY_LISTEN'] = '0.0.0.0:0';
    try {
      const gateway = await start(
        {},
        { auth: { tokens: [{ name: 'ada', token: 'a-token-for-ada-of-the-registry-0123' }] } },
      );
      await gateway.mcp.servers.put('everything', { url: fixture.url });
      await eventually(() => names(gateway), ['everything']);
    } finally {
      delete process.env['PARLEY_LISTEN'];
    }
  });

  it('reads no variables of the gateway: neither those that set keys nor those that a registration names', async () => {
    Object.assign(process.env, { PARLEY_SERVERS_EVERYTHING_TIMEOUTS_CALL: '1s', REGISTERED_KEY: 'secret' });
    try {
      const gateway = await start();
      const put = (headers: object) => gateway.mcp.servers.put('everything', { url: fixture.url, headers });
      for (const text of ['{REGISTERED_KEY}', '{REGISTERED_KEY:-x}', '{env:REGISTERED_KEY}', '{userHome}', '{'])
        await expect(put({ 'X-Key': `a$${text}` })).rejects.toThrow('a registration cannot read the variables');
      // In a registration, the escape of a variable is ordinary text.
      await put({ 'X-Key': '$$' + '{REGISTERED_KEY}' });
      expect(gateway.mcp.servers.get('everything')).toMatchObject({
        headers: { 'X-Key': '$' + '{REGISTERED_KEY}' },
        timeouts: { call: 60_000 },
      });
    } finally {
      delete process.env['PARLEY_SERVERS_EVERYTHING_TIMEOUTS_CALL'];
      delete process.env['REGISTERED_KEY'];
    }
  });

  it('refuses names that the running configuration cannot use', async () => {
    const gateway = await start(
      {},
      { naming: { separator: '-' }, agents: { planner: { url: 'http://127.0.0.1:9/' } } },
    );
    await expect(gateway.mcp.servers.put('my-server', { url: fixture.url })).rejects.toThrow(/separator/);
    await expect(gateway.mcp.servers.put('planner', { url: fixture.url })).rejects.toThrow(/agent/);
    await gateway.mcp.servers.put('everything', { url: fixture.url });
    await expect(gateway.a2a.agents.put('everything', { url: 'http://127.0.0.1:9/' })).rejects.toThrow(/server/);
    await gateway.a2a.agents.put('everything', { url: 'http://127.0.0.1:9/', mcp: false });
  });
});
