/** Agents are added, changed and removed while the gateway runs, with their tools, on every replica and beyond a restart. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configFrom } from '../../src/config/load.js';
import { House } from '../../src/house.js';
import { COLUMNS, startAgent } from '../fixtures/a2a/agents.js';

const INFO = { name: 'parley', version: 'test' };
const LOG = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const [COLUMN] = COLUMNS;

let folder: string;
let agent: Awaited<ReturnType<typeof startAgent>>;
const houses: House[] = [];

async function house(agents: Record<string, object> = {}): Promise<House> {
  const { config } = configFrom({ data: join(folder, 'data'), agents, timeouts: { drain: '1s' } }, { env: {} });
  const built = await House.build(config, INFO, LOG);
  houses.push(built);
  return built;
}

async function eventually<T>(read: () => T, wanted: T): Promise<void> {
  await expect.poll(read, { timeout: 5_000, interval: 20 }).toEqual(wanted);
}

const names = ({ agency }: House): readonly string[] => agency.directory.names();

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-agents-'));
  agent = await startAgent(COLUMN!);
});

afterEach(async () => {
  for (const built of houses.splice(0)) await built.close();
  await agent.close();
  await rm(folder, { recursive: true, force: true });
});

describe('the registry of agents', () => {
  it('takes an agent in while the gateway runs, its tools too, and lets it go again', async () => {
    const gateway = await house();
    await gateway.agency.agents.put('Planner', { url: agent.url });
    expect(names(gateway)).toEqual(['planner']);
    expect(gateway.catalog.servers).toEqual(['planner']);
    const { card } = await gateway.agency.directory.get('planner')!.facts();
    expect(card.skills.length).toBeGreaterThan(0);
    await gateway.agency.agents.put('planner', { url: agent.url, mcp: false });
    expect(gateway.catalog.servers).toEqual([]);
    expect(await gateway.agency.agents.remove('planner')).toBe(true);
    expect(names(gateway)).toEqual([]);
    expect(await gateway.agency.agents.remove('planner')).toBe(false);
  });

  it('refuses what is wrong and leaves everything as it was', async () => {
    const gateway = await house({ planner: { url: agent.url } });
    await expect(gateway.agency.agents.put('planner', { url: 'ftp://x' })).rejects.toThrow(/url/);
    await expect(gateway.agency.agents.put('push', { url: agent.url })).rejects.toThrow(/taken/);
    expect(names(gateway)).toEqual(['planner']);
  });

  it('remembers beyond a restart, and that a configured agent was removed', async () => {
    const first = await house({ configured: { url: agent.url } });
    await first.agency.agents.put('added', { url: agent.url });
    await first.agency.agents.remove('configured');
    await houses.splice(0)[0]!.close();
    const second = await house({ configured: { url: agent.url } });
    expect(names(second)).toEqual(['added']);
  });

  it('shows a change at the other process that shares the state', async () => {
    const a = await house();
    const b = await house();
    await a.agency.agents.put('planner', { url: agent.url });
    await eventually(() => names(b), ['planner']);
    await b.agency.agents.remove('planner');
    await eventually(() => names(a), []);
  });
});
