/** The bytes of a task, and of the events that wait for its readers and for storage. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  Channel,
  type Core,
  chunk,
  message,
  type Rig,
  read,
  startRig,
  status,
  task,
} from '../../../../test/support/scripted-agent.js';
import type { Artifact, Message, StreamResponse, Task } from '../../../protocol/a2a/model.js';

const LIMIT = 100_000;
const limits = {
  ...{ parts: 1_000, artifacts: 1_000, history: 1_000, taskSize: LIMIT, tasks: 1_000 },
  ...{ streams: 10, streamsPerCaller: 3, followed: 100, maxHops: 3 },
};

let rig: Rig;
let core: Core;
let upstream: Channel;

beforeEach(async () => {
  rig = await startRig();
  core = rig.core({ limits });
  upstream = new Channel();
  rig.one.onStream = () => upstream;
});
afterEach(() => rig.stop());

const stored = (id: string) => rig.records.find({ agent: 'one', owner: 'alice', id });
const start = () => core.open('SendStreamingMessage', { message: message() });
const sizeOf = (value: unknown): number => JSON.stringify(value).length;

test('an artifact that grows beyond the limit is refused, and the stream of the agent is closed', async () => {
  upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
  for (let i = 0; i < 300; i++) upstream.push(chunk('t1', 'x'.repeat(1_000), i > 0));
  const events = await start();
  await expect(read(events)).rejects.toMatchObject({ reason: 'invalid_agent_response' });
  await expect.poll(() => upstream.left).toBe(true);
  expect(sizeOf((await stored('t1'))?.task)).toBeLessThan(LIMIT);
});

test('the running tasks of a caller hold a limited number of bytes', async () => {
  const channels: Channel[] = [];
  for (let i = 0; i < 5; i++) {
    upstream = new Channel();
    channels.push(upstream);
    upstream.push({ task: task(`t${i}`, 'TASK_STATE_WORKING') });
    upstream.push(chunk(`t${i}`, 'x'.repeat(0.9 * LIMIT), false));
    const events = await start();
    await read(events, 2);
    await events.return?.();
  }
  await expect(start()).rejects.toMatchObject({
    reason: 'rate_limited',
    message: expect.stringContaining('too much data') as string,
  });
  channels[0]!.push(status('t0', 'TASK_STATE_COMPLETED'));
  await expect.poll(async () => (await stored('t0'))?.task.status.state).toBe('TASK_STATE_COMPLETED');
  upstream = new Channel();
  upstream.push({ task: task('t9', 'TASK_STATE_WORKING') });
  await expect
    .poll(() =>
      start().then(
        () => true,
        () => false,
      ),
    )
    .toBe(true);
});

test('an artifact that replaces another one is not counted in addition', async () => {
  upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
  for (let i = 0; i < 300; i++) upstream.push(chunk('t1', `${i}`.padEnd(40_000, 'x'), false));
  upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
  await read(await start());
  const kept = await stored('t1');
  expect(kept?.task.status.state).toBe('TASK_STATE_COMPLETED');
  expect(kept?.task.artifacts?.[0]?.parts[0]?.text?.slice(0, 3)).toBe('299');
});

test('an answer with a task beyond the limit is refused', async () => {
  const artifacts = [{ artifactId: 'a', parts: [{ text: 'x'.repeat(LIMIT) }] }] as Artifact[];
  rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED', { artifacts }) } });
  await expect(core.send()).rejects.toMatchObject({ reason: 'invalid_agent_response' });
  expect(await stored('t1')).toBeUndefined();
});

test('the oldest messages of a history are dropped at the limit', async () => {
  const said = (i: number): Message => ({
    ...{ messageId: `m${i}`, role: 'ROLE_AGENT' as const },
    parts: [{ text: `${i}`.padEnd(9_000, 'x') }],
  });
  const turn = (i: number): Task => task('t1', 'TASK_STATE_INPUT_REQUIRED', { history: [said(i)] });
  rig.one.onSend = async () => ({ value: { task: turn(0) } });
  await core.send();
  for (let i = 1; i < 30; i++) {
    rig.one.onSend = async () => ({ value: { task: turn(i) } });
    await core.send({ taskId: 't1' });
  }
  const kept = (await stored('t1'))?.task;
  expect(sizeOf(kept)).toBeLessThan(LIMIT);
  expect(kept?.history?.at(-1)?.messageId).toBe('m29');
  expect(kept?.history?.length).toBeGreaterThan(3);
});

test('a reader with too many bytes of waiting events gets the current task instead of the events', async () => {
  core = rig.core({ limits: { ...limits, taskSize: 32 * 1024 * 1024 } });
  upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
  const events = await start();
  await read(events, 1);
  for (let i = 0; i < 10; i++) upstream.push(chunk('t1', `${i}`.padEnd(1_000_000, 'x'), i > 0));
  upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
  await expect.poll(() => upstream.left, { timeout: 20_000 }).toBe(true);
  const waited: StreamResponse[] = await read(events);
  expect(waited[0]?.task?.status.state).toBe('TASK_STATE_COMPLETED');
  expect(waited).toHaveLength(1);
});

test('large events that wait for the database become one event with the current task', async () => {
  core = rig.core({ limits: { ...limits, taskSize: 32 * 1024 * 1024 } });
  upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
  const events = await start();
  await read(events, 1);
  const { tx } = rig.state.db;
  let written = 0;
  let largest = 0;
  rig.state.db.tx = async (statements) => {
    written++;
    largest = Math.max(largest, ...statements.map(([, params]) => sizeOf(params)));
    const size = statements.reduce((sum, [, params]) => sum + sizeOf(params), 0);
    largest = Math.max(largest, size);
    // The first write does not end before the agent has sent all its events.
    if (written === 1) await expect.poll(() => upstream.unread, { timeout: 20_000 }).toBe(0);
    return tx.call(rig.state.db, statements);
  };
  for (let i = 0; i < 30; i++) upstream.push(chunk('t1', `${i}`.padEnd(500_000, 'x'), false));
  upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
  await read(events);
  expect((await stored('t1'))?.task.status.state).toBe('TASK_STATE_COMPLETED');
  expect(largest).toBeLessThan(7_000_000);
});
