/**
 * Cases 24, 25: the owner of a call dies or freezes; another takes over in time, and later writes of the old one fail.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { START, type State } from '../../src/state/index.js';
import { type Cluster, ENGINES, startCluster } from '../support/state-engines.js';
import { type Child, startChild } from './child.js';
import { sleep } from './rounds.js';

const TTL_MS = 1_000;

describe.each(ENGINES)('the owner of a call on %s', (engine) => {
  let cluster: Cluster;
  let state: State;

  beforeAll(async () => {
    cluster = await startCluster(engine);
    state = await cluster.open();
  }, 120_000);
  afterAll(() => cluster.stop());

  const readAll = async (stream: string): Promise<string[]> =>
    (await state.bus.read(stream, START, 100_000)).map(([, data]) => data);

  const takeOver = async (key: string): Promise<{ fence: number; ms: number }> => {
    const began = performance.now();
    for (;;) {
      const fence = await state.bus.lease(key, 'other', 30_000);
      if (fence !== undefined) return { fence, ms: performance.now() - began };
      await sleep(20);
    }
  };

  /**
   * A process frozen inside a SQLite transaction keeps the write lock of the file, and all other writes fail. This test
   * is about another case, so the process is thawed and frozen again until it stops outside a transaction.
   */
  const freezeOutsideTransaction = async (child: Child): Promise<void> => {
    for (;;) {
      child.process.kill('SIGSTOP');
      const free = await state.sessions.remove('probe').then(
        () => true,
        () => false,
      );
      if (free) return;
      child.process.kill('SIGCONT');
      await sleep(20);
    }
  };

  const withOwner = async (key: string, use: (child: Child, fence: number) => Promise<void>): Promise<void> => {
    const child = startChild(cluster.options, ['own', key, String(TTL_MS)]);
    try {
      const fence = Number((await child.said(/^fence/)).split(' ')[1]);
      await child.said(/^ack 20$/);
      expect(await state.bus.lease(key, 'other', TTL_MS)).toBeUndefined();
      await use(child, fence);
    } finally {
      await child.kill();
    }
  };

  test('killed: all acknowledged events are stored, and the lease is free within its duration + 1 s', async () => {
    await withOwner('killed', async (child, fence) => {
      await child.kill();
      const taken = await takeOver('killed');
      expect(taken.ms).toBeLessThan(TTL_MS + 1_000);
      expect(taken.fence).toBeGreaterThan(fence);
      await state.bus.append('killed', 'end', { maxLen: 100_000, ttlMs: 60_000, fence: { key: 'killed', ...taken } });
      const events = await readAll('killed');
      const acked = child.lines.filter((line) => line.startsWith('ack')).length;
      expect(events.length - 1).toBeGreaterThanOrEqual(acked);
      expect(events.slice(0, -1)).toEqual(events.slice(0, -1).map((_, i) => `event ${i + 1}`));
      expect(events.at(-1)).toBe('end');
    });
  }, 30_000);

  test('frozen and thawed: its late appends are refused, and nothing follows the end', async () => {
    await withOwner('frozen', async (child, fence) => {
      await freezeOutsideTransaction(child);
      const taken = await takeOver('frozen');
      expect(taken.ms).toBeLessThan(TTL_MS + 1_000);
      expect(taken.fence).toBeGreaterThan(fence);
      await state.bus.append('frozen', 'end', { maxLen: 100_000, ttlMs: 60_000, fence: { key: 'frozen', ...taken } });
      child.process.kill('SIGCONT');
      await child.said(/^fenced$/);
      await sleep(100);
      expect((await readAll('frozen')).at(-1)).toBe('end');
    });
  }, 30_000);
});
