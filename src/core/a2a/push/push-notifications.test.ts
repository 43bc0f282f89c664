import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { dialect } from '../../../protocol/a2a/index.js';
import type { StreamResponse, Task, TaskPushNotificationConfig } from '../../../protocol/a2a/model.js';
import { type Caller, GATEWAY, principalOf } from '../../caller.js';
import { Seal } from '../../seal.js';
import type { PushRecord, TaskKey, TaskRecord } from '../tasks/task-records.js';
import { PushNotifications, type QueuedPush } from './push-notifications.js';

const caller = (name: string): Caller => ({ ...GATEWAY, principal: principalOf({ subject: name }) });
const ALICE = caller('alice');
const KEY: TaskKey = { agent: 'planner', owner: 'alice', id: 't1' };
const URL_1 = 'https://hooks.example/a?k=v';

/** The stored configurations of one task. */
class Rows {
  readonly rows = new Map<string, PushRecord>();
  find = async (): Promise<undefined> => undefined;
  putPush = async (record: PushRecord): Promise<void> => {
    this.rows.set(record.config.id, record);
  };
  pushes = async (): Promise<PushRecord[]> => [...this.rows.values()];
  removePush = async (_: TaskKey, id: string): Promise<boolean> => this.rows.delete(id);
  disablePush = async (record: PushRecord, disabled: boolean): Promise<boolean> => {
    const { id } = record.config;
    if (this.rows.get(id) !== record) return false;
    this.rows.set(id, { ...record, disabled, ...(!disabled && { failures: 0 }) });
    return true;
  };
  countPush = async (): Promise<number> => 0;
}

let rows: Rows;
let pushes: PushNotifications;
const active = { id: 'k', key: randomBytes(32) };
const seal = new Seal({ active, find: (id) => (id === 'k' ? active.key : undefined) });
const parts = (): ConstructorParameters<typeof PushNotifications>[0] => ({
  records: rows,
  seal,
  dialect,
  checkUrl: (url) => {
    if (new URL(url).hostname === '10.0.0.1') throw new Error('names an address that is not allowed');
  },
  limit: 3,
});

beforeEach(() => {
  rows = new Rows();
  pushes = new PushNotifications(parts());
});

const create = (config: TaskPushNotificationConfig) => pushes.create(ALICE, KEY, config, '1.0');

describe('configurations', () => {
  test('S-50 S1-44: all four operations, and configurations in messages, are refused if push is disabled', async () => {
    const off = new PushNotifications({ ...parts(), enabled: false });
    const refused = { reason: 'push_not_supported' };
    expect(() => off.check({ url: URL_1 })).toThrow(expect.objectContaining(refused));
    await expect(off.create(ALICE, KEY, { url: URL_1 }, '1.0')).rejects.toMatchObject(refused);
    await expect(off.get(ALICE, KEY, { taskId: 't1', id: 'x' })).rejects.toMatchObject(refused);
    await expect(off.list(ALICE, KEY, { taskId: 't1' })).rejects.toMatchObject(refused);
    await expect(off.remove(ALICE, KEY, { taskId: 't1', id: 'x' })).rejects.toMatchObject(refused);
  });

  test('S-51: create assigns an id, get finds it, and the owner gets all members back', async () => {
    const given = {
      url: URL_1,
      token: 'tok',
      authentication: { scheme: 'Bearer', credentials: 'cred' },
      extra: { kept: [1] },
    };
    const made = await create(given);
    expect(made.id).toBeTruthy();
    expect(made).toEqual({ ...given, id: made.id, taskId: 't1' });
    expect(await pushes.get(ALICE, KEY, { taskId: 't1', id: made.id! })).toEqual(made);
    expect((await pushes.list(ALICE, KEY, { taskId: 't1' })).configs).toEqual([made]);
    expect(JSON.stringify([...rows.rows.values()])).not.toMatch(/tok|cred|k=v/);
  });

  test('S18: a sealed configuration cannot be read in another row; a row of an earlier version can be read', async () => {
    await create({ url: URL_1, id: 'a', token: 'of-a' });
    await create({ url: URL_1, id: 'b', token: 'of-b' });
    const [a, b] = [rows.rows.get('a')!, rows.rows.get('b')!];
    rows.rows.set('b', { ...b, secret: a.secret });
    await expect(pushes.get(ALICE, KEY, { taskId: 't1', id: 'b' })).rejects.toMatchObject({ reason: 'task_not_found' });
    const former = (id: string) =>
      seal.close('push', KEY.owner, { config: { id, taskId: 't1', url: URL_1 }, key: '' }, 60_000);
    rows.rows.set('b', { ...b, secret: former('b') });
    expect(await pushes.get(ALICE, KEY, { taskId: 't1', id: 'b' })).toMatchObject({ id: 'b' });
    rows.rows.set('b', { ...b, secret: former('a') });
    await expect(pushes.get(ALICE, KEY, { taskId: 't1', id: 'b' })).rejects.toMatchObject({ reason: 'task_not_found' });
  });

  test('S-51: a configuration replaces one with the same id; without an id it replaces one without an id', async () => {
    await create({ url: 'https://hooks.example/1' });
    const again = await create({ url: 'https://hooks.example/2' });
    await create({ url: 'https://hooks.example/3', id: 'a' });
    expect((await pushes.list(ALICE, KEY, { taskId: 't1' })).configs).toHaveLength(2);
    expect(await pushes.get(ALICE, KEY, { taskId: 't1' })).toEqual(again);
    await pushes.remove(ALICE, KEY, { taskId: 't1', id: again.id! });
    expect(await pushes.get(ALICE, KEY, { taskId: 't1', id: '' })).toMatchObject({ id: 'a' });
  });

  test('S-51: a missing configuration is not found, and deleting is idempotent', async () => {
    const missing = { reason: 'task_not_found' };
    await expect(pushes.get(ALICE, KEY, { taskId: 't1', id: 'no' })).rejects.toMatchObject(missing);
    await expect(pushes.get(ALICE, KEY, { taskId: 't1' })).rejects.toMatchObject(missing);
    await create({ url: URL_1, id: 'a' });
    for (let i = 0; i < 2; i++) await pushes.remove(ALICE, KEY, { taskId: 't1', id: 'a' });
    expect(await pushes.list(ALICE, KEY, { taskId: 't1' })).toEqual({ configs: [], nextPageToken: '' });
  });

  test('S-51: for another caller the task does not exist', async () => {
    await create({ url: URL_1, id: 'a' });
    const bob = caller('bob');
    const missing = { reason: 'task_not_found' };
    await expect(pushes.get(bob, KEY, { taskId: 't1', id: 'a' })).rejects.toMatchObject(missing);
    await expect(pushes.list(bob, KEY, { taskId: 't1' })).rejects.toMatchObject(missing);
    await expect(pushes.remove(bob, KEY, { taskId: 't1', id: 'a' })).rejects.toMatchObject(missing);
    await expect(pushes.create(bob, KEY, { url: URL_1 }, '1.0')).rejects.toMatchObject(missing);
    await expect(pushes.create(ALICE, { ...KEY, id: '' }, { url: URL_1 }, '1.0')).rejects.toMatchObject(missing);
  });

  test('S-51: lists are paged', async () => {
    for (const id of ['c', 'a', 'b']) await create({ url: URL_1, id });
    const first = await pushes.list(ALICE, KEY, { taskId: 't1', pageSize: 2 });
    expect(first.configs.map(({ id }) => id)).toEqual(['a', 'b']);
    const second = await pushes.list(ALICE, KEY, { taskId: 't1', pageSize: 2, pageToken: first.nextPageToken });
    expect(second).toMatchObject({ configs: [{ id: 'c' }], nextPageToken: '' });
    for (const pageToken of ['x', seal.close('cursor', 'bob', ['push', 'planner', 't1', 'a'], 1_000)])
      await expect(pushes.list(ALICE, KEY, { taskId: 't1', pageToken })).rejects.toMatchObject({
        reason: 'invalid_params',
      });
  });

  test('a task has a limited number of configurations', async () => {
    for (const id of ['a', 'b', 'c']) await create({ url: URL_1, id });
    await expect(create({ url: URL_1, id: 'd' })).rejects.toMatchObject({ reason: 'invalid_params' });
    await expect(create({ url: URL_1, id: 'a' })).resolves.toMatchObject({ id: 'a' });
  });

  test.each<[string, TaskPushNotificationConfig]>([
    ['no url', { url: '' }],
    ['a url that is not allowed', { url: 'http://10.0.0.1/' }],
    ['a line break in the token', { url: URL_1, token: 'a\r\nX-Evil: 1' }],
    ['a line break in the credentials', { url: URL_1, authentication: { scheme: 'Bearer', credentials: 'a\nb' } }],
    ['a scheme of several words', { url: URL_1, authentication: { scheme: 'Bearer x', credentials: 'a' } }],
    ['a line break in the scheme', { url: URL_1, authentication: { scheme: 'B\r\nX: 1', credentials: 'a' } }],
    ['credentials without a scheme', { url: URL_1, authentication: { scheme: '', credentials: 'a' } }],
    ['characters that no header can contain', { url: URL_1, token: 'schlüssel€' }],
    ['a token that is too long', { url: URL_1, token: 'x'.repeat(5_000) }],
    ['a configuration that is too large', { url: URL_1, extra: 'x'.repeat(20_000) }],
    ['a token that is not a string', { url: URL_1, token: 5 as unknown as string }],
  ])('S-53: a configuration is refused for %s', async (_, config) => {
    expect(() => pushes.check(config)).toThrow(expect.objectContaining({ reason: 'invalid_params' }));
    await expect(create(config)).rejects.toMatchObject({ reason: 'invalid_params' });
  });
});

describe('notifications', () => {
  const task: Task = { id: 't1', contextId: 'c1', status: { state: 'TASK_STATE_WORKING' } };
  const event = (state: 'TASK_STATE_WORKING' | 'TASK_STATE_COMPLETED'): StreamResponse => ({
    statusUpdate: { taskId: 't1', contextId: 'c1', status: { state } },
  });
  const record: TaskRecord = {
    ...{ ...KEY, upstreamId: 't1', contextId: 'c1', task, seq: 11, dialect: '1.0', createdAt: 0, updatedAt: 0 },
  };

  test('G-51: one per event and configuration; ids sort by event number and are the same for the same event', async () => {
    await create({ url: URL_1, id: 'a' });
    await create({ url: 'https://other.example/', id: 'b' });
    const events = [9, 10, 11].map((seq) => ({ seq, event: event('TASK_STATE_WORKING') }));
    const queued = await pushes.notifications(record, events);
    expect(await pushes.notifications(record, events)).toEqual(queued);
    expect(queued).toHaveLength(6);
    expect(new Set(queued.map(({ lane }) => lane)).size).toBe(2);
    for (const { lane } of queued) {
      const ids = queued.filter((one) => one.lane === lane).map(({ id }) => id);
      expect([...ids].sort()).toEqual(ids);
    }
    expect(queued.map(({ target }) => target)).toEqual([
      ...Array(3).fill('https://hooks.example'),
      ...Array(3).fill('https://other.example'),
    ]);
    expect(await pushes.notifications(record, [])).toEqual([]);
  });

  test('`pass` may change or drop each event and each task before it is queued', async () => {
    const told: TaskKey[] = [];
    const changing = new PushNotifications({
      ...parts(),
      pass: async (key, given) => {
        told.push(key);
        if (given.statusUpdate?.status.state === 'TASK_STATE_COMPLETED') return undefined;
        return { ...given, ...(given.task && { task: { ...given.task, metadata: { changed: true } } }) };
      },
    });
    await changing.create(ALICE, KEY, { url: URL_1, id: 'v0' }, '0.1');
    const events = (['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'] as const).map((state, seq) => ({
      ...{ seq, event: event(state) },
    }));
    const queued = await changing.notifications(record, events);
    expect(queued).toHaveLength(1);
    expect(JSON.parse((queued[0]!.value as QueuedPush).body)).toMatchObject({ id: 't1', metadata: { changed: true } });
    expect(told[0]).toEqual(KEY);
  });

  test('S-54: each has the dialect of its configuration', async () => {
    await pushes.create(ALICE, KEY, { url: URL_1, id: 'v1' }, '1.0');
    await pushes.create(ALICE, KEY, { url: URL_1, id: 'v3' }, '0.3');
    await pushes.create(ALICE, KEY, { url: URL_1, id: 'v0' }, '0.1');
    const queued = await pushes.notifications(record, [{ seq: 11, event: event('TASK_STATE_WORKING') }]);
    const bodies = queued.map(({ value }) => {
      const { config, body, contentType } = value as QueuedPush;
      return [config, JSON.parse(body), contentType] as const;
    });
    expect(bodies[0]).toEqual(['v1', event('TASK_STATE_WORKING'), 'application/a2a+json']);
    expect(bodies[1]![1]).toMatchObject({ status: { state: 'working' } });
    expect(bodies[1]![2]).toBe('application/json');
    expect(bodies[2]![1]).toMatchObject({ id: 't1', status: { state: 'working' } });
    expect(bodies[2]![1].kind).toBeUndefined();
  });

  test('S-51: none for a disabled configuration; a new configuration with the same id has its own order', async () => {
    await create({ url: URL_1, id: 'a' });
    const news = [{ seq: 11, event: event('TASK_STATE_COMPLETED') }];
    const [first] = await pushes.notifications(record, news);
    const push = first!.value as QueuedPush;
    await pushes.disable(push);
    expect(await pushes.notifications(record, news)).toEqual([]);
    expect(await pushes.target(push)).toBe('disabled');
    await pushes.disable(push, false);
    expect(await pushes.target(push)).toMatchObject({ url: URL_1 });
    await pushes.remove(ALICE, KEY, { taskId: 't1', id: 'a' });
    await create({ url: URL_1, id: 'a' });
    expect(await pushes.target(push)).toBe('expired');
    rows.find = async () => record as unknown as undefined;
    expect(await pushes.target(push)).toBe('deleted');
    const [second] = await pushes.notifications(record, news);
    expect(second!.lane).not.toBe(first!.lane);
  });
});

test('S17: a configuration ends with the API key that created it, and not with another key of its owner', async () => {
  const revoked = new Set<string>();
  const own = new PushNotifications({ ...parts(), revoked: async ({ id }) => revoked.has(id) });
  const as = (id: string): Caller => ({
    ...GATEWAY,
    principal: principalOf({ subject: 'alice', credential: { kind: 'key', id } }),
  });
  await own.create(as('old'), KEY, { url: URL_1, id: 'c' }, '1.0');
  const [row] = rows.rows.values();
  const push = {
    ...KEY,
    task: KEY.id,
    config: 'c',
    registration: row!.config['registration'],
  } as unknown as QueuedPush;
  expect(await own.target(push)).toMatchObject({ url: URL_1 });
  revoked.add('old');
  expect(await own.target(push)).toBe('revoked');
  await own.create(as('new'), KEY, { url: URL_1, id: 'c' }, '1.0');
  expect(await own.target(push)).toMatchObject({ url: URL_1 });
});
