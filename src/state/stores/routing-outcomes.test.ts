import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import type { State } from '../index.js';
import { type RoutingOutcome, RoutingOutcomes } from './routing-outcomes.js';

const outcome = (caller: string, query: number, server = 'files', name = 'read'): RoutingOutcome => ({
  caller,
  query,
  terms: ['read', `word${query}`],
  tool: { server, name },
});
const many = (caller: string, count: number, from = 0): RoutingOutcome[] =>
  Array.from({ length: count }, (_, number) => outcome(caller, from + number));

describe.each(ENGINES)('outcomes of searches on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  let b: State;
  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    [a, b] = await Promise.all([cluster.open(), cluster.open()]);
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  test('replica B reads an outcome that replica A added once, with its version; a repetition changes nothing', async () => {
    await a.routingOutcomes.add([{ ...outcome('ann', 4_294_967_295), text: 'read a file' }]);
    const first = await b.routingOutcomes.since(0);
    expect(first).toMatchObject({ all: true, weights: { terms: 0, votes: 0 } });
    expect(first.outcomes).toEqual([{ ...outcome('ann', 4_294_967_295), text: 'read a file' }]);
    expect(await b.routingOutcomes.since(first.version)).toMatchObject({ outcomes: [], all: false });
    await a.routingOutcomes.add([outcome('ann', 4_294_967_295), outcome('ben', 2)]);
    const second = await b.routingOutcomes.since(first.version);
    expect(second.outcomes.map(({ caller }) => caller)).toEqual(['ben']);
  });

  test('after an hour, a repetition makes an outcome the newest of its caller, so it is removed last', async () => {
    const store = new RoutingOutcomes(a.db, a.bus, { mostPerCaller: 10 });
    await store.add(many('ann', 10));
    const { version } = await b.routingOutcomes.since(0);
    await a.db.q('UPDATE routing_outcomes SET at = at - 3700000 WHERE query <= 1');
    await store.add([outcome('ann', 0), outcome('ann', 5)]);
    expect((await b.routingOutcomes.since(version)).outcomes.map(({ query }) => query)).toEqual([0]);
    await store.add(many('ann', 2, 100));
    const left = (await b.routingOutcomes.since(0)).outcomes.map(({ query }) => query);
    expect(left).toHaveLength(10);
    expect(left.slice(-3)).toEqual([0, 100, 101]);
  });

  test('the weights of a replay reach every replica', async () => {
    await a.routingOutcomes.add([outcome('ann', 1)]);
    const before = await b.routingOutcomes.since(0);
    await a.routingOutcomes.choose({ terms: 0.45, votes: 0.1 });
    const after = await b.routingOutcomes.since(before.version);
    expect(after.weights).toEqual({ terms: 0.45, votes: 0.1 });
    expect(after.replay).toBeGreaterThan(before.replay);
    expect(after.outcomes).toEqual([]);
  });

  test('a change at replica A wakes the watch of replica B', async () => {
    let calls = 0;
    const stop = b.routingOutcomes.watch(() => {
      calls += 1;
    });
    try {
      await a.routingOutcomes.add([outcome('ann', 1)]);
      await expect.poll(() => calls, { timeout: 20_000 }).toBeGreaterThan(0);
    } finally {
      stop();
    }
  });

  test('forgets the outcomes of a caller, server or tool, or all outcomes, and then sets the weights to 0', async () => {
    const { routingOutcomes } = a;
    await routingOutcomes.add([outcome('ann', 1), outcome('ben', 2), outcome('ben', 3, 'mail', 'send')]);
    await routingOutcomes.choose({ terms: 0.3, votes: 0.2 });
    expect(await routingOutcomes.forget({ caller: 'nobody' })).toBe(0);
    expect(await routingOutcomes.forget({ caller: 'ben', server: 'mail' })).toBe(1);
    expect(await routingOutcomes.forget({ tool: 'read', caller: 'ann' })).toBe(1);
    const left = await b.routingOutcomes.since(1);
    expect(left).toMatchObject({ all: true, weights: { terms: 0.3, votes: 0.2 } });
    expect(left.outcomes.map(({ query }) => query)).toEqual([2]);
    expect(await routingOutcomes.forget()).toBe(1);
    expect((await b.routingOutcomes.since(left.version)).weights).toEqual({ terms: 0, votes: 0 });
  });

  test('limits the outcomes of one caller and of all; above the total limit, the caller with the most outcomes loses some first', async () => {
    const store = new RoutingOutcomes(a.db, a.bus, { most: 100, mostPerCaller: 60 });
    await store.add(many('mallory', 80));
    expect((await store.since(0)).outcomes).toHaveLength(60);
    await store.add(many('ann', 30));
    await store.add(many('ben', 30));
    const { outcomes } = await store.since(0);
    expect(outcomes).toHaveLength(100);
    const of = (name: string): number => outcomes.filter(({ caller }) => caller === name).length;
    expect([of('ann'), of('ben'), of('mallory')]).toEqual([30, 30, 40]);
  });

  test('the sweeper removes old outcomes', async () => {
    await a.routingOutcomes.add([outcome('ann', 1), outcome('ann', 2)]);
    expect(await a.routingOutcomes.sweep()).toBe(0);
    await a.db.q('UPDATE routing_outcomes SET at = 1 WHERE query = 1');
    expect(await a.routingOutcomes.sweep()).toBe(1);
    expect((await b.routingOutcomes.since(1)).outcomes.map(({ query }) => query)).toEqual([2]);
  });
});
