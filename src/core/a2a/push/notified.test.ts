import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  Channel,
  type Core,
  message,
  type Rig,
  startRig,
  status,
  task,
} from '../../../../test/support/scripted-agent.js';
import type { SendMessageRequest, StreamResponse } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { Seal } from '../../seal.js';
import type { AgentDispatcherOptions } from '../dispatcher.js';
import { PushNotifications, type QueuedPush } from './push-notifications.js';

let rig: Rig;
let core: Core;
let parts: Partial<AgentDispatcherOptions>;

beforeEach(async () => {
  rig = await startRig();
  const pushes = new PushNotifications({
    records: rig.records,
    seal: new Seal(rig.state.keyring),
    dialect: () => ({ writeNotification: (event) => ({ body: event as object as never, contentType: 'x' }) }),
    checkUrl: () => {},
    limit: 2,
  });
  parts = { pushes };
  core = rig.core(parts);
  rig.one.can = { stream: false, push: false, subscribe: false };
});
afterEach(() => rig.stop());

const taskPushNotificationConfig = { url: 'https://client.example/hook', token: 'secret' };

/** The task states in the queued notifications. */
async function queued(): Promise<string[]> {
  const rows = await rig.state.db.q<{ json: string }>('SELECT json FROM outbox ORDER BY id');
  return rows.map(({ json }) => {
    const { body } = JSON.parse(json) as QueuedPush;
    const { task: snapshot, statusUpdate } = JSON.parse(body) as StreamResponse;
    return (snapshot ?? statusUpdate)?.status.state.slice(11) ?? '';
  });
}

test('a configuration in a message stays at the gateway; its first notification is queued with the task', async () => {
  rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
  await core.send({}, { taskPushNotificationConfig, acceptedOutputModes: ['text/plain'] });
  expect((rig.one.last('SendMessage') as SendMessageRequest).configuration).toEqual({
    acceptedOutputModes: ['text/plain'],
  });
  expect(await queued()).toEqual(['COMPLETED']);
  const config = await core.call('GetTaskPushNotificationConfig', { taskId: 't1', id: 't1' });
  expect(config).toMatchObject({ url: taskPushNotificationConfig.url });
});

test('S-50: an invalid configuration is refused before the message reaches the agent', async () => {
  const none = rig.core();
  await expect(none.send({}, { taskPushNotificationConfig })).rejects.toMatchObject({ reason: 'push_not_supported' });
  await expect(core.send({}, { taskPushNotificationConfig: { url: '' } })).rejects.toMatchObject({
    reason: 'invalid_params',
  });
  expect(rig.one.calls).toEqual([]);
  await expect(none.call('ListTaskPushNotificationConfigs', { taskId: 'x' })).rejects.toMatchObject({
    reason: 'task_not_found',
  });
});

test('a task id of another caller leaves no configuration behind', async () => {
  rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
  await core.send();
  await expect(core.send({}, { taskPushNotificationConfig }, { as: 'bob' })).rejects.toMatchObject({
    reason: 'invalid_agent_response',
  });
  expect(await rig.records.pushes({ agent: 'one', owner: 'bob', id: 't1' })).toEqual([]);
  expect(await queued()).toEqual([]);
});

test('G-41: the gateway follows the task of an agent that cannot push', async () => {
  rig.one.tasks.set('t1', task('t1', 'TASK_STATE_WORKING'));
  rig.one.onSend = async () => ({ value: { task: rig.one.known('t1') } });
  await core.send({}, { taskPushNotificationConfig, returnImmediately: true });
  rig.one.tasks.set('t1', task('t1', 'TASK_STATE_COMPLETED'));
  await expect.poll(queued).toEqual(['WORKING', 'COMPLETED']);
});

test('G-41: the gateway follows a task whose configuration came later, or whose stream broke', async () => {
  rig.one.tasks.set('t1', task('t1', 'TASK_STATE_WORKING'));
  rig.one.onSend = async () => ({ value: { task: rig.one.known('t1') } });
  await core.send({}, { returnImmediately: true });
  const created = await core.call('CreateTaskPushNotificationConfig', { taskId: 't1', ...taskPushNotificationConfig });
  expect(created).toMatchObject({ id: 't1', taskId: 't1' });
  rig.one.tasks.set('t1', task('t1', 'TASK_STATE_FAILED'));
  await expect.poll(queued).toEqual(['FAILED']);
  rig.one.can = { stream: true, push: false, subscribe: false };
  const upstream = new Channel();
  upstream.push({ task: task('t2', 'TASK_STATE_WORKING') });
  rig.one.onStream = () => upstream;
  const request = { message: message(), configuration: { taskPushNotificationConfig } };
  const events = await core.open('SendStreamingMessage', request);
  rig.one.tasks.set('t2', task('t2', 'TASK_STATE_COMPLETED'));
  upstream.end(new ProtocolError('upstream_unavailable', 'cut'));
  await events.next();
  await expect(events.next()).rejects.toMatchObject({ reason: 'upstream_unavailable' });
  await expect.poll(async () => (await queued()).sort()).toEqual(['COMPLETED', 'FAILED', 'WORKING']);
});

test('another replica follows a task with a configuration when the replica of the task is gone', async () => {
  rig.one.can = { stream: true, push: false, subscribe: true };
  const upstream = new Channel();
  upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
  rig.one.onStream = () => upstream;
  const gone = rig.core(parts);
  const request = { message: message(), configuration: { taskPushNotificationConfig } };
  await (await gone.open('SendStreamingMessage', request)).next();
  const own = new Channel();
  own.push({ task: task('t1', 'TASK_STATE_WORKING') });
  rig.one.onSubscribe = () => own;
  core.dispatcher.start();
  // The first replica is never closed; it only stops renewing its claim.
  await expect.poll(() => rig.one.count('SubscribeToTask'), { timeout: 5_000 }).toBe(1);
  own.push(status('t1', 'TASK_STATE_COMPLETED'));
  await expect.poll(async () => (await queued()).at(-1), { timeout: 5_000 }).toBe('COMPLETED');
});
