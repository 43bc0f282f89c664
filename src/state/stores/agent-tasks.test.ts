import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { agentRecords } from '../../app/a2a-records.js';
import type { TaskRecord } from '../../core/a2a/tasks/task-records.js';
import type { TaskState } from '../../protocol/a2a/model.js';
import { newId, type State } from '../index.js';
import { type AgentTaskWrite, KEPT_EVENTS } from './agent-tasks.js';

const soon = (ms = 60_000): number => Date.now() + ms;
const KEY = { agent: 'planner', owner: 'alice', id: 't1' };

function write(more: Partial<AgentTaskWrite<unknown>['task']> = {}, rest: Partial<AgentTaskWrite<unknown>> = {}) {
  const seq = more.seq ?? 1;
  const task = {
    ...{ ...KEY, upstreamId: more.id ?? KEY.id, contextId: 'c1', state: 'W', statusAt: 1_000, value: { n: seq } },
    ...{ dialect: '1.0', createdAt: Date.now(), seq },
    ...more,
  };
  const events = [{ seq, value: { n: seq } }];
  return { task, after: seq - 1, events, messages: [], expiresAt: soon(), ...rest };
}

describe.each(ENGINES)('agent tasks on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  let b: State;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    [a, b] = await Promise.all([cluster.open(), cluster.open()]);
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  test('a task is created once, readable at every replica, and updated only from its current state', async () => {
    expect(await a.agentTasks.write(write())).toBe(true);
    expect(await b.agentTasks.write(write())).toBe(false);
    expect(await b.agentTasks.get(KEY)).toMatchObject({
      ...KEY,
      upstreamId: 't1',
      contextId: 'c1',
      seq: 1,
      value: { n: 1 },
    });
    expect(await b.agentTasks.get({ ...KEY, owner: 'bob' })).toBeUndefined();
    const both = await Promise.all([
      a.agentTasks.write(write({ seq: 2, value: 'a' })),
      b.agentTasks.write(write({ seq: 2, value: 'b' })),
    ]);
    expect(both.filter(Boolean)).toHaveLength(1);
    expect(await a.agentTasks.events(KEY, 0)).toHaveLength(2);
    expect((await a.agentTasks.get(KEY))?.value).toBe(both[0] ? 'a' : 'b');
  });

  test('beyond a limit the oldest finished tasks of an owner are removed, and no others', async () => {
    for (let i = 0; i < 9; i++)
      await a.agentTasks.write(write({ id: `t${i}`, statusAt: i, state: i % 3 === 0 ? 'W' : 'done' }));
    await a.agentTasks.write(write({ id: 'bobs', owner: 'bob', state: 'done', statusAt: 0 }));
    expect(await b.agentTasks.trim('alice', ['done', 'failed'], 9)).toBe(9);
    expect(await b.agentTasks.trim('alice', ['done', 'failed'], 5)).toBe(5);
    const ids = async (owner: string): Promise<string[]> => {
      const { tasks } = await a.agentTasks.list({ owner, agents: ['planner'], limit: 100 });
      return tasks.map(({ id }) => id).sort();
    };
    expect(await ids('alice')).toEqual(['t0', 't3', 't6', 't7', 't8']);
    expect(await a.agentTasks.events({ ...KEY, id: 't1' }, 0)).toBeUndefined();
    // Unfinished tasks stay beyond the limit.
    expect(await b.agentTasks.trim('alice', ['done', 'failed'], 1)).toBe(3);
    expect(await ids('alice')).toEqual(['t0', 't3', 't6']);
    expect(await ids('bob')).toEqual(['bobs']);
  });

  test('G-21: a task id of an agent belongs to one caller; a second caller is refused, and nothing is written', async () => {
    await a.agentTasks.write(write({ id: 'own', upstreamId: 'up' }));
    const message = { lane: 'l', target: 'r', value: 1 };
    const foreign = write({ owner: 'bob', id: 'up', upstreamId: 'up' }, { messages: [message] });
    expect(await b.agentTasks.write(foreign)).toBe(false);
    expect(await b.agentTasks.write(write({ id: 'own', upstreamId: 'other' }))).toBe(false);
    expect(await b.agentTasks.getUpstream('planner', 'up')).toMatchObject({ owner: 'alice', id: 'own' });
    expect(await b.agentTasks.write({ ...foreign, task: { ...foreign.task, agent: 'second' } })).toBe(true);
    expect(await a.agentTasks.getAll('bob', 'up')).toMatchObject([{ agent: 'second' }]);
    expect(await a.db.q('SELECT lane FROM outbox')).toHaveLength(1);
    expect(await a.agentTasks.events({ ...KEY, owner: 'bob', id: 'up' }, 0)).toBeUndefined();
  });

  test('of two concurrent creations one succeeds', async () => {
    const all = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        (i % 2 ? a : b).agentTasks.write(write({ owner: `o${i}`, upstreamId: 'up' })),
      ),
    );
    expect(all.filter(Boolean)).toHaveLength(1);
  });

  test('a message is queued in the same transaction as its change', async () => {
    const messages = (value: string) => [{ id: newId(), lane: 't1', target: 'r', value }];
    await a.agentTasks.write(write({}, { messages: messages('first') }));
    await b.agentTasks.write(write({}, { messages: messages('refused') }));
    await b.agentTasks.write(write({ seq: 2 }, { messages: messages('second') }));
    expect((await a.outbox.claim(10)).map(({ value }) => value)).toEqual(['first']);
    expect(await a.outbox.depth()).toMatchObject({ waiting: 2 });
  });

  test('G-23: the newest events are kept; a reader that is further behind gets undefined', async () => {
    const count = KEPT_EVENTS + 20;
    const events = Array.from({ length: count }, (_, i) => ({ seq: i + 1, value: i + 1 }));
    await a.agentTasks.write(write({ seq: count }, { after: 0, events }));
    expect((await b.agentTasks.events(KEY, count - 2))?.map(({ value }) => value)).toEqual([count - 1, count]);
    expect(await b.agentTasks.events(KEY, count)).toEqual([]);
    expect(await b.agentTasks.events(KEY, 20)).toHaveLength(KEPT_EVENTS);
    expect(await b.agentTasks.events(KEY, 19)).toBeUndefined();
    expect(await b.agentTasks.events({ ...KEY, id: 'x' }, 0)).toBeUndefined();
  });

  test('G-23: existing events are never reported as lost during concurrent writes', async () => {
    await a.agentTasks.write(write());
    const last = 300;
    const reads = { made: 0, lost: 0 };
    const read = async (): Promise<void> => {
      for (let seen = 0; seen < last; ) {
        const events = await b.agentTasks.events(KEY, seen);
        reads.made++;
        if (events === undefined) reads.lost++;
        else expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => seen + 1 + i));
        seen = events?.at(-1)?.seq ?? seen;
        // Some of the reads start at an older position.
        if (reads.made % 3 === 0 && seen < last) seen = Math.max(0, seen - 20);
      }
    };
    const writing = (async () => {
      for (let seq = 2; seq <= last; seq++) await a.agentTasks.write(write({ seq }));
    })();
    await Promise.all([writing, ...Array.from({ length: 6 }, read)]);
    expect(reads.made).toBeGreaterThan(last / 10);
    expect(reads.lost).toBe(0);
  });

  test('S-27: lists are filtered and counted, and paged by the time of the last state change', async () => {
    for (let n = 1; n <= 5; n++) {
      const more = {
        id: `t${n}`,
        statusAt: n < 3 ? 1 : n,
        state: n === 5 ? 'C' : 'W',
        contextId: n % 2 ? 'odd' : 'even',
      };
      await a.agentTasks.write(write(more));
    }
    await a.agentTasks.write(write({ id: 'x', owner: 'bob' }));
    await a.agentTasks.write(write({ id: 'y', agent: 'hidden' }));
    const base = { owner: 'alice', agents: ['planner', 'other'] };
    const list = async (more: object) => {
      const { tasks, total } = await b.agentTasks.list({ ...base, limit: 10, ...more });
      return { ids: tasks.map(({ id }) => id), total };
    };
    expect(await list({})).toEqual({ ids: ['t5', 't4', 't3', 't2', 't1'], total: 5 });
    expect(await list({ limit: 2, after: { at: 3, agent: 'planner', id: 't3' } })).toEqual({
      ids: ['t2', 't1'],
      total: 5,
    });
    expect(await list({ after: { at: 1, agent: 'planner', id: 't2' } })).toEqual({ ids: ['t1'], total: 5 });
    expect(await list({ state: 'C' })).toEqual({ ids: ['t5'], total: 1 });
    expect(await list({ contextId: 'even', since: 2 })).toEqual({ ids: ['t4'], total: 1 });
    expect(await list({ agents: [] })).toEqual({ ids: [], total: 0 });
    expect(await a.agentTasks.context('even')).toEqual([{ agent: 'planner', owner: 'alice' }]);
  });

  test('one replica follows a task; the tasks of a dead replica become due by themselves', async () => {
    const until = soon(1_000);
    await a.agentTasks.write(write({}, { followedUntil: until, follower: 'a' }));
    await a.agentTasks.write(write({ id: 't2' }));
    expect(await b.agentTasks.claimOne(KEY, 'b', soon())).toBe(false);
    const claims = await Promise.all([a, b].map((s, i) => s.agentTasks.claimOne({ ...KEY, id: 't2' }, `${i}`, until)));
    expect(claims.filter(Boolean)).toHaveLength(1);
    expect(await b.agentTasks.claimFollowing('b', 10, soon())).toEqual([]);
    await a.agentTasks.keepFollowing([KEY], 'a', until + 5_000);
    expect((await b.agentTasks.claimFollowing('b', 10, until + 10_000, until + 1)).map(({ id }) => id)).toEqual(['t2']);
    const due = await Promise.all([a, b].map((s) => s.agentTasks.claimFollowing('c', 10, soon(), until + 6_000)));
    expect(due.flat().map(({ id }) => id)).toEqual(['t1']);
    await a.agentTasks.letGo([KEY], 'c', null);
    expect(await a.agentTasks.keepFollowing([KEY], 'c', soon())).toEqual([]);
    expect((await a.agentTasks.get(KEY))?.followedUntil).toBeNull();
    await a.agentTasks.write(write({ seq: 2 }, { followedUntil: until }));
    await a.agentTasks.write(write({ seq: 3 }));
    expect((await a.agentTasks.get(KEY))?.followedUntil).toBe(until);
    await a.agentTasks.write(write({ seq: 4 }, { followedUntil: null }));
    expect((await a.agentTasks.get(KEY))?.followedUntil).toBeNull();
  });

  test('25: a replica that lost its claim can neither write nor renew; the holder can do both', async () => {
    await a.agentTasks.write(write({}, { followedUntil: soon(-1_000), follower: 'frozen' }));
    expect((await b.agentTasks.claimFollowing('b', 10, soon())).map(({ follower }) => follower)).toEqual(['b']);
    const late = write({ seq: 2 }, { followedUntil: soon(), follower: 'frozen', heldBy: 'frozen' });
    expect(await a.agentTasks.write(late)).toBe(false);
    expect(await a.agentTasks.keepFollowing([KEY], 'frozen', soon(99_000))).toEqual([]);
    await a.agentTasks.letGo([KEY], 'frozen', null);
    expect(await b.agentTasks.keepFollowing([KEY], 'b', soon())).toEqual([KEY]);
    expect(await b.agentTasks.write(write({ seq: 2 }, { heldBy: 'b' }))).toBe(true);
    expect(await a.agentTasks.events(KEY, 0)).toHaveLength(2);
    // A write that does not require the claim still succeeds.
    expect(await a.agentTasks.write(write({ seq: 3 }, { followedUntil: null }))).toBe(true);
    expect(await b.agentTasks.write(write({ seq: 4 }, { heldBy: 'b' }))).toBe(false);
  });

  test('any replica can take a reminder that is due; a reminder neither blocks nor disturbs a follower', async () => {
    await a.agentTasks.write(write());
    await a.agentTasks.remind(KEY, soon());
    expect(await b.agentTasks.claimFollowing('b', 10, soon())).toEqual([]);
    expect(await b.agentTasks.claimOne(KEY, 'b', soon())).toBe(true);
    await a.agentTasks.remind(KEY, 1);
    expect(await a.agentTasks.claimFollowing('a', 10, soon())).toEqual([]);
    await b.agentTasks.letGo([KEY], 'b', 1);
    expect((await a.agentTasks.claimFollowing('a', 10, soon())).map(({ id }) => id)).toEqual(['t1']);
  });

  test('S-51: disabling neither affects a configuration that changed meanwhile nor restores a deleted one', async () => {
    const put = { key: KEY, id: 'p', value: { at: 1 }, dialect: '1.0', failures: 2, disabled: false };
    await a.agentPushes.put(put);
    expect(await b.agentPushes.disable(KEY, 'p', { at: 1 }, true)).toBe(true);
    expect(await a.agentPushes.ofTask(KEY)).toMatchObject([{ disabled: true, failures: 2 }]);
    expect(await b.agentPushes.disable(KEY, 'p', { at: 1 }, false)).toBe(true);
    expect(await a.agentPushes.ofTask(KEY)).toMatchObject([{ disabled: false, failures: 0 }]);
    await a.agentPushes.put({ ...put, value: { at: 2 } });
    expect(await b.agentPushes.disable(KEY, 'p', { at: 1 }, true)).toBe(false);
    expect(await a.agentPushes.ofTask(KEY)).toMatchObject([{ disabled: false }]);
    await a.agentPushes.remove(KEY, 'p');
    expect(await b.agentPushes.disable(KEY, 'p', { at: 2 }, true)).toBe(false);
    expect(await a.agentPushes.ofTask(KEY)).toEqual([]);
  });

  test('an expired task is removed with its events and configurations, and its ids are free again', async () => {
    await a.agentTasks.write(write({}, { expiresAt: Date.now() - 1_000 }));
    await a.agentPushes.put({ key: KEY, id: 'p', value: 1, dialect: '1.0', failures: 0, disabled: false });
    expect(await b.agentTasks.get(KEY)).toBeUndefined();
    expect(await b.agentTasks.write(write({ seq: 2 }))).toBe(false);
    expect(await b.agentTasks.write(write({ owner: 'bob' }))).toBe(true);
    expect(await a.db.q('SELECT id FROM agent_pushes')).toEqual([]);
    await a.agentTasks.write(write({ id: 't2' }, { expiresAt: Date.now() - 1_000 }));
    expect(await b.agentTasks.sweep()).toBe(1);
    expect(await a.db.q('SELECT owner FROM agent_tasks')).toEqual([{ owner: 'bob' }]);
    expect(await a.db.q('SELECT owner FROM agent_events')).toEqual([{ owner: 'bob' }]);
  });

  test('push configurations are replaced by id, counted and removed', async () => {
    const put = (id: string, value: unknown) =>
      a.agentPushes.put({ key: KEY, id, value, dialect: '0.3', failures: 0, disabled: false });
    await put('one', { url: 'u1' });
    await put('two', { url: 'u2' });
    await put('one', { url: 'u3' });
    expect((await b.agentPushes.ofTask(KEY)).map(({ id, value }) => [id, value])).toEqual([
      ['one', { url: 'u3' }],
      ['two', { url: 'u2' }],
    ]);
    expect(await b.agentPushes.ofTask({ ...KEY, owner: 'bob' })).toEqual([]);
    expect(await a.agentPushes.count(KEY, 'one', false)).toBe(1);
    expect(await b.agentPushes.count(KEY, 'one', false)).toBe(2);
    expect(await b.agentPushes.count(KEY, 'one', true)).toBe(0);
    expect(await b.agentPushes.count(KEY, 'nope', false)).toBe(0);
    expect(await b.agentPushes.remove(KEY, 'one')).toBe(true);
    expect(await a.agentPushes.remove(KEY, 'one')).toBe(false);
  });

  test('records: other replicas are notified of a change, and ids that cannot be stored are not found', async () => {
    const [here, there] = [a, b].map((state) => agentRecords(state, { taskTtl: 60_000, shared: engine !== 'sqlite' }));
    const record = (seq: number, state: TaskState): TaskRecord => ({
      ...{ ...KEY, upstreamId: 'up', contextId: 'c', seq, dialect: '1.0', createdAt: 1, updatedAt: 1 },
      task: { id: 't1', status: { state, timestamp: '2026-01-01T00:00:00Z' } },
    });
    const change = (seq: number, state: TaskState) =>
      here!.save({
        record: record(seq, state),
        after: seq - 1,
        events: [{ seq, event: { task: record(seq, state).task } }],
        notifications: [],
        followedUntil: null,
      });
    expect(await change(1, 'TASK_STATE_WORKING')).toBe(true);
    let heard = 0;
    // With SQLite there is one replica, which notifies its own listeners.
    const off = (engine === 'sqlite' ? here! : there!).onChanged(KEY, () => {
      heard += 1;
    });
    expect(await change(2, 'TASK_STATE_COMPLETED')).toBe(true);
    await expect.poll(() => heard, { timeout: 8_000 }).toBeGreaterThan(0);
    off();
    expect(await there!.find(KEY)).toMatchObject({ seq: 2, upstreamId: 'up', task: { id: 't1' } });
    expect(await there!.events(KEY, 1)).toMatchObject([{ seq: 2, event: { task: { id: 't1' } } }]);
    expect(await there!.contextAgent('alice', 'c')).toBe('planner');
    expect(await there!.contextAgent('bob', 'c')).toBeUndefined();
    expect(await there!.contextOwners('planner', 'c')).toEqual(['alice']);
    for (const found of [there!.find({ ...KEY, id: 'x\0' }), there!.findUpstream('planner', '\0')])
      expect(await found).toBeUndefined();
  });
});
