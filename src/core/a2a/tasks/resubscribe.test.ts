/** Agents that begin a resubscribed stream without the task: a2a-python 0.3, and every agent of 0.1. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  Channel,
  type Core,
  chunk,
  type Rig,
  read,
  startRig,
  status,
  task,
  told,
} from '../../../../test/support/scripted-agent.js';
import type { Artifact, Task } from '../../../protocol/a2a/model.js';

let rig: Rig;
let core: Core;
let upstream: Channel;

const artifact = (artifactId: string, ...texts: string[]): Artifact => ({
  artifactId,
  parts: texts.map((text) => ({ text })),
});
/** Sets the state and the artifacts of the task at the agent. */
const become = (state: Task['status']['state'], ...artifacts: Artifact[]): void => {
  rig.one.tasks.set('t1', task('t1', state, artifacts.length > 0 ? { artifacts } : {}));
};
const late = {
  artifactUpdate: { taskId: 't1', contextId: 'c-t1', artifact: artifact('late', 'late') },
};
const idsOf = (made: Task): string[] | undefined => made.artifacts?.map(({ artifactId }) => artifactId);
const subscribe = () => core.open('SubscribeToTask', { id: 't1' });
const get = () => core.call<Task>('GetTask', { id: 't1' });

beforeEach(async () => {
  rig = await startRig();
  core = rig.core();
  upstream = new Channel();
  rig.one.onSubscribe = () => upstream;
  rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_SUBMITTED') } });
  become('TASK_STATE_WORKING');
});
afterEach(() => rig.stop());

test('S-42: a subscription begins with the current task at once, before any event of the agent', async () => {
  await core.send({}, { returnImmediately: true });
  become('TASK_STATE_WORKING', artifact('early', 'early'));
  const events = await subscribe();
  const [first] = await read(events, 1);
  expect(first?.task?.status.state).toBe('TASK_STATE_WORKING');
  expect(idsOf(first!.task!)).toEqual(['early']);
});

test('artifacts from before the subscription are kept', async () => {
  await core.send({}, { returnImmediately: true });
  become('TASK_STATE_WORKING', artifact('early', 'early'));
  upstream.push(late);
  const events = await subscribe();
  become('TASK_STATE_COMPLETED', artifact('early', 'early'), artifact('late', 'late'));
  upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
  expect(told(await read(events))).toEqual(['task WORKING', 'late', 'COMPLETED']);
  expect(idsOf(await get())).toEqual(['early', 'late']);
});

test('a subscription to a running task works even if its first event is also the last event', async () => {
  await core.send({}, { returnImmediately: true });
  const opening = subscribe();
  await expect.poll(() => rig.one.count('GetTask')).toBeGreaterThan(0);
  const events = await opening;
  become('TASK_STATE_COMPLETED');
  upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
  expect(told(await read(events))).toEqual(['task WORKING', 'COMPLETED']);
});

test('a blocking send keeps the artifact that was created before the gateway followed the task', async () => {
  become('TASK_STATE_WORKING', artifact('early', 'early'));
  const answered = core.send();
  await expect.poll(() => rig.one.count('GetTask')).toBeGreaterThan(0);
  become('TASK_STATE_COMPLETED', artifact('early', 'early'), artifact('late', 'late'));
  upstream.push(late);
  upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
  expect(idsOf((await answered).task!)).toEqual(['early', 'late']);
});

test('a chunk that the snapshot contains is not repeated, and the final read corrects the chunks', async () => {
  await core.send({}, { returnImmediately: true });
  become('TASK_STATE_WORKING', artifact('a', 'x', 'y'));
  upstream.push(chunk('t1', 'y'));
  upstream.push(chunk('t1', 'z'));
  const events = await subscribe();
  expect(told(await read(events, 2))).toEqual(['task WORKING', 'z']);
  // Only the agent knows that the second equal chunk is a new chunk.
  become('TASK_STATE_COMPLETED', artifact('a', 'x', 'y', 'z', 'z'));
  upstream.push(chunk('t1', 'z'));
  upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
  expect(told(await read(events))).toEqual(['z', 'COMPLETED']);
  expect((await get()).artifacts).toEqual([artifact('a', 'x', 'y', 'z', 'z')]);
});

test('a subscription that the agent refuses late continues by polling', async () => {
  await core.send({}, { returnImmediately: true });
  const events = await subscribe();
  upstream.end(new Error('no subscriptions here'));
  become('TASK_STATE_COMPLETED');
  expect(told(await read(events))).toEqual(['task WORKING', 'COMPLETED']);
});
