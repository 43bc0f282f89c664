/** There is at most one owner: an owner stops by its own clock before another replica can take over. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CutBus } from '../../../test/support/faulty-state.js';
import { ALONE } from '../../core/cluster.js';
import { openState, type State } from '../../state/index.js';
import { OwnerLease } from './owner-lease.js';

const TIMES = { lease: 2_500, renew: 300 };
const SOON = { timeout: 20_000 };
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

let folder: string;
let state: State;
const open: OwnerLease[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-ownership-'));
  state = await openState({ data: folder, sweepMs: 0 });
});
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
  await state.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Replica {
  readonly bus: CutBus;
  readonly ownership: OwnerLease;
  /** The changes of ownership, in order. */
  readonly events: string[];
}

function replica(self: string, events: string[] = []): Replica {
  const bus = new CutBus(state.bus);
  const cluster = { ...ALONE, self, alive: async () => true };
  const told = { taken: () => events.push(`${self} taken`), lost: () => events.push(`${self} lost`) };
  const ownership = new OwnerLease('process', cluster, bus, told, TIMES);
  open.push(ownership);
  return { bus, ownership, events };
}

describe.each([true, 'silent'] as const)('a bus that is cut off (%s)', (cut) => {
  test('the owner stops before another replica takes over, and returns only as the next owner', async () => {
    const events: string[] = [];
    const [a, b] = [replica('a', events), replica('b', events)];
    expect(await a.ownership.owner()).toBe('a');
    expect(await b.ownership.owner()).toBe('a');
    // Renewals extend the ownership beyond one lease.
    await sleep(2 * TIMES.lease);
    expect(a.ownership.held).toBe(true);
    a.bus.cut = cut;
    const both: boolean[] = [];
    await expect
      .poll(async () => {
        const owner = await b.ownership.owner();
        both.push(a.ownership.held && b.ownership.held);
        return owner;
      }, SOON)
      .toBe('b');
    expect(events).toEqual(['a taken', 'a lost', 'b taken']);
    expect(both).not.toContain(true);
    a.bus.cut = false;
    expect(await a.ownership.owner()).toBe('b');
    expect(a.ownership.held).toBe(false);
    await b.ownership.close();
    await expect.poll(() => a.ownership.owner(), SOON).toBe('a');
    expect(events).toEqual(['a taken', 'a lost', 'b taken', 'a taken']);
  });

  test('a short outage of the bus does not end the ownership', async () => {
    const a = replica('a');
    await a.ownership.owner();
    a.bus.cut = cut;
    await sleep(TIMES.lease / 4);
    a.bus.cut = false;
    await sleep(2 * TIMES.lease);
    expect(a.ownership.held).toBe(true);
    expect(a.events).toEqual(['a taken']);
  });
});

test('after a standstill as long as its lease, a process does not act as the owner, even before its timers run', async () => {
  const a = replica('a');
  await a.ownership.owner();
  expect(a.ownership.held).toBe(true);
  const until = performance.now() + TIMES.lease;
  while (performance.now() < until);
  expect(a.ownership.held).toBe(false);
  // No other replica owns the process, so this replica becomes the owner again, in a new term.
  expect(await a.ownership.owner()).toBe('a');
  expect(a.events).toEqual(['a taken', 'a lost', 'a taken']);
});

test('a replica does not act as the owner if the bus grants the lease too late', async () => {
  const a = replica('a');
  a.bus.cut = 'silent';
  const asked = a.ownership.owner().catch((error: Error) => error);
  await sleep(TIMES.lease);
  expect(a.ownership.held).toBe(false);
  a.bus.cut = false;
  expect(await asked).toMatchObject({ reason: 'overloaded' });
  expect(await a.ownership.owner()).toBe('a');
});
