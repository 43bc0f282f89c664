import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Cluster, QUICK, startCluster } from '../../test/support/state-engines.js';
import { channelOf, ListenedChannels, Wakeups } from './bus-listeners.js';
import type { State } from './index.js';

const LOG = { maxLen: 1_000, ttlMs: 60_000 };
const wakeups = (needed = (): void => {}): Wakeups =>
  new Wakeups({ tails: async () => new Map(), pollMs: 60_000, needed });

/** A name whose channel differs from those of the given names. */
function elsewhere(...names: string[]): string {
  const taken = new Set(names.map(channelOf));
  for (let i = 0; ; i++) if (!taken.has(channelOf(`other${i}`))) return `other${i}`;
}

test('a channel is needed while one of its names has a listener', () => {
  let needed = 0;
  const all = wakeups(() => {
    needed += 1;
  });
  const first = all.add('stream', () => {});
  const second = all.addHinted('stream', () => {});
  expect([...all.channels()]).toEqual([channelOf('stream')]);
  expect(needed).toBe(1);
  first();
  first();
  expect(all.channels().size).toBe(1);
  second();
  expect(all.channels().size).toBe(0);
});

test('the listeners of a new channel are called once the connection listens to it, because earlier hints may be lost', async () => {
  let heard = 0;
  const listened: number[][] = [];
  const left: number[][] = [];
  const all = wakeups(() => void channels.update());
  const channels = new ListenedChannels({
    wakeups: all,
    listen: async (added) => listened.push([...added]),
    unlisten: async (gone) => left.push([...gone]),
    failed: () => {},
  });
  const stop = all.add('stream', () => {
    heard += 1;
  });
  await expect.poll(() => heard).toBe(1);
  const other = elsewhere('stream');
  all.addHinted(other, () => {});
  await expect.poll(() => listened).toEqual([[channelOf('stream')], [channelOf(other)]]);
  expect(heard).toBe(1);
  stop();
  await channels.update({ trim: true });
  expect(left).toEqual([[channelOf('stream')]]);
});

describe.each(['postgres', 'postgres+redis', 'postgres+redis-cluster'] as const)('wake-ups on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  let b: State;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    [a, b] = await Promise.all([cluster.open({ pollMs: 60_000 }), cluster.open({ pollMs: 60_000 })]);
  }, 120_000);
  afterAll(() => cluster.stop());

  test('a replica is woken for the streams that it waits for, and not for others', async () => {
    const fired = vi.spyOn(Wakeups.prototype, 'fire');
    let woken = 0;
    const stop = a.bus.wake('mine', () => {
      woken += 1;
    });
    // The first call means that the connection listens to the channel now.
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(0);
    woken = 0;
    fired.mockClear();
    const other = elsewhere('mine');
    for (let i = 0; i < 20; i++) await b.bus.append(other, 'x', LOG);
    await b.bus.append('mine', 'x', LOG);
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(0);
    // The replica that appends calls the listeners of its own process directly. No other call names this stream.
    const heardOf = fired.mock.calls.filter(([name]) => name === other).length;
    expect(heardOf).toBe(engine === 'postgres' ? 20 : 0);
    stop();
    fired.mockRestore();
  });

  test('a hint reaches a listener that was added before the connection listened to its channel', async () => {
    let heard = 0;
    const stops = Array.from({ length: 50 }, (_, i) =>
      a.bus.onHint(`topic${i}`, () => {
        heard += 1;
      }),
    );
    for (let i = 0; i < 50; i++) b.bus.hint(`topic${i}`);
    await expect.poll(() => heard, { timeout: 20_000 }).toBeGreaterThanOrEqual(50);
    for (const stop of stops) stop();
  });
});
