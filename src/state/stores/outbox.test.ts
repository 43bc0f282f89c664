import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/engines.js';
import { wallMs } from '../clock.js';
import type { State } from '../index.js';

describe.each(ENGINES.slice(0, 2))('claims on %s', (engine) => {
  let cluster: Cluster;
  let state: State;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    state = await cluster.open();
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  const put = async (target: string, count: number): Promise<void> => {
    for (let i = 0; i < count; i++) await state.outbox.put({ lane: `${target}/${i}`, target, value: i });
  };

  test('a target with many messages does not starve another', async () => {
    await put('busy', 10);
    await put('quiet', 1);
    const claimed = await state.outbox.claim(10, { perTarget: 3 });
    expect(claimed.map(({ target }) => target).sort()).toEqual(['busy', 'busy', 'busy', 'quiet']);
    const rest = await state.outbox.claim(10, { perTarget: 10 });
    expect(rest).toHaveLength(7);
    expect(new Set([...claimed, ...rest].map(({ id }) => id)).size).toBe(11);
  });

  test('messages of an excluded target keep their position and their attempts', async () => {
    await put('a', 2);
    await put('b', 2);
    await put("it's", 1);
    expect((await state.outbox.claim(10, { except: ['a', "it's"] })).map(({ target }) => target)).toEqual(['b', 'b']);
    const others = await state.outbox.claim(10, { except: [] });
    expect(others.map(({ target, attempt }) => [target, attempt])).toEqual([
      ['a', 1],
      ['a', 1],
      ["it's", 1],
    ]);
  });

  test('a released claim does not count as an attempt, and only its holder can release it', async () => {
    await put('a', 1);
    const now = wallMs();
    const [mine] = await state.outbox.claim(1, { now });
    expect(await state.outbox.release({ ...mine!, claim: 'other' }, now)).toBe(false);
    expect(await state.outbox.claim(1, { now })).toEqual([]);
    expect(await state.outbox.release(mine!, now + 500)).toBe(true);
    expect(await state.outbox.claim(1, { now: now + 499 })).toEqual([]);
    expect(await state.outbox.claim(1, { now: now + 500 })).toMatchObject([{ id: mine!.id, attempt: 1 }]);
    expect(await state.outbox.release(mine!, now)).toBe(false);
  });

  test('a dead letter is found by its id', async () => {
    await put('a', 2);
    const [first] = await state.outbox.claim(2);
    await state.outbox.giveUp(first!.id, 'gone');
    expect(await state.outbox.dead({ id: first!.id })).toMatchObject([{ id: first!.id, error: 'gone' }]);
    expect(await state.outbox.dead({ id: 'no' })).toEqual([]);
  });
});
