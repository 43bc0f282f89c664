/**
 * Case 27: Redis is down, frozen, killed, full and slow. Every command ends in time, and the bus recovers by itself.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openState, START, type State } from '../../src/state/index.js';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js';
import { freePort, type PostgresService, type Service, startPostgres, startRedis } from '../support/services.js';
import { sleep } from './rounds.js';

const LOG = { maxLen: 100_000, ttlMs: 60_000 };
const keys = [{ id: 'k', key: Buffer.alloc(32, 7).toString('base64') }];
/** The command timeout of 500 ms and a margin for a busy machine. */
const BOUND_MS = 1_500;

let postgres: PostgresService;
let redis: Service;
let proxy: FaultProxy;
let data: string;
let a: State;
let b: State;

beforeAll(async () => {
  postgres = await startPostgres();
}, 120_000);
beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), 'parley-redis-faults-'));
  redis = await startRedis();
  proxy = await startFaultProxy({ port: redis.port });
  const options = { data, db: await postgres.createDatabase(), keys, pollMs: 300 };
  a = await openState({ ...options, bus: `redis://127.0.0.1:${proxy.port}` });
  b = await openState({ ...options, bus: redis.url });
}, 60_000);
afterEach(async () => {
  await Promise.all([a.close(), b.close()]);
  await proxy.close();
  await redis.stop();
  rmSync(data, { recursive: true, force: true });
});
afterAll(() => postgres.stop());

const commands: [string, (state: State) => Promise<unknown>][] = [
  ['append', (s) => s.bus.append('s', 'x', LOG)],
  ['read', (s) => s.bus.read('s', START, 10)],
  ['tail', (s) => s.bus.tail('s')],
  ['drop', (s) => s.bus.drop('gone')],
  ['lease', (s) => s.bus.lease('l', 'o', 1_000)],
  ['renew', (s) => s.bus.renew('l', 'o', 1_000)],
  ['release', (s) => s.bus.release('l', 'o')],
  ['holder', (s) => s.bus.holder('l')],
  ['incr', (s) => s.bus.incr('c', 1, 1_000)],
  ['ping', (s) => s.bus.ping()],
];

async function allFailInTime(state: State): Promise<void> {
  const began = performance.now();
  const results = await Promise.allSettled(commands.map(([, run]) => run(state)));
  expect(performance.now() - began).toBeLessThan(BOUND_MS);
  for (const [i, result] of results.entries()) {
    const name = commands[i]![0];
    expect(result.status, name).toBe('rejected');
    if (result.status === 'rejected')
      expect(result.reason, name).toMatchObject({ code: 'unavailable', retryable: true });
  }
}

async function recovers(state: State): Promise<void> {
  await expect
    .poll(
      () =>
        state.bus.ping().then(
          () => true,
          () => false,
        ),
      { timeout: 5_000 },
    )
    .toBe(true);
  for (const [, run] of commands) await run(state);
}

test('frozen: every command ends in time, rows are still served, and the bus recovers', async () => {
  for (const [, run] of commands) await run(a);
  redis.freeze();
  await allFailInTime(a);
  await allFailInTime(b);
  expect(await a.health()).toMatchObject({ ok: false, db: { ok: true }, bus: { ok: false } });
  expect(await a.tasks.create({ id: 't', principal: 'p', value: 1 })).toBe(true);
  redis.thaw();
  await recovers(a);
  await recovers(b);
}, 30_000);

test('frozen under load: the number of waiting commands is bounded', async () => {
  redis.freeze();
  const outcomes: string[] = [];
  const load = async (): Promise<void> => {
    for (let i = 0; i < 6; i++) await a.bus.append('load', 'x'.repeat(1_000), LOG).catch((e) => outcomes.push(e.code));
  };
  await Promise.all(Array.from({ length: 300 }, load));
  expect(outcomes).toEqual(Array(1_800).fill('unavailable'));
  redis.thaw();
  await recovers(a);
}, 30_000);

test('killed and restarted: scripts are loaded again, acknowledged events exist, listeners work again', async () => {
  const first = await a.bus.append('s', 'before', LOG);
  let woken = 0;
  const off = b.bus.wake('s', () => {
    woken += 1;
  });
  await redis.kill();
  await allFailInTime(a);
  await redis.restart();
  await recovers(a);
  expect((await a.bus.read('s', START, 1))[0]).toEqual([first, 'before']);
  await recovers(b);
  woken = 0;
  await a.bus.append('s', 'after', LOG);
  await expect.poll(() => woken, { timeout: 5_000 }).toBeGreaterThan(0);
  off();
}, 30_000);

test('full: writes are refused with the reason, reads work, and the bus recovers', async () => {
  await a.bus.append('s', 'x', LOG);
  const client = new Redis(redis.url);
  await client.config('SET', 'maxmemory', '1mb');
  await expect(a.bus.append('s', 'y'.repeat(1_000), LOG)).rejects.toMatchObject({
    code: 'unavailable',
    outcome: 'not_executed',
  });
  expect(await a.bus.read('s', START, 10)).toHaveLength(1);
  await client.config('SET', 'maxmemory', '0');
  await recovers(a);
  client.disconnect();
}, 30_000);

test('slow: an answer after the timeout is an error, and the connection is reused', async () => {
  proxy.set({ latencyMs: 400 });
  await allFailInTime(a);
  proxy.set({ latencyMs: 50 });
  await recovers(a);
}, 30_000);

test('cut and black-holed: commands end in time, and missed wake-ups are repeated', async () => {
  let woken = 0;
  const off = a.bus.wake('s', () => {
    woken += 1;
  });
  await b.bus.append('s', '1', LOG);
  await expect.poll(() => woken, { timeout: 5_000 }).toBeGreaterThan(0);
  proxy.set({ blackHole: true });
  await allFailInTime(a);
  woken = 0;
  await b.bus.append('s', '2', LOG);
  await sleep(100);
  proxy.set({});
  proxy.cutAll();
  await recovers(a);
  await expect.poll(() => woken, { timeout: 5_000 }).toBeGreaterThan(0);
  off();
}, 30_000);

test('a command that was lost on the way: the connection is replaced, because its answers belong to other commands', async () => {
  await a.bus.incr('mine', 1, 60_000);
  proxy.set({ blackHole: true });
  const lost = Promise.allSettled([a.bus.incr('mine', 1, 60_000), a.bus.holder('l')]);
  await sleep(50);
  proxy.set({});
  await lost;
  // Frequent commands: the connections are never silent, and each command would get the answer of the next one.
  const values: number[] = [];
  const inOrder = (): boolean =>
    values.length >= 20 && values.slice(-20).every((n, i, all) => i === 0 || n === all[i - 1]! + 1);
  const traffic = setInterval(() => {
    void a.bus.holder('l').catch(() => {});
    void a.bus.incr('other', 1, 60_000).catch(() => {});
  }, 60);
  try {
    await expect
      .poll(async () => values.push(await a.bus.incr('mine', 1, 60_000).catch(() => -1)) && inOrder(), {
        timeout: 15_000,
        interval: 20,
      })
      .toBe(true);
  } finally {
    clearInterval(traffic);
  }
  await recovers(a);
}, 30_000);

test('down at the start: the gateway starts, and uses Redis once it is up', async () => {
  const port = await freePort();
  const state = await openState({ data, db: await postgres.createDatabase(), bus: `redis://127.0.0.1:${port}`, keys });
  await allFailInTime(state);
  const late = await startRedis({ port });
  await recovers(state);
  await state.close();
  await late.stop();
}, 30_000);
