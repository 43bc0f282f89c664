/** Searches learn from the calls that follow them: stored, the same at every replica, and forgotten by command. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ALICE, BOB, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { eventually } from '../support/eventually.js';
import { BIN } from '../support/gateway.js';

const ADMIN = randomBytes(32).toString('hex');
const auth = {
  tokens: [
    { name: 'alice', token: ALICE },
    { name: 'bob', token: BOB },
    { name: 'root', token: ADMIN, admin: true },
  ],
};

let files: HttpFixture;
let engines: Replicas;
let a: Replica;
let b: Replica;

const settings = (): Record<string, unknown> => ({
  auth,
  servers: { files: { url: files.url, revision: '2025-11-25' } },
  routing: { exposure: 'search', learn: 'on' },
});

beforeAll(async () => {
  files = await new HttpFixture({ revision: '2025-11-25' }).start();
  engines = await startEngines('postgres');
  [a, b] = (await engines.start(2, settings())) as [Replica, Replica];
}, 120_000);
beforeEach(() => ask(a, 'DELETE', '/api/v1/routing/outcomes'));
afterAll(async () => {
  await engines?.stop();
  await files?.close();
});

interface Stats {
  readonly outcomes: number;
  readonly tools: readonly { readonly server: string; readonly name: string; readonly outcomes: number }[];
}

async function ask(at: Replica, method: string, path: string, body?: object, token = ADMIN): Promise<unknown> {
  const reply = await fetch(`${at.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  return reply.json();
}

const statsOf = async (at: Replica): Promise<Stats> => (await ask(at, 'GET', '/api/v1/routing/stats')) as Stats;
const learned = (at: Replica, outcomes: number): Promise<Stats> =>
  eventually(
    () => statsOf(at),
    (stats) => stats.outcomes === outcomes,
  );

/** Searches, and calls the tool by `call_tool` or by its own name. */
async function use(at: Replica, token: string, query: string, tool: string, by: 'call_tool' | 'name' = 'call_tool') {
  const client = new ModernClient(at.mcp, {}, token);
  expect(textOf(await client.call('search_tools', { query, limit: 20 }))).toContain(`"${tool}"`);
  const args = { path: '/srv/data' };
  return by === 'name' ? client.call(tool, args) : client.call('call_tool', { name: tool, arguments: args });
}

describe('two replicas over postgres', () => {
  test('a successful call after a search teaches both replicas, under either name of the call', async () => {
    expect(textOf(await use(a, ALICE, 'wipe everything', 'files__wipe'))).toContain('wiped');
    expect(textOf(await use(b, BOB, 'erase the disk with wipe', 'files__wipe', 'name'))).toContain('wiped');
    for (const replica of [a, b])
      expect((await learned(replica, 2)).tools).toEqual([{ server: 'files', name: 'wipe', outcomes: 2 }]);
    const stored = await engines.stored('routing_outcomes');
    expect(stored).not.toMatch(/alice|everything|erase the/);
  });

  test('a call without a search, of a tool that was not found, or that fails, teaches nothing', async () => {
    const client = new ModernClient(a.mcp, {}, ALICE);
    await client.call('files__wipe', { path: '/srv/data' });
    await client.call('search_tools', { query: 'wipe', limit: 1 });
    await client.call('call_tool', { name: 'files__unknown' });
    await client.call('call_tool', { name: 'files__wipe', arguments: { path: '/srv/data' } });
    expect((await learned(b, 1)).tools).toEqual([{ server: 'files', name: 'wipe', outcomes: 1 }]);
  });

  test('one replica gets within a second what the other one has learned', async () => {
    const lags: number[] = [];
    const inTime = (): number => lags.slice(-5).filter((lag) => lag < 1_000).length;
    // A busy machine gets more rounds, because single rounds may be slow. If the way between replicas is slow, most
    // rounds are.
    while (inTime() < 4 && lags.length < 25) {
      const [from, to] = lags.length % 2 === 0 ? [a, b] : [b, a];
      const word = String.fromCharCode(97 + lags.length);
      await use(from, ALICE, `wipe ${word.repeat(4)}`, 'files__wipe');
      const began = performance.now();
      await learned(to, lags.length + 1);
      lags.push(performance.now() - began);
    }
    expect(inTime(), lags.join(' ')).toBe(4);
  });

  test('learned outcomes survive a kill, and a restarted replica has them', async () => {
    await use(a, ALICE, 'wipe everything', 'files__wipe');
    await learned(b, 1);
    await a.kill();
    [a] = (await engines.start(1, settings())) as [Replica];
    expect((await statsOf(a)).outcomes).toBe(1);
    expect((await statsOf(b)).outcomes).toBe(1);
  });

  test('operators see the reasons of a ranking, and remove learned outcomes by command', async () => {
    await use(a, ALICE, 'wipe everything', 'files__wipe');
    await learned(b, 1);
    const parley = (...args: string[]) =>
      promisify(execFile)(process.execPath, [BIN, 'routing', ...args], {
        env: { ...process.env, PARLEY_TOKEN: ADMIN },
      });
    const explained = await parley('explain', 'wipe everything', '--url', b.url, '--json');
    expect(JSON.parse(explained.stdout)).toMatchObject({
      ...{ mode: 'on', tools: [{ name: 'files__wipe', plainRank: 1 }] },
      servers: [{ server: 'files', score: 1 }],
    });
    const shown = (await parley('explain', 'wipe everything', '--url', b.url)).stdout;
    expect(shown).toContain('files__wipe');
    expect(shown).toContain('\nServers: files 1.00\n');
    expect((await parley('stats', '--url', b.url)).stdout).toContain('1 of 1 callers');
    expect((await parley('forget', '--config', a.file, '--caller', 'bob')).stdout).toBe('Forgot 0 outcomes.\n');
    expect((await parley('forget', '--config', a.file, '--caller', 'alice')).stdout).toBe('Forgot 1 outcomes.\n');
    for (const replica of [a, b]) await learned(replica, 0);
    await expect(parley('forget', '--config', a.file)).rejects.toMatchObject({ code: 2 });
  });

  test('only administrators see and remove learned outcomes', async () => {
    for (const [method, path] of [
      ['GET', '/api/v1/routing/stats'],
      ['DELETE', '/api/v1/routing/outcomes'],
    ] as const)
      expect(await ask(a, method, path, undefined, ALICE)).toMatchObject({ status: 403 });
    expect(await ask(a, 'POST', '/api/v1/routing/explain', { query: 'x' }, ALICE)).toMatchObject({ status: 403 });
    expect(await ask(a, 'POST', '/api/v1/routing/explain', { query: 'x', view: 'none' })).toMatchObject({
      status: 404,
    });
  });
});
