/**
 * A hanging server delays no caller. Lists wait once for it and report it as missing, and clients are notified when it
 * answers.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ModernClient } from '../era-bridge/support/clients.js';
import { eventually } from '../era-bridge/support/wire.js';
import { connectClient, type Endpoint, type EraClient, type Revision } from '../eras/peers.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { CountedServer } from './counted-server.js';
import { missingIn, namesIn } from './support.js';

/** The maximum time that callers wait for a server that has not answered, in milliseconds. */
const PATIENCE = 1_000;
const ROUNDS = 5;

let good: CountedServer;
let mute: CountedServer;
let gateway: RunningGateway;
const clients: EraClient[] = [];

beforeEach(async () => {
  good = await CountedServer.start({ era: 'modern', announces: true });
  mute = await CountedServer.start({ era: 'legacy', announces: true });
  mute.hang();
  gateway = await startGateway(
    { log: { level: 'warn' }, servers: { good: { url: good.url }, mute: { url: mute.url } } },
    { settled: false },
  );
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await gateway?.close();
  await good?.close();
  await mute?.close();
});

async function connect(revision: Revision): Promise<EraClient> {
  const endpoint: Endpoint = { transport: 'http', url: `${gateway.url}/mcp`, config: '' };
  const client = await connectClient(revision, endpoint);
  clients.push(client);
  return client;
}

/** Waits until the other server is up, which may be slow on a busy machine. */
async function withoutMute(client: EraClient): Promise<void> {
  const list = await eventually(
    () => client.request('tools/list'),
    (answer) => missingIn(answer).join() === 'mute',
    60_000,
  );
  expect(namesIn(list)).toEqual(['good__one', 'good__two']);
}

describe.each<Revision>(['2025-11-25', '2026-07-28'])('a client of %s', (revision) => {
  test('is not delayed by a hanging server, and sees which server is missing', async () => {
    await withoutMute(await connect(revision));
    const began = performance.now();
    for (let round = 0; round < ROUNDS; round++) {
      const client = await connect(revision);
      const list = await client.request('tools/list');
      expect(namesIn(list)).toEqual(['good__one', 'good__two']);
      expect(missingIn(list)).toEqual(['mute']);
      const first = client.received.find(({ result }) => result?.['capabilities']);
      expect(missingIn(first?.result)).toEqual(['mute']);
    }
    // The clients would take longer if each of them waited at its handshake and at its list.
    expect(performance.now() - began).toBeLessThan(2 * ROUNDS * PATIENCE);
  });

  test('is notified when the server answers', async () => {
    const client = await connect(revision);
    await client.watchLists();
    await withoutMute(client);
    mute.wake();
    await eventually(
      () => client.notifications.some(({ method }) => method === 'notifications/tools/list_changed'),
      (told) => told,
      60_000,
    );
    const list = await eventually(
      () => client.request('tools/list'),
      (answer) => missingIn(answer).length === 0,
      60_000,
    );
    expect(namesIn(list)).toEqual(['good__one', 'good__two', 'mute__one', 'mute__two']);
  });
});

test('concurrent callers share one wait of at most a second', async () => {
  const callers = Array.from({ length: 50 }, () => new ModernClient(`${gateway.url}/mcp`, {}));
  const began = performance.now();
  const lists = await Promise.all(callers.map((caller) => caller.request('tools/list')));
  const together = performance.now() - began;
  for (const { result } of lists) expect(missingIn(result)).toContain('mute');
  expect(mute.lists).toBe(0);
  expect(together).toBeLessThan(5 * PATIENCE);
});
