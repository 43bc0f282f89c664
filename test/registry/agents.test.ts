/** Agents and their tools are added, changed and removed at run time, on every replica and across restarts. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Runtime } from '../../src/app/runtime.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';
import { COLUMNS, startAgent } from '../fixtures/a2a/agents.js';

const INFO = { name: 'parley', version: 'test' };
const [COLUMN] = COLUMNS;

let folder: string;
let agent: Awaited<ReturnType<typeof startAgent>>;
const runtimes: Runtime[] = [];

async function start(agents: Record<string, object> = {}): Promise<Runtime> {
  const { config } = configFrom(
    { data: join(folder, 'data'), agents, egress: { allowPrivate: true }, timeouts: { drain: '1s' } },
    { env: {} },
  );
  const built = await Runtime.build(config, INFO, SILENT);
  runtimes.push(built);
  return built;
}

async function eventually<T>(read: () => T, wanted: T): Promise<void> {
  await expect.poll(read, { timeout: 5_000, interval: 20 }).toEqual(wanted);
}

const names = ({ a2a }: Runtime): readonly string[] => a2a.directory.names();

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-agents-'));
  agent = await startAgent(COLUMN!);
});

afterEach(async () => {
  for (const built of runtimes.splice(0)) await built.close();
  await agent.close();
  await rm(folder, { recursive: true, force: true });
});

describe('the registry of agents', () => {
  it('adds an agent and its tools while the gateway runs, and removes them again', async () => {
    const gateway = await start();
    await gateway.a2a.agents.put('Planner', { url: agent.url });
    expect(names(gateway)).toEqual(['planner']);
    expect(gateway.mcp.catalog.servers).toEqual(['planner']);
    const { card } = await gateway.a2a.directory.get('planner')!.facts();
    expect(card.skills.length).toBeGreaterThan(0);
    await gateway.a2a.agents.put('planner', { url: agent.url, mcp: false });
    expect(gateway.mcp.catalog.servers).toEqual([]);
    expect(await gateway.a2a.agents.remove('planner')).toBe(true);
    expect(names(gateway)).toEqual([]);
    expect(await gateway.a2a.agents.remove('planner')).toBe(false);
  });

  it('refuses invalid settings and changes nothing', async () => {
    const gateway = await start({ planner: { url: agent.url } });
    await expect(gateway.a2a.agents.put('planner', { url: 'ftp://x' })).rejects.toThrow(/url/);
    await expect(gateway.a2a.agents.put('push', { url: agent.url })).rejects.toThrow(/taken/);
    expect(names(gateway)).toEqual(['planner']);
  });

  it('keeps registrations across a restart, including the removal of a configured agent', async () => {
    const first = await start({ configured: { url: agent.url } });
    await first.a2a.agents.put('added', { url: agent.url });
    await first.a2a.agents.remove('configured');
    await runtimes.splice(0)[0]!.close();
    const second = await start({ configured: { url: agent.url } });
    expect(names(second)).toEqual(['added']);
  });

  it('shows a change at another process that shares the state', async () => {
    const a = await start();
    const b = await start();
    await a.a2a.agents.put('planner', { url: agent.url });
    await eventually(() => names(b), ['planner']);
    await b.a2a.agents.remove('planner');
    await eventually(() => names(a), []);
  });
});
