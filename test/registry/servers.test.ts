/** Servers are added, changed and removed while the gateway runs, on every replica and beyond a restart. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Runtime } from '../../src/app/runtime.js';
import { configFrom } from '../../src/config/load.js';
import { ALL_SERVERS } from '../../src/core/gateway.js';
import { startFixture } from '../conformance/fixture.js';

const INFO = { name: 'parley', version: 'test' };
const LOG = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

let folder: string;
let fixture: Awaited<ReturnType<typeof startFixture>>;
const runtimes: Runtime[] = [];

async function start(servers: Record<string, object> = {}): Promise<Runtime> {
  const { config } = configFrom({ data: join(folder, 'data'), servers, timeouts: { drain: '1s' } }, { env: {} });
  const built = await Runtime.build(config, INFO, LOG);
  runtimes.push(built);
  return built;
}

async function names(of: Runtime): Promise<string[]> {
  const { parts } = await of.catalog.parts(ALL_SERVERS, 'tools/list');
  return parts.map(({ server }) => server);
}

async function eventually<T>(read: () => Promise<T>, wanted: T): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    if (JSON.stringify(await read()) === JSON.stringify(wanted)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
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
  it('takes a server in while the gateway runs, announces it, and lets it go again', async () => {
    const gateway = await start();
    const changes: string[] = [];
    gateway.catalog.onChange((kind, server) => changes.push(`${kind} ${server}`));
    await gateway.catalog.warm();
    await gateway.servers.put('Everything', { url: fixture.url });
    await eventually(() => names(gateway), ['everything']);
    await eventually(async () => changes.includes('toolsListChanged everything'), true);
    expect(await gateway.servers.remove('everything')).toBe(true);
    expect(await names(gateway)).toEqual([]);
    expect(await gateway.servers.remove('everything')).toBe(false);
  });

  it('refuses what is wrong and leaves everything as it was', async () => {
    const gateway = await start({ everything: { url: fixture.url } });
    await expect(gateway.servers.put('everything', { url: 'ftp://x' })).rejects.toThrow(/url/);
    await expect(gateway.servers.put('everything', {})).rejects.toThrow();
    await eventually(() => names(gateway), ['everything']);
  });

  it('remembers beyond a restart, and that a configured server was removed', async () => {
    const first = await start({ configured: { url: fixture.url } });
    await first.servers.put('added', { url: fixture.url });
    await first.servers.remove('configured');
    await runtimes.splice(0)[0]!.close();
    const second = await start({ configured: { url: fixture.url } });
    await eventually(() => names(second), ['added']);
  });

  it('shows a change at the other process that shares the state', async () => {
    const a = await start();
    const b = await start();
    await a.servers.put('everything', { url: fixture.url });
    await eventually(() => names(b), ['everything']);
    await b.servers.remove('everything');
    await eventually(() => names(a), []);
  });
});
