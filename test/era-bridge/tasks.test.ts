/**
 * Tasks in every pairing (mcp.md 4.7, BR-28): clients with the tasks of 2025-11-25 or with the extension, and servers
 * with one of them or neither.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Fixture, startFixture } from '../conformance/fixture.js';
import { ModernFixture } from '../fixtures/era-bridge/modern.mjs';
import { Tasks } from '../fixtures/era-bridge/tasks.mjs';
import {
  accept,
  answersTo,
  asked,
  FORM,
  LegacyClient,
  ModernClient,
  RELATED,
  TASKS,
  textOf,
  WITH_TASKS,
} from './support/clients.js';
import { eventually, type Message, sleep } from './support/wire.js';
import { runsOf, startWorld, tokenOf, tokensFor, type World } from './support/world.js';

let world: World;
let extension: Fixture;
let modern: ModernFixture;

beforeAll(async () => {
  extension = await startFixture('tasks');
  modern = await new ModernFixture().start();
  world = await startWorld({
    http: {
      core: { tasks: () => new Tasks() },
      old: { revision: '2025-06-18' },
    },
    servers: {
      extension: { url: extension.url },
      modern: { url: modern.url },
    },
    config: { auth: tokensFor(['alice']) },
  });
});
afterAll(async () => {
  await world?.close();
  await extension?.close();
  await modern?.close();
});

/** The calls that cause each effect at a server. */
interface Cast {
  readonly slow: [string, object];
  readonly fails: [string, object];
  readonly breaks: [string, object];
  readonly ask: [string, object];
  readonly answer: object;
  readonly said: string;
}

const byHand: Cast = {
  slow: ['slow', { key: 'slow', milliseconds: 400 }],
  fails: ['fails', { key: 'f' }],
  breaks: ['breaks', {}],
  ask: ['ask', { key: 'asks' }],
  answer: accept({ answer: 'yes' }),
  said: 'asks: yes',
};
const CASTS: Record<string, Cast> = {
  extension: {
    slow: ['slow_compute', { seconds: 0.4, label: 'it' }],
    fails: ['failing_job', {}],
    breaks: ['protocol_error_job', {}],
    ask: ['confirm_delete', { filename: 'a.txt' }],
    answer: accept({ confirm: true }),
    said: 'Deleted a.txt',
  },
  modern: { ...byHand, said: 'asks: {"action":"accept","content":{"answer":"yes"}}' },
  core: byHand,
  old: byHand,
};

const URLS = { elicitation: { form: {}, url: {} } };
const token = tokenOf('alice');
const open = (server: string, capabilities = FORM): Promise<LegacyClient> =>
  LegacyClient.open(world.at(server), '2025-11-25', capabilities, { token });

describe.each(Object.entries(CASTS))('S1-06: a client of 2025-11-25, and the server "%s"', (server, cast) => {
  const create = async (client: LegacyClient, [name, args]: [string, object]): Promise<string> => {
    const created = await client.call(name, args as Record<string, unknown>, { task: { ttl: 60_000 } });
    expect(created.result?.task, JSON.stringify(created)).toMatchObject({ status: 'working', ttl: 60_000 });
    expect(Date.parse(created.result.task.createdAt)).toBeGreaterThan(0);
    expect(Date.parse(created.result.task.lastUpdatedAt)).toBeGreaterThan(0);
    expect(typeof created.result.task.pollInterval).toBe('number');
    expect(created.result.resultType).toBeUndefined();
    return created.result.task.taskId as string;
  };
  const status = async (client: LegacyClient, taskId: string): Promise<string> =>
    (await client.request('tasks/get', { taskId })).result?.status;

  test('the session declares the tasks of 2025-11-25, and lists mark the tools that can be called as tasks', async () => {
    const client = await open(server);
    expect(client.initialized.result.capabilities.tasks).toEqual({
      list: {},
      cancel: {},
      requests: { tools: { call: {} } },
    });
    expect(client.initialized.result.capabilities.extensions?.[TASKS]).toBeUndefined();
    const { tools } = (await client.request('tools/list')).result as { tools: { name: string; execution?: object }[] };
    const support = Object.fromEntries(tools.map(({ name, execution }) => [name, execution]));
    if (server === 'core') {
      expect(support['ask']).toEqual({ taskSupport: 'required' });
      expect(support['slow']).toEqual({ taskSupport: 'optional' });
      expect(support['echo']).toBeUndefined();
    }
    if (server === 'extension') expect(support['slow_compute']).toEqual({ taskSupport: 'optional' });
    if (server === 'old') expect(support['slow']).toBeUndefined();
    await client.end();
  });

  test('a task works, completes, and returns the exact result', async () => {
    const client = await open(server);
    const taskId = await create(client, cast.slow);
    expect(await status(client, taskId)).toBe('working');
    const result = await client.request('tasks/result', { taskId });
    expect(textOf(result)).toMatch(/slept|Computed it/);
    expect(result.result._meta).toEqual({ [RELATED]: { taskId } });
    expect(result.result.resultType).toBeUndefined();
    expect(await status(client, taskId)).toBe('completed');
    expect((await client.request('tasks/result', { taskId })).result).toEqual(result.result);
    const told = client.heard.filter(({ method }) => method === 'notifications/tasks/status');
    expect(told.at(-1)).toMatchObject({ on: 'general', params: { taskId, status: 'completed', ttl: 60_000 } });
    expect(told.at(-1)?.params.result).toBeUndefined();
    const listed = (await client.request('tasks/list')).result.tasks as { taskId: string; status: string }[];
    expect(listed.find((task) => task.taskId === taskId)).toMatchObject({ status: 'completed' });
    await client.end();
  });

  test("a task whose tool reports an error has failed, and tasks/result returns the tool's result", async () => {
    const client = await open(server);
    const taskId = await create(client, cast.fails);
    const result = await client.request('tasks/result', { taskId });
    expect(result.result).toMatchObject({ isError: true });
    expect(textOf(result)).toMatch(/went wrong|job failed/);
    expect(await status(client, taskId)).toBe('failed');
    await client.end();
  });

  test('a task whose call fails with an error has failed, and tasks/result returns the error', async () => {
    const client = await open(server);
    const taskId = await create(client, cast.breaks);
    const { error } = await client.request('tasks/result', { taskId });
    expect(error?.message).toMatch(/broke/);
    expect(await status(client, taskId)).toBe('failed');
    await client.end();
  });

  test('a question arrives on the stream of tasks/result, and names the task', async () => {
    const client = await open(server);
    client.answer = () => cast.answer as Record<string, unknown>;
    const taskId = await create(client, cast.ask);
    await eventually(
      () => status(client, taskId),
      (now) => now === 'input_required',
    );
    expect(client.heard.filter(({ id }) => id !== undefined)).toEqual([]);
    const { id, exchange } = client.start('tasks/result', { taskId });
    const answer = (await exchange.ended).find((message) => message.method === undefined);
    expect(textOf(answer as Message)).toBe(cast.said);
    const questions = client.heard.filter((message) => message.id !== undefined);
    expect(questions).toMatchObject([
      { method: 'elicitation/create', on: `request ${id}`, params: { _meta: { [RELATED]: { taskId } } } },
    ]);
    expect(await status(client, taskId)).toBe('completed');
    await client.end();
  });

  test('cancelling tasks/result answers no question: the next tasks/result gets the question again', async () => {
    const client = await open(server);
    const taskId = await create(client, cast.ask);
    await eventually(
      () => status(client, taskId),
      (now) => now === 'input_required',
    );
    const first = client.start('tasks/result', { taskId });
    await eventually(
      () => client.heard.length,
      () => client.heard.some(({ method }) => method === 'elicitation/create'),
    );
    await client.tell('notifications/cancelled', { requestId: first.id });
    await sleep(200);
    expect(await status(client, taskId)).toBe('input_required');
    client.answer = () => cast.answer as Record<string, unknown>;
    expect(textOf(await client.request('tasks/result', { taskId }))).toBe(cast.said);
    await client.end();
  });

  test('a cancelled task stays cancelled, and a finished task cannot be cancelled', async () => {
    const client = await open(server);
    const taskId = await create(client, cast.slow);
    const cancelled = await client.request('tasks/cancel', { taskId });
    expect(cancelled.result).toMatchObject({ taskId, status: 'cancelled' });
    expect((await client.request('tasks/cancel', { taskId })).error?.code).toBe(-32602);
    expect((await client.request('tasks/result', { taskId })).error).toBeDefined();
    await sleep(700);
    expect(await status(client, taskId)).toBe('cancelled');
    const done = await create(client, cast.fails);
    await client.request('tasks/result', { taskId: done });
    expect((await client.request('tasks/cancel', { taskId: done })).error?.code).toBe(-32602);
    await client.end();
  });

  test('without the task parameter, the same tool returns its result directly', async () => {
    const client = await open(server);
    client.answer = () => cast.answer as Record<string, unknown>;
    expect(textOf(await client.call(cast.slow[0], cast.slow[1] as Record<string, unknown>))).toMatch(
      /slept|Computed it/,
    );
    expect(textOf(await client.call(cast.ask[0], cast.ask[1] as Record<string, unknown>))).toBe(cast.said);
    expect((await client.call(cast.fails[0], cast.fails[1] as Record<string, unknown>)).result).toMatchObject({
      isError: true,
    });
    await client.end();
  });
});

describe('a page that has to be visited before the call (-32042): the task asks for the visit', () => {
  const visited = (server: string, key: string): void => world.fixtures[server]!.visited(`first-${key}`);
  const ended = (task: Message['result']): boolean => ['completed', 'failed'].includes(task?.status);

  test.each(['core', 'old'])('a client of 2025-11-25, and the server "%s"', async (server) => {
    const key = `page-of-${server}`;
    const client = await open(server, URLS);
    client.answer = () => {
      setTimeout(() => visited(server, key), 300);
      return { action: 'accept' };
    };
    const { taskId } = (await client.call('visit_first', { key }, { task: {} })).result.task;
    expect(textOf(await client.request('tasks/result', { taskId }))).toBe(`${key}: visited`);
    expect(client.heard.filter(({ id }) => id !== undefined)).toMatchObject([
      {
        method: 'elicitation/create',
        params: { mode: 'url', url: `https://example.test/first/${key}`, elicitationId: expect.any(String) },
      },
    ]);
    expect(runsOf(world.entries(), key)).toBe(2);
    await client.end();
  });

  test('a client of 2025-11-25 that declines: the call is not repeated', async () => {
    const client = await open('core', URLS);
    client.answer = () => ({ action: 'decline' });
    const { taskId } = (await client.call('visit_first', { key: 'declined' }, { task: {} })).result.task;
    const answer = await client.request('tasks/result', { taskId });
    expect(answer.result).toMatchObject({ isError: true });
    expect(textOf(answer)).toMatch(/declined/);
    expect(runsOf(world.entries(), 'declined')).toBe(1);
    await client.end();
  });

  test('a modern client with the extension', async () => {
    const client = new ModernClient(world.at('core'), { ...URLS, ...WITH_TASKS }, token);
    const { taskId } = (await client.call('visit_first', { key: 'modern-page' })).result;
    const get = async (): Promise<Message['result']> => (await client.request('tasks/get', { taskId })).result;
    const asks = await eventually(get, ({ status }) => status === 'input_required');
    const [[name, question]] = Object.entries(asks.inputRequests) as [[string, object]];
    expect(question).toEqual({
      method: 'elicitation/create',
      params: { mode: 'url', message: 'modern-page visit', url: 'https://example.test/first/modern-page' },
    });
    await client.request('tasks/update', { taskId, inputResponses: { [name]: { action: 'accept' } } });
    visited('core', 'modern-page');
    const { status, result } = await eventually(get, ended);
    expect([status, result.content[0].text]).toEqual(['completed', 'modern-page: visited']);
    expect(runsOf(world.entries(), 'modern-page')).toBe(2);
  });

  test('a modern client without URL mode: the task fails and names the missing capability', async () => {
    const client = new ModernClient(world.at('core'), { ...FORM, ...WITH_TASKS }, token);
    const { taskId } = (await client.call('visit_first', { key: 'nowhere' })).result;
    const get = async (): Promise<Message['result']> => (await client.request('tasks/get', { taskId })).result;
    const { status, error } = await eventually(get, ended);
    expect(status).toBe('failed');
    expect(error).toMatchObject({ code: -32021, data: { requiredCapabilities: { elicitation: { url: {} } } } });
  });
});

test('older clients have no tasks: the task parameter is ignored', async () => {
  const client = await LegacyClient.open(world.at('old'), '2025-06-18', {}, { token });
  expect(client.initialized.result.capabilities.tasks).toBeUndefined();
  expect(textOf(await client.call('echo', { text: 'now' }, { task: { ttl: 1_000 } }))).toBe('now');
  for (const method of ['tasks/get', 'tasks/list', 'tasks/result', 'tasks/cancel'])
    expect((await client.request(method, { taskId: 'x' })).error?.code).toBe(-32601);
  await client.end();
});

test('tasks/list is neither declared nor known if callers are anonymous', async () => {
  const open = await startWorld({ http: { old: {} } });
  const client = await LegacyClient.open(open.mcp, '2025-11-25');
  expect(client.initialized.result.capabilities.tasks).toEqual({ cancel: {}, requests: { tools: { call: {} } } });
  expect((await client.request('tasks/list')).error?.code).toBe(-32601);
  await client.end();
  await open.close();
});

describe('a modern client with the extension', () => {
  const client = (server: string): ModernClient =>
    new ModernClient(world.at(server), { ...FORM, ...WITH_TASKS }, token);
  const get = async (server: string, taskId: string): Promise<Message['result']> =>
    (await client(server).request('tasks/get', { taskId })).result;
  const ended = (server: string, taskId: string): Promise<Message['result']> =>
    eventually(
      () => get(server, taskId),
      (task) => ['completed', 'failed', 'cancelled'].includes(task?.status),
    );
  const create = async (server: string, [name, args]: [string, object]): Promise<string> => {
    const { result } = await client(server).call(name, args as Record<string, unknown>);
    expect(result).toMatchObject({ resultType: 'task', status: expect.stringMatching(/working|input_required/) });
    expect(typeof result.ttlMs === 'number' || result.ttlMs === null).toBe(true);
    return result.taskId as string;
  };

  test('discovers the extension', async () => {
    const { capabilities } = (await client('old').request('server/discover')).result;
    expect(capabilities.extensions[TASKS]).toEqual({});
    expect(capabilities.tasks).toBeUndefined();
    const { tools } = (await client('core').request('tools/list')).result as { tools: { execution?: object }[] };
    expect(tools.filter(({ execution }) => execution)).toEqual([]);
  });

  test.each(['extension', 'core'])(
    '%s: a call becomes a task, which the client polls until it has ended',
    async (server) => {
      const taskId = await create(server, CASTS[server]!.slow);
      expect(await get(server, taskId)).toMatchObject({ resultType: 'complete', taskId, status: 'working' });
      const task = await ended(server, taskId);
      expect(task.status).toBe('completed');
      expect(task.result.content[0].text).toMatch(/slept|Computed it/);
      expect(task.result._meta?.[RELATED]).toBeUndefined();
    },
  );

  test.each(['extension', 'core'])(
    '%s: a task whose tool reports an error is completed, unlike in 2025-11-25',
    async (server) => {
      const task = await ended(server, await create(server, CASTS[server]!.fails));
      expect(task).toMatchObject({ status: 'completed', result: { isError: true } });
      expect(task.error).toBeUndefined();
    },
  );

  test.each(['extension', 'core'])(
    '%s: a task whose call fails with an error has failed, and contains the error',
    async (server) => {
      const task = await ended(server, await create(server, CASTS[server]!.breaks));
      expect(task).toMatchObject({ status: 'failed', error: { message: expect.stringMatching(/broke/) } });
      expect(task.result).toBeUndefined();
    },
  );

  test.each(['extension', 'core', 'old'])(
    '%s: the task contains its question, and tasks/update answers it',
    async (server) => {
      const cast = CASTS[server]!;
      const taskId = await create(server, cast.ask);
      const task = await eventually(
        () => get(server, taskId),
        (now) => now?.status === 'input_required',
      );
      const keys = Object.keys(task.inputRequests);
      expect(keys).toHaveLength(1);
      const nothing = await client(server).request('tasks/update', { taskId, inputResponses: { 'not-asked': {} } });
      expect(nothing.result).toMatchObject({ resultType: 'complete' });
      expect((await get(server, taskId)).status).toBe('input_required');
      const inputResponses = { [keys[0]!]: cast.answer };
      expect((await client(server).request('tasks/update', { taskId, inputResponses })).error).toBeUndefined();
      const over = await ended(server, taskId);
      expect(over).toMatchObject({ status: 'completed', result: { content: [{ text: cast.said }] } });
      // Late and repeated answers are ignored.
      expect((await client(server).request('tasks/update', { taskId, inputResponses })).error).toBeUndefined();
    },
  );

  test('old: a parked call becomes a task, and every question gets a new key', async () => {
    const taskId = await create('old', ['ask', { key: 'promoted', rounds: 3 }]);
    const keys: string[] = [];
    for (const answer of ['a', 'b', 'c']) {
      const task = await eventually(
        () => get('old', taskId),
        (now) => now?.status === 'input_required' && !keys.includes(Object.keys(now.inputRequests)[0]!),
      );
      const [key] = Object.keys(task.inputRequests);
      keys.push(key!);
      const inputResponses = Object.fromEntries(keys.map((one) => [one, accept({ answer })]));
      await client('old').request('tasks/update', { taskId, inputResponses });
    }
    expect(new Set(keys).size).toBe(3);
    expect((await ended('old', taskId)).result.content[0].text).toBe('promoted: a, b, c');
    expect(runsOf(world.entries(), 'promoted')).toBe(1);
  });

  test('old: two questions may be answered separately, even concurrently', async () => {
    for (let turn = 0; turn < 5; turn++) {
      const key = `apart-${turn}`;
      const taskId = await create('old', ['ask_two', { key }]);
      const { inputRequests } = await eventually(
        () => get('old', taskId),
        (now) => Object.keys(now?.inputRequests ?? {}).length === 2,
      );
      await Promise.all(
        Object.entries(inputRequests as Record<string, { params: { message: string } }>).map(([one, { params }]) =>
          client('old').request('tasks/update', {
            taskId,
            inputResponses: { [one]: accept({ answer: params.message.split(' ')[1] }) },
          }),
        ),
      );
      expect((await ended('old', taskId)).result.content[0].text).toBe(`${key}: first and second`);
    }
  });

  test.each(['extension', 'core', 'old'])(
    '%s: cancel is acknowledged, and the call ends at the server',
    async (server) => {
      const cast = CASTS[server]!;
      const taskId = await create(server, cast.ask);
      await eventually(
        () => get(server, taskId),
        (now) => now?.status === 'input_required',
      );
      const { result } = await client(server).request('tasks/cancel', { taskId });
      expect(result).toMatchObject({ resultType: 'complete' });
      expect(result.taskId).toBeUndefined();
      expect((await ended(server, taskId)).status).toBe('cancelled');
      expect((await client(server).request('tasks/cancel', { taskId })).error).toBeUndefined();
      if (server !== 'extension') {
        const { busy } = world.fixtures[server]!;
        await eventually(
          () => world.fixtures[server]!.busy.questions,
          (count) => count === 0,
        );
        expect(busy.runs).toBe(0);
      }
    },
  );

  test('old, modern: a call that ends at once returns its result directly', async () => {
    for (const server of ['old', 'modern']) {
      expect(textOf(await client(server).call('echo', { text: 'now' }))).toBe('now');
      expect((await client(server).call('fails', { key: 'f' })).result).toMatchObject({
        isError: true,
        resultType: 'complete',
      });
    }
  });

  test('modern: a question of a modern server remains an input_required result', async () => {
    const question = await client('modern').call('ask', { key: 'stays' });
    const over = await client('modern').call(
      'ask',
      { key: 'stays' },
      {
        inputResponses: answersTo(question, accept({ answer: 'yes' })),
        requestState: question.result.requestState,
      },
    );
    expect(textOf(over)).toContain('"answer":"yes"');
  });

  test('a subscription with taskIds gets the whole task', async () => {
    const taskId = await create('old', ['ask', { key: 'watched' }]);
    const listen = client('old').start('subscriptions/listen', {
      notifications: { taskIds: [taskId, 'task-unknown'] },
    });
    const acknowledged = await listen.until(({ method }) => method === 'notifications/subscriptions/acknowledged');
    expect(acknowledged.params.notifications).toEqual({ taskIds: [taskId] });
    const { inputRequests } = await get('old', taskId);
    const [key] = Object.keys(inputRequests);
    await client('old').request('tasks/update', { taskId, inputResponses: { [key!]: accept({ answer: 'yes' }) } });
    const told = await listen.until(
      ({ method, params }) => method === 'notifications/tasks' && params.status === 'completed',
    );
    expect(told.params).toMatchObject({ taskId, result: { content: [{ text: 'watched: yes' }] } });
    listen.abort();
  });

  test('tasks/list and tasks/result are unknown methods', async () => {
    for (const method of ['tasks/list', 'tasks/result'])
      expect((await client('core').request(method, { taskId: 'x' })).error?.code).toBe(-32601);
  });
});

describe('a modern client without the extension', () => {
  const client = (server: string): ModernClient => new ModernClient(world.at(server), FORM, token);

  test('never gets a task', async () => {
    expect(textOf(await client('extension').call('slow_compute', { seconds: 0.1 }))).toMatch(/Computed/);
    expect(textOf(await client('core').call('slow', { key: 'plain', milliseconds: 100 }))).toBe('plain: slept');
    expect((await client('core').call('fails', { key: 'plain' })).result).toMatchObject({ isError: true });
  });

  test('core: a tool that runs only as a task is followed by the gateway, and its question is parked', async () => {
    const args = { key: 'followed' };
    const parked = await client('core').call('ask', args);
    expect(Object.values(asked(parked))[0]?.params['message']).toBe('followed question 1');
    const over = await client('core').call('ask', args, {
      inputResponses: answersTo(parked, accept({ answer: 'yes' })),
      requestState: parked.result.requestState,
    });
    expect(textOf(over)).toBe('followed: yes');
    expect(runsOf(world.entries(), 'followed')).toBe(1);
  });

  test('extension: a call that needs the extension is refused, and the error names the extension', async () => {
    const exchange = client('extension').startCall('failing_job', {});
    const [refused] = await exchange.ended;
    expect(refused?.error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { extensions: { [TASKS]: {} } } },
    });
    expect(exchange.status).toBe(400);
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
      expect((await client('core').request(method, { taskId: 'x' })).error?.code).toBe(-32021);
  });

  test('old: the legacy task parameter is ignored', async () => {
    const { result } = await client('old').request('tools/call', {
      name: 'echo',
      arguments: { text: 'now' },
      task: {},
    });
    expect(result.content[0].text).toBe('now');
  });
});

test('calls that ask inside a task count towards the limit of parked calls', async () => {
  const small = await startWorld({ http: { old: {} }, config: { bridge: { maxParkedPerCaller: 1 } } });
  const client = await LegacyClient.open(small.mcp, '2025-11-25', FORM);
  const create = async (key: string): Promise<string> =>
    (await client.call('old__ask', { key }, { task: {} })).result.task.taskId;
  const status = async (taskId: string): Promise<string> =>
    (await client.request('tasks/get', { taskId })).result?.status;
  const first = await create('one');
  await eventually(
    () => status(first),
    (now) => now === 'input_required',
  );
  const refused = await client.request('tasks/result', { taskId: await create('two') });
  expect(refused.result).toMatchObject({ isError: true });
  expect(textOf(refused)).toMatch(/wait for answers/);
  await client.request('tasks/cancel', { taskId: first });
  const third = await create('three');
  await eventually(
    () => status(third),
    (now) => now === 'input_required',
  );
  await client.end();
  await small.close();
});

test('tasks that wait for an answer and other parked calls share one limit', async () => {
  const small = await startWorld({ http: { old: {} }, config: { bridge: { maxParkedPerCaller: 2 } } });
  const client = new ModernClient(small.mcp, { ...FORM, ...WITH_TASKS });
  const first = (await client.call('old__ask', { key: 'one' })).result;
  const second = await new ModernClient(small.mcp, FORM).call('old__ask', { key: 'two' });
  expect([first.resultType, second.result.resultType]).toEqual(['task', 'input_required']);
  const third = await client.call('old__ask', { key: 'three' });
  expect(third.result).toMatchObject({ isError: true });
  expect(textOf(third)).toMatch(/wait for answers/);
  await client.request('tasks/cancel', { taskId: first.taskId });
  const fourth = (await client.call('old__ask', { key: 'four' })).result;
  expect(fourth.resultType).toBe('task');
  await small.close();
});
