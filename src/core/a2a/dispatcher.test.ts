import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Core, message, type Rig, ScriptedAgent, startRig, task } from '../../../test/support/scripted-agent.js';
import { callerNamed, cardOf, cardsOf, StaticAgent } from '../../../test/support/static-agent.js';
import { admitting } from '../../interceptors/admission.js';
import { HOPS, type ListTasksResponse, type SendMessageRequest, type Task } from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type Admission, OpenAdmission } from '../admission.js';
import { Cancellation, GATEWAY, principalOf } from '../caller.js';
import { Pipeline } from '../pipeline.js';

let rig: Rig;
let core: Core;

beforeEach(async () => {
  rig = await startRig();
  core = rig.core();
});
afterEach(() => rig.stop());

const refusal = (reason: string): object => ({ reason });

test('an interceptor sees every operation, callbacks of agents and cards, and can refuse them', async () => {
  rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_INPUT_REQUIRED') } });
  await core.send();
  const seen: unknown[] = [];
  const denying = new Pipeline([
    ({ protocol, method, target, caller }) => {
      seen.push([protocol, method, target?.kind, target?.name, caller.principal.key]);
      throw new ProtocolError('forbidden', 'No');
    },
  ]);
  const denied = rig.core({ pipeline: denying });
  const asked = rig.one.calls.length;
  await expect(denied.dispatcher.handleCallback({ agent: 'one', owner: 'alice', id: 't1' }, [])).rejects.toMatchObject(
    refusal('forbidden'),
  );
  await expect(denied.dispatcher.read(GATEWAY, 'one', () => rig.one.facts())).rejects.toMatchObject(
    refusal('forbidden'),
  );
  await expect(denied.send()).rejects.toMatchObject(refusal('forbidden'));
  await expect(denied.send({}, undefined, { agent: 'none' })).rejects.toMatchObject(refusal('forbidden'));
  expect(seen).toEqual([
    ['a2a', 'GetTask', 'agent', 'one', 'alice'],
    ['a2a', 'GetExtendedAgentCard', 'agent', 'one', GATEWAY.principal.key],
    ['a2a', 'SendMessage', 'agent', 'one', expect.any(String)],
    ['a2a', 'SendMessage', undefined, undefined, expect.any(String)],
  ]);
  expect(rig.one.calls.length).toBe(asked);
});

test('a task belongs to the key of its caller, not to the same subject of another issuer', async () => {
  rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
  await core.send();
  const namesake = { ...GATEWAY, principal: principalOf({ subject: 'alice', issuer: 'https://other.example' }) };
  const exchange = { cancellation: new Cancellation(), extensions: [], forward: {} };
  const call = {
    agent: 'one',
    operation: 'GetTask',
    request: { value: { id: 't1' } },
    dialect: '1.0',
    exchange,
  } as const;
  await expect(core.dispatcher.handle(namesake, call)).rejects.toMatchObject(refusal('task_not_found'));
});

test('G-15, S-62: the cards of a hidden agent and of an absent one have the same error', async () => {
  const admission: Admission = { sees: (_, { name }) => name !== 'planner', admit: () => {} };
  const cards = cardsOf([new StaticAgent('planner', cardOf('Planner'))], { admission });
  const { dispatcher } = rig.core({ admission, pipeline: new Pipeline([admitting(admission)]) });
  const ann = callerNamed('ann');
  const told = async (name: string): Promise<string> => {
    const error = await dispatcher.read(ann, name, () => cards.agent(ann, name)).catch((reason: Error) => reason);
    return JSON.stringify([(error as Error).message, error]).replaceAll(name, 'NAME');
  };
  expect(await told('planner')).toContain('agent_not_found');
  expect(await told('planner')).toBe(await told('absent'));
});

describe('a message', () => {
  test('S-20: a direct reply passes unchanged, and nothing is stored', async () => {
    const text = '{"message":{"messageId":"r","role":"ROLE_AGENT","parts":[{"text":"hi"}],"extra":1}}';
    rig.one.onSend = async () => ({ value: JSON.parse(text) as JsonObject, text });
    rig.work();
    const answer = await core.handle('SendMessage', { message: message() });
    expect(answer).toMatchObject({ kind: 'result', result: { text } });
    expect(rig.work()).toEqual({ writes: 0, reads: 0 });
  });

  test('G-20: a finished task is stored by one write before the answer, and passes unchanged', async () => {
    const done = task('t1', 'TASK_STATE_COMPLETED', { extra: 'kept' });
    const text = JSON.stringify({ task: done });
    rig.one.onSend = async () => ({ value: { task: done }, text });
    rig.work();
    const answer = await core.handle('SendMessage', { message: message() });
    expect(rig.work()).toEqual({ writes: 1, reads: 0 });
    expect(answer).toMatchObject({ kind: 'result', result: { text }, createdIn: '1.0' });
    expect(await rig.core().call<Task>('GetTask', { id: 't1' })).toEqual(done);
    expect(rig.one.count('GetTask')).toBe(0);
  });

  test('S-30: an invalid message is refused before it reaches an agent', async () => {
    await expect(core.send({ parts: [] })).rejects.toMatchObject(refusal('invalid_params'));
    await expect(core.send({ messageId: '' })).rejects.toMatchObject(refusal('invalid_params'));
    await expect(core.send({ parts: Array(11).fill({ text: 'x' }) })).rejects.toMatchObject(refusal('invalid_params'));
    await expect(core.send({}, { historyLength: -1 })).rejects.toMatchObject(refusal('invalid_params'));
    expect(rig.one.calls).toEqual([]);
  });

  test('an unknown agent and a hidden one are not found', async () => {
    await expect(core.send({}, undefined, { agent: 'two' })).rejects.toMatchObject(refusal('agent_not_found'));
    const admission = Object.assign(new OpenAdmission(() => true), { sees: () => false });
    const closed = rig.core({ admission });
    await expect(closed.send()).rejects.toMatchObject(refusal('agent_not_found'));
    await expect(core.send({}, undefined, { agent: undefined })).rejects.toMatchObject(refusal('agent_not_found'));
  });

  test('S-21: a finished task accepts no more messages', async () => {
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_FAILED') } });
    await core.send();
    await expect(core.send({ taskId: 't1' })).rejects.toMatchObject(refusal('unsupported_operation'));
    expect(rig.one.count('SendMessage')).toBe(1);
  });

  test('S-24, G-22: a message to an unknown task, or to a task of another caller, is refused', async () => {
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_INPUT_REQUIRED') } });
    await core.send();
    await expect(core.send({ taskId: 'nope' })).rejects.toMatchObject(refusal('task_not_found'));
    await expect(core.send({ taskId: 't1' }, undefined, { as: 'bob' })).rejects.toMatchObject(
      refusal('task_not_found'),
    );
    await expect(core.send({ referenceTaskIds: ['t1'] }, undefined, { as: 'bob' })).rejects.toMatchObject(
      refusal('task_not_found'),
    );
    expect(rig.one.count('SendMessage')).toBe(1);
  });

  test('S-25: a context is inferred from its task, stored, and bound to its caller', async () => {
    rig.one.onSend = async ({ message: { contextId } }) => ({
      value: { task: { ...task('t1', 'TASK_STATE_INPUT_REQUIRED'), contextId: contextId ?? 'minted' } },
    });
    expect((await core.send({ contextId: 'mine' })).task?.contextId).toBe('mine');
    await core.send({ taskId: 't1' });
    expect((rig.one.last('SendMessage') as SendMessageRequest).message).toMatchObject({
      taskId: 't1',
      contextId: 'mine',
    });
    await expect(core.send({ taskId: 't1', contextId: 'other' })).rejects.toMatchObject(refusal('invalid_params'));
    await expect(core.send({ contextId: 'mine' }, undefined, { as: 'bob' })).rejects.toMatchObject(
      refusal('invalid_params'),
    );
    await expect(rig.core().send({ contextId: 'mine' }, undefined, { as: 'bob' })).rejects.toMatchObject(
      refusal('invalid_params'),
    );
    rig.one.onSend = async () => ({ value: { task: { ...task('t2', 'TASK_STATE_WORKING'), contextId: 'replaced' } } });
    await expect(core.send({ contextId: 'mine' })).rejects.toMatchObject(refusal('invalid_agent_response'));
  });

  test('S-25: a task gets a context if its agent names none', async () => {
    const { contextId: _, ...bare } = task('t1', 'TASK_STATE_COMPLETED');
    rig.one.onSend = async () => ({ value: { task: bare as Task } });
    const { task: answered } = await core.send();
    expect(answered?.contextId).toMatch(/^[0-9a-f-]{36}$/);
    expect((await core.call<Task>('GetTask', { id: 't1' })).contextId).toBe(answered?.contextId);
  });

  test('an answer with the task id of another caller is invalid', async () => {
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
    await core.send();
    await expect(core.send({}, undefined, { as: 'bob' })).rejects.toMatchObject(refusal('invalid_agent_response'));
    await expect(core.call('GetTask', { id: 't1' }, { as: 'bob' })).rejects.toMatchObject(refusal('task_not_found'));
  });

  test('S-29: the gateway limits the history, whether or not the agent does', async () => {
    const history = ['a', 'b', 'c'].map((messageId) => ({ ...message(), messageId })) as unknown as Task['history'];
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED', { history: history! }) } });
    expect((await core.send({}, { historyLength: 0 })).task).not.toHaveProperty('history');
    expect((rig.one.last('SendMessage') as SendMessageRequest).configuration).toBeUndefined();
    const ids = async (historyLength?: number) =>
      (
        await core.call<Task>('GetTask', { id: 't1', ...(historyLength !== undefined && { historyLength }) })
      ).history?.map(({ messageId }) => messageId);
    expect(await ids()).toEqual(['a', 'b', 'c']);
    expect(await ids(2)).toEqual(['b', 'c']);
    expect(await ids(0)).toBeUndefined();
  });

  test('S-23: a blocking send waits even if the agent returns early; returnImmediately does not wait', async () => {
    rig.one.can = { stream: false, push: false, subscribe: false };
    const working = task('t1', 'TASK_STATE_WORKING');
    rig.one.tasks.set('t1', working);
    rig.one.onSend = async () => ({ value: { task: working } });
    setTimeout(() => rig.one.tasks.set('t1', task('t1', 'TASK_STATE_COMPLETED')), 250);
    expect((await core.send({}, { returnImmediately: true })).task?.status.state).toBe('TASK_STATE_WORKING');
    rig.one.tasks.set('t2', task('t2', 'TASK_STATE_WORKING'));
    rig.one.onSend = async () => ({ value: { task: task('t2', 'TASK_STATE_WORKING') } });
    setTimeout(() => rig.one.tasks.set('t2', task('t2', 'TASK_STATE_COMPLETED')), 250);
    expect((await core.send()).task?.status.state).toBe('TASK_STATE_COMPLETED');
    expect((await rig.core().call<Task>('GetTask', { id: 't2' })).status.state).toBe('TASK_STATE_COMPLETED');
  });

  test('S-23: waiting ends with the call timeout and returns the current task', async () => {
    rig.one.can = { stream: false, push: false, subscribe: false };
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_WORKING'));
    rig.one.onSend = async () => ({ value: { task: rig.one.known('t1') } });
    const hasty = rig.core({ timeouts: { call: 150 } });
    expect((await hasty.send()).task?.status.state).toBe('TASK_STATE_WORKING');
  });

  test('G-6: a message in a loop, or with too many hops, is refused', async () => {
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
    const send = (hops: string[]) =>
      core.call('SendMessage', { message: message(), metadata: { [HOPS]: hops, mine: 1 } });
    await send(['there/one']);
    expect((rig.one.last('SendMessage') as SendMessageRequest).metadata).toEqual({
      [HOPS]: ['there/one', 'here/one'],
      mine: 1,
    });
    await expect(send(['here/one'])).rejects.toMatchObject(refusal('loop_detected'));
    await expect(send(['a/1', 'b/2', 'c/3'])).rejects.toMatchObject(refusal('loop_detected'));
    expect(rig.one.count('SendMessage')).toBe(1);
  });

  test('S-15: an agent that requires an extension gets messages only from clients that support it', async () => {
    rig.one.card = { ...rig.one.card, capabilities: { extensions: [{ uri: 'urn:x', required: true }] } };
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
    await expect(core.send()).rejects.toMatchObject(refusal('extension_required'));
    const answer = await core.handle('SendMessage', { message: message() }, { extensions: ['urn:x', 'urn:y'] });
    expect(answer.extensions).toEqual(['urn:x']);
  });

  test('G-25: an answer is stored even if its client has left', async () => {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    rig.one.onSend = async () => {
      await held;
      return { value: { task: task('t1', 'TASK_STATE_COMPLETED') } };
    };
    const cancellation = new Cancellation();
    const sender = core.send({}, undefined, { cancellation });
    await expect.poll(() => rig.one.calls.length).toBe(1);
    cancellation.cancel('gone');
    expect(rig.one.calls[0]?.exchange.cancellation.cancelled).toBe(false);
    release();
    await sender;
    expect((await rig.core().call<Task>('GetTask', { id: 't1' })).status.state).toBe('TASK_STATE_COMPLETED');
  });

  test('a task beyond the limits is invalid; adjacent text parts are joined', async () => {
    const artifacts = (count: number, parts: object[]) =>
      Array.from({ length: count }, (_, i) => ({ artifactId: `a${i}`, parts })) as unknown as Task['artifacts'];
    const answer = (id: string, of: Task['artifacts']) => {
      rig.one.onSend = async () => ({ value: { task: task(id, 'TASK_STATE_COMPLETED', { artifacts: of! }) } });
      return core.send();
    };
    await expect(answer('t1', artifacts(6, [{ text: 'x' }]))).rejects.toMatchObject(refusal('invalid_agent_response'));
    const urls = Array.from({ length: 11 }, () => ({ url: 'u' }));
    await expect(answer('t2', artifacts(1, urls))).rejects.toMatchObject(refusal('invalid_agent_response'));
    const words = Array.from({ length: 11 }, () => ({ text: 'x' }));
    expect((await answer('t3', artifacts(1, words))).task?.artifacts?.[0]?.parts).toEqual([{ text: 'xxxxxxxxxxx' }]);
  });
});

describe('the routing agent', () => {
  test('G-5: follows the decision of the router, and asks the client without one', async () => {
    const routingAgent = new ScriptedAgent('');
    routingAgent.onSend = async () => ({ value: { task: task('d1', 'TASK_STATE_INPUT_REQUIRED') } });
    rig.one.onSend = async () => ({ value: { task: task('t1', 'TASK_STATE_COMPLETED') } });
    let kind: 'agent' | 'ask' = 'agent';
    const router = rig.core({
      router: {
        routingAgent,
        route: async () => (kind === 'ask' ? { kind, candidates: [] } : { kind, agent: 'one', why: 'only' }),
      },
    });
    const options = { agent: undefined };
    expect((await router.send({}, undefined, options)).task?.id).toBe('t1');
    expect(await router.call('GetTask', { id: 't1' }, options)).toMatchObject({ id: 't1' });
    kind = 'ask';
    expect((await router.send({}, undefined, options)).task?.id).toBe('d1');
    const { tasks } = await router.call<ListTasksResponse>('ListTasks', {}, options);
    expect(tasks.map(({ id }) => id).sort()).toEqual(['d1', 't1']);
  });

  test('S-60: the extended card comes from `Cards`', async () => {
    await expect(core.call('GetExtendedAgentCard', {})).rejects.toMatchObject(refusal('extended_card_not_configured'));
    const asked: unknown[] = [];
    const extended = async (_: unknown, agent: string | undefined) => {
      asked.push(agent);
      return rig.one.card;
    };
    const carded = rig.core({ cards: { extended } });
    expect(await carded.call('GetExtendedAgentCard', {})).toMatchObject({ name: 'Scripted' });
    await carded.call('GetExtendedAgentCard', {}, { agent: undefined });
    await expect(carded.call('GetExtendedAgentCard', {}, { agent: 'two' })).rejects.toMatchObject(
      refusal('agent_not_found'),
    );
    expect(asked).toEqual(['one', undefined]);
  });
});

describe('G-21: a client that chooses its own task ids', () => {
  test('uses its own id, and the agent uses another', async () => {
    rig.one.onSend = async ({ message: { messageId, taskId } }) => ({
      value: {
        task: task('up', 'TASK_STATE_INPUT_REQUIRED', {
          history: [{ messageId, role: 'ROLE_USER', parts: [], ...(taskId !== undefined && { taskId }) }],
          contextId: 'c',
        }),
      },
    });
    const options = { dialect: '0.1' } as const;
    const first = await core.send({ taskId: 'own' }, undefined, options);
    expect(first.task).toMatchObject({ id: 'own' });
    expect((rig.one.last('SendMessage') as SendMessageRequest).message).not.toHaveProperty('taskId');
    const second = await core.send({ taskId: 'own' }, undefined, options);
    expect((rig.one.last('SendMessage') as SendMessageRequest).message.taskId).toBe('up');
    expect(second.task).toMatchObject({ id: 'own', history: [{}, { taskId: 'own' }] });
    rig.one.onCancel = () => task('up', 'TASK_STATE_CANCELED', { contextId: 'c' });
    expect(await core.call('CancelTask', { id: 'own' }, options)).toMatchObject({ id: 'own' });
    expect(rig.one.last('CancelTask')).toEqual({ id: 'up' });
    await expect(core.call('GetTask', { id: 'up' })).rejects.toMatchObject(refusal('task_not_found'));
  });

  test('gets a direct reply as a finished task, which the client can read again', async () => {
    rig.one.onSend = async () => ({
      value: { message: { messageId: 'r', role: 'ROLE_AGENT', parts: [{ text: 'hi' }] } },
    });
    const { task: answered } = await core.send({ taskId: 'own' }, undefined, { dialect: '0.1' });
    expect(answered).toMatchObject({
      id: 'own',
      status: { state: 'TASK_STATE_COMPLETED', message: { parts: [{ text: 'hi' }] } },
    });
    expect(await core.call('GetTask', { id: 'own' }, { dialect: '0.1' })).toEqual(answered);
  });
});

describe('a task', () => {
  const begin = async (id: string, of: Task = task(id, 'TASK_STATE_WORKING'), as = 'alice'): Promise<void> => {
    rig.one.tasks.set(id, of);
    rig.one.onSend = async () => ({ value: { task: of } });
    await core.send({}, { returnImmediately: true }, { as });
  };

  test('S-26: is read from its agent until it is finished, and from the store while the agent is unreachable', async () => {
    await begin('t1');
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_WORKING', { metadata: { step: 2 } }));
    expect(await core.call('GetTask', { id: 't1' })).toMatchObject({ metadata: { step: 2 } });
    rig.one.refusal = new ProtocolError('upstream_unavailable', 'away');
    expect(await core.call('GetTask', { id: 't1' })).toMatchObject({
      status: { state: 'TASK_STATE_WORKING' },
      metadata: { step: 2 },
    });
    rig.one.refusal = undefined;
    rig.one.tasks.set('t1', task('t1', 'TASK_STATE_COMPLETED'));
    expect(await core.call('GetTask', { id: 't1' })).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
    const asked = rig.one.count('GetTask');
    await core.call('GetTask', { id: 't1' });
    expect(rig.one.count('GetTask')).toBe(asked);
    await expect(core.call('GetTask', { id: 't1' }, { as: 'bob' })).rejects.toMatchObject(refusal('task_not_found'));
    await expect(core.call('GetTask', { id: 'x\0' })).rejects.toMatchObject(refusal('task_not_found'));
    expect(rig.one.count('GetTask')).toBe(asked);
  });

  test('S-26: an agent that hangs does not block its client; an agent that lost the task causes an error', async () => {
    await begin('t1');
    const { getTask } = rig.one;
    rig.one.getTask = () => new Promise(() => {});
    expect(await core.call('GetTask', { id: 't1' })).toMatchObject({ status: { state: 'TASK_STATE_WORKING' } });
    rig.one.getTask = getTask;
    rig.one.tasks.clear();
    await expect(core.call('GetTask', { id: 't1' })).rejects.toMatchObject(refusal('task_not_found'));
  });

  test('S-28: is canceled once; a repeated cancel returns the task, and a finished task is not cancelable', async () => {
    await begin('t1');
    rig.one.onCancel = (id) => task(id, 'TASK_STATE_CANCELED');
    const canceled = { status: { state: 'TASK_STATE_CANCELED' } };
    expect(await core.call('CancelTask', { id: 't1', metadata: { why: 1 } })).toMatchObject(canceled);
    expect(rig.one.last('CancelTask')).toEqual({ id: 't1', metadata: { why: 1 } });
    expect(await core.call('CancelTask', { id: 't1' })).toMatchObject(canceled);
    expect(await rig.core().call('GetTask', { id: 't1' })).toMatchObject(canceled);
    expect(rig.one.count('CancelTask')).toBe(1);
    await begin('t2', task('t2', 'TASK_STATE_COMPLETED'));
    await expect(core.call('CancelTask', { id: 't2' })).rejects.toMatchObject(refusal('task_not_cancelable'));
    await expect(core.call('CancelTask', { id: 'nope' })).rejects.toMatchObject(refusal('task_not_found'));
    await expect(core.call('CancelTask', { id: 't1' }, { as: 'bob' })).rejects.toMatchObject(refusal('task_not_found'));
  });

  test('S-27, G-42: lists show tasks newest first, page by page, to their owner only', async () => {
    rig.agents.set('two', new ScriptedAgent('two'));
    const at = (n: number) => ({ timestamp: new Date(1_700_000_000_000 + n * 1000).toISOString() });
    for (let n = 1; n <= 5; n++) {
      await begin(`t${n}`, {
        ...{ id: `t${n}`, contextId: n % 2 ? 'odd' : 'even', artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }] }] },
        status: { state: n === 5 ? 'TASK_STATE_WORKING' : 'TASK_STATE_COMPLETED', ...at(n) },
        history: [{ messageId: 'h', role: 'ROLE_USER', parts: [{ text: 'q' }] }],
      });
    }
    await begin('b1', task('b1', 'TASK_STATE_COMPLETED'), 'bob');
    const list = (request: JsonObject, options?: object) => core.call<ListTasksResponse>('ListTasks', request, options);
    const first = await list({ pageSize: 2 });
    expect(first.tasks.map(({ id }) => id)).toEqual(['t5', 't4']);
    expect(first).toMatchObject({ pageSize: 2, totalSize: 5 });
    expect(first.tasks[0]).not.toHaveProperty('artifacts');
    const second = await list({ pageSize: 2, pageToken: first.nextPageToken });
    const third = await list({
      pageSize: 2,
      pageToken: second.nextPageToken,
      includeArtifacts: true,
      historyLength: 0,
    });
    expect([...second.tasks, ...third.tasks].map(({ id }) => id)).toEqual(['t3', 't2', 't1']);
    expect(third.nextPageToken).toBe('');
    expect(third.tasks[0]).toHaveProperty('artifacts');
    expect(third.tasks[0]).not.toHaveProperty('history');
    expect((await list({ contextId: 'even' })).tasks.map(({ id }) => id)).toEqual(['t4', 't2']);
    expect((await list({ status: 'TASK_STATE_WORKING' })).tasks.map(({ id }) => id)).toEqual(['t5']);
    expect((await list({ statusTimestampAfter: at(4).timestamp })).totalSize).toBe(2);
    expect(await list({}, { agent: 'two' })).toEqual({ tasks: [], nextPageToken: '', pageSize: 50, totalSize: 0 });
    expect((await list({}, { agent: undefined })).totalSize).toBe(5);
    expect((await list({}, { as: 'bob' })).tasks.map(({ id }) => id)).toEqual(['b1']);
    for (const pageSize of [0, 101, 1.5])
      await expect(list({ pageSize })).rejects.toMatchObject(refusal('invalid_params'));
    const { nextPageToken: pageToken } = first;
    await expect(list({ pageToken }, { as: 'bob' })).rejects.toMatchObject(refusal('invalid_params'));
    await expect(list({ pageToken, contextId: 'even' })).rejects.toMatchObject(refusal('invalid_params'));
    await expect(list({ statusTimestampAfter: 'soon' })).rejects.toMatchObject(refusal('invalid_params'));
    const blind = rig.core({ admission: Object.assign(new OpenAdmission(() => true), { sees: () => false }) });
    expect(await blind.call('ListTasks', {}, { agent: undefined })).toMatchObject({ tasks: [], totalSize: 0 });
  });

  test('a list for all agents has no tasks of agents that refuse the caller', async () => {
    rig.agents.set('two', new ScriptedAgent('two'));
    await begin('t1', task('t1', 'TASK_STATE_COMPLETED'));
    const admit: Admission['admit'] = ({ target }) => {
      if (target.kind === 'agent' && target.name === 'one') throw new ProtocolError('forbidden', 'lacks a scope');
    };
    const list = (admission: Admission) =>
      rig.core({ admission }).call<ListTasksResponse>('ListTasks', {}, { agent: undefined });
    expect(await list({ admit })).toMatchObject({ tasks: [], totalSize: 0 });
    expect(await list({ admit: () => {} })).toMatchObject({ totalSize: 1 });
  });

  test('a callback causes a read at the agent; its content counts only if the agent is unreachable', async () => {
    await begin('t1');
    const key = { agent: 'one', owner: 'alice', id: 't1' };
    await core.dispatcher.handleCallback(key, [{ task: task('t1', 'TASK_STATE_COMPLETED') }]);
    expect(await core.call('GetTask', { id: 't1' })).toMatchObject({ status: { state: 'TASK_STATE_WORKING' } });
    rig.one.refusal = new ProtocolError('upstream_unavailable', 'away');
    await core.dispatcher.handleCallback(key, [{ task: task('t1', 'TASK_STATE_COMPLETED') }]);
    await core.dispatcher.handleCallback(key, [{ task: task('t1', 'TASK_STATE_WORKING') }]);
    expect(await core.call('GetTask', { id: 't1' })).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
    await expect(core.dispatcher.handleCallback({ ...key, owner: 'bob' }, [])).rejects.toMatchObject(
      refusal('task_not_found'),
    );
  });

  test('S1-40: a new state replaces the old state, unless the old state is a finished one', async () => {
    const finished = [
      'TASK_STATE_COMPLETED',
      'TASK_STATE_FAILED',
      'TASK_STATE_CANCELED',
      'TASK_STATE_REJECTED',
    ] as const;
    const open = ['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING', 'TASK_STATE_INPUT_REQUIRED'] as const;
    let number = 0;
    for (const from of [...open, ...finished])
      for (const to of [...open, ...finished]) {
        const id = `pair-${++number}`;
        rig.one.refusal = undefined;
        await begin(id);
        rig.one.refusal = new ProtocolError('upstream_unavailable', 'away');
        const key = { agent: 'one', owner: 'alice', id };
        for (const state of [from, to]) await core.dispatcher.handleCallback(key, [{ task: task(id, state) }]);
        const kept = (finished as readonly string[]).includes(from) ? from : to;
        expect([from, to, await core.call('GetTask', { id })]).toMatchObject([from, to, { status: { state: kept } }]);
      }
    expect(number).toBe(49);
  });
});
