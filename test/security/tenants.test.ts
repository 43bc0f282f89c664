/**
 * S27: two callers of the same name in two tenants share nothing: sessions, streams, tasks of both protocols, calls
 * that wait for a person, rates, the live tail, the lists of the management API, and the audit trail.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createApiKey } from '../../src/app/commands/api-keys.js';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';
import { modernBody, modernHeaders, Session } from '../input/support/speak.js';
import { ask, EventStream, eventually, type Reply } from '../input/support/wire.js';
import { type CountedUpstream, startCountedAgent, startCountedServer } from '../pipeline/upstreams.js';

const OPERATOR = 'operator-0123456789-Kj8sLq2vXz7mNw4pRt6y';
const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
const FORM = { elicitation: { form: {} } };
const as = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

let folder: string;
let upstreams: CountedUpstream[];
let gateway: RunningGateway;
/** Keys of the caller `ada`, an administrator, in two tenants. */
let acme: string;
let umbrella: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-tenants-'));
  const [one, asked, agent] = await Promise.all([startCountedServer(), startCountedServer(), startCountedAgent()]);
  upstreams = [one, asked, agent];
  const { config } = configFrom({
    listen: '127.0.0.1:0',
    data: join(folder, 'data'),
    egress: { allowPrivate: true },
    servers: { one: { url: one.url }, asked: { url: asked.url } },
    agents: { helper: { url: agent.url, mcp: false } },
    auth: { keys: true, tokens: [{ name: 'operator', token: OPERATOR, admin: true }] },
    policy: {
      rules: [
        { name: 'asked', when: 'tool == "add" && server == "asked"', effect: 'approve' },
        { name: 'all', when: 'true', effect: 'allow' },
      ],
    },
    limits: { rates: [{ per: ['caller'], requests: 3, interval: '1h', when: 'args.?rated.orValue(false)' }] },
    timeouts: { drain: '1s' },
  });
  gateway = await startServe(config, { log: SILENT });
  await gateway.settled(10_000);
  const keyIn = async (tenant: string): Promise<string> =>
    (await createApiKey(config, { name: 'ada', roles: ['admin'], servers: [], tools: [], tenant, expires: '1h' })).key;
  [acme, umbrella] = [await keyIn('acme'), await keyIn('umbrella')];
});
afterAll(async () => {
  await gateway?.close();
  await Promise.all(upstreams.map((upstream) => upstream.close()));
  await rm(folder, { recursive: true, force: true });
});

const modern = (token: string, method: string, params: object, capabilities: object = {}): Promise<Reply> =>
  ask(`${gateway.url}/mcp`, {
    headers: {
      ...modernHeaders(method, params),
      ...('taskId' in params && { 'mcp-name': String(params.taskId) }),
      ...as(token),
    },
    body: modernBody(method, params, { capabilities }),
  });
const agentCall = (token: string, method: string, params: object): Promise<Reply> =>
  ask(`${gateway.url}/a2a/helper`, {
    headers: { ...as(token), 'a2a-version': '1.0' },
    body: { jsonrpc: '2.0', id: 1, method, params },
  });
const get = async (token: string, path: string): Promise<Reply> =>
  ask(`${gateway.url}${path}`, { method: 'GET', headers: { ...as(token), accept: 'application/json' } });
const itemsOf = async (token: string, path: string): Promise<unknown[]> =>
  (JSON.parse((await get(token, path)).body) as { items: unknown[] }).items;
/** The calls of tools that reached the server. */
const callsOf = (upstream: CountedUpstream): number =>
  upstream.contacts.filter((method) => method === 'tools/call').length;

describe('S27: callers of the same name in two tenants', () => {
  test('S7: have sessions and streams of their own', async () => {
    const mine = await Session.open(`${gateway.url}/mcp`, '2025-11-25', as(acme));
    const foreign = { ...mine.headers, ...as(umbrella) };
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' };
    const [stolen, invented] = [
      await ask(mine.url, { headers: foreign, body: ping }),
      await ask(mine.url, { headers: { ...foreign, 'mcp-session-id': 'invented' }, body: ping }),
    ];
    expect([stolen.status, stolen.body]).toEqual([404, invented.body]);
    const called = await mine.stream('tools/call', { name: 'one__add', arguments: {} }, 3);
    await called.end();
    const last = called.events.at(-1)?.id ?? 'none.1';
    const resumptions: Record<string, string>[] = [{}, { 'last-event-id': last }];
    for (const headers of resumptions) {
      const stream = await ask(mine.url, {
        method: 'GET',
        headers: { ...foreign, accept: 'text/event-stream', ...headers },
      });
      expect(stream.status).toBe(404);
    }
    expect((await ask(mine.url, { method: 'DELETE', headers: foreign })).status).toBe(404);
    expect((await mine.request('ping')).json.result).toEqual({});
    expect(JSON.parse((await get(acme, '/health')).body)).toMatchObject({ sessions: 1 });
    expect(JSON.parse((await get(umbrella, '/health')).body)).toMatchObject({ sessions: 0 });
    expect([await itemsOf(acme, '/api/v1/sessions'), await itemsOf(umbrella, '/api/v1/sessions')]).toEqual([
      [expect.objectContaining({ caller: '~acme#ada' })],
      [],
    ]);
    const [{ id }] = (await itemsOf(acme, '/api/v1/sessions')) as [{ id: string }];
    const ended = await ask(`${gateway.url}/api/v1/sessions/${id}`, { method: 'DELETE', headers: as(umbrella) });
    expect([ended.status, (await mine.request('ping')).json.result]).toEqual([404, {}]);
    await mine.end();
  });

  test('S3: have tasks of their own, in both protocols', async () => {
    const session = await Session.open(`${gateway.url}/mcp`, '2025-11-25', as(acme));
    const other = await Session.open(`${gateway.url}/mcp`, '2025-11-25', as(umbrella));
    const hosted = await session.request('tools/call', { name: 'one__add', arguments: {}, task: { ttl: 60_000 } });
    const { taskId } = (hosted.json.result as unknown as { task: { taskId: string } }).task;
    const modernTask = await modern(acme, 'tools/call', { name: 'one__add', arguments: {} }, TASKS);
    const passed = (modernTask.json.result as unknown as { taskId: string }).taskId;
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
      expect((await other.request(method, { taskId })).json.error?.message, method).toMatch(/Unknown task/);
    for (const method of ['tasks/get', 'tasks/cancel'])
      for (const id of [taskId, passed])
        expect((await modern(umbrella, method, { taskId: id }, TASKS)).json.error?.message, method).toMatch(
          /Unknown task/,
        );
    expect((await other.request('tasks/list')).json.result).toMatchObject({ tasks: [] });
    expect((await session.request('tasks/get', { taskId })).json.result).toMatchObject({ taskId });

    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'wait' }] };
    const sent = await agentCall(acme, 'SendMessage', { message });
    const { id } = (sent.json.result as unknown as { task: { id: string } }).task;
    for (const method of ['GetTask', 'CancelTask', 'SubscribeToTask', 'ListTaskPushNotificationConfigs']) {
      const [stolen, invented] = [
        await agentCall(umbrella, method, { id }),
        await agentCall(umbrella, method, { id: 'x' }),
      ];
      expect(stolen.body.replaceAll(id, 'x'), method).toBe(invented.body);
    }
    expect((await agentCall(umbrella, 'ListTasks', {})).json.result).toMatchObject({ tasks: [] });
    expect((await agentCall(acme, 'GetTask', { id })).json.result).toMatchObject({ id });
    for (const path of ['/api/v1/tasks', '/api/v1/agent-tasks']) expect(await itemsOf(umbrella, path)).toEqual([]);
    await Promise.all([session.end(), other.end()]);
  });

  test('S20: cannot answer the questions of each other', async () => {
    const call = { name: 'asked__add', arguments: {} };
    const asked = await modern(acme, 'tools/call', call, FORM);
    const { requestState, inputRequests } = asked.json.result as unknown as {
      requestState: string;
      inputRequests: Record<string, unknown>;
    };
    const [question] = Object.keys(inputRequests);
    const answer = { [question!]: { action: 'accept', content: { approve: true } } };
    const answered = (token: string): Promise<Reply> =>
      modern(token, 'tools/call', { ...call, requestState, inputResponses: answer }, FORM);
    const before = callsOf(upstreams[1]!);
    expect((await answered(umbrella)).json.result?.resultType).not.toBe('complete');
    expect(callsOf(upstreams[1]!)).toBe(before);
    expect((await answered(acme)).json.result?.resultType).toBe('complete');
    expect(callsOf(upstreams[1]!)).toBe(before + 1);
  });

  test('S23: have rates of their own', async () => {
    const call = { name: 'one__add', arguments: { rated: true } };
    for (let n = 0; n < 3; n++) expect((await modern(acme, 'tools/call', call)).status).toBe(200);
    expect((await modern(acme, 'tools/call', call)).status).toBe(429);
    expect((await modern(umbrella, 'tools/call', call)).status).toBe(200);
  });

  test('S24: follow their own calls, and only an operator reads the audit trail, which names the tenant', async () => {
    const open = (token: string): Promise<EventStream> =>
      EventStream.open(`${gateway.url}/api/v1/tail`, { headers: { ...as(token), accept: 'text/event-stream' } });
    const [own, foreign] = await Promise.all([open(acme), open(umbrella)]);
    for (const stream of [own, foreign]) await stream.until(({ events }) => events[0]);
    await modern(acme, 'tools/call', { name: 'one__add', arguments: {} });
    await own.until(({ events }) => events.find(({ data }) => data.includes('"one"')));
    await modern(umbrella, 'tools/list', {});
    await foreign.until(({ events }) => events.find(({ data }) => data.includes('tools/list')));
    expect(JSON.stringify(foreign.events)).not.toContain('acme');
    expect(JSON.stringify(own.events)).not.toContain('umbrella');
    own.close();
    foreign.close();
    for (const path of ['/api/v1/audit', '/api/v1/audit/verify', '/metrics', '/servers/one/logs', '/api/v1/keys'])
      expect([path, (await get(acme, path)).status]).toEqual([path, 403]);
    const records = await eventually(
      () => itemsOf(OPERATOR, '/api/v1/audit?caller=~acme%23ada&kind=call&limit=200'),
      (items) => items.length > 5,
    );
    for (const record of records) expect(record).toMatchObject({ value: { tenant: 'acme', caller: '~acme#ada' } });
  });
});
