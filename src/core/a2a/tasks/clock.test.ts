/**
 * Case 30: the wall clock of this process jumps. Claims use the clock that all replicas share, and durations use the
 * monotonic clock.
 */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
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
  told,
} from '../../../../test/support/scripted-agent.js';
import { followEngine } from '../../../state/clock.js';
import { wallMs } from '../../../state/index.js';
import { sleep } from '../../timing.js';

/** Longer than every claim, every duration, and the hour for which the test gateway keeps tasks. */
const FAR = 2 * 3_600_000;
const RealNow = Date.now;
const JUMPS = [
  ['ahead', FAR],
  ['back', -FAR],
] as const;

let rig: Rig;
let a: Core;
let b: Core;
let upstream: Channel;

const jump = (offset: number): void => {
  vi.spyOn(Date, 'now').mockImplementation(() => RealNow() + offset);
};
const follower = async (id: string): Promise<unknown> => {
  const [row] = await rig.state.db.q('SELECT follower FROM agent_tasks WHERE id = $1', [id]);
  return row?.['follower'];
};

beforeEach(async () => {
  rig = await startRig();
  followEngine(RealNow(), 0);
  [a, b] = [rig.core({ now: wallMs }), rig.core({ now: wallMs })];
  upstream = new Channel();
  rig.one.onStream = () => upstream;
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rig.stop();
});

test.each(JUMPS)(
  '%s by two hours: a task keeps its follower, and subscribers at other replicas get its events',
  async (_, by) => {
    a.dispatcher.start();
    b.dispatcher.start();
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_WORKING'));
    const own = await a.open('SendStreamingMessage', { message: message() });
    const elsewhere = await b.open('SubscribeToTask', { id: 't1' });
    await own.next();
    const claimed = await follower('t1');
    expect(claimed).not.toBe('');
    jump(by);
    upstream.push(chunk('t1', 'a', false));
    // Longer than two leases.
    await sleep(1_500);
    expect(await follower('t1')).toBe(claimed);
    // A callback for a task that is followed causes no read, at any replica.
    await b.dispatcher.handleCallback({ agent: 'one', owner: 'alice', id: 't1' }, []);
    expect(rig.one.count('SubscribeToTask') + rig.one.count('GetTask')).toBe(0);
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(own))).toEqual(['a', 'COMPLETED']);
    expect(told(await read(elsewhere))).toEqual(['task WORKING', 'a', 'COMPLETED']);
  },
);

test.each(JUMPS)('%s by two hours: a call waits exactly its timeout for its task', async (_, by) => {
  rig.one.can = { stream: false, push: false, subscribe: false };
  rig.one.onSend = async () => {
    jump(by);
    return { value: { task: task('t1', 'TASK_STATE_WORKING') } };
  };
  rig.one.tasks.set('t1', task('t1', 'TASK_STATE_WORKING'));
  setTimeout(() => rig.one.tasks.set('t1', task('t1', 'TASK_STATE_COMPLETED')), 400);
  expect((await a.send()).task?.status.state).toBe('TASK_STATE_COMPLETED');
  vi.restoreAllMocks();
  rig.one.onSend = async () => {
    jump(by);
    return { value: { task: task('t2', 'TASK_STATE_WORKING') } };
  };
  rig.one.tasks.set('t2', task('t2', 'TASK_STATE_WORKING'));
  const short = rig.core({ now: wallMs, timeouts: { call: 300, refresh: 300, hold: 1_000, lease: 600 } });
  expect((await short.send()).task?.status.state).toBe('TASK_STATE_WORKING');
});

test.each(JUMPS)('%s by two hours: timestamps of the gateway use the shared clock', async (_, by) => {
  jump(by);
  rig.one.onSend = async () => ({
    value: { message: { messageId: 'r', role: 'ROLE_AGENT', parts: [{ text: 'hi' }] } },
  });
  const { task: made } = await a.send({ taskId: 'mine' }, undefined, { dialect: '0.1' });
  expect(Math.abs(Date.parse(made!.status.timestamp!) - RealNow())).toBeLessThan(60_000);
  const kept = await rig.records.find({ agent: 'one', owner: 'alice', id: 'mine' });
  expect(Math.abs(kept!.createdAt - RealNow())).toBeLessThan(60_000);
});
