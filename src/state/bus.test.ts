import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { FaultyBus, seeded } from '../../test/support/faulty-state.js';
import { BUS_ENGINES, type Cluster, QUICK, startCluster } from '../../test/support/state-engines.js';
import { type AppendOptions, type Bus, isStateError, START, type State } from './index.js';

const LOG: AppendOptions = { maxLen: 1_000, ttlMs: 60_000 };
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function readAll(bus: Bus, stream: string, after = START): Promise<string[]> {
  const all: string[] = [];
  for (let cursor = after; ; ) {
    const events = await bus.read(stream, cursor, 100);
    if (events.length === 0) return all;
    all.push(...events.map(([, data]) => data));
    cursor = events.at(-1)![0];
  }
}

/**
 * Retries an operation that the engine may refuse temporarily, as every caller of a Bus must. The pause lets the driver
 * connect again: a driver that is not connected refuses without a turn of the event loop.
 */
async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isStateError(error) || !error.retryable) throw error;
      await sleep(1);
    }
  }
}

describe.each(BUS_ENGINES)('the Bus on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  let b: State;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    [a, b] = await Promise.all([cluster.open(), cluster.open()]);
  }, 120_000);
  afterAll(() => cluster.stop());

  test('events are read in order from any cursor, at any replica', async () => {
    const ids: string[] = [];
    for (const data of ['one', 'two', 'drei "3" \n\u2028 €']) ids.push(await a.bus.append('order', data, LOG));
    expect(new Set(ids).size).toBe(3);
    expect(await b.bus.read('order', START, 10)).toEqual([
      [ids[0], 'one'],
      [ids[1], 'two'],
      [ids[2], 'drei "3" \n\u2028 €'],
    ]);
    expect(await b.bus.read('order', ids[0]!, 1)).toEqual([[ids[1], 'two']]);
    expect(await b.bus.read('order', ids[2]!, 10)).toEqual([]);
    expect(await b.bus.tail('order')).toBe(ids[2]);
  });

  test('a missing stream is empty from the start and a gap from every other cursor', async () => {
    expect(await a.bus.read('nothing', START, 10)).toEqual([]);
    expect(await a.bus.tail('nothing')).toBe(START);
    await expect(a.bus.read('nothing', '1700000000000-4', 10)).rejects.toMatchObject({ code: 'gap' });
  });

  test('concurrent appends by two replicas have one order without gaps', async () => {
    const writes = Array.from({ length: 60 }, (_, i) => (i % 2 ? a : b).bus.append('busy', String(i), LOG));
    const ids = await Promise.all(writes);
    const events = await a.bus.read('busy', START, 100);
    expect(events.map(([id]) => Number(id.split('-')[1]))).toEqual(Array.from({ length: 60 }, (_, i) => i + 1));
    for (const [i, id] of ids.entries()) expect(events.find(([seen]) => seen === id)?.[1]).toBe(String(i));
  });

  test('a cursor before the trimmed events, or one that never existed, is reported as a gap', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 8; i++) ids.push(await a.bus.append('short', String(i), { maxLen: 3, ttlMs: 60_000 }));
    expect(await readAll(b.bus, 'short', ids[4]!)).toEqual(['5', '6', '7']);
    for (const cursor of [START, ids[0]!, ids[3]!]) {
      await expect(b.bus.read('short', cursor, 10)).rejects.toMatchObject({ code: 'gap' });
    }
    const [epoch, last] = ids[7]!.split('-').map(Number) as [number, number];
    for (const cursor of [`${epoch}-${last + 1}`, `${epoch - 1}-${last}`, 'x', '', '1-2-3', '9'.repeat(10_000)]) {
      await expect(b.bus.read('short', cursor, 10)).rejects.toMatchObject({ code: 'gap' });
    }
  });

  test('a stream is bounded in bytes, and keeps its newest event at any size', async () => {
    const options = { maxLen: 1_000, maxBytes: 1_000, ttlMs: 60_000 };
    const ids: string[] = [];
    for (let i = 0; i < 10; i++) ids.push(await a.bus.append('fat', String(i).repeat(300), options));
    expect((await b.bus.read('fat', ids[6]!, 10)).map(([id]) => id)).toEqual(ids.slice(7));
    await expect(b.bus.read('fat', ids[5]!, 10)).rejects.toMatchObject({ code: 'gap' });
    const big = await a.bus.append('fat', 'x'.repeat(5_000), options);
    expect((await b.bus.read('fat', ids[9]!, 10)).map(([id]) => id)).toEqual([big]);
    await expect(b.bus.read('fat', ids[8]!, 10)).rejects.toMatchObject({ code: 'gap' });
    const small = await a.bus.append('fat', 'y', options);
    expect((await b.bus.read('fat', big, 10)).map(([id]) => id)).toEqual([small]);
  });

  test('a stream expires, and a new stream of the same name has another epoch', async () => {
    const old = await a.bus.append('brief', 'old', { maxLen: 10, ttlMs: 60 });
    await sleep(120);
    await expect(b.bus.read('brief', old, 10)).rejects.toMatchObject({ code: 'gap' });
    const fresh = await a.bus.append('brief', 'new', LOG);
    expect(await b.bus.read('brief', START, 10)).toEqual([[fresh, 'new']]);
    await expect(b.bus.read('brief', old, 10)).rejects.toMatchObject({ code: 'gap' });
  });

  test('a dropped stream is removed', async () => {
    const id = await a.bus.append('dropped', 'x', LOG);
    await b.bus.drop('dropped');
    expect(await a.bus.read('dropped', START, 10)).toEqual([]);
    await expect(a.bus.read('dropped', id, 10)).rejects.toMatchObject({ code: 'gap' });
  });

  test('a repeated append under the same mark adds nothing', async () => {
    await a.bus.append('marked', 'one', { ...LOG, mark: 'm1' });
    const two = await a.bus.append('marked', 'two', { ...LOG, mark: 'm2' });
    expect(await b.bus.append('marked', 'two', { ...LOG, mark: 'm2' })).toBe(two);
    expect(await readAll(a.bus, 'marked')).toEqual(['one', 'two']);
  });

  test('a listener is woken by appends of both replicas, and not after it unsubscribed', async () => {
    let woken = 0;
    const off = a.bus.wake('bell', () => {
      woken += 1;
    });
    await a.bus.append('bell', 'mine', LOG);
    await expect.poll(() => woken).toBeGreaterThan(0);
    await sleep(300);
    woken = 0;
    await b.bus.append('bell', 'theirs', LOG);
    await expect.poll(() => woken, { timeout: 5_000 }).toBeGreaterThan(0);
    off();
    woken = 0;
    await b.bus.append('bell', 'late', LOG);
    await sleep(300);
    expect(woken).toBe(0);
  });

  test('S1-78: a lease has one holder, and every new holder gets a higher fence', async () => {
    const first = await a.bus.lease('job', 'A', 5_000);
    expect(first).toBeTypeOf('number');
    expect(await b.bus.lease('job', 'B', 5_000)).toBeUndefined();
    expect(await a.bus.lease('job', 'A', 5_000)).toBe(first);
    expect(await b.bus.holder('job')).toEqual({ owner: 'A', fence: first });
    expect(await b.bus.renew('job', 'B', 5_000)).toBe(false);
    expect(await b.bus.release('job', 'B')).toBe(false);
    expect(await a.bus.renew('job', 'A', 5_000)).toBe(true);
    expect(await a.bus.release('job', 'A')).toBe(true);
    expect(await a.bus.renew('job', 'A', 5_000)).toBe(false);
    expect(await b.bus.holder('job')).toBeUndefined();
    const second = await b.bus.lease('job', 'B', 5_000);
    expect(second).toBeGreaterThan(first!);
  });

  test('of many concurrent requests for a lease exactly one succeeds', async () => {
    const tries = Array.from({ length: 20 }, (_, i) => (i % 2 ? a : b).bus.lease('rush', `o${i}`, 5_000));
    expect((await Promise.all(tries)).filter((fence) => fence !== undefined)).toHaveLength(1);
  });

  test('an owner with an expired lease is refused, before and after a takeover', async () => {
    const fence = (await a.bus.lease('call', 'A', 150))!;
    const options = { ...LOG, fence: { key: 'call', fence } };
    await a.bus.append('{call}answer', 'progress', options);
    await sleep(250);
    await expect(a.bus.append('{call}answer', 'late', options)).rejects.toMatchObject({ code: 'fenced' });
    expect(await a.bus.renew('call', 'A', 150)).toBe(false);
    const next = (await b.bus.lease('call', 'B', 5_000))!;
    expect(next).toBeGreaterThan(fence);
    await b.bus.append('{call}answer', 'the end', { ...LOG, fence: { key: 'call', fence: next } });
    await expect(a.bus.append('{call}answer', 'later', options)).rejects.toMatchObject({ code: 'fenced' });
    await expect(
      a.bus.append('{no such lease}never', 'x', { ...LOG, fence: { key: 'no such lease', fence: 1 } }),
    ).rejects.toMatchObject({ code: 'fenced' });
    expect(await readAll(a.bus, '{call}answer')).toEqual(['progress', 'the end']);
    expect(await a.bus.read('{no such lease}never', START, 10)).toEqual([]);
  });

  test('an owner that returns after its lease expired gets a new fence', async () => {
    const before = (await a.bus.lease('again', 'A', 100))!;
    await sleep(200);
    expect(await a.bus.lease('again', 'A', 5_000)).toBeGreaterThan(before);
  });

  test('no event follows the terminal event of a takeover, in any interleaving of the two owners', async () => {
    for (let round = 0; round < 15; round++) {
      const [key, stream] = [`race${round}`, `race${round}`];
      const fence = (await a.bus.lease(key, 'A', 40))!;
      let running = true;
      const slow = (async () => {
        while (running) await a.bus.append(stream, 'more', { ...LOG, fence: { key, fence } }).catch(() => sleep(1));
      })();
      let next: number | undefined;
      // A busy Redis may exceed the time limit of a command; B tries again then.
      while (next === undefined) next = await b.bus.lease(key, 'B', 5_000).catch(() => undefined);
      await b.bus.append(stream, 'end', { ...LOG, fence: { key, fence: next } });
      await sleep(10);
      running = false;
      await slow;
      const events = await readAll(a.bus, stream);
      expect(events.at(-1)).toBe('end');
      expect(events.filter((data) => data === 'end')).toHaveLength(1);
    }
  });

  test.each([3_600_000, -3_600_000])(
    'a clock that jumps by %i ms neither shortens nor extends any lifetime',
    async (jump) => {
      const name = `jump${jump}`;
      const event = await a.bus.append(name, 'kept', { maxLen: 10, ttlMs: 60_000 });
      const fence = (await a.bus.lease(name, 'A', 200))!;
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + jump });
      try {
        expect(await b.bus.lease(name, 'B', 200)).toBeUndefined();
        expect(await a.bus.renew(name, 'A', 200)).toBe(true);
        await a.bus.append(name, 'more', { ...LOG, fence: { key: name, fence } });
        expect((await b.bus.read(name, event, 10)).map(([, data]) => data)).toEqual(['more']);
        await sleep(500);
        expect(await a.bus.renew(name, 'A', 200)).toBe(false);
        expect(await b.bus.lease(name, 'B', 200)).toBeGreaterThan(fence);
      } finally {
        vi.useRealTimers();
      }
    },
  );

  test('a fenced append has its lease in the same shard', async () => {
    const fence = (await a.bus.lease('shard', 'A', 5_000))!;
    await expect(a.bus.append('elsewhere', 'x', { ...LOG, fence: { key: 'shard', fence } })).rejects.toMatchObject({
      code: 'internal',
    });
  });

  test('one read returns every member of a group and the remaining time of its lease', async () => {
    for (const [bus, name] of [
      [a.bus, 'one'],
      [b.bus, 'two'],
    ] as const) {
      await bus.lease(`team:${name}`, name, 2_000);
      await bus.members('team', name, 2_000);
    }
    await a.bus.lease('teams:other', 'other', 2_000);
    const members = await a.bus.members('team', 'one', 2_000);
    expect([...members.keys()].sort()).toEqual(['one', 'two']);
    for (const left of members.values()) expect(left > 0 && left <= 2_000).toBe(true);
    await b.bus.release('team:two', 'two');
    await b.bus.members('team', 'two', 0);
    expect([...(await a.bus.members('team', 'one', 2_000)).keys()]).toEqual(['one']);
    await a.bus.lease('team:three', 'three', 100);
    await a.bus.members('team', 'three', 100);
    await sleep(200);
    expect([...(await b.bus.members('team', 'one', 2_000)).keys()]).toEqual(['one']);
  });

  test('a counter counts in a window and starts again after it', async () => {
    expect(await a.bus.incr('rate', 1, 300)).toBe(1);
    expect(await a.bus.incr('rate', 2, 300)).toBe(3);
    // SQLite counts in memory, so each process has its own counter.
    if (engine !== 'sqlite') expect(await b.bus.incr('rate', 1, 300)).toBe(4);
    await sleep(400);
    expect(await a.bus.incr('rate', 1, 300)).toBe(1);
    const all = await Promise.all(Array.from({ length: 30 }, () => a.bus.incr('many', 1, 60_000)));
    expect(Math.max(...all)).toBe(30);
  });

  test('expired streams are swept, others are not', async () => {
    await a.bus.append('swept', 'x', { maxLen: 10, ttlMs: 1 });
    await a.bus.append('kept', 'x', LOG);
    const swept = await cluster.open({ sweepMs: 20 });
    // Redis removes expired keys itself.
    if (!engine.startsWith('postgres+redis')) {
      const left = async (): Promise<unknown[]> => [
        ...(await a.db.q(`SELECT stream FROM streams WHERE stream = 'swept'`)),
        ...(await a.db.q(`SELECT stream FROM stream_events WHERE stream = 'swept'`)),
      ];
      await expect.poll(left, { timeout: 20_000 }).toEqual([]);
    }
    expect(await swept.bus.read('kept', START, 10)).toHaveLength(1);
  });

  describe.each([1, 2, 3, 4])('with random faults (seed %i)', (seed) => {
    // Half of the runs inject no faults: the same assertions hold in both cases.
    const faulty = (bus: Bus, n: number): Bus => (seed % 2 ? bus : new FaultyBus(bus, { seed: seed * 100 + n }));
    let running = true;
    afterEach(() => {
      running = false;
    });

    test('a reader sees each event of successive owners once, in order, and one terminal event', async () => {
      running = true;
      const name = `history${seed}`;
      const random = seeded(seed);
      const [busA, busB, reader] = [faulty(a.bus, 1), faulty(b.bus, 2), faulty(b.bus, 3)];
      const acked: string[] = [];

      const own = async (bus: Bus, owner: string, end: boolean): Promise<void> => {
        let fence: number | undefined;
        while (fence === undefined) fence = await retried(() => bus.lease(name, owner, 2_000));
        for (let i = 0; i < 25; i++) {
          const data = `${owner}${i}`;
          const mark = `${name}-${data}`;
          await retried(() => bus.append(name, data, { ...LOG, fence: { key: name, fence: fence! }, mark }));
          acked.push(data);
          if (random() < 0.2) await retried(() => bus.renew(name, owner, 2_000));
        }
        if (end) await retried(() => bus.append(name, 'end', { ...LOG, mark: `${name}-end` }));
        await retried(() => bus.release(name, owner));
      };
      const read = async (): Promise<string[]> => {
        const seen: string[] = [];
        let cursor = START;
        while (running && seen.at(-1) !== 'end') {
          for (const [id, data] of await retried(() => reader.read(name, cursor, 7))) {
            seen.push(data);
            cursor = id;
          }
          await sleep(1);
        }
        return seen;
      };
      const reading = read();
      await own(busA, 'a', false);
      await own(busB, 'b', true);
      expect(await reading).toEqual([...acked, 'end']);
    }, 120_000);
  });
});
