/** Two replicas of a tool agent. The system tests cover one replica with real servers. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import type { SendMessageRequest, Task } from '../../../protocol/a2a/model.js';
import type { JsonValue } from '../../../protocol/jsonrpc/raw.js';
import { RawObject } from '../../../protocol/jsonrpc/raw.js';
import { GATEWAY } from '../../caller.js';
import { type Cluster, ReplicaGone } from '../../cluster.js';
import { TaskSlots } from '../../era-bridge/task-slots.js';
import { type Call, complete, type Gateway } from '../../gateway.js';
import { Seal } from '../../seal.js';
import { noteIn } from '../tasks/gateway-notes.js';
import { ownExchange } from '../tasks/task-follower.js';
import type { TaskKey, TaskRecord } from '../tasks/task-records.js';
import { ToolAgent } from './tool-agent.js';

const TOOLS = [{ name: 'work', inputSchema: { type: 'object' } }];
const SAY: SendMessageRequest = { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'go' }] } };

/** Replicas in one process. A replica answers a request at once, unless that replica is gone. */
class Replicas {
  private readonly handlers = new Map<string, (payload: JsonValue) => Promise<JsonValue>>();
  readonly gone = new Set<string>();

  of(self: string): Cluster {
    return {
      self,
      alive: async (replica) => !this.gone.has(replica),
      ask: async (replica, subject, payload) => {
        const handler = this.handlers.get(`${replica} ${subject}`);
        if (!handler || this.gone.has(replica)) throw new ReplicaGone(replica, false);
        return handler(payload);
      },
      handle: (subject, handler) => {
        this.handlers.set(`${self} ${subject}`, handler as (payload: JsonValue) => Promise<JsonValue>);
        return () => {};
      },
      tell: async () => {},
      follow: async () => {},
      unfollow: () => {},
      onTold: () => () => {},
    };
  }
}

/** Stored tasks, and two agents that write to them. */
function testbed() {
  const key = randomBytes(32);
  const seal = new Seal({ active: { id: 'k', key }, find: () => key });
  const replicas = new Replicas();
  const written = new Map<string, Task>();
  const calls: { call: Call; finish: () => void }[] = [];
  const gateway: Gateway = {
    listen: () => Promise.reject(new Error('unexpected listen')),
    describe: () => Promise.reject(new Error('unexpected describe')),
    onTask: () => Promise.reject(new Error('unexpected onTask')),
    call: (_, call) =>
      call.method === 'tools/list'
        ? Promise.resolve(complete(RawObject.from({ tools: TOOLS })))
        : new Promise((resolve) => {
            const finish = (): void => resolve(complete(RawObject.from({ content: [{ type: 'text', text: 'done' }] })));
            calls.push({ call, finish });
            call.cancellation.onCancel(finish);
          }),
  };
  const agent = (self: string): ToolAgent => {
    const made: ToolAgent = new ToolAgent({
      name: 'desk',
      description: undefined,
      tools: ['*'],
      gateway,
      seal,
      patience: 60_000,
      onToolsChanged: () => () => {},
      records: {
        findUpstream: async (name, id) => {
          const task = written.get(id);
          return task && ({ agent: name, owner: 'ada', id, upstreamId: id, task } as TaskRecord);
        },
      },
      tell: async ({ id }: TaskKey) => {
        written.set(id, (await made.getTask(GATEWAY, { id })).value);
      },
      cluster: replicas.of(self),
      slots: new TaskSlots({ perCaller: 3, inAll: 100, requests: { perCaller: 10_000, inAll: 100_000 } }),
    });
    return made;
  };
  const begin = async (on: ToolAgent): Promise<Task> => {
    const { task } = (await on.send(GATEWAY, { value: SAY }, ownExchange())).value;
    written.set(task!.id, task!);
    return task!;
  };
  return { replicas, written, calls, begin, one: agent('one'), two: agent('two') };
}

const stateOn = async (agent: ToolAgent, { id }: Task): Promise<string> =>
  (await agent.getTask(GATEWAY, { id })).value.status.state;

test('a task that one replica runs can be read and canceled at the other', async () => {
  const { begin, one, two, calls } = testbed();
  const first = await begin(one);
  expect(noteIn(first.metadata)).toBe('one');
  expect(await stateOn(two, first)).toBe('TASK_STATE_WORKING');
  await expect(two.subscribe(GATEWAY, { id: first.id })).rejects.toMatchObject({ reason: 'unsupported_operation' });
  calls[0]!.finish();
  await expect.poll(() => stateOn(two, first)).toBe('TASK_STATE_COMPLETED');
  const second = await begin(one);
  expect((await two.cancelTask(GATEWAY, { id: second.id })).value.status.state).toBe('TASK_STATE_CANCELED');
  expect(calls[1]!.call.cancellation.cancelled).toBe(true);
});

test('the end of a task is stored even if no client waits; a task of a dead replica has failed', async () => {
  const { begin, one, two, calls, written, replicas } = testbed();
  const kept = await begin(one);
  calls[0]!.finish();
  await expect.poll(() => written.get(kept.id)!.status.state).toBe('TASK_STATE_COMPLETED');
  expect(written.get(kept.id)!.artifacts).toMatchObject([{ name: 'work', parts: [{ text: 'done' }] }]);
  const left = await begin(one);
  replicas.gone.add('one');
  expect(await stateOn(two, left)).toBe('TASK_STATE_FAILED');
  expect(calls).toHaveLength(2);
});

const saying = (text: string): { value: SendMessageRequest } => ({
  value: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text }] } },
});

test('a caller has a limited number of running tasks, even if the caller does not wait for them', async () => {
  const { begin, one, calls } = testbed();
  const tasks = [await begin(one), await begin(one), await begin(one)];
  await expect(one.send(GATEWAY, saying('go'), ownExchange())).rejects.toMatchObject({ reason: 'overloaded' });
  expect(calls).toHaveLength(3);
  calls[0]!.finish();
  await expect.poll(() => stateOn(one, tasks[0]!)).toBe('TASK_STATE_COMPLETED');
  await expect
    .poll(
      () =>
        begin(one).then(
          () => true,
          () => false,
        ),
      { timeout: 60_000 },
    )
    .toBe(true);
});

test('the messages of running tasks have a limited number of bytes', async () => {
  const { one, calls } = testbed();
  const large = saying('x'.repeat(6_000));
  await one.send(GATEWAY, large, ownExchange());
  await expect(one.send(GATEWAY, large, ownExchange())).rejects.toMatchObject({
    reason: 'overloaded',
    message: expect.stringContaining('too much data') as string,
  });
  expect(calls).toHaveLength(1);
});
