import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Agent, AgentFacts, Exchange } from '../../core/a2a/agent.js';
import { Callbacks } from '../../core/a2a/push/agent-callback-urls.js';
import type { TaskKey, TaskRecord } from '../../core/a2a/tasks/task-records.js';
import { Cancellation, GATEWAY } from '../../core/caller.js';
import { Seal } from '../../core/seal.js';
import { TokenAuthenticator } from '../../identity/token-authenticator.js';
import { DIALECTS, dialect } from '../../protocol/a2a/index.js';
import type { StreamResponse, Task, TaskPushNotificationConfig } from '../../protocol/a2a/model.js';
import { Origins } from '../http/host-and-origin.js';
import { RouteTable } from '../http/route-table.js';
import { HttpServer } from '../http/server.js';
import { CALLBACK_ERRORS, CallbackEndpoint } from './callback-endpoint.js';

const EXCHANGE: Exchange = { cancellation: new Cancellation(), extensions: [], forward: {} };
const TASK: Task = {
  id: 'up-1',
  contextId: 'c1',
  status: { state: 'TASK_STATE_WORKING', timestamp: '2026-01-01T00:00:10Z' },
};
const STATUS: StreamResponse = {
  statusUpdate: {
    taskId: 'up-1',
    contextId: 'c1',
    status: { state: 'TASK_STATE_INPUT_REQUIRED', timestamp: '2026-01-01T00:00:20Z' },
  },
};

let now = 1_000_000;
let base: string;
let server: HttpServer;
let record: TaskRecord | undefined;
let news: { key: TaskKey; events: StreamResponse[] }[];
let failing: boolean;
let counts: Map<string, number>;
/** How long each counter is kept. */
let times: Map<string, number>;
let callbacks: Callbacks;
/** The push configuration that the agent received. */
let config: TaskPushNotificationConfig;
const key = { id: 'k', key: randomBytes(32) };

function agent(can: Partial<AgentFacts['can']>, refuse = false): Agent {
  return {
    known: () => ({ can: { stream: false, subscribe: false, push: false, ...can } }) as AgentFacts,
    setCallback: async (_caller: unknown, given: TaskPushNotificationConfig) => {
      if (refuse) throw new Error('no');
      config = given;
    },
  } as unknown as Agent;
}

beforeEach(async () => {
  news = [];
  counts = new Map();
  times = new Map();
  failing = false;
  now = 1_000_000;
  record = {
    ...{ agent: 'planner', owner: 'alice', id: 'own-1', upstreamId: 'up-1', contextId: 'c1', task: TASK, seq: 3 },
    ...{ dialect: '1.0', createdAt: 0, updatedAt: 0 },
  };
  const seal = new Seal({ active: key, find: (id) => (id === 'k' ? key.key : undefined) }, () => now);
  callbacks = new Callbacks({ seal, publicUrl: () => base, ttl: 60_000 });
  const endpoint = new CallbackEndpoint({
    callbacks,
    records: { find: async ({ id }) => (id === 'own-1' ? record : undefined) },
    dispatcher: {
      handleCallback: async (of, events) => {
        if (failing) throw new Error('the database is unavailable');
        news.push({ key: of, events });
      },
    },
    dialects: DIALECTS,
    bus: {
      incr: async (name, n, ttl) => {
        if (!counts.has(name)) times.set(name, ttl);
        counts.set(name, (counts.get(name) ?? 0) + n);
        return counts.get(name)!;
      },
    },
    limits: { body: 100_000, depth: 64, perMinute: 20 },
  });
  server = new HttpServer({
    authenticator: new TokenAuthenticator([{ name: 'alice', token: 'secret', admin: false }]),
    origins: new Origins({ loopback: true, hosts: [], origins: [], corsOrigins: [], credentials: false }),
    routes: new RouteTable({ routes: endpoint.routes(), errors: CALLBACK_ERRORS }),
    failed: () => {},
  });
  base = `http://127.0.0.1:${(await server.listen('127.0.0.1', 0)).port}`;
  expect(await callbacks.ask(agent({ push: true }), GATEWAY, record, EXCHANGE)).toBe(true);
});
afterEach(() => server.close(Promise.resolve()));

const post = async (body: unknown, headers: Record<string, string> = {}, url = config.url): Promise<number> => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await fetch(url, {
    method: 'POST',
    body: text,
    headers: { 'Content-Type': 'application/json', ...headers },
  });
  await response.arrayBuffer();
  return response.status;
};
const withToken = (): Record<string, string> => ({ 'X-A2A-Notification-Token': config.token! });

describe('registering a callback at an agent', () => {
  test('G-50: the agent receives a URL of the gateway, its own id of the task, and a secret for this task', async () => {
    expect(config).toMatchObject({ taskId: 'up-1', authentication: { scheme: 'Bearer', credentials: config.token } });
    expect(config.url.startsWith(`${base}/a2a/push/`)).toBe(true);
    for (const name of ['alice', 'planner', 'own-1', config.token!]) expect(config.url).not.toContain(name);
    const first = config;
    await callbacks.ask(agent({ push: true }), GATEWAY, record!, EXCHANGE);
    expect(config.token).not.toBe(first.token);
  });

  test('G-41: false if the agent has no push, refuses it, or the URL of the gateway is unknown', async () => {
    expect(await callbacks.ask(agent({}), GATEWAY, record!, EXCHANGE)).toBe(false);
    expect(await callbacks.ask(agent({ push: true }, true), GATEWAY, record!, EXCHANGE)).toBe(false);
    const seal = new Seal({ active: key, find: () => key.key });
    const nowhere = new Callbacks({ seal, publicUrl: () => undefined, ttl: 1 });
    expect(await nowhere.ask(agent({ push: true }), GATEWAY, record!, EXCHANGE)).toBe(false);
  });
});

describe('updates of a task', () => {
  test('C-11: acknowledged with 2xx and passed to the core, with the token in either header', async () => {
    expect(await post(STATUS, withToken())).toBe(204);
    const other = { ...STATUS, statusUpdate: { ...STATUS.statusUpdate!, metadata: { n: 2 } } };
    expect(await post(other, { Authorization: `Bearer ${config.token}` })).toBe(204);
    expect(news.map(({ key: of }) => of)).toEqual(Array(2).fill({ agent: 'planner', owner: 'alice', id: 'own-1' }));
    expect(news[0]!.events).toEqual([STATUS]);
  });

  test('G-50: every version is read, also inside a JSON-RPC envelope', async () => {
    const task: Task = { ...TASK, status: { state: 'TASK_STATE_COMPLETED', timestamp: '2026-01-01T00:00:30Z' } };
    for (const { id } of DIALECTS) {
      const { body } = dialect(id).writeNotification({ task }, task);
      news = [];
      counts.clear();
      expect([id, await post(body, withToken())]).toEqual([id, 204]);
      expect([id, news[0]?.events]).toMatchObject([
        id,
        [{ task: { id: 'up-1', status: { state: 'TASK_STATE_COMPLETED' } } }],
      ]);
      for (const envelope of [
        { result: body, id: 1 },
        { method: 'tasks/event', params: body },
      ]) {
        news = [];
        expect([id, await post({ jsonrpc: '2.0', ...envelope }, withToken())]).toEqual([id, 204]);
        expect(news).toHaveLength(1);
      }
    }
    const event = {
      kind: 'status-update',
      taskId: 'up-1',
      contextId: 'c1',
      status: { state: 'working' },
      final: false,
    };
    news = [];
    expect(await post(event, withToken())).toBe(204);
    expect(news[0]?.events).toMatchObject([{ statusUpdate: { taskId: 'up-1' } }]);
  });

  test('C-11: a duplicate is acknowledged and not passed on again, unless its sender gives it another id', async () => {
    for (let i = 0; i < 3; i++) expect(await post(STATUS, withToken())).toBe(204);
    expect(news).toHaveLength(1);
    expect(await post(STATUS, { ...withToken(), 'webhook-id': 'm2' })).toBe(204);
    expect(news).toHaveLength(2);
  });

  test('P6: callbacks beyond the first thousand of a day are remembered for minutes, and still detected', async () => {
    const marks = (): number[] => [...times].filter(([name]) => name.startsWith('callback:')).map(([, ttl]) => ttl);
    expect(await post(STATUS, withToken())).toBe(204);
    const [counter] = [...times.keys()].filter((name) => name.startsWith('callbacks-remembered:'));
    counts.set(counter!, 1_000);
    for (let i = 0; i < 2; i++) expect(await post(STATUS, { ...withToken(), 'webhook-id': 'late' })).toBe(204);
    expect(news).toHaveLength(2);
    expect(marks()).toEqual([24 * 60 * 60_000, 10 * 60_000]);
  });

  test('C-11: an update that could not be stored is not acknowledged, and accepted when repeated', async () => {
    failing = true;
    expect(await post(STATUS, withToken())).toBe(500);
    failing = false;
    expect(await post(STATUS, withToken())).toBe(204);
    expect(news).toHaveLength(1);
  });

  test('C-11: updates after the end and updates of an older state are ignored', async () => {
    const late: StreamResponse = {
      statusUpdate: {
        ...STATUS.statusUpdate!,
        status: { state: 'TASK_STATE_SUBMITTED', timestamp: '2026-01-01T00:00:05Z' },
      },
    };
    expect(await post(late, withToken())).toBe(204);
    record = { ...record!, task: { ...TASK, status: { state: 'TASK_STATE_COMPLETED' } } };
    expect(await post(STATUS, withToken())).toBe(204);
    expect(news).toEqual([]);
  });

  test('the validationToken of an agent of the first version is echoed', async () => {
    const response = await fetch(`${config.url}?validationToken=${encodeURIComponent('a <b> ü')}`);
    expect([response.status, await response.text()]).toEqual([200, 'a <b> ü']);
    expect(response.headers.get('content-type')).toContain('text/plain');
    expect((await fetch(`${base}/a2a/push/forged?validationToken=x`)).status).toBe(404);
    expect((await fetch(config.url)).status).toBe(400);
  });
});

describe('forged callbacks', () => {
  test.each<[string, number, () => Promise<number>]>([
    ['no token', 401, () => post(STATUS)],
    ['a wrong token', 401, () => post(STATUS, { 'X-A2A-Notification-Token': 'x'.repeat(43) })],
    ["the token of one of the gateway's callers", 401, () => post(STATUS, { Authorization: 'Bearer secret' })],
    ['an unknown URL', 404, () => post(STATUS, withToken(), `${base}/a2a/push/AAAA`)],
    ['a URL with a changed character', 404, () => post(STATUS, withToken(), config.url.replace(/.$/, flip))],
    ['an update of another task', 400, () => post({ task: { ...TASK, id: 'up-2' } }, withToken())],
    ['no news', 400, () => post({ hello: 1 }, withToken())],
    ['a body that is not JSON', 400, () => post('{', withToken())],
    ['a body that is not an object', 400, () => post('5', withToken())],
    ['a body that is too large', 413, () => post({ x: 'x'.repeat(200_000) }, withToken())],
    ['a body that nests too deep', 400, () => post('['.repeat(100) + ']'.repeat(100), withToken())],
    ['another method', 405, async () => (await fetch(config.url, { method: 'PUT', headers: withToken() })).status],
  ])('G-50 C-11: %s is %i', async (_, status, send) => {
    expect(await send()).toBe(status);
    expect(news).toEqual([]);
  });

  test('G-50: an expired URL is gone, and a deleted task is not found', async () => {
    record = undefined;
    expect(await post(STATUS, withToken())).toBe(404);
    now += 61_000;
    expect(await post(STATUS, withToken())).toBe(410);
  });

  test('G-50: the token of one task is not valid for another', async () => {
    const { token } = config;
    await callbacks.ask(agent({ push: true }), GATEWAY, record!, EXCHANGE);
    expect(await post(STATUS, { 'X-A2A-Notification-Token': token! })).toBe(401);
  });

  test('C-11: refuses too many callbacks in a minute', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 22; i++) statuses.push(await post(STATUS, withToken()));
    expect(statuses.slice(-3)).toEqual([204, 429, 429]);
  });
});

const flip = (letter: string): string => (letter === 'A' ? 'Q' : 'A');
