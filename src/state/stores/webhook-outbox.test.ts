import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { agentRecords } from '../../app/a2a-records.js';
import { wallMs } from '../clock.js';
import type { State } from '../index.js';
import { type Dropped, Outbox } from './webhook-outbox.js';

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

  describe('notifications of a caller whose webhook is dead', () => {
    const told: [string, Dropped][] = [];
    const recordsWith = (mostOfOwner: { count: number; bytes: number }) =>
      agentRecords(
        { ...state, outbox: new Outbox(state.db, { mostOfOwner }) },
        { taskTtl: 60_000, shared: false, dropped: (owner, numbers) => told.push([owner, numbers]) },
      );
    /** Each change of one task has notifications to some webhooks. */
    const change = async (
      records: ReturnType<typeof recordsWith>,
      owner: string,
      seq: number,
      bodies: readonly string[],
    ): Promise<void> => {
      const notifications = bodies.map((body, i) => {
        const lane = `${owner}-${i}`;
        return { id: `${lane}.${String(seq).padStart(6, '0')}`, lane, target: 'http://dead.example', value: { body } };
      });
      const task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' as const } };
      const record = { agent: 'one', owner, id: 't', upstreamId: `up-${owner}`, contextId: 'c', task, seq };
      const whole = { ...record, dialect: '1.0' as const, createdAt: 1, updatedAt: 1 };
      const saved = { record: whole as never, after: seq - 1, events: [], notifications, followedUntil: null };
      expect(await records.save(saved)).toBe(true);
    };
    const kept = async (owner: string): Promise<string[]> => {
      const sql = 'SELECT id FROM outbox WHERE owner = $1 ORDER BY created_at, id';
      return (await state.db.q<{ id: string }>(sql, [owner])).map(({ id }) => id);
    };
    beforeEach(() => {
      told.length = 0;
    });

    test('are bounded in number: the oldest go, and the log can say so', async () => {
      const records = recordsWith({ count: 40, bytes: 1e9 });
      await change(records, 'other', 1, ['x']);
      for (let seq = 1; seq <= 100; seq++) await change(records, 'ada', seq, ['x', 'x']);
      const left = await kept('ada');
      expect(left.length).toBeLessThanOrEqual(40);
      expect(left.length).toBeGreaterThanOrEqual(36);
      // Rows of the same millisecond have no order, so the numbers in the ids decide.
      const numbers = left.map((id) => Number(id.slice(-6)));
      expect(numbers.filter((number) => number === 100)).toHaveLength(2);
      expect(Math.min(...numbers)).toBeGreaterThan(80);
      expect(new Set(told.map(([owner]) => owner))).toEqual(new Set(['ada']));
      expect(told.reduce((sum, [, { waiting }]) => sum + waiting, 0)).toBe(200 - left.length);
      expect(await kept('other')).toHaveLength(1);
    });

    test('are bounded in bytes, and the newest stays even if it is larger than the bound', async () => {
      const records = recordsWith({ count: 1_000, bytes: 100_000 });
      for (let seq = 1; seq <= 100; seq++) await change(records, 'bob', seq, ['x'.repeat(9_000)]);
      expect((await kept('bob')).length).toBeLessThanOrEqual(11);
      await change(records, 'bob', 101, ['x'.repeat(200_000)]);
      expect(await kept('bob')).toEqual(['bob-0.000101']);
    });

    test('drop those first that were given up', async () => {
      const records = recordsWith({ count: 10, bytes: 1e9 });
      for (let seq = 1; seq <= 10; seq++) await change(records, 'eve', seq, ['x']);
      for (const seq of ['05', '06']) await state.outbox.giveUp(`eve-0.0000${seq}`, 'gone');
      await change(records, 'eve', 11, ['x']);
      expect(told).toEqual([['eve', { waiting: 0, dead: 2 }]]);
      expect((await kept('eve'))[0]).toBe('eve-0.000001');
    });
  });
});
