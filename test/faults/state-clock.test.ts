/** Case 30: the time of day of one replica jumps. Its rows, leases, claims and ids stay consistent with the others. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { newId, type State, wallMs } from '../../src/state/index.js';
import { eventually } from '../era-bridge/support/wire.js';
import { type Cluster, startCluster } from '../support/state-engines.js';
import { type Child, startChild } from './child.js';
import { Clock, HOUR } from './clock.js';
import { sleep } from './rounds.js';

const ENGINES = ['postgres', 'postgres+redis'] as const;
const JUMPS = [
  ['ahead', HOUR],
  ['back', -HOUR],
] as const;

describe.each(ENGINES)('a replica whose clock jumps, on %s', (engine) => {
  let cluster: Cluster;
  let state: State;
  let clock: Clock;
  let child: Child;
  let asked: number;

  beforeAll(async () => {
    cluster = await startCluster(engine);
    state = await cluster.open();
  }, 120_000);
  beforeEach(async () => {
    await cluster.clear();
    asked = 0;
    clock = new Clock();
    child = startChild(cluster.options, ['do'], [], clock.env);
    await child.said(/^ready$/);
  });
  afterEach(async () => {
    await child.kill();
    clock.remove();
  });
  afterAll(() => cluster.stop());

  /** Runs a call at the replica whose clock jumps. */
  const there = async <T>(path: string, ...args: unknown[]): Promise<T> => {
    child.process.stdin!.write(`${JSON.stringify([path, ...args])}\n`);
    const n = asked++;
    const answers = (): string[] => child.lines.filter((line) => line.startsWith('did '));
    await expect.poll(() => answers().length, { timeout: 10_000 }).toBeGreaterThan(n);
    return JSON.parse(answers()[n]!.slice(4)) as T;
  };
  const jumped = async (offset: number): Promise<void> => {
    clock.jump(offset);
    await sleep(200);
    expect(Math.abs((await there<number>('date')) - Date.now() - offset)).toBeLessThan(1_000);
  };

  test.each(JUMPS)('%s by an hour: nothing expires early or is swept, at any replica', async (_, offset) => {
    const row = (id: string, now: number) => ({ id, principal: 'p', value: id, expiresAt: now + 60_000 });
    await state.sessions.create(row('mine', wallMs()));
    await there('tasks.create', row('theirs before', await there<number>('wallMs')));
    await jumped(offset);
    await there('sessions.create', row('theirs', await there<number>('wallMs')));
    await there('parked.create', row('parked', await there<number>('wallMs')));
    for (const store of ['sessions', 'tasks', 'parked'] as const) {
      expect(await there(`${store}.sweep`)).toBe(0);
      expect(await state[store].sweep()).toBe(0);
    }
    expect(await there('sessions.get', 'mine')).toMatchObject({ value: 'mine' });
    expect(await there('sessions.touch', 'mine', wallMs() + 60_000)).toBe(true);
    expect(await state.sessions.get('theirs')).toMatchObject({ value: 'theirs' });
    expect(await state.tasks.get('theirs before')).toMatchObject({ value: 'theirs before' });
    expect(await there('tasks.get', 'theirs before')).toMatchObject({ value: 'theirs before' });
    expect(await state.parked.take('parked')).toMatchObject({ value: 'parked' });
    // An expired row counts as expired at both replicas.
    await state.sessions.create({ ...row('over', wallMs()), expiresAt: wallMs() - 1_000 });
    expect(await there('sessions.get', 'over')).toBeNull();
  });

  test.each(JUMPS)('%s by an hour: a lease has one holder, and expires on time', async (_, offset) => {
    const fence = await there<number>('bus.lease', 'l', 'there', 1_500);
    await jumped(offset);
    expect(await state.bus.lease('l', 'here', 1_500)).toBeUndefined();
    expect(await there('bus.renew', 'l', 'there', 1_500)).toBe(true);
    expect(await state.bus.holder('l')).toEqual({ owner: 'there', fence });
    const began = performance.now();
    await expect.poll(() => state.bus.lease('l', 'here', 30_000), { timeout: 5_000 }).toBeGreaterThan(fence);
    expect(performance.now() - began).toBeLessThan(1_500 + 1_000);
    expect(await there('bus.lease', 'l', 'there', 1_500)).toBeNull();
    expect(await there('bus.renew', 'l', 'there', 1_500)).toBe(false);
  });

  test.each(JUMPS)(
    '%s by an hour: one replica claims a webhook when it is due, and its lane keeps its order',
    async (_, offset) => {
      const message = (value: string) => ({ lane: 'task', target: 'r', value });
      await state.outbox.put(message('1'));
      await jumped(offset);
      await there('outbox.put', message('2'));
      await sleep(250);
      await state.outbox.put(message('3'));
      const ids = [newId()];
      await sleep(250);
      ids.push(await there<string>('newId'));
      await sleep(250);
      ids.push(newId());
      expect([...ids].sort()).toEqual(ids);
      const seen: string[] = [];
      for (let i = 0; i < 3; i++) {
        const [first, ...more] = await there<{ id: string; value: string; attempt: number; claim: string }[]>(
          'outbox.claim',
          10,
        );
        expect(more).toEqual([]);
        // No other worker gets a claimed message; after the death of its worker another one gets it.
        expect(await state.outbox.claim(10)).toEqual([]);
        expect(await there('outbox.claim', 10)).toEqual([]);
        seen.push(first!.value);
        await there('outbox.ack', first!.id);
      }
      expect(seen).toEqual(['1', '2', '3']);
      await there('outbox.put', message('late'));
      // The clocks of the replicas differ by a few milliseconds.
      const late = await eventually(
        async () => (await state.outbox.claim(10))[0],
        (claimed) => claimed !== undefined,
        1_000,
      );
      expect(late).toMatchObject({ value: 'late' });
      await state.outbox.fail(late!, { error: '503', retryAfterMs: 20_000 });
      expect(await there('outbox.claim', 10)).toEqual([]);
      expect(await state.outbox.claim(10)).toEqual([]);
      expect(await state.outbox.claim(10, wallMs() + 31_000)).toMatchObject([{ value: 'late', attempt: 2 }]);
    },
  );
});
