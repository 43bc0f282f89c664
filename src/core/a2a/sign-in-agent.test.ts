import { beforeEach, describe, expect, test } from 'vitest';
import type { SendMessageRequest, StreamResponse, Task } from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type Caller, Cancellation, GATEWAY, principalOf } from '../caller.js';
import type { Agent, Events, Exchange, Passed } from './agent.js';
import { SignInAgent } from './sign-in-agent.js';
import type { TaskRecord } from './tasks/task-records.js';

const ADA: Caller = { ...GATEWAY, principal: principalOf({ subject: 'ada' }) };
const exchange = (): Exchange => ({ cancellation: new Cancellation(), extensions: [], forward: {} });
const saying = (text: string, more: object = {}): Passed<SendMessageRequest> => ({
  value: { message: { messageId: text, role: 'ROLE_USER', parts: [{ text }], ...more } } as SendMessageRequest,
});
const required = (): ProtocolError =>
  new ProtocolError('login_required', 'Agent "it" needs you to sign in', {
    outcome: 'not_executed',
    data: { agent: 'it', url: 'https://gw.example/connect/agents/it?link=x', code: 'ABCD-EFGH' },
  });

let signedIn: boolean;
let heard: SendMessageRequest[];
let records: Map<string, TaskRecord>;
let claims: Set<string>;
let answer: () => StreamResponse;

const own: Task = { id: 't1', contextId: 'c1', status: { state: 'TASK_STATE_COMPLETED' } };

function agent(): SignInAgent {
  const got = (request: Passed<SendMessageRequest>): StreamResponse => {
    if (!signedIn) throw required();
    heard.push(request.value);
    return answer();
  };
  const inner = {
    name: 'it',
    send: async (_: Caller, request: Passed<SendMessageRequest>) => ({ value: got(request) }),
    stream: async (_: Caller, request: Passed<SendMessageRequest>): Promise<Events> => {
      const event = got(request);
      return (async function* () {
        yield { value: event };
      })();
    },
    getTask: async (_: Caller, { id }: { id: string }) => ({ value: { ...own, id } }),
  } as unknown as Agent;
  return new SignInAgent({
    agent: inner,
    records: { findUpstream: async (_, id) => records.get(id) },
    claim: async (id) => {
      if (claims.has(id)) return undefined;
      claims.add(id);
      return async () => void claims.delete(id);
    },
  });
}

/** Stores a task as the gateway does. */
function stored(task: Task | undefined, owner = 'ada'): Task {
  const { id, contextId = '' } = task!;
  records.set(id, { agent: 'it', owner, id, upstreamId: id, contextId, task: task! } as TaskRecord);
  return task!;
}

beforeEach(() => {
  signedIn = false;
  heard = [];
  records = new Map();
  claims = new Set();
  answer = () => ({ task: own });
});

describe('S-63: a task that waits for a sign-in', () => {
  test('contains the link and the code, as text and as data', async () => {
    const task = (await agent().send(ADA, saying('hello'), exchange())).value.task!;
    expect(task.status.state).toBe('TASK_STATE_AUTH_REQUIRED');
    const [text, data] = task.status.message!.parts;
    expect(text?.text).toContain('https://gw.example/connect/agents/it?link=x');
    expect(text?.text).toContain('ABCD-EFGH');
    expect(data?.data).toEqual({ url: 'https://gw.example/connect/agents/it?link=x', code: 'ABCD-EFGH' });
    expect(task.history?.[0]?.parts).toEqual([{ text: 'hello' }]);
  });

  test('is not made for other errors or without a link', async () => {
    const it = agent();
    signedIn = true;
    answer = () => {
      throw new ProtocolError('upstream_unavailable', 'away', { outcome: 'not_executed' });
    };
    await expect(it.send(ADA, saying('hello'), exchange())).rejects.toThrow('away');
    answer = () => {
      throw new ProtocolError('login_required', 'no pages', { outcome: 'not_executed', data: { agent: 'it' } });
    };
    await expect(it.send(ADA, saying('hello'), exchange())).rejects.toThrow('no pages');
  });

  test('delivers its first message with the ids of the agent, and shows the client its own ids', async () => {
    const it = agent();
    const asked = stored((await it.send(ADA, saying('hello'), exchange())).value.task);
    signedIn = true;
    const next = saying('done', { taskId: asked.id, contextId: asked.contextId });
    const done = stored((await it.send(ADA, next, exchange())).value.task);
    expect([done.id, done.contextId, done.status.state]).toEqual([asked.id, asked.contextId, 'TASK_STATE_COMPLETED']);
    expect(heard.map(({ message }) => message.parts)).toEqual([[{ text: 'hello' }]]);
    expect(heard[0]?.message).not.toHaveProperty('taskId');
    expect(heard[0]?.message).not.toHaveProperty('contextId');
    // A restarted gateway finds the agent's task through the stored task.
    expect((await agent().getTask(ADA, { id: asked.id }, exchange())).value.id).toBe(asked.id);
    await agent().send(ADA, saying('more', { taskId: asked.id }), exchange());
    expect(heard[1]?.message).toMatchObject({ taskId: 't1', contextId: 'c1', parts: [{ text: 'more' }] });
  });

  test('if the stream of the agent begins with an update, the client still gets the task first', async () => {
    const it = agent();
    const asked = stored((await it.send(ADA, saying('hello'), exchange())).value.task);
    signedIn = true;
    answer = () => ({ statusUpdate: { taskId: 't1', contextId: 'c1', status: { state: 'TASK_STATE_WORKING' } } });
    const events: StreamResponse[] = [];
    for await (const { value } of await it.stream(ADA, saying('done', { taskId: asked.id }), exchange()))
      events.push(value);
    expect(events.map((event) => event.task?.id ?? event.statusUpdate?.taskId)).toEqual([asked.id, asked.id]);
    expect(events[0]?.task?.status.state).toBe('TASK_STATE_WORKING');
  });

  test('ends as completed if the agent answers without a task', async () => {
    const it = agent();
    const asked = stored((await it.send(ADA, saying('hello'), exchange())).value.task);
    signedIn = true;
    answer = () => ({ message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'hi' }] } });
    const { task } = (await it.send(ADA, saying('done', { taskId: asked.id }), exchange())).value;
    expect(task).toMatchObject({ id: asked.id, status: { state: 'TASK_STATE_COMPLETED' } });
  });

  test('a message that did not arrive is delivered again; a message that may have arrived is not', async () => {
    const it = agent();
    const asked = stored((await it.send(ADA, saying('hello'), exchange())).value.task);
    const next = () => it.send(ADA, saying('done', { taskId: asked.id }), exchange());
    signedIn = true;
    answer = () => {
      throw new ProtocolError('upstream_unavailable', 'refused', { outcome: 'not_executed' });
    };
    await expect(next()).rejects.toThrow('refused');
    answer = () => {
      throw new ProtocolError('upstream_unavailable', 'cut off', { outcome: 'unknown' });
    };
    await expect(next()).rejects.toThrow('cut off');
    await expect(next()).rejects.toThrow('still being delivered');
    expect(heard).toHaveLength(2);
  });

  test('G-22: belongs to its caller', async () => {
    const it = agent();
    const asked = stored((await it.send(ADA, saying('hello'), exchange())).value.task, 'ben');
    for (const attempt of [
      () => it.getTask(ADA, { id: asked.id }, exchange()),
      () => it.cancelTask(ADA, { id: asked.id }, exchange()),
      () => it.subscribe(ADA, { id: asked.id }, exchange()),
      () => it.send(ADA, saying('x', { taskId: asked.id }), exchange()),
    ])
      await expect(attempt()).rejects.toThrow('Task not found');
  });
});
