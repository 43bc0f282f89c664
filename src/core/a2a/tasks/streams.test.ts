import { afterEach, beforeEach, describe, expect, test } from 'vitest';
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
import type { SendMessageRequest, StreamResponse, Task } from '../../../protocol/a2a/model.js';
import { applyEvent } from '../../../protocol/a2a/task-events.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { Cancellation } from '../../caller.js';
import { sleep } from '../../timing.js';
import type { PushNotifications } from '../push/push-notifications.js';

let rig: Rig;
let core: Core;
let upstream: Channel;

beforeEach(async () => {
  rig = await startRig();
  core = rig.core();
  upstream = new Channel();
  rig.one.onStream = () => upstream;
});
afterEach(() => rig.stop());

const start = (more: JsonObject = {}, as = 'alice') =>
  core.open('SendStreamingMessage', { message: message(more) }, { as });
const subscribe = (at: Core, id: string, as = 'alice') => at.open('SubscribeToTask', { id }, { as });
const stored = (id: string) => rig.records.find({ agent: 'one', owner: 'alice', id });

describe('a stream', () => {
  test('S-41: a direct reply passes unchanged, and nothing is stored', async () => {
    const text = '{"message":{"messageId":"r","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}';
    upstream.push(JSON.parse(text) as JsonObject, text);
    rig.work();
    const events = await start();
    expect(await events.next()).toMatchObject({ done: false, value: { text } });
    expect(await events.next()).toMatchObject({ done: true });
    expect(rig.work()).toEqual({ writes: 0, reads: 0 });
  });

  test('S-41, S-42: the task comes first, then all events unchanged and in order, then the stream closes', async () => {
    const sent = [
      { task: task('t1', 'TASK_STATE_SUBMITTED') },
      status('t1', 'TASK_STATE_WORKING'),
      chunk('t1', 'a', false),
      chunk('t1', 'b'),
      status('t1', 'TASK_STATE_COMPLETED'),
    ];
    for (const event of sent) upstream.push(event, JSON.stringify(event));
    const events = await start();
    for (const event of sent) expect(await events.next()).toMatchObject({ value: { text: JSON.stringify(event) } });
    expect(await events.next()).toMatchObject({ done: true });
    expect(await stored('t1')).toMatchObject({
      seq: 5,
      task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts: [{ text: 'a' }, { text: 'b' }] }] },
    });
    await expect.poll(() => upstream.left).toBe(true);
  });

  test('G-23: events are numbered, and a settled state is stored before it is sent', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    expect(await stored('t1')).toMatchObject({ seq: 1 });
    upstream.push(chunk('t1', 'a'));
    upstream.push(status('t1', 'TASK_STATE_INPUT_REQUIRED'));
    expect(told(await read(events, 2))).toEqual(['a', 'INPUT_REQUIRED']);
    expect(await stored('t1')).toMatchObject({ seq: 3, followedUntil: null });
    const kept = await rig.records.events({ agent: 'one', owner: 'alice', id: 't1' }, 1);
    expect(kept?.map(({ seq }) => seq)).toEqual([2, 3]);
  });

  test('progress is sent at once and stored in batches', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    rig.work();
    for (let i = 0; i < 200; i++) upstream.push(chunk('t1', 'x', i > 0));
    await read(events, 200);
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['COMPLETED']);
    expect(rig.work().writes).toBeLessThan(20);
    expect((await stored('t1'))?.task.artifacts?.[0]?.parts.map(({ text }) => text).join('')).toBe('x'.repeat(200));
  });

  test('P4: each change with a webhook notification is stored before it is sent', async () => {
    const written: number[] = [];
    const pushes = {
      check: () => {},
      create: async () => ({}),
      notifications: async (_: unknown, events: readonly { seq: number }[]) => {
        written.push(...events.map(({ seq }) => seq));
        return [];
      },
    } as unknown as PushNotifications;
    core = rig.core({ pushes });
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const taskPushNotificationConfig = { url: 'https://hooks.example/a' };
    const events = await core.open('SendStreamingMessage', {
      message: message(),
      configuration: { taskPushNotificationConfig },
    });
    await read(events, 1);
    for (let seq = 2; seq <= 20; seq++) {
      upstream.push(chunk('t1', 'x', seq > 2));
      await read(events, 1);
      expect(written).toContain(seq);
    }
  });

  test('G-28: a stream that does not begin with its task gets one', async () => {
    upstream.push(status('t1', 'TASK_STATE_WORKING'));
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    const events = await read(await start());
    expect(told(events)).toEqual(['task WORKING', 'COMPLETED']);
    expect(events[0]?.task).toMatchObject({ id: 't1', contextId: 'c-t1', history: [{ parts: [{ text: 'hello' }] }] });
    upstream = new Channel();
    upstream.push(chunk('t2', 'a', false));
    upstream.push(status('t2', 'TASK_STATE_COMPLETED'));
    expect(told(await read(await start()))).toEqual(['task WORKING', 'a', 'COMPLETED']);
  });

  test('G-28: after an early close the gateway reads the task from the agent once', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    upstream.end();
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(await start()))).toEqual(['task WORKING', 'COMPLETED']);
    expect(rig.one.count('GetTask')).toBe(1);
  });

  test('S-45: an error before the first event becomes the error of the call; an empty stream is invalid', async () => {
    upstream.end(new ProtocolError('content_type_not_supported', 'no'));
    await expect(start()).rejects.toMatchObject({ reason: 'content_type_not_supported' });
    upstream = new Channel();
    upstream.end();
    await expect(start()).rejects.toMatchObject({ reason: 'invalid_agent_response' });
    for (let i = 0; i < 5; i++) await start().catch(() => {});
    upstream = new Channel();
    upstream.push({ task: task('t1', 'TASK_STATE_COMPLETED') });
    expect(told(await read(await start()))).toEqual(['task COMPLETED']);
  });

  test('G-29: a failure of the agent in the middle is an error of the stream, never a task state', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    upstream.end(new ProtocolError('upstream_unavailable', 'cut'));
    await expect(events.next()).rejects.toMatchObject({ reason: 'upstream_unavailable' });
    expect(await stored('t1')).toMatchObject({ task: { status: { state: 'TASK_STATE_WORKING' } } });
  });

  test('G-25: the task continues when its client leaves', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    await events.return?.();
    expect(upstream.left).toBe(false);
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    await expect.poll(async () => (await stored('t1'))?.task.status.state).toBe('TASK_STATE_COMPLETED');
  });

  test('G-25: events of another task are ignored', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    upstream.push(status('t2', 'TASK_STATE_FAILED'));
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(await start()))).toEqual(['task WORKING', 'COMPLETED']);
  });

  test('a stream ends when the client must answer, and the next stream begins with the current task', async () => {
    const asking = task('t1', 'TASK_STATE_INPUT_REQUIRED');
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    upstream.push({ statusUpdate: { taskId: 't1', contextId: 'c-t1', status: asking.status } });
    expect(told(await read(await start()))).toEqual(['task WORKING', 'INPUT_REQUIRED']);
    upstream = new Channel();
    // Many agents first send the task in its previous state.
    upstream.push({ task: asking });
    upstream.push(status('t1', 'TASK_STATE_WORKING'));
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(await start({ taskId: 't1' })))).toEqual(['task INPUT_REQUIRED', 'WORKING', 'COMPLETED']);
    expect((rig.one.last('SendStreamingMessage') as SendMessageRequest).message.contextId).toBe('c-t1');
  });

  test('a change that a callback or a cancel shows first is not sent again by the stream', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    const ahead = task('t1', 'TASK_STATE_WORKING', { artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }] }] });
    rig.one.tasks.set('t1', ahead);
    await core.dispatcher.handleCallback({ agent: 'one', owner: 'alice', id: 't1' }, [{ task: ahead }]);
    expect(await core.call('CancelTask', { id: 't1' })).toMatchObject({ artifacts: [{}] });
    upstream.push(chunk('t1', 'x'));
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['x', 'COMPLETED']);
    expect((await stored('t1'))?.task.artifacts).toEqual([{ artifactId: 'a', parts: [{ text: 'x' }] }]);
  });

  test('S-63: a task that waits for authorization keeps its streams open for a limited time', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    upstream.push(status('t1', 'TASK_STATE_AUTH_REQUIRED'));
    const events = await start();
    expect(told(await read(events, 2))).toEqual(['task WORKING', 'AUTH_REQUIRED']);
    upstream.push(status('t1', 'TASK_STATE_WORKING'));
    expect(told(await read(events, 1))).toEqual(['WORKING']);
    upstream.push(status('t1', 'TASK_STATE_AUTH_REQUIRED'));
    expect(told(await read(events))).toEqual(['AUTH_REQUIRED']);
    expect(await stored('t1')).toMatchObject({ task: { status: { state: 'TASK_STATE_AUTH_REQUIRED' } } });
  });

  test('G-21: a client that chose its own id sees only that id in events', async () => {
    const said = { messageId: 's', role: 'ROLE_AGENT' as const, parts: [{ text: '?' }], taskId: 'up' };
    upstream.push({ task: task('up', 'TASK_STATE_WORKING', { history: [said] }) });
    upstream.push(chunk('up', 'a', false));
    upstream.push({
      statusUpdate: { taskId: 'up', contextId: 'c-up', status: { state: 'TASK_STATE_COMPLETED', message: said } },
    });
    const request = { message: message({ taskId: 'own' }) };
    const events = await read(await core.open('SendStreamingMessage', request, { dialect: '0.1' }));
    expect(told(events)).toEqual(['task WORKING', 'a', 'COMPLETED']);
    expect(JSON.stringify(events)).not.toContain('"up"');
    expect(await stored('own')).toMatchObject({ upstreamId: 'up', task: { id: 'own' } });
  });

  test('G-25: a cut connection frees its stream slot, and the task continues', async () => {
    const cancellation = new Cancellation();
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const answer = await core.handle('SendStreamingMessage', { message: message() }, { cancellation });
    expect(answer.kind).toBe('stream');
    cancellation.cancel('cut');
    expect(rig.one.calls[0]?.exchange.cancellation.cancelled).toBe(false);
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    await expect.poll(async () => (await stored('t1'))?.task.status.state).toBe('TASK_STATE_COMPLETED');
  });

  test('the streams of one caller are limited', async () => {
    const open = [];
    for (let i = 0; i < 3; i++) {
      upstream = new Channel();
      upstream.push({ task: task(`t${i}`, 'TASK_STATE_WORKING') });
      open.push(await start());
    }
    await expect(start()).rejects.toMatchObject({ reason: 'rate_limited' });
    upstream = new Channel();
    upstream.push({ task: task('b1', 'TASK_STATE_WORKING') });
    await start({}, 'bob');
    await open[0]?.return?.();
    upstream = new Channel();
    upstream.push({ task: task('t9', 'TASK_STATE_WORKING') });
    await start();
  });

  test('the tasks that the gateway follows after their client has left are limited', async () => {
    const leave = async (id: string): Promise<Channel> => {
      upstream = new Channel();
      upstream.push({ task: task(id, 'TASK_STATE_WORKING') });
      await (await start()).return?.();
      return upstream;
    };
    const first = await leave('t0');
    for (let i = 1; i < 10; i++) await leave(`t${i}`);
    await expect(start()).rejects.toMatchObject({
      reason: 'rate_limited',
      message: expect.stringContaining('at most 10') as string,
    });
    // A message whose task needs no follower is accepted, and so are messages of other callers.
    rig.one.onSend = async () => ({ value: { task: task('s1', 'TASK_STATE_WORKING') } });
    await core.send({ configuration: { returnImmediately: true } });
    upstream = new Channel();
    upstream.push({ task: task('b1', 'TASK_STATE_WORKING') });
    await start({}, 'bob');
    first.push(status('t0', 'TASK_STATE_COMPLETED'));
    await expect.poll(async () => (await stored('t0'))?.task.status.state).toBe('TASK_STATE_COMPLETED');
    await leave('t10');
  });

  test('a reader that is far behind gets the current task instead of the missed events', async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    for (let i = 0; i < 1_500; i++) upstream.push(chunk('t1', 'x', i > 0));
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    await expect.poll(async () => (await stored('t1'))?.task.status.state).toBe('TASK_STATE_COMPLETED');
    const [snapshot, ...rest] = await read(events);
    expect(rest).toEqual([]);
    expect(snapshot?.task?.artifacts?.[0]?.parts.map(({ text }) => text).join('')).toBe('x'.repeat(1_500));
  });
});

describe('an unavailable database', () => {
  test('delays the end of a task until it is stored', async () => {
    let away = false;
    const save: typeof rig.records.save = async (change) => {
      if (away) throw new ProtocolError('overloaded', 'away', { outcome: 'unknown' });
      return rig.records.save(change);
    };
    core = rig.core({ records: { ...rig.records, save } });
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    away = true;
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    setTimeout(() => {
      away = false;
    }, 500);
    expect(told(await read(events))).toEqual(['COMPLETED']);
    expect(await stored('t1')).toMatchObject({ seq: 2, task: { status: { state: 'TASK_STATE_COMPLETED' } } });
  });

  test('G-51: webhooks get the current task if more events wait than the gateway keeps', async () => {
    let away = false;
    const queued: StreamResponse[] = [];
    const save: typeof rig.records.save = async (change) => {
      if (away) throw new ProtocolError('overloaded', 'away', { outcome: 'unknown' });
      queued.push(...change.events.map(({ event }) => event));
      return rig.records.save(change);
    };
    core = rig.core({ records: { ...rig.records, save } });
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    away = true;
    for (let i = 0; i < 600; i++) {
      upstream.push(chunk('t1', 'x', i > 0));
      if (i % 100 === 99) await sleep(60);
    }
    await read(events, 600);
    await sleep(1_500);
    away = false;
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['COMPLETED']);
    const whole = queued.reduce<Task | undefined>((made, event) => applyEvent(made, event), undefined);
    expect(whole?.artifacts?.[0]?.parts.map(({ text }) => text).join('')).toBe('x'.repeat(600));
    expect(await stored('t1')).toMatchObject({ seq: 602, task: { status: { state: 'TASK_STATE_COMPLETED' } } });
  });

  test('a write without an answer is not repeated', async () => {
    let unanswered = true;
    const save: typeof rig.records.save = async (change) => {
      const saved = await rig.records.save(change);
      if (change.after === 0 || !unanswered) return saved;
      unanswered = false;
      throw new ProtocolError('overloaded', 'away', { outcome: 'unknown' });
    };
    core = rig.core({ records: { ...rig.records, save } });
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    upstream.push(chunk('t1', 'a', false));
    await expect.poll(() => unanswered).toBe(false);
    await sleep(700);
    upstream.push(chunk('t1', 'b'));
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['task WORKING', 'a', 'b', 'COMPLETED']);
    const kept = await rig.records.events({ agent: 'one', owner: 'alice', id: 't1' }, 0);
    expect(told(kept!.map(({ event }) => event))).toEqual(['task WORKING', 'a', 'b', 'COMPLETED']);
  });

  test('does not delay progress; the missed events are stored when the database is available again', async () => {
    let away = false;
    const save: typeof rig.records.save = async (change) => {
      if (away) throw new ProtocolError('overloaded', 'away', { outcome: 'unknown' });
      return rig.records.save(change);
    };
    core = rig.core({ records: { ...rig.records, save } });
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    away = true;
    for (const text of ['a', 'b']) upstream.push(chunk('t1', text, text === 'b'));
    expect(told(await read(events, 2))).toEqual(['a', 'b']);
    await sleep(60);
    expect(await stored('t1')).toMatchObject({ seq: 1 });
    // The end of the task cannot be stored, so it is not sent. After a while, readers get the error of the database.
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    await expect(events.next()).rejects.toMatchObject({ reason: 'overloaded' });
    away = false;
    await expect
      .poll(async () => (await stored('t1'))?.task.status.state, { timeout: 5_000 })
      .toBe('TASK_STATE_COMPLETED');
    expect(await stored('t1')).toMatchObject({
      seq: 4,
      task: { artifacts: [{ parts: [{ text: 'a' }, { text: 'b' }] }] },
    });
    upstream = new Channel();
    away = true;
    upstream.push({ task: task('t2', 'TASK_STATE_WORKING') });
    await expect(start()).rejects.toMatchObject({ reason: 'overloaded' });
  });
});

describe('G-40: an agent that cannot stream', () => {
  beforeEach(() => {
    rig.one.can = { stream: false, push: false, subscribe: false };
  });

  test('gets the message and is polled; streams get the differences', async () => {
    const at = (state: Task['status']['state'], ...texts: string[]) =>
      rig.one.tasks.set(
        't1',
        task('t1', state, { artifacts: [{ artifactId: 'a', parts: texts.map((text) => ({ text })) }] }),
      );
    at('TASK_STATE_WORKING', 'one');
    rig.one.onSend = async () => ({ value: { task: structuredClone(rig.one.known('t1')) } });
    const events = await start();
    expect((rig.one.last('SendMessage') as SendMessageRequest).configuration).toEqual({ returnImmediately: true });
    expect(told(await read(events, 1))).toEqual(['task WORKING']);
    at('TASK_STATE_WORKING', 'one', 'two');
    const [grown] = await read(events, 1);
    expect(grown?.artifactUpdate).toMatchObject({ append: true, artifact: { parts: [{ text: 'two' }] } });
    at('TASK_STATE_COMPLETED', 'one', 'two', 'three');
    const rest = (await read(events)).filter(({ statusUpdate }) => statusUpdate?.status.state !== 'TASK_STATE_WORKING');
    expect(told(rest)).toEqual(['three', 'COMPLETED']);
    expect(await stored('t1')).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
  });

  test('may answer with a direct reply, or with a finished task', async () => {
    rig.one.onSend = async () => ({ value: { message: { messageId: 'r', role: 'ROLE_AGENT', parts: [] } } });
    expect(told(await read(await start()))).toEqual(['message']);
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
    expect(told(await read(await start()))).toEqual(['task COMPLETED']);
  });
});

describe('S-43 S1-53: subscribing', () => {
  const begin = async (): Promise<AsyncIterator<unknown>> => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    return events;
  };

  test('S-42: every reader gets the task first, then the same events; a reader that leaves affects no other', async () => {
    const first = (await begin()) as Awaited<ReturnType<typeof start>>;
    upstream.push(chunk('t1', 'a', false));
    await read(first, 1);
    const [second, third] = [await subscribe(core, 't1'), await subscribe(core, 't1')];
    await read(third, 1);
    await third.return?.();
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    const [task_, ...rest] = await read(second);
    expect(task_?.task).toMatchObject({ artifacts: [{ parts: [{ text: 'a' }] }] });
    expect(told(rest)).toEqual(['COMPLETED']);
    expect(told(await read(first))).toEqual(['COMPLETED']);
    expect(rig.one.count('SubscribeToTask')).toBe(0);
  });

  test('to a finished task, or to a task of another caller, is refused', async () => {
    await begin();
    await expect(subscribe(core, 't1', 'bob')).rejects.toMatchObject({ reason: 'task_not_found' });
    await expect(subscribe(core, 'nope')).rejects.toMatchObject({ reason: 'task_not_found' });
    upstream.push(status('t1', 'TASK_STATE_CANCELED'));
    await expect.poll(async () => (await stored('t1'))?.task.status.state).toBe('TASK_STATE_CANCELED');
    await expect(subscribe(core, 't1')).rejects.toMatchObject({ reason: 'unsupported_operation' });
    await expect(subscribe(rig.core(), 't1')).rejects.toMatchObject({ reason: 'unsupported_operation' });
  });

  test('follows a task at its agent if no replica follows it', async () => {
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_WORKING') } });
    await core.send({}, { returnImmediately: true });
    const own = new Channel();
    own.push({ task: task('t1', 'TASK_STATE_WORKING', { metadata: { now: 1 } }) });
    rig.one.onSubscribe = () => own;
    const events = await subscribe(core, 't1');
    expect((await read(events, 1))[0]?.task).toMatchObject({ metadata: { now: 1 } });
    own.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['COMPLETED']);
  });

  test('continues at once if a new reader comes right after the last reader left', async () => {
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_WORKING') } });
    const slow = rig.core({ timeouts: { call: 5_000, lease: 60_000 } });
    await slow.send({}, { returnImmediately: true });
    for (let round = 1; round <= 3; round++) {
      const own = new Channel();
      own.push({ task: task('t1', 'TASK_STATE_WORKING') });
      rig.one.onSubscribe = () => own;
      const events = await subscribe(slow, 't1');
      await read(events, 1);
      own.push(chunk('t1', `round ${round}`, false));
      expect(told(await read(events, 1))).toEqual([`round ${round}`]);
      await events.return?.();
    }
    expect(rig.one.count('SubscribeToTask')).toBe(3);
  });

  test('polls an agent without subscriptions, and is refused if the agent is unreachable', async () => {
    rig.one.can = { stream: false, push: false, subscribe: false };
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_WORKING'));
    rig.one.onSend = async () => ({ value: { task: rig.one.known('t1') } });
    await core.send({}, { returnImmediately: true });
    rig.one.refusal = new ProtocolError('upstream_unavailable', 'away');
    await expect(subscribe(core, 't1')).rejects.toMatchObject({ reason: 'upstream_unavailable' });
    rig.one.refusal = undefined;
    const events = await subscribe(core, 't1');
    await read(events, 1);
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['COMPLETED']);
  });

  test('to a task that waits for an answer gets the events of the next message', async () => {
    await begin();
    upstream.push(status('t1', 'TASK_STATE_INPUT_REQUIRED'));
    await expect.poll(async () => (await stored('t1'))?.task.status.state).toBe('TASK_STATE_INPUT_REQUIRED');
    const [here, there] = [await subscribe(core, 't1'), await subscribe(rig.core(), 't1')];
    expect(told(await read(here, 1))).toEqual(['task INPUT_REQUIRED']);
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
    await core.send({ taskId: 't1' });
    expect(told(await read(here))).toEqual(['COMPLETED']);
    expect(told(await read(there))).toEqual(['task INPUT_REQUIRED', 'COMPLETED']);
  });
});

describe('several replicas', () => {
  const begin = async () => {
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    return events;
  };

  test('G-23: a subscriber at another replica gets the events that the replica of the follower stores', async () => {
    await begin();
    const elsewhere = await subscribe(rig.core(), 't1');
    expect(told(await read(elsewhere, 1))).toEqual(['task WORKING']);
    upstream.push(chunk('t1', 'a', false));
    upstream.push(chunk('t1', 'b'));
    expect(told(await read(elsewhere, 2))).toEqual(['a', 'b']);
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(elsewhere))).toEqual(['COMPLETED']);
    expect(rig.one.count('SubscribeToTask')).toBe(0);
  });

  test('a cancel at another replica ends the streams here with the cancelled task', async () => {
    const events = await begin();
    rig.one.onCancel = (id) => task(id, 'TASK_STATE_CANCELED');
    await rig.core().call('CancelTask', { id: 't1' });
    upstream.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['task CANCELED']);
    expect(await stored('t1')).toMatchObject({ task: { status: { state: 'TASK_STATE_CANCELED' } } });
  });

  test('a subscriber’s replica takes over when the replica that followed the task is gone', async () => {
    const gone = rig.core();
    const working = task('t1', 'TASK_STATE_WORKING');
    upstream.push({ task: working });
    const lost = await gone.open('SendStreamingMessage', { message: message() });
    await read(lost, 1);
    const events = await subscribe(core, 't1');
    await read(events, 1);
    const own = new Channel();
    own.push({ task: working });
    rig.one.onSubscribe = () => own;
    await gone.dispatcher.close();
    await expect.poll(() => rig.one.count('SubscribeToTask'), { timeout: 5_000 }).toBe(1);
    own.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['COMPLETED']);
  });

  test('a cancel at another replica ends a stream even if the agent sends nothing', async () => {
    const other = rig.core();
    for (const { dispatcher } of [core, other]) dispatcher.start();
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    const events = await start();
    await read(events, 1);
    rig.one.onCancel = () => task('t1', 'TASK_STATE_CANCELED');
    await other.call('CancelTask', { id: 't1' });
    expect(told(await read(events))).toEqual(['CANCELED']);
    await expect.poll(() => rig.one.calls[0]?.exchange.cancellation.cancelled).toBe(true);
  });

  test('fault 25: a replica that returns late finds another follower, and sends the events of that follower', async () => {
    const other = rig.core();
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    // The dispatcher is not started, so its claim expires as if the replica were frozen.
    const events = await start();
    await read(events, 1);
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_WORKING'));
    const theirs = new Channel();
    rig.one.onSubscribe = () => theirs;
    theirs.push({ task: task('t1', 'TASK_STATE_WORKING') });
    theirs.push(chunk('t1', 'a', false));
    await sleep(700);
    const watched = await subscribe(other, 't1');
    expect(told(await read(watched, 2))).toEqual(['task WORKING', 'a']);
    await expect.poll(async () => (await stored('t1'))?.task.artifacts?.length).toBe(1);
    // The stream of the late replica repeats the event.
    upstream.push(chunk('t1', 'a', false));
    theirs.push(chunk('t1', 'b'));
    theirs.push(status('t1', 'TASK_STATE_COMPLETED'));
    const heard = await read(events);
    expect(told(heard).at(-1)).toMatch(/COMPLETED$/);
    expect(told(await read(watched))).toEqual(['b', 'COMPLETED']);
    expect((await stored('t1'))?.task.artifacts?.[0]?.parts.map(({ text }) => text)).toEqual(['a', 'b']);
    const kept = await rig.records.events({ agent: 'one', owner: 'alice', id: 't1' }, 0);
    expect(kept?.filter(({ event }) => event.artifactUpdate)).toHaveLength(2);
  });

  test('other replicas update the tasks that a dead replica followed', async () => {
    const gone = rig.core();
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    await read(await gone.open('SendStreamingMessage', { message: message() }), 1);
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_COMPLETED'));
    core.dispatcher.start();
    // The replica is not closed. It only sends nothing from now on.
    await expect
      .poll(async () => (await stored('t1'))?.task.status.state, { timeout: 5_000 })
      .toBe('TASK_STATE_COMPLETED');
  });
});
