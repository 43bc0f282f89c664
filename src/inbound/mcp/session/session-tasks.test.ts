import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Admission } from '../../../core/admission.js';
import { type Caller, GATEWAY, principalOf } from '../../../core/caller.js';
import type { HostedTaskRecord } from '../../../core/era-bridge/hosted-task-record.js';
import type { HostedTasks } from '../../../core/era-bridge/hosted-tasks.js';
import { Seal } from '../../../core/seal.js';
import { SessionTasks } from './session-tasks.js';

const ada: Caller = { ...GATEWAY, principal: principalOf({ subject: 'ada' }) };
const key = randomBytes(32);
const seal = new Seal({ active: { id: 'k', key }, find: () => key });

const recordOf = (server: string): HostedTaskRecord =>
  ({
    taskId: `of ${server}`,
    server,
    status: 'working',
    createdAt: '',
    lastUpdatedAt: '',
  }) as unknown as HostedTaskRecord;

const listed = async (admission: Pick<Admission, 'sees'>): Promise<unknown[]> => {
  const tasks = { list: async () => ['a', 'b'].map(recordOf) } as unknown as HostedTasks;
  const list = await new SessionTasks(tasks, ada.principal.key, true, seal, admission).list(ada, undefined);
  return (list['tasks'] as { taskId: string }[]).map(({ taskId }) => taskId);
};

test('a list of tasks omits those of servers that the caller may not see', async () => {
  expect(await listed({})).toEqual(['of a', 'of b']);
  expect(await listed({ sees: (_, { server }) => server !== 'b' })).toEqual(['of a']);
  expect(await listed({ sees: async (_, { kind, server }) => kind === 'server' && server !== 'a' })).toEqual(['of b']);
});

test('changes of a task are announced only as long as the caller may see the server of the task', async () => {
  let change = (_: HostedTaskRecord): void => {};
  const tasks = {
    onChange: (_: readonly string[], listener: typeof change) => {
      change = listener;
      return { ready: Promise.resolve(), stop: () => {} };
    },
  } as unknown as HostedTasks;
  let visible = true;
  const admission: Pick<Admission, 'sees'> = { sees: (_, { server }) => server === 'a' && visible };
  const bob: Caller = { ...GATEWAY, principal: principalOf({ subject: 'bob' }) };
  const told: unknown[] = [];
  new SessionTasks(tasks, bob.principal.key, true, seal, admission).follow(
    'of a',
    () => bob,
    (params) => told.push(params['status']),
  );
  change(recordOf('a'));
  await new Promise(setImmediate);
  expect(told).toEqual(['working']);
  visible = false;
  change(recordOf('a'));
  await new Promise(setImmediate);
  expect(told).toEqual(['working']);
});
