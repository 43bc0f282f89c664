/** Case 30 for agent tasks: times in their rows are compared with the clock that all replicas share. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { followEngine } from '../clock.js';
import { newId, type State, wallMs } from '../index.js';
import type { AgentTaskWrite } from './agent-tasks.js';

const HOUR = 3_600_000;
const MINUTE = 60_000;
const KEY = { agent: 'planner', owner: 'alice', id: 't1' };

function write(more: Partial<AgentTaskWrite<unknown>['task']> = {}, rest: Partial<AgentTaskWrite<unknown>> = {}) {
  const seq = more.seq ?? 1;
  const task = {
    ...{ ...KEY, upstreamId: more.id ?? KEY.id, contextId: 'c1', state: 'W', statusAt: 1_000, value: { n: seq } },
    ...{ dialect: '1.0', createdAt: wallMs(), seq },
    ...more,
  };
  return { task, after: seq - 1, events: [], messages: [], expiresAt: wallMs() + MINUTE, ...rest };
}

describe.each(ENGINES)('the wall clock of this process jumps, on %s', (engine) => {
  let cluster: Cluster;
  let state: State;
  const RealNow = Date.now;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    state = await cluster.open();
    // SQLite has no server clock, so the test sets the time that PostgreSQL would report.
    if (engine === 'sqlite') followEngine(RealNow(), 0);
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterEach(() => {
    vi.restoreAllMocks();
  });
  afterAll(() => cluster.stop());

  const jump = (offset: number): void => {
    vi.spyOn(Date, 'now').mockImplementation(() => RealNow() + offset);
  };

  describe.each([
    ['ahead', HOUR],
    ['back', -HOUR],
  ] as const)('%s by an hour', (_, offset) => {
    test('a task is found until it expires, and not afterwards', async () => {
      const { agentTasks } = state;
      await agentTasks.write(write());
      await agentTasks.write(write({ id: 'over' }, { expiresAt: wallMs() - 1 }));
      jump(offset);
      const found = async () => [
        (await agentTasks.get(KEY))?.id,
        (await agentTasks.getUpstream('planner', 't1'))?.id,
        ...(await agentTasks.getAll('alice', 't1')).map(({ id }) => id),
        ...(await agentTasks.list({ owner: 'alice', agents: ['planner'], limit: 10 })).tasks.map(({ id }) => id),
      ];
      expect(await found()).toEqual(['t1', 't1', 't1', 't1']);
      expect(await agentTasks.context('c1')).toEqual([{ agent: 'planner', owner: 'alice' }]);
      expect(await agentTasks.get({ ...KEY, id: 'over' })).toBeUndefined();
      // The task still counts as valid: another caller cannot use its id, a write succeeds, and the sweeper does not
      // remove it.
      expect(await agentTasks.write(write({ owner: 'bob' }))).toBe(false);
      expect(await agentTasks.write(write({ seq: 2 }))).toBe(true);
      expect(await agentTasks.sweep()).toBe(1);
      expect((await agentTasks.get(KEY))?.seq).toBe(2);
      expect(Math.abs((await agentTasks.get(KEY))!.updatedAt - RealNow())).toBeLessThan(MINUTE);
      // A task that was created during the jump is still valid after the clock is correct again.
      await agentTasks.write(write({ id: 'made' }));
      vi.restoreAllMocks();
      expect(await agentTasks.get({ ...KEY, id: 'made' })).toMatchObject({ id: 'made' });
      expect(await agentTasks.sweep()).toBe(0);
    });

    test('a task has one follower, and becomes due when the follower stops renewing', async () => {
      const { agentTasks } = state;
      await agentTasks.write(write({}, { followedUntil: wallMs() + 6_000, follower: 'a' }));
      await agentTasks.write(write({ id: 'due' }, { followedUntil: wallMs() - 1, follower: 'dead' }));
      await agentTasks.write(write({ id: 'later' }));
      await agentTasks.remind({ ...KEY, id: 'later' }, wallMs() + MINUTE);
      jump(offset);
      expect(await agentTasks.claimOne(KEY, 'b', wallMs() + 6_000)).toBe(false);
      expect((await agentTasks.claimFollowing('b', 10, wallMs() + 6_000)).map(({ id }) => id)).toEqual(['due']);
      vi.restoreAllMocks();
      // The replica with the wrong clock holds the claim, so no other replica can take it.
      expect(await agentTasks.claimOne({ ...KEY, id: 'due' }, 'c', wallMs() + 6_000)).toBe(false);
      expect(await agentTasks.claimFollowing('c', 10, wallMs() + 6_000)).toEqual([]);
      expect((await agentTasks.claimFollowing('c', 10, wallMs() + MINUTE, wallMs() + 6_001)).length).toBe(2);
    });

    test('a notification is due at once, and configurations keep their order', async () => {
      const { agentTasks, agentPushes, outbox } = state;
      const put = (id: string) =>
        agentPushes.put({ key: KEY, id, value: id, dialect: '1.0', failures: 0, disabled: false });
      const pause = () => new Promise((resolve) => setTimeout(resolve, 5));
      await put('z');
      await pause();
      jump(offset);
      await put('m');
      const messages = [{ id: newId(), lane: 'l', target: 'r', value: 'told' }];
      await agentTasks.write(write({}, { messages }));
      vi.restoreAllMocks();
      await pause();
      await put('a');
      expect((await agentPushes.ofTask(KEY)).map(({ id }) => id)).toEqual(['z', 'm', 'a']);
      expect((await outbox.claim(10)).map(({ value }) => value)).toEqual(['told']);
      expect(Math.abs((await outbox.depth()).oldestAt! - RealNow())).toBeLessThan(MINUTE);
      expect(await outbox.claim(10)).toEqual([]);
    });
  });
});
