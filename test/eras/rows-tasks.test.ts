/** Tasks with the SDK of 2025-11-25, against servers with the same tasks, with the extension, and without tasks. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sleep } from '../../src/core/timing.js';
import { type Fixture, startFixture } from '../conformance/fixture.js';
import { startGateway } from '../support/gateway.js';
import { eventually, newTag, textOf } from './cases.js';
import { connectClient, type EraClient, type FixtureServer, type Json, startServer } from './peers.js';
import { modern, type Reply } from './raw.js';

const EXTENSION = 'io.modelcontextprotocol/tasks';
const TASKS = { extensions: { [EXTENSION]: {} }, elicitation: { form: {} } };
const TOKENS = ['ada', 'bob'].map((name) => ({ name, token: `token-of-${name}-0123456789-0123456789` }));
const as = (index: number): Record<string, string> => ({ authorization: `Bearer ${TOKENS[index]!.token}` });

let gateway: Awaited<ReturnType<typeof startGateway>>;
let core: FixtureServer;
let none: FixtureServer;
let extension: Fixture;
const clients: EraClient[] = [];

beforeAll(async () => {
  [core, none, extension] = await Promise.all([
    startServer('2025-11-25', 'http'),
    startServer('2025-06-18', 'http'),
    startFixture('tasks'),
  ]);
  gateway = await startGateway({
    auth: { tokens: TOKENS },
    servers: { core: core.settings, none: none.settings, extension: { url: extension.url } },
  });
});

afterAll(async () => {
  await Promise.all(clients.map((client) => client.close().catch(() => {})));
  await gateway?.close();
  await Promise.all([core?.close(), none?.close(), extension?.close()]);
});

const urlOf = (server: string): string => `${gateway.url}/mcp/${server}`;

async function connect(server: string, caller = 0): Promise<EraClient> {
  const client = await connectClient(
    '2025-11-25',
    { transport: 'http', url: urlOf(server), config: '' },
    {
      capabilities: { elicitation: { form: {} } },
      headers: as(caller),
      answer: () => ({ action: 'accept', content: { name: 'Ada', confirm: true } }),
    },
  );
  clients.push(client);
  return client;
}

async function create(client: EraClient, name: string, args: Json): Promise<string> {
  const { task } = await client.request('tools/call', { name, arguments: args, task: { ttl: 60_000 } });
  const { taskId, status, ttl, createdAt } = task as Json;
  expect(['working', 'input_required']).toContain(status);
  expect(ttl).toBeTypeOf('number');
  expect(createdAt).toBeTypeOf('string');
  return String(taskId);
}

async function until(client: EraClient, taskId: string, ...wanted: string[]): Promise<string> {
  for (const end = Date.now() + 10_000; Date.now() < end; ) {
    const { status } = await client.request('tasks/get', { taskId });
    if (wanted.includes(String(status))) return String(status);
    await sleep(50);
  }
  throw new Error(`the task did not become ${wanted.join(' or ')}`);
}

describe('BR-28 a client of 2025-11-25', () => {
  test.each([
    ['its own kind of tasks', 'core', 'job', { outcome: 'ok' }, 'the job is done'],
    ['the extension', 'extension', 'slow_compute', { seconds: 0.2, label: 'it' }, 'Computed it'],
    ['no tasks', 'none', 'pause', { tag: 'synthetic', ms: 100 }, 'paused synthetic'],
  ] as const)(
    'BR-28 at a server with %s: works, completes and returns the result',
    async (_kind, server, tool, args, said) => {
      const client = await connect(server);
      expect(client.serverCapabilities['tasks']).toMatchObject({ requests: { tools: { call: {} } } });
      const taskId = await create(client, tool, { tag: newTag(), ...args });
      expect(taskId.length).toBeGreaterThanOrEqual(22);
      const result = await client.request('tasks/result', { taskId });
      expect(textOf(result)).toBe(said);
      expect((result['_meta'] as Json)['io.modelcontextprotocol/related-task']).toEqual({ taskId });
      expect(await until(client, taskId, 'completed')).toBe('completed');
      const stranger = await connect(server, 1);
      for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
        await expect(stranger.request(method, { taskId })).rejects.toMatchObject({ code: -32602 });
    },
  );

  test.each([
    ['core', 'job', { outcome: 'error' }],
    ['extension', 'failing_job', {}],
    ['none', 'fails', {}],
  ] as const)(
    'BR-28 at %s: a task whose tool reports an error has failed, and its result is available',
    async (server, tool, args) => {
      const client = await connect(server);
      const taskId = await create(client, tool, { tag: newTag(), ...args });
      expect(await until(client, taskId, 'completed', 'failed')).toBe('failed');
      expect((await client.request('tasks/result', { taskId }))['isError']).toBe(true);
    },
  );

  test.each([
    ['core', 'job', { outcome: 'ask' }],
    ['extension', 'confirm_delete', { filename: 'x' }],
    ['none', 'ask_form', {}],
  ] as const)(
    'BR-28 at %s: a question of the task arrives on the stream of tasks/result',
    async (server, tool, args) => {
      const client = await connect(server);
      const taskId = await create(client, tool, { tag: newTag(), ...args });
      await until(client, taskId, 'input_required');
      expect(client.questions).toHaveLength(0);
      const result = await client.request('tasks/result', { taskId });
      expect(textOf(result)).toMatch(/Ada|Deleted x/);
      expect(client.questions).toHaveLength(1);
      expect((client.questions[0]!.params['_meta'] as Json)['io.modelcontextprotocol/related-task']).toEqual({
        taskId,
      });
    },
  );

  test.each([
    ['core', 'job', { outcome: 'slow' }],
    ['extension', 'slow_compute', { seconds: 20 }],
    ['none', 'slow', {}],
  ] as const)(
    'BR-28 at %s: a cancelled task stays cancelled and cannot be cancelled again',
    async (server, tool, args) => {
      const client = await connect(server);
      const tag = newTag();
      const taskId = await create(client, tool, { tag, ...args });
      if (server === 'none') await eventually('the start', () => none.happened('started', tag).length === 1);
      if (server === 'core') await eventually('the start', () => core.happened('task created', tag).length === 1);
      expect(await client.request('tasks/cancel', { taskId })).toMatchObject({ taskId, status: 'cancelled' });
      expect(await client.request('tasks/get', { taskId })).toMatchObject({ status: 'cancelled' });
      await expect(client.request('tasks/cancel', { taskId })).rejects.toMatchObject({ code: -32602 });
      if (server === 'core')
        await eventually('word at the server', () => core.happened('task cancelled', tag).length === 1);
      if (server === 'none') await eventually('word at the server', () => none.happened('cancelled', tag).length === 1);
    },
  );
});

describe('BR-28 a modern client with the extension', () => {
  const request = (server: string, method: string, params: Json, caller = 0): Promise<Reply> =>
    modern(urlOf(server), method, params, { capabilities: TASKS, headers: as(caller) });

  async function begin(server: string, name: string, args: Json): Promise<string> {
    const { answer } = await request(server, 'tools/call', { name, arguments: args });
    expect(answer?.result).toMatchObject({
      resultType: 'task',
      status: expect.stringMatching(/working|input_required/),
    });
    return String(answer!.result!['taskId']);
  }

  async function reach(server: string, taskId: string, ...wanted: string[]): Promise<Json> {
    for (const end = Date.now() + 10_000; Date.now() < end; ) {
      const { answer } = await request(server, 'tasks/get', { taskId });
      if (wanted.includes(String(answer?.result?.['status']))) return answer!.result!;
      await sleep(50);
    }
    throw new Error(`the task did not become ${wanted.join(' or ')}`);
  }

  test.each([
    ['core', 'job', { outcome: 'ok' }, undefined],
    ['extension', 'slow_compute', { seconds: 0.2 }, undefined],
    ['core', 'job', { outcome: 'error' }, true],
    ['extension', 'failing_job', {}, true],
  ] as const)('BR-28 at %s: %s %o completes with its result inside', async (server, tool, args, isError) => {
    const taskId = await begin(server, tool, { tag: newTag(), ...args });
    const done = await reach(server, taskId, 'completed', 'failed');
    expect(done['status']).toBe('completed');
    expect((done['result'] as Json)['isError']).toBe(isError);
    expect((await request(server, 'tasks/get', { taskId }, 1)).answer?.error?.['code']).toBe(-32602);
    expect((await request(server, 'tasks/result', { taskId })).answer?.error?.['code']).toBe(-32601);
  });

  test.each([
    ['core', 'job', { outcome: 'ask' }, /Ada/],
    ['extension', 'confirm_delete', { filename: 'x' }, /Deleted x/],
  ] as const)(
    'BR-28 at %s: questions are in the task, answers are sent with tasks/update',
    async (server, tool, args, said) => {
      const taskId = await begin(server, tool, { tag: newTag(), ...args });
      const { inputRequests } = (await reach(server, taskId, 'input_required')) as { inputRequests: Json };
      const [key] = Object.keys(inputRequests);
      const inputResponses = { [key!]: { action: 'accept', content: { name: 'Ada', confirm: true } } };
      expect((await request(server, 'tasks/update', { taskId, inputResponses })).answer?.result).toBeDefined();
      const { result } = (await reach(server, taskId, 'completed')) as { result: Json };
      expect(textOf(result)).toMatch(said);
    },
  );

  test.each([
    ['core', 'job', { outcome: 'slow' }],
    ['extension', 'slow_compute', { seconds: 20 }],
  ] as const)(
    'BR-28 at %s: every cancellation is acknowledged, including repeated ones',
    async (server, tool, args) => {
      const tag = newTag();
      const taskId = await begin(server, tool, { tag, ...args });
      for (const _ of [1, 2]) {
        const { answer } = await request(server, 'tasks/cancel', { taskId });
        expect(answer?.result).toMatchObject({ resultType: 'complete' });
      }
      await reach(server, taskId, 'cancelled');
      if (server === 'core')
        await eventually('word at the server', () => core.happened('task cancelled', tag).length === 1);
    },
  );

  test('BR-28 without the extension the gateway waits for the end of the call, or refuses it with a reason', async () => {
    const plain = (server: string, name: string, args: Json): Promise<Reply> =>
      modern(urlOf(server), 'tools/call', { name, arguments: args }, { headers: as(0) });
    expect(textOf((await plain('core', 'job', { outcome: 'ok' })).answer!.result!)).toBe('the job is done');
    const refused = await plain('extension', 'failing_job', {});
    expect(refused.answer?.error).toMatchObject({ code: -32021 });
  });
});
