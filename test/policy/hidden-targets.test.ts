/**
 * S3: a caller that may not use a target gets for it exactly the answers for a target that does not exist, in every
 * method of both protocols. The requests come from the method tables of `protocol/`: a method without a pair of
 * requests in this file fails the test.
 */
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DIALECTS, dialect } from '../../src/protocol/a2a/index.js';
import type { Operation, RequestOf } from '../../src/protocol/a2a/model.js';
import { SERVICES } from '../../src/protocol/a2a/proto/services.js';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { MODERN_METHODS, SESSION_METHODS } from '../../src/protocol/mcp/methods.js';
import { LEGACY } from '../../src/protocol/mcp/revisions/index.js';
import { ADA, type Answer, answerOf, BOB, bearer, modern, type PolicyWorld, startPolicyWorld } from './world.js';

const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
let world: PolicyWorld;
let adasTask = '';

beforeAll(async () => {
  world = await startPolicyWorld();
  const { text } = await send(ADA, 'tools/call', { name: 'secret__add', arguments: {} });
  expect(text).toContain('done by secret');
  adasTask = await taskOfAda();
});
afterAll(() => world.close());

const send = (token: string, method: string, params: JsonObject, path = '/mcp'): Promise<Answer> =>
  modern(world.gateway.url, method, params, { token, path, capabilities: TASKS });

/** A task of ada that the gateway hosts. */
async function taskOfAda(): Promise<string> {
  const session = await legacy(LEGACY.at(-1)!.date, ADA, '/mcp');
  const { text } = await session('tools/call', { name: 'secret__add', arguments: {}, task: { ttl: 60_000 } });
  return (JSON.parse(dataOf(text)) as { result: { task: { taskId: string } } }).result.task.taskId;
}

const dataOf = (text: string): string => /^data: ?(\{.*"id".*)$/m.exec(text)?.[1] ?? text;

/** The answer, with placeholders for the names that the client sent. */
const alike = ({ status, headers, text }: Answer): unknown => ({
  status,
  headers: headers.map((line) => line.replace(/secret/g, 'absent').replace(/^(mcp-session-id): .*/, '$1')),
  text: text
    .replaceAll('secret', 'absent')
    .replaceAll('cloaked', 'nowhere')
    .replace(/"ttlMs":\d+/, '"ttlMs":0')
    .replaceAll(adasTask, 'no-task'),
});

type Pair = readonly [hidden: JsonObject, absent: JsonObject];
const named = (key: string, ...pairs: readonly [string, string][]): Pair[] =>
  pairs.map(([hidden, absent]) => [{ [key]: hidden }, { [key]: absent }]);

/** For each method: parameters that name a hidden target, and the same for an absent target. */
const PAIRS: Readonly<Record<string, () => readonly Pair[]>> = {
  'tools/call': () =>
    named(
      'name',
      ['secret__add', 'absent__add'],
      ['open__cloaked', 'open__nowhere'],
      ['secret.add', 'absent.add'],
      ['secretagent__count', 'absentagent__count'],
    ),
  'prompts/get': () => named('name', ['secret__ask', 'absent__ask'], ['open__cloaked', 'open__nowhere']),
  'resources/read': () => named('uri', ['secret://one', 'absent://one'], ['open://cloaked', 'open://nowhere']),
  'resources/subscribe': () => named('uri', ['secret://one', 'absent://one'], ['open://cloaked', 'open://nowhere']),
  'resources/unsubscribe': () => named('uri', ['secret://one', 'absent://one']),
  'completion/complete': () =>
    named('name', ['secret__ask', 'absent__ask'], ['open__cloaked', 'open__nowhere']).map(
      (pair) =>
        pair.map((ref) => ({ ref: { type: 'ref/prompt', ...ref }, argument: { name: 'a', value: 'b' } })) as never,
    ),
  'subscriptions/listen': () =>
    named('uri', ['secret://one', 'absent://one'], ['open://cloaked', 'open://nowhere']).map(
      (pair) => pair.map(({ uri }) => ({ notifications: { resourceSubscriptions: [uri!] } })) as never,
    ),
  'tasks/get': () => named('taskId', [adasTask, 'no-task']),
  'tasks/update': () =>
    named('taskId', [adasTask, 'no-task']).map(
      (pair) => pair.map((each) => ({ ...each, inputResponses: {} })) as never,
    ),
  'tasks/cancel': () => named('taskId', [adasTask, 'no-task']),
  'tasks/result': () => named('taskId', [adasTask, 'no-task']),
};

/** Methods that name no target: their answers must not mention hidden ones. */
const LISTS: Readonly<Record<string, JsonObject>> = {
  'server/discover': {},
  'tools/list': {},
  'prompts/list': {},
  'resources/list': {},
  'resources/templates/list': {},
  'tasks/list': {},
  initialize: { protocolVersion: LEGACY.at(-1)!.date, capabilities: {}, clientInfo: { name: 't', version: '1' } },
  ping: {},
  'logging/setLevel': { level: 'info' },
};

function expectBlind(answer: Answer, what: string): void {
  expect(`${answer.headers.join()} ${answer.text}`, what).not.toMatch(/secret|cloaked/);
}

describe('S3: MCP in the newest revision', () => {
  test.each(MODERN_METHODS)('%s', async (method) => {
    const before = world.hidden().length;
    const paths: readonly [string, string][] = [
      ['/mcp', '/mcp'],
      ['/mcp/secret', '/mcp/absent'],
      ['/secret/mcp', '/absent/mcp'],
    ];
    const pairs = PAIRS[method]?.();
    const plain = LISTS[method];
    if (!pairs && !plain) throw new Error(`no requests for ${method}: add them, so that the method is tested`);
    for (const [hiddenPath, absentPath] of paths) {
      for (const [hidden, absent] of pairs ?? [[plain!, plain!]]) {
        if (method === 'subscriptions/listen' && hiddenPath === '/mcp') continue;
        const [one, other] = [await send(BOB, method, hidden, hiddenPath), await send(BOB, method, absent, absentPath)];
        expect(alike(one), JSON.stringify(hidden)).toEqual(alike(other));
      }
    }
    if (plain) expectBlind(await send(BOB, method, plain), method);
    expect(
      world
        .hidden()
        .slice(before)
        .filter((contact) => contact === method),
    ).toEqual([]);
  });

  test('a method that only the server knows', async () => {
    const before = world.hidden().length;
    const [one, other] = [
      await send(BOB, 'vendor/x', {}, '/mcp/secret'),
      await send(BOB, 'vendor/x', {}, '/mcp/absent'),
    ];
    expect(alike(one)).toEqual(alike(other));
    expect(world.hidden().length).toBe(before);
  });

  test('a subscription to a hidden resource is not acknowledged, like one to an absent resource', async () => {
    const honoured = async (uri: string): Promise<string> => {
      const abort = new AbortController();
      const reply = await fetch(`${world.gateway.url}/mcp`, {
        method: 'POST',
        signal: abort.signal,
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'subscriptions/listen',
          ...bearer(BOB),
        },
        body: JSON.stringify({
          ...{ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen' },
          params: {
            notifications: { resourceSubscriptions: [uri] },
            _meta: {
              'io.modelcontextprotocol/protocolVersion': '2026-07-28',
              'io.modelcontextprotocol/clientCapabilities': {},
            },
          },
        }),
      });
      const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
      const { value = '' } = await reader.read();
      abort.abort();
      return value;
    };
    for (const [hidden, absent] of [
      ['secret://one', 'absent://one'],
      ['open://cloaked', 'open://nowhere'],
    ] as const)
      expect((await honoured(hidden)).replaceAll('secret', 'absent').replaceAll('cloaked', 'nowhere')).toBe(
        await honoured(absent),
      );
  });

  test('targets that bob may use work, and his lists contain them', async () => {
    expect((await send(BOB, 'tools/call', { name: 'open__add', arguments: {} })).text).toContain('done by open');
    const { text } = await send(BOB, 'tools/list', {});
    expect(text).toContain('open__add');
    expect(text).toContain('openagent__count');
    expect((await send(BOB, 'server/discover', {})).text).toContain('Use open.');
    expect((await send(ADA, 'tools/list', {})).text).toContain('secret__cloaked');
  });

  test('S19: a header that names an allowed tool does not help a body that names another', async () => {
    const before = world.contacts().length;
    const answer = await modern(
      world.gateway.url,
      'tools/call',
      { name: 'secret__add', arguments: {} },
      {
        ...{ token: BOB, headers: { 'mcp-name': 'open__add' } },
      },
    );
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.text)).toMatchObject({ error: { code: -32020 } });
    expect(world.contacts().length).toBe(before);
  });
});

type Session = (method: string, params: JsonObject) => Promise<Answer>;

async function legacy(revision: string, token: string, path: string): Promise<Session> {
  let session: string | undefined;
  let id = 0;
  const request: Session = async (method, params) => {
    const reply = await fetch(`${world.gateway.url}${path}`, {
      method: 'POST',
      headers: {
        ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...bearer(token) },
        ...(session !== undefined && { 'mcp-session-id': session, 'mcp-protocol-version': revision }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
    });
    session = reply.headers.get('mcp-session-id') ?? session;
    const answer = await answerOf(reply);
    return { ...answer, text: dataOf(answer.text).replace(/"id":\d+/, '"id":0') };
  };
  await request('initialize', { ...LISTS['initialize'], protocolVersion: revision });
  return request;
}

describe.each(LEGACY.map(({ date }) => date))('S3: MCP in a session of revision %s', (revision) => {
  test('every method', async () => {
    const session = await legacy(revision, BOB, '/mcp');
    const before = world.hidden().length;
    for (const method of SESSION_METHODS) {
      const pairs = PAIRS[method]?.();
      const plain = LISTS[method];
      if (!pairs && !plain) throw new Error(`no requests for ${method}: add them, so that the method is tested`);
      for (const [hidden, absent] of pairs ?? [])
        expect(alike(await session(method, hidden)), method).toEqual(alike(await session(method, absent)));
      if (plain && method !== 'initialize') expectBlind(await session(method, plain), method);
    }
    expect(world.hidden().length).toBe(before);
  });

  test('the endpoint of a hidden server', async () => {
    const params = { ...LISTS['initialize'], protocolVersion: revision };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...bearer(BOB),
    };
    const at = async (server: string): Promise<unknown> =>
      alike(await answerOf(await fetch(`${world.gateway.url}/mcp/${server}`, { method: 'POST', headers, body })));
    expect(await at('secret')).toEqual(await at('absent'));
  });
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

async function rpc(token: string, path: string, method: string, params: object, version: string): Promise<Answer> {
  const headers = { 'content-type': 'application/json', 'a2a-version': version, ...bearer(token) };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  return answerOf(await fetch(`${world.gateway.url}${path}`, { method: 'POST', headers, body }));
}

describe('S3: A2A', () => {
  beforeAll(async () => {
    for (const agent of ['secretagent', 'secretmade', 'openagent'])
      expect((await rpc(ADA, `/a2a/${agent}`, 'SendMessage', REQUESTS.SendMessage, '1.0')).text).toContain('"result"');
  });

  test.each(DIALECTS.map(({ id }) => id))('every operation over JSON-RPC in dialect %s', async (id) => {
    const spoken = dialect(id);
    const before = world.hidden().length;
    for (const operation of OPERATIONS) {
      const method = spoken.method(operation);
      if (method === undefined) continue;
      const params = spoken.writeRequest(operation, REQUESTS[operation]) as object;
      for (const suffix of ['agent', 'made']) {
        const [one, other] = [
          await rpc(BOB, `/a2a/secret${suffix}`, method, params, spoken.version),
          await rpc(BOB, `/a2a/absent${suffix}`, method, params, spoken.version),
        ];
        expect(alike(one), operation).toEqual(alike(other));
        expect(one.text, operation).not.toContain('"result"');
      }
      if (operation === 'ListTasks' || operation === 'GetExtendedAgentCard')
        expectBlind(await rpc(BOB, '/a2a', method, params, spoken.version), operation);
    }
    expect(world.hidden().length).toBe(before);
  });

  test.each(SERVICES.map((service) => [service.name, service] as const))(
    'every method of the gRPC service %s',
    async (_, service) => {
      const { address } = world.gateway.summary().endpoints.find(({ label }) => label === 'A2A gRPC')!;
      const client = new Client(address, credentials.createInsecure());
      const asIs = (bytes: Buffer): Buffer => bytes;
      const ask = (path: string, streams: boolean, body: Buffer, agent: string): Promise<string> =>
        new Promise((resolve) => {
          const metadata = new Metadata();
          metadata.set('authorization', `Bearer ${BOB}`);
          metadata.set('x-parley-agent', agent);
          const say = (error: Error): void => resolve(error.message.replaceAll('secret', 'absent'));
          if (!streams)
            client.makeUnaryRequest(path, asIs, asIs, body, metadata, (error) =>
              error ? say(error) : resolve('answered'),
            );
          else {
            const stream = client.makeServerStreamRequest(path, asIs, asIs, body, metadata);
            stream.on('data', () => resolve('answered'));
            stream.on('error', say);
          }
        });
      const before = world.hidden().length;
      for (const { path, operation, request, streams } of service.methods) {
        const wire = dialect(service.dialect).writeRequest(operation, REQUESTS[operation]);
        const body = service.codec.encode(request, wire);
        const one = await ask(path, streams, body, 'secretagent');
        expect(one, operation).not.toBe('answered');
        expect(one, operation).toBe(await ask(path, streams, body, 'absentagent'));
      }
      client.close();
      expect(world.hidden().length).toBe(before);
    },
  );

  test('a tool agent shows and calls only the tools that the caller may use', async () => {
    const card = await rpc(BOB, '/a2a/openmade', 'GetExtendedAgentCard', {}, '1.0');
    expect(card.text).toContain('open__add');
    expectBlind(card, 'card');
    const before = world.hidden().length;
    const parts = [{ data: { tool: 'secret__add', arguments: {} } }];
    const request = { message: { messageId: 'm9', role: 'ROLE_USER', parts } };
    const answer = await rpc(BOB, '/a2a/openmade', 'SendMessage', request, '1.0');
    expect(answer.text).not.toContain('done by secret');
    expect(world.hidden().length).toBe(before);
  });

  test('a message to the routing agent cannot name a hidden agent', async () => {
    const to = (agent: string) =>
      rpc(BOB, '/a2a', 'SendMessage', { ...REQUESTS.SendMessage, metadata: { agent, 'x-parley-agent': agent } }, '1.0');
    expectBlind(await to('openagent'), 'routing');
  });
});

test('S3: health, pages, cards and unknown paths mention no hidden target', async () => {
  const get = async (path: string, accept = 'application/json'): Promise<Answer> =>
    answerOf(await fetch(`${world.gateway.url}${path}`, { headers: { accept, ...bearer(BOB) } }));
  for (const path of [
    '/health',
    '/_health/ready',
    '/',
    '/mcp',
    '/a2a',
    '/a2a/agents',
    '/.well-known/agent-card.json',
    '/.well-known/agents.json',
  ])
    for (const accept of ['application/json', 'text/html']) expectBlind(await get(path, accept), path);
  for (const path of [
    '/mcp/secret',
    '/secret/mcp',
    '/mcp/secret/sse',
    '/a2a/secretagent',
    '/a2a/secretagent/.well-known/agent-card.json',
    '/servers/secret/logs',
    '/a2a/secretmade/tasks',
  ])
    expect(alike(await get(path)), path).toEqual(alike(await get(path.replace('secret', 'absent'))));
});

test('S3: answers for hidden and absent tools take about the same time', async () => {
  const times: Record<string, number[]> = { hidden: [], absent: [], hiddenTool: [], absentTool: [] };
  const names = {
    hidden: 'secret__add',
    absent: 'absent__add',
    hiddenTool: 'open__cloaked',
    absentTool: 'open__nowhere',
  };
  for (let round = 0; round < 40; round++) {
    for (const [kind, name] of Object.entries(names)) {
      const began = performance.now();
      await send(BOB, 'tools/call', { name, arguments: {} });
      times[kind]!.push(performance.now() - began);
    }
  }
  // The fastest tenth shows the time of the work. On a busy machine most calls also wait for the processor.
  const fastest = (kind: string): number => times[kind]!.sort((a, b) => a - b)[4]!;
  for (const [one, other] of [
    ['hidden', 'absent'],
    ['hiddenTool', 'absentTool'],
  ] as const) {
    expect(fastest(one)).toBeLessThan(4 * fastest(other));
    expect(fastest(other)).toBeLessThan(4 * fastest(one));
  }
});
