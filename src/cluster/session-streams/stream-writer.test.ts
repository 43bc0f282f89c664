/**
 * The copy of a stream on the bus, after an outage of the bus: when its maker continues the copy, and when another
 * replica has ended it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StreamCopy } from '../../inbound/mcp/session/shared-streams.js';
import { StateError } from '../../state/errors.js';
import { type Bus, openState, type State } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { Membership } from '../membership.js';
import { BusStreams } from './shared-session-streams.js';
import { MOST_QUEUED } from './stream-writer.js';

const LEASE = { lease: 600, renew: 150 };
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

let folder: string;
let state: State;
const stops: (() => unknown)[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-writer-'));
  state = await openState({ data: folder, sweepMs: 0, pollMs: 100 });
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
  await state.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Way {
  /** No request reaches the bus, and no answer comes back. */
  cut: boolean;
  /** The next append succeeds, but its answer is lost. */
  mute: boolean;
  /** The duration of an append, in milliseconds. */
  delay?: number;
}

/** A bus whose connection to one replica can fail. */
function reached(way: Way): Bus {
  const lost = (): StateError => new StateError('unavailable', 'no answer', { outcome: 'unknown' });
  return new Proxy(state.bus, {
    get: (bus, name) => {
      const method = Reflect.get(bus, name) as (...args: unknown[]) => unknown;
      if (name === 'wake' || name === 'onHint' || name === 'hint') return method.bind(bus);
      return async (...args: unknown[]) => {
        if (way.cut) throw lost();
        if (name === 'append' && way.delay) await sleep(way.delay);
        const answer = await method.apply(bus, args);
        if (name !== 'append' || !way.mute) return answer;
        way.mute = false;
        throw lost();
      };
    },
  });
}

async function replica(name: string, way: Way = { cut: false, mute: false }): Promise<BusStreams> {
  const bus = reached(way);
  const membership = await Membership.join(bus, name, LEASE, () => {});
  stops.push(() => membership.leave());
  return new BusStreams(bus, membership, SILENT);
}

async function listen(streams: BusStreams, name: string): Promise<{ heard: string[]; over: Promise<void> }> {
  const heard: string[] = [];
  const found = await streams.find('session', name, 1);
  const over = new Promise<void>((resolve) =>
    found!.connect({ event: (_, data) => heard.push(Buffer.concat(data).toString()), end: () => resolve() }, 1),
  );
  return { heard, over };
}

test('an own append whose answer was lost does not count as an append of another replica', async () => {
  const way = { cut: false, mute: false };
  const [a, b] = [await replica('a', way), await replica('b')];
  const name = `${a.prefix()}r1`;
  let ended = 0;
  const copy: StreamCopy = a.open('session', name, 7, () => ended++);
  expect(await copy.append('one')).toBe(true);
  const { heard, over } = await listen(b, name);
  way.mute = true;
  const second = copy.append('two');
  // While the writer pauses, its lease is released, and then granted again.
  await sleep(100);
  await state.bus.release('replica:a', 'a');
  expect(await second).toBe(true);
  expect(await copy.append('three')).toBe(true);
  expect(await copy.finish()).toBe(true);
  await over;
  expect(heard).toEqual(['one', 'two', 'three']);
  expect(ended).toBe(0);
});

test('after an outage of the bus, the writer reports that another replica has ended its stream', async () => {
  const way = { cut: false, mute: false };
  const [a, b] = [await replica('a', way), await replica('b')];
  const name = `${a.prefix()}r1`;
  let ended = 0;
  const copy = a.open('session', name, 7, () => ended++);
  expect(await copy.append('one')).toBe(true);
  // A replica does not declare others dead in its first two seconds.
  await sleep(2_100);
  const { heard, over } = await listen(b, name);
  way.cut = true;
  // The replica still sends all events to its own client.
  expect(await copy.append('two')).toBe(true);
  expect(await copy.finish()).toBe(true);
  await over;
  expect(heard).toHaveLength(2);
  expect(JSON.parse(heard[1]!)).toMatchObject({ id: 7, error: { data: { outcome: 'unknown' } } });
  expect(ended).toBe(0);
  way.cut = false;
  await expect.poll(() => ended, { timeout: 10_000 }).toBe(1);
  // A client that asks now gets the events that were on the bus first.
  const again = await listen(b, name);
  await again.over;
  expect(again.heard).toEqual(heard);
});

test('P6: events that wait while the bus is away are bounded in bytes, for one stream and for all', async () => {
  const way = { cut: false, mute: false };
  const [a, b] = [await replica('a', way), await replica('b')];
  const names = Array.from({ length: 40 }, (_, i) => `${a.prefix()}r${i}`);
  const copies = names.map((name) => a.open('session', name, 7));
  await Promise.all(copies.map((copy) => copy.append('first')));
  way.cut = true;
  /** Appends 10 MB to each stream, whose client gets all events; returns the most bytes that waited. */
  const flood = async (streams: readonly StreamCopy[]): Promise<number> => {
    let most = 0;
    const client = async (copy: StreamCopy): Promise<void> => {
      for (let i = 0; i < 100; i++) {
        expect(await copy.append('x'.repeat(100_000))).toBe(true);
        most = Math.max(most, a.waitingBytes);
      }
    };
    await Promise.all(streams.map(client));
    return most;
  };
  const ofOne = await flood(copies.slice(0, 1));
  expect(ofOne).toBeGreaterThan(MOST_QUEUED / 2);
  expect(ofOne).toBeLessThanOrEqual(MOST_QUEUED);
  const ofAll = await flood(copies.slice(1));
  expect(ofAll).toBeGreaterThan(MOST_QUEUED);
  expect(ofAll).toBeLessThanOrEqual(64 * 1024 * 1024);
  way.cut = false;
  // Copies that were given up are removed, so that no reader waits for events that never come.
  await expect.poll(() => a.waitingBytes, { timeout: 20_000 }).toBe(0);
  const gone = async (name: string): Promise<boolean> =>
    b.find('session', name, 2).then(
      (found) => found === undefined,
      () => true,
    );
  await expect.poll(async () => (await Promise.all(names.map(gone))).every(Boolean), { timeout: 20_000 }).toBe(true);
}, 120_000);

test('P3: a burst larger than one append is on the bus before it is sent to the client, however long the appends take', async () => {
  const way = { cut: false, mute: false, delay: 20 };
  const [a, b] = [await replica('a', way), await replica('b')];
  const name = `${a.prefix()}r1`;
  const copy = a.open('session', name, 7);
  // Each append takes time: all of them take far longer than a client waits for one.
  const appended = Array.from({ length: 350 }, (_, i) =>
    copy.append(`event ${i}`).then(() => state.bus.tail(`{replica:a}ev:session:${name}`)),
  );
  const tails = await Promise.all(appended);
  for (const [i, tail] of tails.entries()) expect(Number(tail.split('-')[1])).toBeGreaterThanOrEqual(i + 2);
  const { heard, over } = await listen(b, name);
  expect(await copy.finish()).toBe(true);
  await over;
  expect(heard).toEqual(Array.from({ length: 350 }, (_, i) => `event ${i}`));
}, 120_000);
