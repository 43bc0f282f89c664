/**
 * A server that accepts requests and answers none is shown as down after a failed call. Answers from the
 * gateway's own catalog do not change that; only an answer of the server does.
 */
import { afterEach, describe, expect, test } from 'vitest';
import { ModernClient } from '../era-bridge/support/clients.js';
import { eventually } from '../era-bridge/support/wire.js';
import { connectClient, type Endpoint, type EraClient } from '../eras/peers.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { CountedServer } from './counted-server.js';
import { namesIn, startShown } from './support.js';

const WAIT = { timeout: 60_000, interval: 50 };
const ROUNDS = 3;

let frozen: CountedServer;
let gateway: RunningGateway;
const clients: EraClient[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await gateway?.close();
  await frozen?.close();
});

const shown = async (): Promise<unknown> => {
  const reply = await fetch(`${gateway.url}/health`);
  return ((await reply.json()) as { servers: Record<string, string> }).servers['frozen'];
};

async function connect(revision: '2025-11-25' | '2026-07-28'): Promise<EraClient> {
  const endpoint: Endpoint = { transport: 'http', url: `${gateway.url}/mcp`, config: '' };
  const client = await connectClient(revision, endpoint);
  clients.push(client);
  return client;
}

describe.each(['legacy', 'modern'] as const)('a %s server that freezes', (era) => {
  test('is down after a failed call, stays down while lists are answered, and is up when it answers', async () => {
    frozen = await CountedServer.start({ era, announces: true, ttlMs: 600_000 });
    gateway = await startGateway({
      log: { level: 'warn' },
      health: { interval: '1s' },
      timeouts: { connect: '1s', call: '1s' },
      servers: { frozen: { url: frozen.url } },
    });
    const modern = new ModernClient(`${gateway.url}/mcp`, {});
    await expect.poll(shown, WAIT).toBe('up');

    frozen.hang();
    const { error } = await modern.call('frozen__one');
    expect(error).toBeDefined();
    expect(await shown()).toBe('down');

    for (let round = 0; round < ROUNDS; round++) {
      const held = frozen.held;
      for (const revision of ['2025-11-25', '2026-07-28'] as const) {
        const client = await connect(revision);
        expect(namesIn(await client.request('tools/list'))).toEqual(['frozen__one', 'frozen__two']);
        expect(await shown()).toBe('down');
        await client.watchLists();
        expect(await shown()).toBe('down');
      }
      // A probe was sent since then, and its lack of an answer does not count as an answer.
      await eventually(
        () => Promise.resolve(frozen.held),
        (now) => now > held,
        60_000,
      );
      expect(await shown()).toBe('down');
    }

    frozen.wake();
    await expect.poll(shown, WAIT).toBe('up');
    expect((await modern.call('frozen__one')).error).toBeUndefined();
  });
});

describe.each(['legacy', 'modern'] as const)('a %s process that is stopped', (era) => {
  test('is down after a failed call, stays down while lists are answered, and is up when it answers', async () => {
    const program = await startShown(era, 'stdio');
    try {
      gateway = await startGateway({
        log: { level: 'warn' },
        timeouts: { call: '2s' },
        servers: { frozen: program.settings },
      });
      const modern = new ModernClient(`${gateway.url}/mcp`, {});
      await expect.poll(shown, WAIT).toBe('up');
      const pids = new Set(program.happened('started').map(({ pid }) => pid));
      const signal = (name: 'SIGSTOP' | 'SIGCONT'): void => {
        for (const pid of pids) {
          try {
            process.kill(pid, name);
          } catch {
            // The process that detected the version has ended.
          }
        }
      };
      const tool = 'frozen__plain';
      signal('SIGSTOP');
      try {
        expect((await modern.call(tool)).error).toBeDefined();
        expect(await shown()).toBe('down');
        for (const revision of ['2025-11-25', '2026-07-28'] as const) {
          const client = await connect(revision);
          expect(namesIn(await client.request('tools/list'))).toContain(tool);
          expect(await shown()).toBe('down');
          await client.watchLists();
          expect(await shown()).toBe('down');
        }
      } finally {
        signal('SIGCONT');
      }
      await eventually(
        () => modern.call(tool),
        ({ error }) => error === undefined,
        60_000,
      );
      expect(await shown()).toBe('up');
    } finally {
      for (const client of clients.splice(0)) await client.close();
      await gateway.close();
      await program.close();
    }
  });
});
