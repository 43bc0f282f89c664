import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import type { State } from '../index.js';
import { ReplicaChoices } from './replica-choices.js';

describe.each(ENGINES.filter((engine) => engine !== 'postgres+redis'))('recorded choices on %s', (engine) => {
  let cluster: Cluster;
  let state: State;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    state = await cluster.open();
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  const choices = (pool: string, from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => ({ pool, value: { number: from + index } }));

  test('the latest choices of a pool are read, oldest first', async () => {
    const store = new ReplicaChoices(state.db);
    await store.add(choices('server:a', 0, 30), 60_000);
    await store.add(choices('server:b', 0, 2), 60_000);
    await store.add([], 60_000);
    expect(await store.latest('server:a', 3)).toEqual([{ number: 27 }, { number: 28 }, { number: 29 }]);
    expect(await store.pools()).toEqual([
      { pool: 'server:a', count: 30 },
      { pool: 'server:b', count: 2 },
    ]);
  });

  test('expired rows, and the oldest rows beyond the limit, are removed', async () => {
    const store = new ReplicaChoices(state.db, 20);
    await store.add(choices('server:a', 0, 5), -1);
    expect(await store.latest('server:a', 10)).toEqual([]);
    await store.add(choices('server:a', 5, 35), 60_000);
    // Five expired rows, and ten beyond the limit of twenty.
    expect(await store.sweep()).toBe(15);
    expect(await store.sweep()).toBe(0);
    expect((await store.latest('server:a', 100))[0]).toEqual({ number: 15 });
  });
});
