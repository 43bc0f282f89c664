import { describe, expect, test } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import { type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import { ALONE, type Cluster } from '../cluster.js';
import { complete, type Outcome, type ParkedCall } from '../gateway.js';
import type { HostedTaskRecord, HostedTaskRecords } from './hosted-task-record.js';
import { HostedTasks, type TaskLimits } from './hosted-tasks.js';

const LIMITS: TaskLimits = { perCaller: 10, inAll: 20, bytes: 1_000, requests: { inAll: 1_500, perCaller: 1_000 } };
const never = new Promise<Outcome>(() => {});
const result = (bytes: number): Outcome => complete(RawObject.from({ text: 'x'.repeat(bytes) }));
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function hosted(limits: Partial<TaskLimits> = {}, cluster?: Cluster, kept = new Map<string, HostedTaskRecord>()) {
  let away = false;
  const records: HostedTaskRecords = {
    create: (record) => {
      kept.set(record.taskId, record);
      return Promise.resolve();
    },
    update: (record) => {
      if (away) return Promise.reject(new ProtocolError('overloaded', 'the database is unavailable'));
      kept.set(record.taskId, record);
      return Promise.resolve(true);
    },
    end: (record) => Promise.resolve(record),
    load: (id) => Promise.resolve(kept.get(id)),
    list: () => Promise.resolve([...kept.values()]),
  };
  const tasks = new HostedTasks(records, { ttl: 60_000, pollInterval: 5, limits: { ...LIMITS, ...limits } }, cluster);
  const run = (principal: string, outcome: Promise<Outcome> = never, bytes = 1) =>
    tasks.start(principal, 's', { bytes, notify: () => {} }, () => outcome);
  return { tasks, run, kept, leave: () => (away = true), comeBack: () => (away = false) };
}

describe('the number of running tasks is limited', () => {
  test('for each caller; the error says what to do, and the end of a task frees its slot', async () => {
    const { tasks, run } = hosted({ perCaller: 2 });
    const [first] = await Promise.all([run('alice'), run('alice')]);
    await expect(run('alice')).rejects.toMatchObject({
      reason: 'overloaded',
      message: 'Too many of your tasks are running; wait for some to end, or cancel them',
      detail: { outcome: 'not_executed' },
    });
    await run('bob');
    await tasks.cancel('alice', first!.taskId);
    // The call of the cancelled task has not ended: the server may still work on it.
    await expect(run('alice')).rejects.toMatchObject({ reason: 'overloaded' });
  });

  test('for all callers together', async () => {
    const { run } = hosted({ inAll: 3 });
    let end = (_: Outcome): void => {};
    const ending = new Promise<Outcome>((resolve) => {
      end = resolve;
    });
    await Promise.all([run('a'), run('b'), run('c', ending)]);
    await expect(run('d')).rejects.toMatchObject({
      reason: 'overloaded',
      message: expect.stringMatching(/^Too many tasks are running/),
    });
    end(result(1));
    await settled();
    await settled();
    await run('d');
  });
});

describe('ended tasks that are still stored', () => {
  test('are limited in number for each caller, until their lifetime is over', async () => {
    const { tasks, run } = hosted({ perCaller: 2 });
    const start = (principal: string, ttl: number) =>
      tasks.start(principal, 's', { ttl, bytes: 1, notify: () => {} }, () => Promise.resolve(result(1)));
    for (let i = 0; i < 20; i++) {
      await start('alice', 1_000);
      await settled();
      await settled();
    }
    await expect(start('alice', 1_000)).rejects.toMatchObject({
      reason: 'overloaded',
      message: 'Too many of your ended tasks are still stored; try again later, or ask for a shorter ttl',
      detail: { outcome: 'not_executed' },
    });
    await run('bob');
    await expect
      .poll(
        () =>
          start('alice', 1_000).then(
            () => true,
            () => false,
          ),
        { timeout: 10_000 },
      )
      .toBe(true);
  });
});

describe('the memory of running tasks is limited', () => {
  test('by results that wait for the database: a task whose result exceeds the limit fails with a reason', async () => {
    const { tasks, run, kept, leave, comeBack } = hosted();
    leave();
    const views = await Promise.all(Array.from({ length: 5 }, () => run('alice', Promise.resolve(result(300)))));
    await settled();
    comeBack();
    await expect.poll(() => tasks.size).toBe(0);
    const states = views.map(({ taskId }) => kept.get(taskId)!);
    expect(states.filter(({ status }) => status === 'completed').length).toBe(3);
    for (const { error } of states.filter(({ status }) => status === 'failed'))
      expect(error).toMatchObject({ data: { reason: 'overloaded', outcome: 'unknown' } });
    // All bytes were released.
    const { taskId } = await run('alice', Promise.resolve(result(900)));
    await expect.poll(() => kept.get(taskId)!.status).toBe('completed');
  });

  test('by the requests of running tasks, for each caller and for all callers together', async () => {
    const { tasks, run } = hosted();
    let end = (_: Outcome): void => {};
    const ending = new Promise<Outcome>((resolve) => {
      end = resolve;
    });
    await run('alice', ending, 600);
    await expect(run('alice', never, 600)).rejects.toMatchObject({
      reason: 'overloaded',
      message: 'The requests of your running tasks hold too much data; wait for some to end, or cancel them',
      detail: { outcome: 'not_executed' },
    });
    await run('bob', never, 600);
    await expect(run('eve', never, 600)).rejects.toThrow('The requests of running tasks hold too much data');
    end(result(1));
    await expect.poll(() => tasks.size).toBe(1);
    await run('alice', never, 600);
  });

  test('answers to unknown questions take no memory', async () => {
    const { tasks, run } = hosted();
    const answered: object[] = [];
    const parked: ParkedCall = {
      over: Promise.resolve(),
      abandon: () => {},
      resume: (_, answers) => {
        answered.push(answers);
        return Promise.resolve(result(1));
      },
    };
    const question = { method: 'elicitation/create', params: { message: '?' } } as const;
    const { taskId } = await run(
      'a',
      Promise.resolve({ kind: 'input_required', inputRequests: { q: question }, parked }),
    );
    await settled();
    for (let i = 0; i < 10; i++) await tasks.update('a', taskId, { unknown: { content: 'x'.repeat(500) } });
    await expect(tasks.update('a', taskId, { 'q#1': { content: 'x'.repeat(5_000) } })).rejects.toMatchObject({
      reason: 'overloaded',
    });
    await tasks.update('a', taskId, { 'q#1': { content: 'short' } });
    await expect.poll(() => answered).toEqual([{ q: { content: 'short' } }]);
  });
});

describe('changes of tasks at other replicas', () => {
  test('the message about a change contains only the task id; followers of the task read the record', async () => {
    const told: [JsonValue, string | undefined][] = [];
    const keys = new Set<string>();
    const listeners: ((payload: JsonValue) => void)[] = [];
    const there: Cluster = { ...ALONE, self: 'there', tell: async (_, payload, key) => void told.push([payload, key]) };
    const here: Cluster = {
      ...ALONE,
      self: 'here',
      follow: async (key) => void keys.add(key),
      unfollow: (key) => void keys.delete(key),
      onTold: (_, listener) => {
        listeners.push(listener);
        return () => {};
      },
    };
    const runner = hosted({}, there);
    const { tasks } = hosted({}, here, runner.kept);
    let end = (_: Outcome): void => {};
    const ending = new Promise<Outcome>((resolve) => {
      end = resolve;
    });
    const { taskId } = await runner.run('alice', ending);
    const heard: HostedTaskRecord[] = [];
    const following = tasks.onChange([taskId], (record) => heard.push(record));
    await following.ready;
    expect([...keys]).toEqual([`task:${taskId}`]);
    end(result(100));
    await expect.poll(() => told.length).toBeGreaterThan(0);
    expect(told.at(-1)).toEqual([taskId, `task:${taskId}`]);
    for (const listener of listeners) {
      listener(taskId);
      listener('another task');
    }
    await expect.poll(() => heard.map(({ status }) => status)).toEqual(['completed']);
    following.stop();
    expect(keys.size).toBe(0);
  });
});
