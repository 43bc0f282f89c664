/** Lists come from the catalog: upstreams are queried once, and again when their lists may have changed. */
import { afterEach, describe, expect, test } from 'vitest';
import { sleep } from '../../src/core/timing.js';
import { eventually } from '../era-bridge/support/wire.js';
import { connectClient, type Endpoint, type EraClient, type Json, type Revision } from '../eras/peers.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { type CountedOptions, CountedServer } from './counted-server.js';

const COUNT = 20;
const CLIENTS: readonly Revision[] = ['2025-11-25', '2026-07-28'];
const KINDS: readonly [string, CountedOptions][] = [
  ['legacy servers that announce changes', { era: 'legacy', announces: true }],
  ['legacy servers that announce no changes', { era: 'legacy' }],
  ['modern servers that announce changes', { era: 'modern', announces: true }],
  ['modern servers that give a lifetime', { era: 'modern', ttlMs: 600_000 }],
];

let servers: CountedServer[] = [];
let gateway: RunningGateway | undefined;
let clients: EraClient[] = [];

afterEach(async () => {
  for (const client of clients) await client.close();
  clients = [];
  await gateway?.close();
  gateway = undefined;
  for (const server of servers) await server.close();
  servers = [];
});

async function start(options: CountedOptions, count: number, config: object = {}): Promise<void> {
  servers = await Promise.all(Array.from({ length: count }, () => CountedServer.start(options)));
  gateway = await startGateway({
    log: { level: 'warn' },
    ...config,
    servers: Object.fromEntries(servers.map(({ url }, index) => [`s${index}`, { url }])),
  });
}

async function connect(revision: Revision, capabilities: Json = {}): Promise<EraClient> {
  const endpoint: Endpoint = { transport: 'http', url: `${gateway!.url}/mcp`, config: '' };
  const client = await connectClient(revision, endpoint, { capabilities });
  clients.push(client);
  return client;
}

const lists = (): number => servers.reduce((sum, server) => sum + server.lists, 0);

/** All pages of a list. */
async function toolsOf(client: EraClient): Promise<string[]> {
  const names: string[] = [];
  let cursor: unknown;
  do {
    const page = await client.request('tools/list', cursor === undefined ? {} : { cursor });
    names.push(...(page['tools'] as { name: string }[]).map(({ name }) => name));
    cursor = page['nextCursor'];
  } while (cursor !== undefined);
  return names;
}

describe.each(KINDS)('%s', (_, options) => {
  test(`a list over ${COUNT} of them queries each server once, for all pages and clients`, async () => {
    await start(options, COUNT, { limits: { pageSize: 7 } });
    for (const revision of CLIENTS) {
      const client = await connect(revision);
      await eventually(
        () => toolsOf(client),
        (names) => names.length === 2 * COUNT,
        60_000,
      );
      expect(await toolsOf(client)).toHaveLength(2 * COUNT);
    }
    expect(lists()).toBe(COUNT);
  });

  test('100 concurrent callers cause one query', async () => {
    await start(options, 1);
    const all = await Promise.all(CLIENTS.map((revision) => connect(revision)));
    const seen = await Promise.all(Array.from({ length: 100 }, (_, i) => toolsOf(all[i % 2]!)));
    expect(new Set(seen.map((names) => names.join()))).toEqual(new Set(['s0__one,s0__two']));
    expect(lists()).toBe(1);
  });
});

describe('a list is queried again', () => {
  test.each<CountedOptions['era']>(['legacy', 'modern'])('once, after a %s server announced a change', async (era) => {
    await start({ era, announces: true }, 1);
    const [server] = servers;
    const client = await connect('2025-11-25');
    expect(await toolsOf(client)).toEqual(['s0__one', 's0__two']);
    await eventually(
      async () => server!.watched,
      (watched) => watched,
      30_000,
    );
    const before = lists();
    server!.tools = ['three'];
    server!.announce();
    await eventually(
      async () => client.notifications.some(({ method }) => method === 'notifications/tools/list_changed'),
      (told) => told,
      30_000,
    );
    const seen = await Promise.all(Array.from({ length: 20 }, () => toolsOf(client)));
    expect(new Set(seen.map((names) => names.join()))).toEqual(new Set(['s0__three']));
    expect(lists()).toBe(before + 1);
  });

  test('once, after the lifetime that its server gave', async () => {
    await start({ era: 'modern', ttlMs: 4_000 }, 1);
    const client = await connect('2026-07-28');
    const first = await client.request('tools/list');
    expect(first['ttlMs']).toBeLessThanOrEqual(4_000);
    const before = lists();
    servers[0]!.tools = ['three'];
    await sleep(4_100);
    const seen = await Promise.all(Array.from({ length: 20 }, () => toolsOf(client)));
    expect(new Set(seen.map((names) => names.join()))).toEqual(new Set(['s0__three']));
    expect(lists()).toBe(before + 1);
  });

  test.each<[string, Json]>([
    ['without capabilities', {}],
    ['with capabilities', { roots: {} }],
  ])('after the end of the session with a legacy server, and clients %s are notified', async (_, capabilities) => {
    await start({ era: 'legacy', announces: true }, 1);
    const [server] = servers;
    const client = await connect('2025-11-25', capabilities);
    expect(await toolsOf(client)).toEqual(['s0__one', 's0__two']);
    await eventually(
      async () => server!.watched,
      (watched) => watched,
      30_000,
    );
    server!.tools = ['after'];
    server!.forget();
    await eventually(
      async () => client.notifications.some(({ method }) => method === 'notifications/tools/list_changed'),
      (told) => told,
      60_000,
    );
    const names = await eventually(
      () => toolsOf(client),
      (seen) => seen.length === 1,
      60_000,
    );
    expect(names).toEqual(['s0__after']);
  });
});
