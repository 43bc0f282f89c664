/** Copies of finished streams on the bus are limited in bytes: the oldest ones are dropped. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Bus, openState, type State } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { Membership } from '../membership.js';
import { KeptCopies } from './kept-copies.js';
import { BusStreams } from './shared-session-streams.js';
import { KEPT } from './stream-entry.js';

let folder: string;
let state: State;
let membership: Membership;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-copies-'));
  state = await openState({ data: folder, sweepMs: 0, pollMs: 100 });
  membership = await Membership.join(state.bus, 'a', { lease: 60_000, renew: 5_000 }, () => {});
});
afterEach(async () => {
  await membership.leave();
  await state.close();
  rmSync(folder, { recursive: true, force: true });
});

const rows = async (): Promise<number> => {
  const [row] = await state.db.q<{ bytes: number | null }>('SELECT SUM(LENGTH(data)) AS bytes FROM stream_events');
  return Number(row?.bytes ?? 0);
};

test('two hundred finished streams stay within the limit, and the newest ones and those under way are kept', async () => {
  const [LIMIT, TEXT] = [100_000, 'x'.repeat(10_000)];
  const dropping: Promise<void>[] = [];
  const copies = new KeptCopies(state.bus, LIMIT);
  const counted = copies.finished.bind(copies);
  copies.finished = (name, bytes) => {
    const done = counted(name, bytes);
    dropping.push(done);
    return done;
  };
  const streams = new BusStreams(state.bus, membership, SILENT, undefined, copies);
  const prefix = streams.prefix();
  const running = streams.open('session', `${prefix}r0`, 0);
  await running.append(TEXT);
  for (let i = 1; i <= 200; i++) {
    const copy = streams.open('session', `${prefix}r${i}`, i);
    await copy.append(TEXT);
    await copy.finish();
  }
  await Promise.all(dropping);
  expect(copies.bytes).toBeLessThanOrEqual(LIMIT);
  expect(copies.bytes).toBeGreaterThan(LIMIT / 2);
  expect(await rows()).toBeLessThan(LIMIT + 2 * TEXT.length);
  expect(await streams.find('session', `${prefix}r200`, 1)).toBeDefined();
  expect(await streams.find('session', `${prefix}r0`, 1)).toBeDefined();
  expect(await running.append('more')).toBe(true);
  expect(await streams.find('session', `${prefix}r1`, 1)).toBeUndefined();
});

test('expired copies are not counted, and a bus that is away is no failure', async () => {
  let now = 0;
  const dropped: string[] = [];
  const bus = {
    drop: async (name: string) => {
      dropped.push(name);
      throw new Error('away');
    },
  } as unknown as Bus;
  const copies = new KeptCopies(bus, 100, () => now);
  await copies.finished('old', 90);
  now = KEPT.ttlMs;
  await copies.finished('one', 60);
  expect([copies.bytes, dropped]).toEqual([60, []]);
  await copies.finished('two', 60);
  expect([copies.bytes, dropped]).toEqual([60, ['one']]);
});
