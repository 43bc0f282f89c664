/** Leases under load: other queries delay neither the renewal of leases nor appends with their fence. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type AppendOptions, isStateError, openState, type State } from '../../src/state/index.js';
import { type PostgresService, type Service, startPostgres, startRedis } from '../support/services.js';

const LEASE_MS = 3_000;
const RENEW_MS = 500;
const LOG: AppendOptions = { maxLen: 100, maxBytes: 1024 * 1024, ttlMs: 60_000 };
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.each(['postgres', 'postgres+redis'] as const)('leases on %s', (engine) => {
  const folder = mkdtempSync(join(tmpdir(), 'parley-leases-'));
  let postgres: PostgresService;
  let redis: Service | undefined;
  let a: State;
  let b: State;

  beforeAll(async () => {
    postgres = await startPostgres();
    redis = engine === 'postgres' ? undefined : await startRedis();
    const db = await postgres.createDatabase();
    const keys = [{ id: 'k', key: randomBytes(32).toString('base64') }];
    const options = { data: folder, db, keys, sweepMs: 0, ...(redis && { bus: redis.url }) };
    [a, b] = [await openState(options), await openState(options)];
  }, 120_000);
  afterAll(async () => {
    await Promise.all([a?.close(), b?.close()]);
    await Promise.all([postgres?.stop(), redis?.stop()]);
    rmSync(folder, { recursive: true, force: true });
  });

  /**
   * Renews a lease as a replica does; returns how often another replica saw it expired, and the longest renewal time.
   */
  const held = async (key: string, during: () => Promise<unknown>): Promise<{ gone: number; worst: number }> => {
    expect(await a.bus.lease(key, 'A', LEASE_MS)).toBeTypeOf('number');
    const seen = { gone: 0, worst: 0 };
    let going = true;
    const renew = async (): Promise<void> => {
      while (going) {
        const began = performance.now();
        await a.bus.renew(key, 'A', LEASE_MS).catch(() => false);
        seen.worst = Math.max(seen.worst, performance.now() - began);
        await sleep(RENEW_MS);
      }
    };
    const look = async (): Promise<void> => {
      while (going) {
        if ((await b.bus.holder(key))?.owner !== 'A') seen.gone++;
        await sleep(100);
      }
    };
    const both = Promise.all([renew(), look()]);
    await during();
    going = false;
    await both;
    return seen;
  };

  test('P2: twenty slow queries do not make a healthy replica look dead', async () => {
    // A query that waits too long for a connection is refused.
    const slow = (): Promise<unknown> => a.db.q('SELECT pg_sleep(4)').catch(() => {});
    const { gone, worst } = await held('slow', async () => {
      for (let wave = 0; wave < 2; wave++) await Promise.all(Array.from({ length: 20 }, slow));
    });
    console.log(`${engine}: the longest renewal took ${Math.round(worst)} ms beside twenty slow queries`);
    expect(gone).toBe(0);
  }, 60_000);

  test('P2: appends with its fence do not make a healthy replica look dead', async () => {
    const fence = (await a.bus.lease('busy', 'A', LEASE_MS))!;
    const until = performance.now() + 2 * LEASE_MS;
    const write = async (_: unknown, n: number): Promise<void> => {
      while (performance.now() < until)
        await a.bus
          .append(`{busy}${n}`, 'x'.repeat(300), { ...LOG, fence: { key: 'busy', fence } })
          .catch((error: unknown) => {
            if (!isStateError(error) || !error.retryable) throw error;
          });
    };
    const { gone } = await held('busy', () => Promise.all(Array.from({ length: 50 }, write)));
    expect(gone).toBe(0);
  }, 60_000);

  test('appends with one fence run concurrently, at about the rate without a fence', async () => {
    const fence = (await a.bus.lease('many', 'A', 600_000))!;
    const rate = async (options: AppendOptions, ms: number): Promise<number> => {
      let made = 0;
      const until = performance.now() + ms;
      const write = async (_: unknown, n: number): Promise<void> => {
        for (; performance.now() < until; made++) await a.bus.append(`{many}${n}`, 'x'.repeat(300), options);
      };
      await Promise.all(Array.from({ length: 20 }, write));
      return (made * 1_000) / ms;
    };
    const fenced: AppendOptions = { ...LOG, fence: { key: 'many', fence } };
    await rate(fenced, 300);
    await rate(LOG, 300);
    // The best ratio of all rounds counts: other load spoils single rounds, while serialised appends would spoil every
    // one.
    const ratios: number[] = [];
    for (let round = 0; round < 6; round++) ratios.push((await rate(fenced, 500)) / (await rate(LOG, 500)));
    expect(Math.max(...ratios)).toBeGreaterThan(0.6);
  }, 60_000);

  test('a lease is not taken over during an append with its fence', async () => {
    for (let round = 0; round < 10; round++) {
      const [key, stream] = [`over${round}`, `{over${round}}`];
      const fence = (await a.bus.lease(key, 'A', 100))!;
      const options = { ...LOG, fence: { key, fence } };
      let going = true;
      const writing = Promise.all(
        Array.from({ length: 8 }, async (_, n) => {
          while (going) {
            const id = await a.bus.append(`${stream}-${n}`, 'more', options).catch(() => undefined);
            if (id === undefined) return;
          }
        }),
      );
      let next: number | undefined;
      while (next === undefined) next = await b.bus.lease(key, 'B', 5_000);
      // All acknowledged events are present now, and none is added later.
      const tails = await Promise.all(Array.from({ length: 8 }, (_, n) => b.bus.tail(`${stream}-${n}`)));
      await sleep(50);
      going = false;
      await writing;
      expect(await Promise.all(Array.from({ length: 8 }, (_, n) => b.bus.tail(`${stream}-${n}`)))).toEqual(tails);
    }
  }, 60_000);
});
