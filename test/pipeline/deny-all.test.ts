/**
 * An interceptor that denies every call: no operation of either protocol reaches a server or an agent, on any
 * transport. The requests come from the method tables of `protocol/`: a method without parameters in this file fails
 * the test.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { startStdio } from '../../src/app/stdio.js';
import { configFrom } from '../../src/config/load.js';
import type { CallContext } from '../../src/core/call.js';
import type { Interceptor } from '../../src/core/pipeline.js';
import { DIALECTS, dialect } from '../../src/protocol/a2a/index.js';
import type { Operation, RequestOf } from '../../src/protocol/a2a/model.js';
import { SERVICES } from '../../src/protocol/a2a/proto/services.js';
import { ProtocolError } from '../../src/protocol/errors.js';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { MODERN_METHODS, SESSION_METHODS } from '../../src/protocol/mcp/methods.js';
import { encodeHeaderValue, nameParameter } from '../../src/protocol/mcp/mirrored-headers.js';
import { LEGACY, NEWEST } from '../../src/protocol/mcp/revisions/index.js';
import { SILENT } from '../../src/telemetry/log.js';
import { type CountedUpstream, startCountedAgent, startCountedServer } from './upstreams.js';

const DENIED = 'denied by the interceptor of this test';
const UNKNOWN = 'vendor/unknown';
const PREFIX = 'io.modelcontextprotocol';
const TASKS = { extensions: { [`${PREFIX}/tasks`]: {} } };

/** Methods that the session answers itself, without a server. */
const OF_THE_SESSION = ['ping', 'logging/setLevel', 'resources/unsubscribe'];

let denying = false;
let denied: CallContext[] = [];
const denyAll: Interceptor = (context, next) => {
  if (!denying) return next(context);
  denied.push(context);
  throw new ProtocolError('forbidden', DENIED, { outcome: 'not_executed' });
};

let folder: string;
let server: CountedUpstream;
let agent: CountedUpstream;
let gateway: RunningGateway;
let stdio: Lines;
let stdioEnded: Promise<void>;
let grpcAddress: string;
const pipes = { input: new PassThrough(), output: new PassThrough() };
const contacts = (): string[] => [...server.contacts, ...agent.contacts];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-deny-'));
  [server, agent] = [await startCountedServer(), await startCountedAgent()];
  const settings = {
    listen: '127.0.0.1:0',
    grpc: { listen: '127.0.0.1:0' },
    egress: { allowPrivate: true },
    // Routes that only some configurations have.
    mcp: { rawProxy: true },
    // The probes of the gateway itself serve no caller.
    health: { interval: '1h' },
    servers: { counted: { url: server.url } },
    agents: { one: { url: agent.url }, made: { tools: ['counted__*'] } },
  };
  const interceptors = [denyAll];
  const config = (data: string) => configFrom({ ...settings, data: join(folder, data) }).config;
  gateway = await startServe(config('http'), { log: SILENT, interceptors });
  stdioEnded = startStdio(config('stdio'), { log: SILENT, interceptors, ...pipes });
  stdio = new Lines(pipes);
  await gateway.settled(10_000);
  const grpc = gateway.summary().endpoints.find(({ label }) => label === 'A2A gRPC');
  grpcAddress = grpc!.address;
  for (const send of [modernHttp, modernStdio]) {
    for (const method of ['prompts/list', 'resources/list', 'resources/templates/list', 'tools/list'])
      await send(method, {}, '/mcp');
  }
  await fetch(`${gateway.url}/.well-known/agent-card.json`).then((reply) => reply.text());
});

afterAll(async () => {
  denying = false;
  pipes.input.end();
  await stdioEnded;
  await gateway.close();
  await server.close();
  await agent.close();
  await rm(folder, { recursive: true, force: true });
});

let before: string[];
beforeEach(() => {
  denied = [];
});
afterEach(() => {
  denying = false;
});

/** From now on every call is denied, and every contact is recorded. */
function deny(): void {
  before = contacts();
  denying = true;
}

function expectRefused(text: string, method: string, protocol: 'mcp' | 'a2a'): void {
  expect(text, method).toContain(DENIED);
  expect(denied.at(-1), method).toMatchObject({ protocol, method });
  expect(contacts(), method).toEqual(before);
}

/** Sends messages as lines, and matches answers by id. */
class Lines {
  private readonly waiting = new Map<unknown, (text: string) => void>();
  private id = 0;

  constructor(private readonly streams: { input: PassThrough; output: PassThrough }) {
    let rest = '';
    streams.output.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop()!;
      for (const line of lines) this.waiting.get((JSON.parse(line) as { id?: unknown }).id)?.(line);
    });
  }

  request(method: string, params: object): Promise<string> {
    const id = ++this.id;
    const answer = new Promise<string>((resolve) => this.waiting.set(id, resolve));
    this.streams.input.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return answer;
  }
}

const envelope = (params: JsonObject): JsonObject => ({
  ...params,
  _meta: { [`${PREFIX}/protocolVersion`]: NEWEST.date, [`${PREFIX}/clientCapabilities`]: TASKS },
});

const modernStdio = (method: string, params: JsonObject, _: string): Promise<string> =>
  stdio.request(method, envelope(params));

async function modernHttp(method: string, params: JsonObject, path: string): Promise<string> {
  const named = params[nameParameter(method) ?? ''];
  const reply = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': NEWEST.date,
      'mcp-method': method,
      ...(typeof named === 'string' && { 'mcp-name': encodeHeaderValue(named) }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: envelope(params) }),
  });
  return reply.text();
}

const PARAMS: Readonly<Record<string, JsonObject>> = {
  'server/discover': {},
  'tools/list': {},
  'prompts/list': {},
  'resources/list': {},
  'resources/templates/list': {},
  'tools/call': { name: 'counted__add', arguments: {} },
  'prompts/get': { name: 'counted__ask' },
  'resources/read': { uri: 'counted://one' },
  'completion/complete': { ref: { type: 'ref/prompt', name: 'counted__ask' }, argument: { name: 'a', value: 'b' } },
  'subscriptions/listen': { notifications: { toolsListChanged: true, resourceSubscriptions: ['counted://one'] } },
  'tasks/get': { taskId: 'set below' },
  'tasks/update': { taskId: 'set below', inputResponses: {} },
  'tasks/cancel': { taskId: 'set below' },
  'tasks/result': { taskId: 'set below' },
  'tasks/list': {},
  initialize: {},
  ping: {},
  'logging/setLevel': { level: 'info' },
  'resources/subscribe': { uri: 'counted://one' },
  'resources/unsubscribe': { uri: 'counted://one' },
};

function paramsOf(method: string, taskId: string): JsonObject {
  const params = PARAMS[method];
  if (!params) throw new Error(`no parameters for ${method}: add them, so that the method is tested`);
  return 'taskId' in params ? { ...params, taskId } : params;
}

describe.each([
  ['HTTP', modernHttp],
  ['stdio', modernStdio],
  ['WebSocket', modernWebSocket],
] as const)('MCP in the newest revision over %s', (_, send) => {
  test.each(MODERN_METHODS)('%s is refused', async (method) => {
    const created = JSON.parse(await send('tools/call', PARAMS['tools/call']!, '/mcp')) as { result: JsonObject };
    const taskId = String(created.result['taskId']);
    expect(created.result['resultType']).toBe('task');
    deny();
    expectRefused(await send(method, paramsOf(method, taskId), '/mcp'), method, 'mcp');
  });

  test('a skill of an agent that is called as a tool is refused', async () => {
    deny();
    const params = { name: 'one__count', arguments: { message: 'hi' } };
    expectRefused(await send('tools/call', params, '/mcp'), 'tools/call', 'mcp');
  });

  test('a tool that does not exist is refused like any other', async () => {
    deny();
    expectRefused(await send('tools/call', { name: 'counted__none' }, '/mcp'), 'tools/call', 'mcp');
    expectRefused(await send('tools/call', { name: 'none' }, '/mcp'), 'tools/call', 'mcp');
  });
});

test('MCP in the newest revision: a method that only the server knows is refused', async () => {
  deny();
  expectRefused(await modernHttp(UNKNOWN, {}, '/mcp/counted'), UNKNOWN, 'mcp');
});

/** A legacy client on one transport. */
interface Handshaken {
  request(method: string, params: object): Promise<string>;
  close(): Promise<void>;
}

async function overHttp(path: string, revision: string): Promise<Handshaken> {
  let session: string | undefined;
  let id = 0;
  return {
    request: async (method, params) => {
      const reply = await fetch(`${gateway.url}${path}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...(session !== undefined && { 'mcp-session-id': session, 'mcp-protocol-version': revision }),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
      });
      session = reply.headers.get('mcp-session-id') ?? session;
      return reply.text();
    },
    close: async () => {},
  };
}

async function overSse(path: string): Promise<Handshaken> {
  const abort = new AbortController();
  const base = path === '/mcp' ? '/sse' : `${path}/sse`;
  const stream = await fetch(`${gateway.url}${base}`, {
    headers: { accept: 'text/event-stream' },
    signal: abort.signal,
  });
  const waiting = new Map<unknown, (text: string) => void>();
  let endpoint: (path: string) => void = () => {};
  const opened = new Promise<string>((resolve) => (endpoint = resolve));
  const reading = (async () => {
    let rest = '';
    for await (const chunk of stream.body!.pipeThrough(new TextDecoderStream())) {
      const events = (rest + chunk).split('\n\n');
      rest = events.pop()!;
      for (const event of events) {
        const data = /^data: ?(.*)$/m.exec(event)?.[1] ?? '';
        if (event.includes('event: endpoint')) endpoint(data);
        else if (data.startsWith('{')) waiting.get((JSON.parse(data) as { id?: unknown }).id)?.(data);
      }
    }
  })().catch(() => {});
  const messages = await opened;
  let id = 0;
  return {
    request: async (method, params) => {
      const own = ++id;
      const answer = new Promise<string>((resolve) => waiting.set(own, resolve));
      const body = JSON.stringify({ jsonrpc: '2.0', id: own, method, params });
      const headers = { 'content-type': 'application/json' };
      await (await fetch(`${gateway.url}${messages}`, { method: 'POST', headers, body })).text();
      return answer;
    },
    close: async () => {
      abort.abort();
      await reading;
    },
  };
}

async function overWebSocket(path: string): Promise<Handshaken> {
  const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}${path.replace('/mcp', '/ws')}`, 'mcp');
  const waiting = new Map<unknown, (text: string) => void>();
  socket.on('message', (data: Buffer) => {
    const text = data.toString();
    waiting.get((JSON.parse(text) as { id?: unknown }).id)?.(text);
  });
  await once(socket, 'open');
  let id = 0;
  return {
    request: (method, params) => {
      const own = ++id;
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: own, method, params }));
      return new Promise<string>((resolve) => waiting.set(own, resolve));
    },
    close: async () => {
      socket.close();
      await once(socket, 'close');
    },
  };
}

async function modernWebSocket(method: string, params: JsonObject, path: string): Promise<string> {
  const client = await overWebSocket(path);
  const answer = await client.request(method, envelope(params));
  await client.close();
  return answer;
}

const initializing = (revision: string): JsonObject => ({
  protocolVersion: revision,
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
});

const DATES = LEGACY.map(({ date }) => date);
const SESSIONS = DATES.flatMap(
  (date) =>
    [
      ['Streamable HTTP', date],
      ['HTTP+SSE', date],
      ['WebSocket', date],
    ] as const,
);

async function refusesEverything(client: Handshaken, revision: string, passesUnknown: boolean): Promise<void> {
  const created = JSON.parse(
    dataOf(await client.request('tools/call', { ...PARAMS['tools/call'], task: { ttl: 60_000 } })),
  ) as { result: { task?: { taskId: string } } };
  const taskId = created.result.task?.taskId ?? 'none';
  const { expresses } = LEGACY.find(({ date }) => date === revision)!;
  expect(taskId !== 'none').toBe(expresses.tasks === 'core');
  // Waits until the running task has reached its server.
  await vi.waitFor(async () => {
    if (taskId !== 'none') expect(await client.request('tasks/get', { taskId })).toContain('"completed"');
  }, 30_000);
  deny();
  for (const method of SESSION_METHODS) {
    const answer = await client.request(method, paramsOf(method, taskId));
    const lacks = method.startsWith('tasks/') && expresses.tasks !== 'core';
    if (OF_THE_SESSION.includes(method) || method === 'initialize' || lacks) {
      expect(answer, method).not.toContain(DENIED);
      expect(contacts(), method).toEqual(before);
    } else expectRefused(answer, method, 'mcp');
  }
  if (passesUnknown) expectRefused(await client.request(UNKNOWN, {}), UNKNOWN, 'mcp');
}

const dataOf = (text: string): string => /^data: ?(\{.*"id".*)$/m.exec(text)?.[1] ?? text;

describe.each(SESSIONS)('MCP in a session over %s, revision %s', (transport, revision) => {
  const open = (path: string): Promise<Handshaken> => {
    if (transport === 'WebSocket') return overWebSocket(path);
    return transport === 'HTTP+SSE' ? overSse(path) : overHttp(path, revision);
  };

  test('initialize is refused', async () => {
    const client = await open('/mcp');
    deny();
    expectRefused(await client.request('initialize', initializing(revision)), 'initialize', 'mcp');
    await client.close();
  });

  test.each([
    ['all servers', '/mcp'],
    ['one server', '/mcp/counted'],
  ])('every method is refused on the endpoint of %s', async (_, path) => {
    const client = await open(path);
    expect(await client.request('initialize', initializing(revision))).not.toContain('"error"');
    const own = { ...PARAMS['tools/call'], name: path === '/mcp' ? 'counted__add' : 'add' };
    const named = {
      ...client,
      request: (method: string, params: object) => client.request(method, renamed(method, params, own)),
    };
    await refusesEverything(named, revision, path !== '/mcp');
    await client.close();
  });
});

/** The endpoint of one server shows the server's own names. */
const renamed = (method: string, params: object, own: JsonObject): object =>
  method === 'tools/call' ? { ...params, name: own['name'] } : params;

test('MCP in a session over stdio is refused', async () => {
  const revision = DATES.at(-1)!;
  deny();
  expectRefused(await stdio.request('initialize', initializing(revision)), 'initialize', 'mcp');
  denying = false;
  expect(await stdio.request('initialize', initializing(revision))).not.toContain('"error"');
  const client: Handshaken = { request: (method, params) => stdio.request(method, params), close: async () => {} };
  await refusesEverything(client, revision, false);
});

test('the page about the endpoint contacts no upstream', async () => {
  deny();
  for (const accept of ['application/json', 'text/html']) {
    await (await fetch(`${gateway.url}/mcp`, { headers: { accept } })).text();
    expect(contacts()).toEqual(before);
  }
});

const TASK = 'waiting';
const PUSH = { taskId: TASK, id: 'p', url: 'https://example.com/hook' };
const MESSAGE = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'count' }] } as const;

/** Typed by operation: an operation without a request does not compile. */
const REQUESTS: { readonly [O in Operation]: RequestOf<O> } = {
  SendMessage: { message: { ...MESSAGE, parts: [{ text: 'count' }] } },
  SendStreamingMessage: { message: { ...MESSAGE, parts: [{ text: 'count' }] } },
  GetTask: { id: TASK },
  ListTasks: {},
  CancelTask: { id: TASK },
  SubscribeToTask: { id: TASK },
  CreateTaskPushNotificationConfig: PUSH,
  GetTaskPushNotificationConfig: { taskId: TASK, id: 'p' },
  ListTaskPushNotificationConfigs: { taskId: TASK },
  DeleteTaskPushNotificationConfig: { taskId: TASK, id: 'p' },
  GetExtendedAgentCard: {},
};
const OPERATIONS = Object.keys(REQUESTS) as Operation[];

const PATHS: { readonly [O in Operation]: readonly [method: string, path: string] } = {
  SendMessage: ['POST', '/message:send'],
  SendStreamingMessage: ['POST', '/message:stream'],
  GetTask: ['GET', `/tasks/${TASK}`],
  ListTasks: ['GET', '/tasks'],
  CancelTask: ['POST', `/tasks/${TASK}:cancel`],
  SubscribeToTask: ['POST', `/tasks/${TASK}:subscribe`],
  CreateTaskPushNotificationConfig: ['POST', `/tasks/${TASK}/pushNotificationConfigs`],
  GetTaskPushNotificationConfig: ['GET', `/tasks/${TASK}/pushNotificationConfigs/p`],
  ListTaskPushNotificationConfigs: ['GET', `/tasks/${TASK}/pushNotificationConfigs`],
  DeleteTaskPushNotificationConfig: ['DELETE', `/tasks/${TASK}/pushNotificationConfigs/p`],
  GetExtendedAgentCard: ['GET', '/extendedAgentCard'],
};

/** The agent behind a URL, the tool agent, and the routing agent. */
const AGENTS = ['one', 'made', undefined] as const;
const pathOf = (name: string | undefined): string => (name === undefined ? '/a2a' : `/a2a/${name}`);

const rpc = async (path: string, method: string, params: object, version: string): Promise<string> => {
  const reply = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': version },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return reply.text();
};

describe('A2A', () => {
  beforeAll(async () => {
    // The task exists, and the gateway would read it from its agent.
    expect(await rpc('/a2a/one', 'SendMessage', REQUESTS.SendMessage, '1.0')).toContain(TASK);
    const asked = agent.contacts.length;
    expect(await rpc('/a2a/one', 'GetTask', REQUESTS.GetTask, '1.0')).toContain(TASK);
    expect(agent.contacts.length).toBeGreaterThan(asked);
  });

  describe.each(AGENTS)('for agent %s', (name) => {
    test.each(DIALECTS.map(({ id }) => id))('every operation is refused over JSON-RPC in dialect %s', async (id) => {
      const { method: spelling, version, writeRequest } = dialectOf(id);
      deny();
      for (const operation of OPERATIONS) {
        const method = spelling(operation);
        if (method === undefined) continue;
        const params = writeRequest(operation, REQUESTS[operation]);
        expectRefused(await rpc(pathOf(name), method, params, version), operation, 'a2a');
      }
    });

    test.each(OPERATIONS)('%s is refused over HTTP+JSON', async (operation) => {
      const [method, path] = PATHS[operation];
      deny();
      const reply = await fetch(`${gateway.url}${pathOf(name)}${path}`, {
        method,
        headers: { 'a2a-version': '1.0', ...(method === 'POST' && { 'content-type': 'application/json' }) },
        ...(method === 'POST' && { body: JSON.stringify(REQUESTS[operation]) }),
      });
      expectRefused(await reply.text(), operation, 'a2a');
    });

    test.each(SERVICES.map((service) => [service.name, service] as const))(
      'every method of the gRPC service %s is refused',
      async (_, service) => {
        const client = new Client(grpcAddress, credentials.createInsecure());
        const metadata = new Metadata();
        if (name !== undefined) metadata.set('x-parley-agent', name);
        const asIs = (bytes: Buffer): Buffer => bytes;
        deny();
        for (const method of service.methods) {
          const wire = dialect(service.dialect).writeRequest(method.operation, REQUESTS[method.operation]);
          const body = service.codec.encode(method.request, wire);
          const failure = await new Promise<Error>((resolve, reject) => {
            if (method.streams) {
              const stream = client.makeServerStreamRequest(method.path, asIs, asIs, body, metadata);
              stream.on('data', () => reject(new Error(`${method.path} gave an event`)));
              stream.on('error', resolve);
            } else {
              client.makeUnaryRequest(method.path, asIs, asIs, body, metadata, (error) =>
                error ? resolve(error) : reject(new Error(`${method.path} was answered`)),
              );
            }
          });
          expectRefused(failure.message, method.operation, 'a2a');
        }
        client.close();
      },
    );
  });

  test('this file has a request for every method of the services', () => {
    const served = SERVICES.flatMap(({ methods }) => methods.map(({ operation }) => operation));
    expect(new Set(served)).toEqual(new Set(OPERATIONS));
  });
});

/**
 * Routes that concern no server and no agent: health and metrics of the process, streams without a request yet,
 * callbacks, which their URL authenticates, and pages on which a user signs in with a sealed link.
 * The interceptor must refuse all others.
 */
const LOCAL: ReadonlySet<string> = new Set([
  // Without an upgrade, the answer is 426; the tests above send messages on a WebSocket.
  'GET /ws',
  'GET /ws/{server}',
  'GET /health',
  'GET /_health/live',
  'GET /_health/ready',
  'GET /servers/{name}/logs',
  'GET /metrics',
  'GET /api/v1/tail',
  'GET /a2a/push/dead',
  'POST /a2a/push/dead/{id}',
  'GET /a2a/push/{address}',
  'POST /a2a/push/{address}',
  'GET /.well-known/jwks.json',
  'GET /connect/{name}',
  'POST /connect/{name}',
  'GET /connect/agents/{name}',
  'POST /connect/agents/{name}',
  'GET /connect/callback',
  'GET /connect/return',
  'GET /connect/client-metadata.json',
  'GET /sse',
  'GET /mcp/sse',
  'GET /mcp/{server}/sse',
  'POST /messages',
  'POST /mcp/messages',
  'POST /mcp/{server}/messages',
  'DELETE /',
  'DELETE /mcp',
  'DELETE /mcp/{server}',
  'DELETE /{server}/mcp',
  // These routes answer from the registry, without a request to a server.
  'GET /v1/mcp/server/health',
  'GET /v1/mcp/access_groups',
  'GET /v1/mcp/registry.json',
  'GET /v1/llmrouter/mcp/access_groups',
  // Changes of the registry by administrators.
  'POST /v1/mcp/server',
  'PUT /v1/mcp/server',
  'DELETE /v1/mcp/server/{id}',
  'POST /llmrouter/mcp/servers',
  'PUT /llmrouter/mcp/servers/{id}',
  'DELETE /llmrouter/mcp/servers/{id}',
  'POST /v1/agents',
  'PUT /v1/agents/{id}',
  'PATCH /v1/agents/{id}',
  'DELETE /v1/agents/{id}',
  'POST /a2a/agents',
  'DELETE /a2a/agents/{id}',
  // A link to the sign-in page.
  'GET /v1/mcp/server/oauth/{id}/authorize',
  // Not supported.
  'POST /v1/mcp/make_public',
  'POST /llmrouter/mcp/servers/{id}/tools',
  'POST /v1/mcp/server/oauth/{id}/token',
  'POST /v1/mcp/server/oauth/{id}/register',
  'POST /v1/mcp/server/oauth/session',
  'POST /v1/agents/make_public',
  'POST /v1/agents/{id}/make_public',
]);

/** The management API reads and changes the gateway itself. Only its routes of tools reach a server. */
const MANAGEMENT = /^[A-Z]+ \/(?:api\/v1\/(?!tools)|openapi\.json$|docs)/;
const isLocal = (name: string): boolean => LOCAL.has(name) || MANAGEMENT.test(name);

/** Values for the parameters in the paths of routes. */
const SAMPLES: Readonly<Record<string, string>> = { server: 'counted', agent: 'one', card: 'one', task: TASK };

test('every route is refused, or serves no server and no agent', async () => {
  const missed: string[] = [];
  for (const { method, path } of gateway.routes) {
    // Other methods would change the server, except those that are passed on to it.
    const id = method === 'GET' || path.startsWith('/mcp-proxy/') ? 'counted' : 'p';
    const sample = path.replace(/\{(\w+)\}/g, (_, name: string) => (name === 'id' ? id : (SAMPLES[name] ?? 'p')));
    deny();
    denied = [];
    const abort = new AbortController();
    const reply = await fetch(`${gateway.url}${sample}`, {
      method,
      signal: abort.signal,
      headers: { accept: 'application/json, text/event-stream;q=0', 'content-type': 'application/json' },
      ...(method === 'POST' && (path === '/api/v1/tools/call' ? { body: '{"name":"counted__x"}' } : bodyOf(path))),
    });
    if (reply.headers.get('content-type')?.startsWith('text/event-stream') !== true) await reply.text();
    abort.abort();
    const name = `${method} ${path}`;
    expect(contacts(), name).toEqual(before);
    if (denied.length === 0 && !isLocal(name)) missed.push(name);
    if (denied.length > 0) expect(isLocal(name), name).toBe(false);
  }
  expect(missed).toEqual([]);
});

/** A request to a route of the management API that the route carries out, as its status shows. */
interface Managed {
  /** Without it the path of the route, with `p` for its parameters. */
  readonly path?: string | (() => string);
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly status: number;
}

const ANY_VERSION = { 'if-match': '*' };

/** In this order: what one request adds, later ones change and remove. */
const managed = (made: { session: string; key: string }): Readonly<Record<string, Managed>> => ({
  'GET /api/v1/me': { status: 200 },
  'GET /api/v1/status': { status: 200 },
  'GET /api/v1/replicas': { status: 200 },
  'GET /api/v1/views': { status: 200 },
  'GET /api/v1/views/{name}': { status: 404 },
  ...registered('servers', server, 'counted'),
  ...registered('agents', agent, 'one'),
  'GET /api/v1/sessions': { status: 200 },
  'DELETE /api/v1/sessions/{id}': { path: `/api/v1/sessions/${made.session}`, status: 204 },
  'GET /api/v1/tasks': { status: 200 },
  'GET /api/v1/agent-tasks': { status: 200 },
  'GET /api/v1/parked': { status: 200 },
  'POST /api/v1/keys': { body: { name: 'added', expires: '1h' }, status: 201 },
  'GET /api/v1/keys': { status: 200 },
  'DELETE /api/v1/keys/{id}': { path: () => `/api/v1/keys/${made.key}`, status: 204 },
  'GET /api/v1/policy': { status: 200 },
  'POST /api/v1/policy/explain': { body: { caller: 'ada', tool: 'counted__add' }, status: 200 },
  'GET /api/v1/pins': { status: 200 },
  'POST /api/v1/pins/approve': { body: { server: 'counted', kind: 'tool', name: 'add', seen: 'x' }, status: 412 },
  'DELETE /api/v1/pins/{of}': { path: '/api/v1/pins/counted', status: 204 },
  'GET /api/v1/audit': { status: 200 },
  'GET /api/v1/audit/verify': { status: 200 },
  'GET /api/v1/webhooks': { status: 200 },
  'POST /api/v1/webhooks/{id}/retry': { status: 404 },
  'GET /api/v1/scores': { status: 200 },
  'POST /api/v1/routing/explain': { body: { query: 'add', server: 'counted' }, status: 200 },
  'GET /api/v1/routing/stats': { status: 200 },
  'DELETE /api/v1/routing/outcomes': { path: '/api/v1/routing/outcomes?server=counted', status: 200 },
  'GET /api/v1/config': { status: 200 },
  'POST /api/v1/config/reload': { body: { preview: true }, status: 400 },
  'GET /api/v1/tail': { status: 200 },
  'GET /api/v1/recording': { status: 200 },
});

/** The gateway itself asks a server or agent for its lists once it is enabled, so the added one stays disabled. */
function registered(section: string, { url }: CountedUpstream, known: string): Readonly<Record<string, Managed>> {
  const path = `/api/v1/${section}/added`;
  const settings = { url, enabled: false };
  return {
    [`GET /api/v1/${section}`]: { status: 200 },
    [`GET /api/v1/${section}/{name}`]: { path: `/api/v1/${section}/${known}`, status: 200 },
    [`POST /api/v1/${section}/{name}/check`]: { path: `/api/v1/${section}/new/check`, body: { url }, status: 200 },
    [`POST /api/v1/${section}`]: { body: { name: 'added', settings }, status: 201 },
    [`PUT /api/v1/${section}/{name}`]: { path, body: settings, headers: ANY_VERSION, status: 200 },
    [`PATCH /api/v1/${section}/{name}`]: {
      path,
      body: { timeouts: { call: '9s' } },
      headers: ANY_VERSION,
      status: 200,
    },
    [`POST /api/v1/${section}/{name}/restore`]: { path: `${path}/restore`, status: 404 },
    [`DELETE /api/v1/${section}/{name}`]: { path, headers: ANY_VERSION, status: 204 },
  };
}

test('no route of the management API contacts a server or an agent, except those of tools', async () => {
  const client = await overHttp('/mcp', DATES.at(-1)!);
  await client.request('initialize', initializing(DATES.at(-1)!));
  const { items } = (await (await fetch(`${gateway.url}/api/v1/sessions`)).json()) as { items: { id: string }[] };
  const made = { session: items.at(-1)!.id, key: '' };
  const requests = Object.entries(managed(made));
  const served = gateway.routes.map(({ method, path }) => `${method} ${path}`);
  const ofManagement = served.filter((name) => / \/api\/v1\/(?!tools)/.test(name));
  expect(requests.map(([name]) => name).sort()).toEqual(ofManagement.sort());
  deny();
  for (const [name, { path, body, headers, status }] of requests) {
    const [method, route] = name.split(' ') as [string, string];
    const abort = new AbortController();
    const place = typeof path === 'function' ? path() : (path ?? route.replace(/\{\w+\}/, 'p'));
    const reply = await fetch(gateway.url + place, {
      method,
      signal: abort.signal,
      headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const streams = reply.headers.get('content-type')?.startsWith('text/event-stream') === true;
    const text = streams ? '' : await reply.text();
    abort.abort();
    expect({ name, status: reply.status, text }).toEqual({ name, status, text });
    if (name === 'POST /api/v1/keys') made.key = (JSON.parse(text) as { id: string }).id;
    expect(contacts(), name).toEqual(before);
  }
  expect(denied).toEqual([]);
  // A contact that a route began in the background comes before those of these calls.
  denying = false;
  await modernHttp('tools/call', PARAMS['tools/call']!, '/mcp');
  await rpc('/a2a/one', 'SendMessage', REQUESTS.SendMessage, '1.0');
  const more = contacts().length - before.length;
  expect([more, server.contacts.includes('tools/call'), agent.contacts.at(-1)]).toEqual([2, true, 'SendMessage']);
});

/** Bodies of REST routes that lead to a server. */
const REST_BODIES: Readonly<Record<string, object>> = {
  '/mcp-rest/tools/call': { server_id: 'counted', name: 'add' },
  '/llmrouter/mcp/tools/call': { tool_name: 'add' },
  '/mcp-rest/test/connection': { url: 'https://example.com/mcp' },
  '/mcp-rest/test/tools/list': { url: 'https://example.com/mcp' },
};

/** A valid request body for a POST path. */
function bodyOf(path: string): { readonly body: string; readonly headers: Record<string, string> } {
  const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const rest = OPERATIONS.find((operation) => {
    const [method, within] = PATHS[operation];
    return method === 'POST' && path.replace(/\{task\}/, TASK).endsWith(within);
  });
  if (rest) return { headers: { ...json, 'a2a-version': '1.0' }, body: JSON.stringify(REQUESTS[rest]) };
  const called = REST_BODIES[path];
  if (called) return { headers: json, body: JSON.stringify(called) };
  if (path.includes('/pushNotification')) {
    const body = dialect('0.3-proto').writeRequest('CreateTaskPushNotificationConfig', PUSH);
    return { headers: { ...json, 'a2a-version': '0.3' }, body: JSON.stringify(body) };
  }
  if (path.includes('a2a')) {
    const method = path.endsWith('stream') ? 'SendStreamingMessage' : 'GetTask';
    const body = { jsonrpc: '2.0', id: 1, method, params: REQUESTS[method] };
    return { headers: { ...json, 'a2a-version': '1.0' }, body: JSON.stringify(body) };
  }
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: envelope({}) };
  const headers = { ...json, 'mcp-protocol-version': NEWEST.date, 'mcp-method': 'tools/list' };
  return { headers, body: JSON.stringify(body) };
}

function dialectOf(id: (typeof DIALECTS)[number]['id']) {
  const found = dialect(id);
  return {
    version: found.version,
    method: (operation: Operation) => found.method(operation),
    writeRequest: (operation: Operation, request: RequestOf<Operation>) => found.writeRequest(operation, request),
  };
}
