/** The number of stored tasks of a caller. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Core, type Rig, startRig, task } from '../../../../test/support/scripted-agent.js';
import type { TaskState } from '../../../protocol/a2a/model.js';

const limits = {
  ...{ parts: 10, artifacts: 5, history: 8, taskSize: 100_000, tasks: 20 },
  ...{ streams: 10, streamsPerCaller: 3, followed: 100, maxHops: 3 },
};

let rig: Rig;
let core: Core;
let next = 0;

beforeEach(async () => {
  rig = await startRig();
  core = rig.core({ limits });
});
afterEach(() => rig.stop());

const send = (state: TaskState, as = 'alice') => {
  const id = `t${next++}`;
  rig.one.onSend = async () => ({ value: { task: task(id, state) } });
  return core.send({}, { returnImmediately: true }, { as });
};
const stored = async (owner: string): Promise<number> => {
  const { total } = await rig.records.list({ owner, agents: ['one'], limit: 1 });
  return total;
};

test('the oldest finished tasks are removed for new tasks', async () => {
  await send('TASK_STATE_COMPLETED', 'bob');
  for (let i = 0; i < 60; i++) await send('TASK_STATE_COMPLETED');
  await expect.poll(() => stored('alice')).toBeLessThanOrEqual(22);
  expect(await stored('alice')).toBeGreaterThanOrEqual(20);
  expect(await stored('bob')).toBe(1);
  const last = `t${next - 1}`;
  expect(await rig.records.find({ agent: 'one', owner: 'alice', id: last })).toBeDefined();
});

test('only a caller with too many unfinished tasks is refused, until some of them are finished', async () => {
  const refused = async (): Promise<unknown> => {
    for (let i = 0; i < 40; i++) {
      try {
        await send('TASK_STATE_INPUT_REQUIRED');
      } catch (error) {
        return error;
      }
    }
    return undefined;
  };
  expect(await refused()).toMatchObject({ reason: 'rate_limited' });
  expect(await stored('alice')).toBeLessThanOrEqual(25);
  await send('TASK_STATE_COMPLETED', 'bob');
  // A message to one of the tasks is not a new task.
  rig.one.onSend = async (request) => ({ value: { task: task(request.message.taskId!, 'TASK_STATE_COMPLETED') } });
  for (let i = next - 24; i < next; i++)
    if (await rig.records.find({ agent: 'one', owner: 'alice', id: `t${i}` })) await core.send({ taskId: `t${i}` });
  await expect
    .poll(
      () =>
        send('TASK_STATE_COMPLETED').then(
          () => 'sent',
          () => 'refused',
        ),
      { timeout: 10_000, interval: 500 },
    )
    .toBe('sent');
});
