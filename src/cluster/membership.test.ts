/** The cost of knowing which replicas are alive, and the time until a dead replica is noticed. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ReplicaGone } from '../core/cluster.js';
import { type Bus, openState, type State } from '../state/index.js';
import { SILENT } from '../telemetry/log.js';
import { type Fence, Membership, type MembershipTimes } from './membership.js';
import { ReplicaMessages } from './replica-messages.js';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** Long enough that no lease expires on a slow machine. */
const TIMES: MembershipTimes = { lease: 6_000, renew: 200 };

let folder: string;
let state: State;
const stops: (() => unknown)[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-membership-'));
  state = await openState({ data: folder, sweepMs: 0, pollMs: 60_000 });
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
  await state.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Counts the operations of one replica on the bus, by name. */
function counted(): { bus: Bus; counts: Map<string, number> } {
  const counts = new Map<string, number>();
  const bus = new Proxy(state.bus, {
    get: (inner, name) => {
      const method = Reflect.get(inner, name) as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => {
        counts.set(String(name), (counts.get(String(name)) ?? 0) + 1);
        return method.apply(inner, args);
      };
    },
  });
  return { bus, counts };
}

interface Replica {
  readonly membership: Membership;
  readonly messages: ReplicaMessages;
  readonly counts: Map<string, number>;
}

async function replica(name: string, times = TIMES): Promise<Replica> {
  const { bus, counts } = counted();
  const membership = await Membership.join(bus, name, times, () => {});
  const messages = await ReplicaMessages.open(bus, membership, SILENT, { watchEvery: 50 });
  stops.push(
    () => membership.leave(),
    () => messages.close(),
  );
  return { membership, messages, counts };
}

test('ten replicas that wait for each other each read the member list only, and look up no single lease', async () => {
  const replicas: Replica[] = [];
  for (let i = 0; i < 10; i++) replicas.push(await replica(`r${i}`));
  for (const { messages, membership } of replicas) {
    messages.handle('wait', () => new Promise(() => {}));
    for (let i = 0; i < 10; i++) membership.whenGone(`r${i}`, () => {});
  }
  for (const { messages } of replicas)
    for (let i = 0; i < 10; i++)
      if (messages.self !== `r${i}`) messages.ask(`r${i}`, 'wait', null).catch((error: unknown) => error);
  // By then every member list names all ten replicas.
  await sleep(4 * TIMES.renew);
  for (const { counts } of replicas) counts.clear();
  const began = performance.now();
  await sleep(2_000);
  const seconds = (performance.now() - began) / 1_000;
  for (const { counts } of replicas) {
    expect(counts.get('holder') ?? 0).toBe(0);
    expect(counts.get('lease') ?? 0).toBe(0);
    // One read per two renewals, however many replicas this replica waits for.
    expect(counts.get('members')).toBeGreaterThan(0);
    expect(counts.get('members')).toBeLessThanOrEqual((seconds * 1_000) / (2 * TIMES.renew) + 1);
  }
}, 120_000);

test('a replica that leaves counts as gone at once', async () => {
  const [a, b] = [await replica('a'), await replica('b')];
  b.messages.handle('wait', () => new Promise(() => {}));
  await sleep(2_100);
  const answer = a.messages.ask('b', 'wait', null).catch((error: unknown) => error);
  await sleep(100);
  const left = performance.now();
  b.messages.close();
  await b.membership.leave();
  expect(await answer).toBeInstanceOf(ReplicaGone);
  // The wait is shorter than the lease of the replica that left.
  expect(performance.now() - left).toBeLessThan(TIMES.lease);
}, 120_000);

test('the lease of a replica that died without leaving is taken after it has expired', async () => {
  const times = { lease: 600, renew: 150 };
  const a = await replica('a', times);
  await state.bus.lease('replica:b', 'b', 1_000);
  await sleep(2_100);
  await state.bus.lease('replica:b', 'b', 1_000);
  const fence = await new Promise<Fence>((resolve) => a.membership.whenGone('b', resolve));
  expect(fence.key).toBe('replica:b');
  expect((await state.bus.holder('replica:b'))?.owner).toBe('nobody');
  expect(await a.membership.alive('b')).toBe(false);
}, 120_000);
