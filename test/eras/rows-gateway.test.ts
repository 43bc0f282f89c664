/** The rows of the era bridge without questions to the client (mcp.md 4.13), one by one. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startGateway } from '../support/gateway.js';
import { contentOf, eventually, failureOf, newTag, textOf } from './cases.js';
import { capabilitiesOf, openTestbed, type Testbed } from './matrix.js';
import {
  connectClient,
  type EraClient,
  type Json,
  type Message,
  REVISIONS,
  type Revision,
  startServer,
} from './peers.js';
import { MODERN, modern, openSession, openStream, send } from './raw.js';

const LEGACY = REVISIONS.slice(0, 4) as readonly Exclude<Revision, '2026-07-28'>[];

let testbed: Testbed;
const open: EraClient[] = [];

beforeAll(async () => {
  testbed = await openTestbed([
    ['2024-11-05', 'stdio'],
    ['2025-03-26', 'http'],
    ['2025-06-18', 'http'],
    ['2025-11-25', 'http'],
    ['2025-11-25', 'stdio'],
    ['2025-11-25', 'sse'],
    ['2026-07-28', 'http'],
    ['2026-07-28', 'stdio'],
  ]);
});

afterAll(async () => {
  await Promise.all(open.map((client) => client.close().catch(() => {})));
  await testbed?.close();
});

const urlOf = (revision: Revision, transport: 'http' | 'stdio' | 'sse' = 'http'): string =>
  `${testbed.gateway.url}/mcp/${testbed.server(revision, transport).name}`;

async function connect(
  client: Revision,
  server: Revision,
  transport: 'http' | 'stdio' | 'sse' = 'http',
  options: Parameters<typeof connectClient>[2] = {},
): Promise<EraClient> {
  const endpoint = await testbed.endpoint(testbed.server(server, transport), client === '2024-11-05' ? 'sse' : 'http');
  const connected = await connectClient(client, endpoint, options);
  open.push(connected);
  return connected;
}

const callOf = (id: string | number, name: string, args: Json = {}, meta?: Json): Json => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args, ...(meta && { _meta: meta }) },
});

describe('all cells', () => {
  test.each(['2025-03-26', '2025-11-25', '2026-07-28'] as const)(
    'BR-01 ids, progress tokens, session ids and cursors belong to one hop, before %s',
    async (server) => {
      const url = urlOf(server);
      const seen = await modern(url, 'tools/call', { name: 'meta' }, { meta: { progressToken: 'mine' }, id: 'same' });
      expect(seen.answer?.id).toBe('same');
      const { meta } = JSON.parse(textOf(seen.answer!.result!)) as { meta: Json };
      expect(meta['progressToken']).toBeDefined();
      expect(meta['progressToken']).not.toBe('mine');

      const told = await modern(url, 'tools/call', { name: 'progress' }, { meta: { progressToken: 'mine' } });
      const progress = told.messages.filter(({ method }) => method === 'notifications/progress');
      expect(progress.map(({ params }) => params?.['progressToken'])).toEqual(['mine', 'mine', 'mine']);

      const page = await modern(url, 'tools/list');
      const cursor = String(page.answer?.result?.['nextCursor']);
      expect(cursor).not.toMatch(/^\d+$/);
      expect((await modern(url, 'tools/list', { cursor: '3' })).answer?.error?.['code']).toBe(-32602);
      expect((await modern(url, 'tools/list', { cursor: `${cursor.slice(0, -2)}xx` })).answer?.error?.['code']).toBe(
        -32602,
      );
    },
  );

  test('BR-01 two clients with the same ids at the same time get their own responses', async () => {
    const url = urlOf('2025-11-25', 'stdio');
    const sessions = await Promise.all([1, 2, 3].map(() => openSession(url, '2025-11-25')));
    const replies = await Promise.all(
      sessions.map((session, index) => send(url, callOf(0, 'pause', { tag: `own-${index}`, ms: 50 }), session.headers)),
    );
    expect(replies.map(({ answer }) => [answer?.id, textOf(answer!.result!)])).toEqual(
      [0, 1, 2].map((index) => [0, `paused own-${index}`]),
    );
  });

  test.each(REVISIONS.map((server) => [server]))(
    'BR-02 the gateway replaces the members of `_meta` that belong to one hop, and keeps the others, before %s',
    async (server) => {
      const transport = server === '2024-11-05' ? 'stdio' : 'http';
      const url = urlOf(server, transport);
      const custom = { 'example.com/custom': { deep: [1, { a: null }] }, traceparent: '00-1-2-01' };
      const session = await openSession(url, '2025-11-25');
      const hop = { 'io.modelcontextprotocol/logLevel': 'debug' };
      const legacy = await send(url, callOf(1, 'meta', {}, { ...custom, ...hop }), session.headers);
      const fromLegacy = JSON.parse(textOf(legacy.answer!.result!)) as { meta: Json; envelope: Json | null };
      expect(fromLegacy.meta).toEqual(custom);
      const fromModern = JSON.parse(
        textOf((await modern(url, 'tools/call', { name: 'meta' }, { meta: custom })).answer!.result!),
      ) as { meta: Json; envelope: Json | null };
      expect(fromModern.meta).toEqual(custom);
      for (const { envelope } of [fromLegacy, fromModern]) {
        if (server !== MODERN) expect(envelope).toBeNull();
        else expect(envelope).toMatchObject({ 'io.modelcontextprotocol/clientInfo': { name: 'parley' } });
      }
      expect(legacy.answer?.result?.['_meta']).toEqual({ 'example.com/back': 'from the server' });
    },
  );
});

describe('legacy client, modern server', () => {
  test.each<readonly [string, string]>([
    ...LEGACY.map((revision) => [revision, revision] as const),
    ['2026-07-28', '2025-11-25'],
    ['2099-01-01', '2025-11-25'],
    ['1999-01-01', '2025-11-25'],
  ])('BR-03 `initialize` with %s is answered with %s', async (asked, answered) => {
    const { result } = await openSession(urlOf(MODERN), asked);
    expect(result['protocolVersion']).toBe(answered);
    expect(result).not.toHaveProperty('resultType');
  });

  test('BR-07 a lost connection cancels nothing: the result is replayed', async () => {
    const url = urlOf(MODERN);
    const tag = newTag();
    const session = await openSession(url, '2025-11-25');
    const headers = {
      ...session.headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    };
    const stream = await openStream(url, {
      method: 'POST',
      headers,
      body: JSON.stringify(callOf(7, 'pause', { tag, hold: true })),
    });
    const { id } = await eventually('an event with an id', () => stream.events.find((event) => event.id !== undefined));
    stream.close();
    const resumed = await openStream(url, {
      headers: { ...session.headers, accept: 'text/event-stream', 'last-event-id': id! },
    });
    testbed.server(MODERN, 'http').release(tag);
    const answer = await eventually('the result', () => resumed.messages().find((message) => message.id === 7));
    expect(textOf(answer.result!)).toBe(`paused ${tag}`);
    resumed.close();
    expect(testbed.server(MODERN, 'http').happened('run', tag)).toHaveLength(1);
  });

  test.each(['http', 'stdio'] as const)(
    'BR-07 an explicit cancellation reaches the server, over %s',
    async (transport) => {
      const url = urlOf(MODERN, transport);
      const server = testbed.server(MODERN, transport);
      const tag = newTag();
      const session = await openSession(url, '2025-06-18');
      const call = send(url, callOf(9, 'slow', { tag }), session.headers);
      await eventually('the start', () => server.happened('started', tag).length === 1);
      await send(url, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 9 } }, session.headers);
      await eventually('the end', () => server.happened('cancelled', tag).length === 1);
      expect((await call).answer).toBeUndefined();
    },
  );

  test.each(LEGACY.map((client) => [client]))('BR-09 %s: ping, levels and subscriptions', async (revision) => {
    const client = await connect(revision, MODERN);
    expect(await client.request('ping')).toEqual({});
    await client.setLevel('warning');
    const { envelope } = JSON.parse(textOf(await client.call('meta'))) as { envelope: Json };
    expect(envelope['io.modelcontextprotocol/logLevel']).toBe('warning');

    const stop = await client.subscribe('era://watched');
    await client.call('update', { uri: 'era://watched' });
    await eventually('an update', () =>
      client.notifications.some(({ method }) => method === 'notifications/resources/updated'),
    );
    await stop();
  });

  test('BR-09 a subscription that the server does not confirm is an error', async () => {
    const server = await startServer(MODERN, 'http', { ERAS_WITHOUT: 'subscribe' });
    const gateway = await startGateway({ servers: { up: server.settings } });
    try {
      const url = `${gateway.url}/mcp/up`;
      const client = await connectClient('2025-06-18', { transport: 'http', url, config: '' });
      await failureOf(client.subscribe('era://watched'));
      await client.close();
    } finally {
      await gateway.close();
      await server.close();
    }
  });

  test.each(LEGACY.map((client) => [client]))(
    'BR-10 %s: nothing of the modern envelope is left in a result',
    async (revision) => {
      const client = await connect(revision, MODERN);
      for (const [method, params] of [
        ['tools/list', {}],
        ['tools/call', { name: 'anything' }],
        ['resources/read', { uri: 'era://text' }],
        ['prompts/get', { name: 'greet', arguments: { name: 'x' } }],
      ] as const)
        await client.request(method, params);
      for (const { result } of client.received)
        for (const member of ['resultType', 'ttlMs', 'cacheScope', 'inputRequests', 'requestState'])
          expect(result ?? {}).not.toHaveProperty(member);
      const result = await client.call('anything');
      expect(result).not.toHaveProperty('structuredContent');
      expect(JSON.parse(textOf(result))).toEqual([1, 2, 3]);
    },
  );
});

describe('modern client, legacy server', () => {
  test('BR-11 `server/discover` has a valid response from cached data', async () => {
    const small = await openTestbed([['2025-06-18', 'http']]);
    try {
      const url = `${small.gateway.url}/mcp/${small.servers[0]!.name}`;
      const first = await modern(url, 'server/discover');
      const { DiscoverResultSchema } = await import('@modelcontextprotocol/core');
      expect(DiscoverResultSchema.safeParse(first.answer?.result).success).toBe(true);
      expect(first.answer?.result).toMatchObject({ resultType: 'complete', supportedVersions: [MODERN] });
      await small.servers[0]!.close();
      const second = await modern(url, 'server/discover');
      expect(second.answer?.result?.['capabilities']).toEqual(first.answer?.result?.['capabilities']);
    } finally {
      await small.close();
    }
  });

  test.each(['stdio', 'sse'] as const)(
    'BR-17 concurrent callers of one %s server receive messages of their own calls only',
    async (transport) => {
      const callers = await Promise.all(
        [0, 1, 2, 3, 4].map((number) =>
          connect(MODERN, '2025-11-25', transport, {
            capabilities: capabilitiesOf(MODERN),
            answer: async () => {
              await delay(20 * number);
              return { action: 'accept', content: { name: `caller ${number}` } };
            },
          }),
        ),
      );
      const results = await Promise.all(
        callers.map(async (caller, number) => {
          await caller.setLevel('debug');
          const progress: unknown[] = [];
          const [asked, paused] = await Promise.all([
            caller.call('ask_form', { tag: `q${number}` }, { timeout: 60_000 }),
            caller.call('pause', { tag: `p${number}` }, { timeout: 60_000 }),
            caller.call('progress', { tag: `r${number}` }, { onprogress: (one) => progress.push(one['progress']) }),
          ]);
          return [JSON.parse(textOf(asked)), textOf(paused)];
        }),
      );
      for (const [number, caller] of callers.entries()) {
        expect(results[number]).toEqual([
          { action: 'accept', content: { name: `caller ${number}` } },
          `paused p${number}`,
        ]);
        expect(caller.questions.map(({ params }) => params['message'])).toEqual([`Please fill in for q${number}`]);
        const logs = caller.notifications.filter(({ method }) => method === 'notifications/message');
        for (const { params } of logs) expect(params['data']).toBe(`log of p${number}`);
      }
    },
  );

  test.each(['http', 'stdio', 'sse'] as const)(
    'BR-18 questions without a request are refused and pings answered, over %s',
    async (transport) => {
      const client = await connect(MODERN, '2025-11-25', transport, {
        capabilities: capabilitiesOf(MODERN),
        answer: () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'yes' } }),
      });
      const server = testbed.server('2025-11-25', transport);
      const tag = newTag();
      await client.call('later', { tag });
      await eventually('the ping is answered', () => server.happened('ping answered', tag).length === 1);
      await eventually('the question is refused', () => server.happened('sampling refused', tag).length === 1);
      expect(client.questions).toHaveLength(0);
    },
  );

  test.each(['http', 'stdio', 'sse'] as const)(
    'BR-19 a closed stream cancels the call at the server, over %s',
    async (transport) => {
      const server = testbed.server('2025-11-25', transport);
      const tag = newTag();
      const abort = new AbortController();
      const call = modern(
        urlOf('2025-11-25', transport),
        'tools/call',
        { name: 'slow', arguments: { tag } },
        { id: 'mine', signal: abort.signal },
      ).catch(() => undefined);
      await eventually('the start', () => server.happened('started', tag).length === 1);
      abort.abort();
      await call;
      await eventually('the cancellation', () => server.happened('cancelled', tag).length === 1);
    },
  );

  test('BR-20 a missing resource is -32602 with its URI', async () => {
    for (const server of ['2024-11-05', '2025-03-26', '2025-11-25'] as const) {
      const url = urlOf(server, server === '2024-11-05' ? 'stdio' : 'http');
      const { answer } = await modern(url, 'resources/read', { uri: 'era://missing' });
      expect(answer?.error).toMatchObject({ code: -32602, data: { uri: 'era://missing' } });
    }
  });

  test('BR-20 -32042 becomes a question for the URL, and the call is repeated afterwards', async () => {
    const url = urlOf('2025-11-25');
    const tag = newTag();
    const call = { name: 'needs_url', arguments: { tag } };
    const capabilities = { elicitation: { form: {}, url: {} } };
    const first = await modern(url, 'tools/call', call, { capabilities });
    const asked = first.answer?.result as {
      resultType: string;
      inputRequests: Record<string, Json>;
      requestState: string;
    };
    expect(asked.resultType).toBe('input_required');
    const [[key, question]] = Object.entries(asked.inputRequests) as [[string, { method: string; params: Json }]];
    expect(question).toMatchObject({ method: 'elicitation/create', params: { mode: 'url' } });
    expect(question.params).not.toHaveProperty('elicitationId');
    const second = await modern(
      url,
      'tools/call',
      { ...call, inputResponses: { [key]: { action: 'accept' } }, requestState: asked.requestState },
      { capabilities },
    );
    expect(textOf(second.answer!.result!)).toBe('consented');

    const without = await modern(
      url,
      'tools/call',
      { ...call, arguments: { tag: newTag() } },
      { capabilities: { elicitation: { form: {} } } },
    );
    expect(without.status).toBe(400);
    expect(without.answer?.error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    });
  });

  test('BR-20 a session that the server lost is reopened without the client noticing', async () => {
    const server = testbed.server('2025-06-18', 'http');
    const modernUrl = urlOf('2025-06-18');
    const client = await connect('2025-06-18', '2025-06-18');
    const stop = await client.subscribe('era://watched');
    for (let round = 0; round < 2; round++) {
      const tag = newTag();
      expect(
        textOf((await modern(modernUrl, 'tools/call', { name: 'text', arguments: { tag } })).answer!.result!),
      ).toBe(`text ${tag}`);
      expect(textOf(await client.call('text', { tag }))).toBe(`text ${tag}`);
      expect(server.happened('run', tag)).toHaveLength(2);
      if (round === 0)
        expect((await fetch(server.url!.replace('/mcp', '/forget'), { method: 'POST' })).status).toBe(204);
    }
    // The resources are subscribed again.
    const before = client.received.length;
    await eventually(
      'an update in the new session',
      () => {
        void client.call('update', { uri: 'era://watched' });
        return client.received.slice(before).some(({ method }) => method === 'notifications/resources/updated');
      },
      10_000,
    );
    await stop();
  });

  test.each(['http', 'stdio'] as const)(
    'BR-21 a subscription confirms the watched items and carries nothing else, over %s',
    async (transport) => {
      const url = urlOf('2025-11-25', transport);
      const id = 'listening-1';
      const stream = await openStream(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': MODERN,
          'mcp-method': 'subscriptions/listen',
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id,
          method: 'subscriptions/listen',
          params: {
            notifications: { toolsListChanged: true, resourceSubscriptions: ['era://watched', 'era://missing'] },
            _meta: {
              'io.modelcontextprotocol/protocolVersion': MODERN,
              'io.modelcontextprotocol/clientCapabilities': {},
            },
          },
        }),
      });
      const [acknowledged] = await eventually('the acknowledgement', () => {
        const messages = stream.messages();
        return messages.length > 0 && messages;
      });
      expect(acknowledged).toMatchObject({
        method: 'notifications/subscriptions/acknowledged',
        params: { notifications: { toolsListChanged: true, resourceSubscriptions: ['era://watched'] } },
      });
      const level = { meta: { 'io.modelcontextprotocol/logLevel': 'debug', progressToken: 1 } };
      for (const [name, args] of [
        ['logs', {}],
        ['progress', {}],
        ['update', { uri: 'era://watched' }],
        ['update', { uri: 'era://text' }],
        ['change', { list: 'prompts' }],
        ['change', { list: 'prompts' }],
        ['change', { list: 'tools' }],
        ['change', { list: 'tools' }],
      ] as const)
        await modern(url, 'tools/call', { name, arguments: args }, level);
      await eventually('both kinds of change', () => {
        const methods = new Set(stream.messages().map(({ method }) => method));
        return methods.has('notifications/resources/updated') && methods.has('notifications/tools/list_changed');
      });
      stream.close();
      const messages = stream.messages();
      expect(new Set(messages.map(({ method }) => method))).toEqual(
        new Set([
          'notifications/subscriptions/acknowledged',
          'notifications/resources/updated',
          'notifications/tools/list_changed',
        ]),
      );
      for (const { params } of messages)
        expect((params?.['_meta'] as Json | undefined)?.['io.modelcontextprotocol/subscriptionId']).toBe(id);
    },
  );

  test.each(['2024-11-05', '2025-03-26', '2025-11-25'] as const)(
    'BR-22 lists of a %s server are the same on every connection',
    async (server) => {
      const url = urlOf(server, server === '2024-11-05' ? 'stdio' : 'http');
      const listed = async (): Promise<Json[]> => {
        const pages: Json[] = [];
        let cursor: unknown;
        do {
          const { answer } = await modern(url, 'tools/list', cursor === undefined ? {} : { cursor });
          const { tools, ttlMs, cacheScope, nextCursor } = answer!.result!;
          expect(ttlMs).toBeGreaterThanOrEqual(0);
          expect(['public', 'private']).toContain(cacheScope);
          pages.push(...(tools as Json[]));
          cursor = nextCursor;
        } while (cursor !== undefined);
        return pages;
      };
      const [first, second] = [await listed(), await listed()];
      expect(second).toEqual(first);
    },
  );
});

describe('modern client, modern server', () => {
  test('BR-23 headers follow the renamed tool; a mismatch is refused', async () => {
    const { name } = testbed.server(MODERN, 'http');
    const all = `${testbed.gateway.url}/mcp`;
    const tag = newTag();
    const call = { name: `${name}__text`, arguments: { tag } };
    expect(textOf((await modern(all, 'tools/call', call)).answer!.result!)).toBe(`text ${tag}`);
    for (const headers of [
      { 'mcp-name': 'text' },
      { 'mcp-method': 'tools/list' },
      { 'mcp-protocol-version': '2025-11-25' },
    ] as Readonly<Record<string, string>>[]) {
      const refused = await modern(all, 'tools/call', call, { headers });
      expect(refused.status).toBe(400);
      expect(refused.answer?.error?.['code']).toBe(-32020);
    }
    expect(testbed.server(MODERN, 'http').happened('run', tag)).toHaveLength(1);
  });

  test('BR-23 a mismatch at the server is repaired once by listing its tools again', async () => {
    let mirrored = 'Region';
    let stubborn = false;
    const calls: unknown[] = [];
    const upstream = await handWritten((message, headers) => {
      if (message.method === 'server/discover')
        return { supportedVersions: [MODERN], capabilities: { tools: {} }, ttlMs: 60_000, cacheScope: 'public' };
      if (message.method === 'tools/list') {
        const region = { type: 'string', 'x-mcp-header': mirrored };
        const tool = { name: 'deploy', inputSchema: { type: 'object', properties: { region } } };
        return { tools: [tool], ttlMs: 60_000, cacheScope: 'public' };
      }
      calls.push(message.id);
      if (stubborn || headers[`mcp-param-${mirrored.toLowerCase()}`] !== 'eu')
        return new RpcError(-32020, 'The headers do not match the body');
      return { content: [{ type: 'text', text: 'deployed' }] };
    });
    const gateway = await startGateway({ servers: { up: { url: upstream.url } } });
    try {
      const url = `${gateway.url}/mcp/up`;
      const call = { name: 'deploy', arguments: { region: 'eu' } };
      const deploy = () => modern(url, 'tools/call', call, { headers: { [`mcp-param-${mirrored}`]: 'eu' } });
      await modern(url, 'tools/list');
      expect(textOf((await deploy()).answer!.result!)).toBe('deployed');
      expect(calls).toHaveLength(1);
      // The server changes the header annotation. The client already has the new list and must not get an error.
      const old = mirrored;
      mirrored = 'Zone';
      const repaired = await modern(url, 'tools/call', call, {
        headers: { [`mcp-param-${old}`]: 'eu', 'mcp-param-zone': 'eu' },
      });
      expect(textOf(repaired.answer!.result!)).toBe('deployed');
      expect(calls).toHaveLength(3);
      expect(new Set(calls).size).toBe(3);
      stubborn = true;
      const refused = await deploy();
      expect(refused.answer?.error?.['code']).not.toBe(-32020);
      expect(calls).toHaveLength(5);
    } finally {
      await gateway.close();
      await upstream.close();
    }
  });

  test('BR-24 each request declares to the server the caller’s capabilities that the gateway relays', async () => {
    const url = urlOf(MODERN);
    const declaredFor = async (capabilities: Json): Promise<Json> => {
      const { answer } = await modern(url, 'tools/call', { name: 'meta' }, { capabilities });
      return (JSON.parse(textOf(answer!.result!)) as { capabilities: Json }).capabilities;
    };
    expect(await declaredFor({})).toEqual({});
    expect(await declaredFor({ sampling: { tools: {}, context: {} }, roots: {} })).toEqual({
      sampling: { tools: {} },
      roots: {},
    });
    expect(await declaredFor({ elicitation: { form: {} } })).toEqual({ elicitation: { form: {} } });
    expect(await declaredFor({})).toEqual({});
  });

  test('BR-26 a cursor of one caller is refused for another, and lists and contents are marked private', async () => {
    const tokens = ['ada', 'bob'].map((name) => ({ name, token: `token-of-${name}-0123456789-0123456789` }));
    const small = await openTestbed([['2026-07-28', 'http']], { auth: { tokens } });
    try {
      const url = `${small.gateway.url}/mcp/${small.servers[0]!.name}`;
      const as = (index: number) => ({ headers: { authorization: `Bearer ${tokens[index]!.token}` } });
      const page = (await modern(url, 'tools/list', {}, as(0))).answer!.result!;
      expect(page['cacheScope']).toBe('private');
      const cursor = page['nextCursor'];
      expect((await modern(url, 'tools/list', { cursor }, as(0))).answer?.result).toBeDefined();
      expect((await modern(url, 'tools/list', { cursor }, as(1))).answer?.error?.['code']).toBe(-32602);
      const read = (await modern(url, 'resources/read', { uri: 'era://text' }, as(1))).answer!.result!;
      expect(read['cacheScope']).toBe('private');
      expect((await modern(url, 'tools/list')).status).toBe(401);
    } finally {
      await small.close();
    }
  });
});

describe('legacy client, legacy server', () => {
  test.each(LEGACY.flatMap((client) => LEGACY.map((server) => [client, server] as const)))(
    'BR-27 %s to %s: each side gets the members of its revision',
    async (revision, server) => {
      const [c, s] = [REVISIONS.indexOf(revision), REVISIONS.indexOf(server)];
      const client = await connect(revision, server, server === '2024-11-05' ? 'stdio' : 'http');
      if (s >= 1) {
        const [block] = contentOf(await client.call('audio'));
        if (c >= 1) expect(block?.type).toBe('audio');
        else expect(['resource', 'text']).toContain(block?.type);
      }
      if (s >= 2) {
        const [block] = contentOf(await client.call('link'));
        if (c >= 2) expect(block?.type).toBe('resource_link');
        else expect(['resource', 'text']).toContain(block?.type);
        expect((await client.call('structured'))['structuredContent']).toEqual(c >= 2 ? { answer: 42 } : undefined);
      }
      await client.call('progress', {}, { onprogress: () => {} });
      const progress = client.notifications.filter(({ method }) => method === 'notifications/progress');
      if (c === 0) for (const { params } of progress) expect(params).not.toHaveProperty('message');
    },
  );

  test('BR-27 batches are accepted only from clients whose revision has them', async () => {
    const url = urlOf('2025-06-18');
    const batch = [
      callOf(1, 'text', { tag: 'one' }),
      callOf(2, 'text', { tag: 'two' }),
      { jsonrpc: '2.0', id: 3, method: 'ping' },
    ];
    const old = await openSession(url, '2025-03-26');
    const reply = await send(url, batch, old.headers);
    expect(new Set(reply.messages.filter(({ method }) => method === undefined).map(({ id }) => id))).toEqual(
      new Set([1, 2, 3]),
    );
    const later = await openSession(url, '2025-06-18');
    const refused = await send(url, batch, later.headers);
    expect(refused.status).toBe(400);
    expect(refused.messages[0]?.error?.['code']).toBe(-32600);
  });

  test('BR-27 batches are accepted from servers that send them', async () => {
    const upstream = await handWritten((message) => {
      if (message.method === 'initialize')
        return { protocolVersion: '2025-03-26', capabilities: { tools: {} }, serverInfo: { name: 'b', version: '1' } };
      if (message.method === 'tools/list') return { tools: [{ name: 'batch', inputSchema: { type: 'object' } }] };
      if (message.method !== 'tools/call') return new RpcError(-32601, 'Method not found');
      const progressToken = (message.params?.['_meta'] as Json | undefined)?.['progressToken'];
      return [
        { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress: 1 } },
        { jsonrpc: '2.0', id: message.id, result: { content: [{ type: 'text', text: 'batched' }] } },
      ];
    });
    const gateway = await startGateway({ servers: { up: { url: upstream.url, revision: 'legacy' } } });
    try {
      const { messages, answer } = await modern(
        `${gateway.url}/mcp/up`,
        'tools/call',
        { name: 'batch' },
        { meta: { progressToken: 'p' } },
      );
      expect(textOf(answer!.result!)).toBe('batched');
      expect(messages[0]?.params).toMatchObject({ progressToken: 'p', progress: 1 });
    } finally {
      await gateway.close();
      await upstream.close();
    }
  });
});

class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

/** A server with responses that no SDK server would send. A list is sent unchanged, any other value as the result. */
async function handWritten(
  answer: (message: Message, headers: Readonly<Record<string, unknown>>) => Json | Json[] | RpcError,
): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    if (req.method !== 'POST') return void res.writeHead(405).end();
    const message = JSON.parse(Buffer.concat(chunks).toString()) as Message;
    if (message.id === undefined) return void res.writeHead(202).end();
    const said = answer(message, req.headers);
    const envelope = { jsonrpc: '2.0', id: message.id };
    if (Array.isArray(said))
      return void res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(said));
    if (said instanceof RpcError) {
      res.writeHead(said.code === -32601 ? 404 : 400, { 'content-type': 'application/json' });
      return void res.end(JSON.stringify({ ...envelope, error: { code: said.code, message: said.message } }));
    }
    const result = message.method === 'initialize' ? said : { resultType: 'complete', ...said };
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...envelope, result }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
