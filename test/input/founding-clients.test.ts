/** The clients of the founding documents: plain JSON over HTTP, HTTP+SSE, and the commands that their pages show. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';
import { startCountedAgent } from '../pipeline/upstreams.js';
import { type LooseServer, sendJson, startLoose } from '../support/counting-server.js';
import { eventually } from '../support/eventually.js';
import type { Message } from './support/message.js';
import { BOTH, initializeBody, MODERN, modernCall, Session, SseClient } from './support/speak.js';
import { ask, EventStream } from './support/wire.js';

const USER = 'user-0123456789abcdef0123456789abcdef';
const ADMIN = 'admin-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH';
const TTL = { ttlMs: 3_600_000, cacheScope: 'public', resultType: 'complete' };
const DATA = { city: 'Zürich 漢字 🎈', days: [1, 2] };

const LISTS: Readonly<Record<string, object>> = {
  'server/discover': {
    ...TTL,
    supportedVersions: [MODERN],
    capabilities: { tools: {}, resources: {}, completions: {} },
  },
  'tools/list': {
    ...TTL,
    tools: [
      { name: 'bare', description: 'Has no schema' },
      { name: 'data', description: 'Returns data', inputSchema: { type: 'object' } },
      {
        name: 'typed',
        description: 'Takes a number',
        inputSchema: { type: 'object', properties: { n: { type: 'integer', maximum: 9 } }, required: ['n'] },
      },
    ],
  },
  'resources/list': { ...TTL, resources: [{ name: 'one', uri: 'plain://one' }] },
  'resources/templates/list': { ...TTL, resourceTemplates: [{ name: 'item', uriTemplate: 'plain://item/{id}' }] },
  'resources/read': { ...TTL, contents: [{ uri: 'plain://one', text: 'one' }] },
  'completion/complete': { resultType: 'complete', completion: { values: ['1', '2'], total: 7, hasMore: true } },
};

/** A second server, so that the resources of the first have one owner. */
const TOOLS_ONLY: Readonly<Record<string, object>> = {
  'server/discover': { ...TTL, supportedVersions: [MODERN], capabilities: { tools: {} } },
  'tools/list': LISTS['tools/list']!,
};

let folder: string;
let plain: LooseServer;
let agent: Awaited<ReturnType<typeof startCountedAgent>>;
let gateway: RunningGateway;
/** The calls that reached the server, with their arguments. */
const calls: { readonly name: unknown; readonly arguments: unknown }[] = [];
const gateways: RunningGateway[] = [];

async function start(more: object = {}): Promise<RunningGateway> {
  const { config } = configFrom(
    {
      listen: '127.0.0.1:0',
      data: join(folder, `data-${gateways.length}`),
      egress: { allowPrivate: true },
      auth: {
        tokens: [
          { name: 'ada', token: USER },
          { name: 'root', token: ADMIN, admin: true },
        ],
      },
      servers: {
        plain: { url: plain.url, validation: 'strict' },
        quiet: { url: plain.url.replace('/mcp', '/tools-only'), invocation: false },
      },
      agents: { helper: { url: agent.url, mcp: false } },
      ...more,
    },
    { env: {} },
  );
  const started = await startServe(config, { log: SILENT });
  gateways.push(started);
  return started;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-founding-'));
  agent = await startCountedAgent();
  plain = await startLoose(({ id, method = '', params = {} }, res, { url }) => {
    if (id === undefined) return void res.writeHead(202).end();
    if (method === 'tools/call') {
      calls.push({ name: params['name'], arguments: params['arguments'] });
      const content = [{ type: 'text', text: JSON.stringify(DATA) }];
      return sendJson(res, {
        jsonrpc: '2.0',
        id,
        result: { resultType: 'complete', content, structuredContent: DATA },
      });
    }
    const result = url === '/tools-only' ? TOOLS_ONLY[method] : LISTS[method];
    if (result) return sendJson(res, { jsonrpc: '2.0', id, result });
    return sendJson(res, { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
  });
  gateway = await start();
  await gateway.settled(10_000);
});
afterAll(async () => {
  for (const each of gateways) await each.close();
  await plain?.close();
  await agent?.close();
  await rm(folder, { recursive: true, force: true });
});

const AS_USER = { authorization: `Bearer ${USER}` };
const open = (version = '2025-06-18', at = gateway): Promise<Session> =>
  Session.open(`${at.url}/mcp`, version, AS_USER);

/** A client that only uses fetch().json(): no streams, and no media type except JSON. */
class PlainClient {
  private session: string | undefined;
  private next = 0;

  async request(method: string, params?: object): Promise<Message> {
    const reply = await fetch(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: {
        ...{ 'content-type': 'application/json', accept: 'application/json', ...AS_USER },
        ...(this.session !== undefined && { 'mcp-session-id': this.session }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++this.next, method, ...(params && { params }) }),
    });
    this.session ??= reply.headers.get('mcp-session-id') ?? undefined;
    return (await reply.json()) as Message;
  }
}

describe('a client that only does fetch().json()', () => {
  const client = new PlainClient();
  beforeAll(async () => {
    await client.request('initialize', (initializeBody('2025-06-18') as { params: object }).params);
  });

  test('S3-09: gets a JSON object for every method', async () => {
    const results = {
      ping: {},
      'tools/list': {},
      'tools/call': { name: 'plain__data', arguments: {} },
      'resources/list': {},
      'resources/templates/list': {},
      'resources/read': { uri: 'plain://one' },
      'completion/complete': {
        ref: { type: 'ref/resource', uri: 'plain://item/{id}' },
        argument: { name: 'id', value: '' },
      },
    };
    for (const [method, params] of Object.entries(results))
      expect([method, await client.request(method, params)]).toMatchObject([method, { result: expect.any(Object) }]);
  });

  test('S3-08: GET describes the same tools as tools/list', async () => {
    const reply = await fetch(`${gateway.url}/mcp`, { headers: { accept: 'application/json', ...AS_USER } });
    const described = ((await reply.json()) as Message).result.tools;
    expect(described).toEqual((await client.request('tools/list')).result.tools);
  });

  test('S4-02, S4-03: tools/list works with empty params and without params', async () => {
    const names = ({ result }: Message): string[] => result.tools.map(({ name }: { name: string }) => name);
    const expected = ['plain__bare', 'plain__data', 'plain__typed', 'quiet__bare', 'quiet__data', 'quiet__typed'];
    expect(names(await client.request('tools/list', {}))).toEqual(expected);
    expect(names(await client.request('tools/list'))).toEqual(expected);
  });

  test('S4-04, S4-05: a tool is called with arguments and without arguments', async () => {
    const { result } = await client.request('tools/call', { name: 'plain__bare' });
    expect(Array.isArray(result.content)).toBe(true);
    expect(calls.at(-1)).toEqual({ name: 'bare', arguments: undefined });
    await client.request('tools/call', { name: 'plain__bare', arguments: { text: 'hi' } });
    expect(calls.at(-1)).toEqual({ name: 'bare', arguments: { text: 'hi' } });
  });

  test('S4-06, S4-07, S4-18: the first block of a structured result is its JSON as text, in UTF-8', async () => {
    const { result } = await client.request('tools/call', { name: 'plain__data', arguments: {} });
    const [block] = result.content;
    expect(block?.type).toBe('text');
    expect(JSON.parse(block?.text ?? '')).toEqual(DATA);
    expect(result).toMatchObject({ structuredContent: DATA });
  });

  test('S4-08: gets either a result or an error, never both', async () => {
    const methods = ['ping', 'tools/list', 'tools/call', 'resources/read', 'prompts/get', 'no/such', 'initialize', ''];
    const params = [
      undefined,
      {},
      { name: 'plain__data' },
      { name: 5 },
      { uri: 'plain://one' },
      { uri: 'x' },
      { cursor: 'x' },
    ];
    for (const method of methods)
      for (const each of params) {
        const reply = await client.request(method, each);
        expect([method, each, 'result' in reply !== 'error' in reply]).toEqual([method, each, true]);
      }
  });

  test('S0-30: sees an object schema where a tool has none', async () => {
    const { result } = await client.request('tools/list');
    expect(result.tools).toContainEqual(
      expect.objectContaining({ name: 'plain__bare', inputSchema: { type: 'object' } }),
    );
  });

  test('S1-22: gets the number and the end of completions', async () => {
    const { result } = await client.request('completion/complete', {
      ref: { type: 'ref/resource', uri: 'plain://item/{id}' },
      argument: { name: 'id', value: '' },
    });
    expect(result).toMatchObject({ completion: { values: ['1', '2'], total: 7, hasMore: true } });
  });

  test('S0-44: can use every declared capability, and no other method', async () => {
    const opening = await client.request('server/nothing');
    expect(opening.error.code).toBe(-32601);
    const session = await open();
    const { capabilities } = session.opening.json.result;
    const probes: Readonly<Record<string, readonly [string, object]>> = {
      tools: ['tools/list', {}],
      resources: ['resources/list', {}],
      prompts: ['prompts/list', {}],
      logging: ['logging/setLevel', { level: 'info' }],
      completions: [
        'completion/complete',
        { ref: { type: 'ref/resource', uri: 'plain://item/{id}' }, argument: { name: 'id', value: '' } },
      ],
    };
    expect(Object.keys(capabilities).filter((name) => !(name in probes))).toEqual([]);
    for (const [name, [method, params]] of Object.entries(probes)) {
      const { json } = await session.request(method, params);
      if (name in capabilities) expect([method, json]).toMatchObject([method, { result: expect.any(Object) }]);
      // Clients send a log level without checking whether the server logs.
      else if (name !== 'logging') expect([method, json]).toMatchObject([method, { error: { code: -32601 } }]);
    }
    const subscribed = await session.request('resources/subscribe', { uri: 'plain://one' });
    expect('result' in subscribed.json).toBe((capabilities['resources'] as { subscribe?: boolean }).subscribe === true);
  });
});

describe('errors', () => {
  test('S0-15, S0-49: a missing resource is -32002, and a switched-off tool -32004', async () => {
    const session = await open();
    const missing = await session.request('resources/read', { uri: 'nothing://here' });
    expect(missing.json.error).toMatchObject({ code: -32002, data: { reason: 'resource_not_found' } });
    const before = calls.length;
    const off = await session.call('quiet__data');
    expect(off.json.error).toMatchObject({ code: -32004, data: { reason: 'tool_invocation_disabled' } });
    expect(calls).toHaveLength(before);
  });

  test('S3-10: wrong arguments are refused on /mcp and through /sse, and do not reach the server', async () => {
    const before = calls.length;
    const session = await open();
    const sse = await SseClient.connect(`${gateway.url}/sse`, AS_USER);
    await sse.initialize('2024-11-05');
    for (const wrong of [{}, { n: 'five' }, { n: 10 }]) {
      const params = { name: 'plain__typed', arguments: wrong };
      const answers = [
        (await session.request('tools/call', params)).json,
        await sse.request('tools/call', params, `sse ${JSON.stringify(wrong)}`),
      ];
      // The error has the form that the model reads, and names the place of the problem.
      for (const answer of answers) {
        expect(answer.result.isError).toBe(true);
        expect(answer.result.content[0]?.text).toMatch(/\bn\b/);
      }
    }
    sse.close();
    expect(calls).toHaveLength(before);
    expect((await session.call('plain__typed', { n: 9 })).json.result.content).toHaveLength(1);
  });

  test('S1-61: the same fault has the same reason in both protocols', async () => {
    const reasons = async (path: string, body: object | string, headers: Record<string, string>): Promise<string> => {
      const reply = await ask(`${gateway.url}${path}`, { headers: { accept: BOTH, ...headers }, body });
      return /"reason":"(\w+)"/i.exec(reply.body)?.[1]?.toLowerCase() ?? reply.body;
    };
    const rpc = { jsonrpc: '2.0', id: 1, method: 'no/such' };
    const faults: readonly [string, object | string, Record<string, string>, Record<string, string>][] = [
      ['unauthorized', rpc, {}, {}],
      ['parse_error', '{', AS_USER, { 'a2a-version': '1.0' }],
      ['method_not_found', rpc, AS_USER, { 'a2a-version': '1.0' }],
    ];
    for (const [reason, body, headers, a2a] of faults) {
      const session = reason === 'method_not_found' ? (await open()).headers : {};
      expect([reason, await reasons('/mcp', body, { ...session, ...headers })]).toEqual([reason, reason]);
      expect([reason, await reasons('/a2a/helper', body, { ...headers, ...a2a })]).toEqual([reason, reason]);
    }
  });
});

describe('HTTP+SSE', () => {
  test('S0-56, S1-14, S3-14: has the deprecation header and both session headers, and works', async () => {
    const stream = await EventStream.open(`${gateway.url}/mcp/sse`, {
      headers: { accept: 'text/event-stream', ...AS_USER },
    });
    const first = await stream.until(({ events }) => events[0]);
    const { headers } = stream.res;
    expect(headers['deprecation']).toBe('true');
    expect(first.data).toContain(`sessionId=${headers['mcp-session-id']}`);
    expect(headers['x-sse-session-id']).toBe(headers['mcp-session-id']);
    stream.close();
  });

  test('S3-18: a body of type text/event-stream contains only events', async () => {
    const session = await open('2025-11-25');
    const bodies = [
      await session.post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, { accept: 'text/event-stream' }),
      await session.post({ jsonrpc: '2.0', id: 2, method: 'no/such' }, { accept: 'text/event-stream' }),
      await ask(`${gateway.url}/mcp`, {
        headers: { ...AS_USER, accept: 'text/event-stream' },
        body: initializeBody('2025-06-18'),
      }),
    ];
    for (const { headers, body } of bodies) {
      expect(headers['content-type']).toBe('text/event-stream');
      for (const line of body.split('\n')) expect(line).toMatch(/^(?:$|:|(?:data|event|id|retry):)/);
    }
    // An error before the stream begins is JSON, with the media type of JSON.
    const refused = await ask(`${gateway.url}/mcp`, {
      headers: { ...AS_USER, accept: 'text/event-stream' },
      body: '{',
    });
    expect([refused.headers['content-type'], refused.json.error.code]).toEqual(['application/json', -32700]);
  });

  test.each([
    ['sse_transport_disabled', { sse: false }],
    ['sse_legacy_mode', { legacyMode: true }],
  ])('S1-31: is 404 with %s if %j', async (reason, mcp) => {
    const closed = await start({ mcp });
    for (const [method, path] of [
      ['GET', '/sse'],
      ['GET', '/mcp/sse'],
      ['POST', '/messages?sessionId=x'],
      ['POST', '/mcp/messages?sessionId=x'],
    ] as const) {
      const reply = await ask(`${closed.url}${path}`, { method, headers: { accept: 'text/event-stream', ...AS_USER } });
      expect([path, reply.status, reply.json.error.data.reason]).toEqual([path, 404, reason]);
    }
    expect((await open('2025-06-18', closed)).id).toBeTruthy();
  });
});

test('S0-23: the name and version of a client are shown to administrators', async () => {
  await open('2025-11-25');
  const read = async (): Promise<{ revision?: string }[]> => {
    const reply = await fetch(`${gateway.url}/api/v1/sessions?limit=200`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    });
    return ((await reply.json()) as { items: { revision?: string }[] }).items;
  };
  const sessions = await eventually(read, (items) => items.some(({ revision }) => revision === '2025-11-25'));
  expect(sessions).toContainEqual(
    expect.objectContaining({ caller: 'ada', revision: '2025-11-25', client: { name: 'by-hand', version: '1' } }),
  );
});

test('S1-12: every surface names the same newest revision', async () => {
  const get = async (path: string): Promise<string> =>
    (await fetch(`${gateway.url}${path}`, { headers: { accept: 'application/json', ...AS_USER } })).text();
  const { result } = JSON.parse(await get('/mcp')) as Message;
  expect(result.supportedVersions.at(-1)).toBe(MODERN);
  expect((JSON.parse(await get('/plain/mcp')) as Message).result.supportedVersions).toEqual(result.supportedVersions);
  for (const path of ['/mcp', '/', '/plain/mcp', '/mcp/plain']) {
    const head = await fetch(`${gateway.url}${path}`, { method: 'HEAD', headers: AS_USER });
    expect([path, head.headers.get('mcp-protocol-version')]).toEqual([path, MODERN]);
  }
  // The newest revision that a handshake offers is the newest legacy revision.
  const newest = result.supportedVersions.at(-2);
  for (const path of ['/mcp', '/plain/mcp'])
    expect(
      (await Session.open(`${gateway.url}${path}`, '2030-01-01', AS_USER)).opening.json.result.protocolVersion,
    ).toBe(newest);
});

test('S1-59: calls that wait for a server do not delay agents', async () => {
  const answers: (() => void)[] = [];
  const hanging = await startLoose(({ id, method = '' }, res) => {
    const result = TOOLS_ONLY[method];
    if (result) sendJson(res, { jsonrpc: '2.0', id, result });
    else if (method === 'tools/call')
      answers.push(() => sendJson(res, { jsonrpc: '2.0', id, result: { resultType: 'complete', content: [] } }));
    else res.writeHead(400).end();
  });
  const busy = await start({ servers: { hanging: { url: hanging.url } } });
  await busy.settled(10_000);
  let ended = 0;
  const calling = Array.from({ length: 20 }, async (_, id) => {
    const headers = { ...AS_USER, accept: 'application/json' };
    const reply = await modernCall(`${busy.url}/mcp`, 'hanging__data', {}, { id, headers });
    ended++;
    return reply.json;
  });
  await eventually(
    () => answers.length,
    (count) => count === 20,
  );
  for (let i = 0; i < 20; i++) {
    const reply = await ask(`${busy.url}/a2a/helper`, {
      headers: { ...AS_USER, 'a2a-version': '1.0' },
      body: {
        ...{ jsonrpc: '2.0', id: i, method: 'SendMessage' },
        params: { message: { messageId: `m${i}`, role: 'ROLE_USER', parts: [{ text: 'hello' }] } },
      },
    });
    expect(reply.json.result).toMatchObject({ task: { status: { state: 'TASK_STATE_INPUT_REQUIRED' } } });
  }
  expect(ended).toBe(0);
  for (const answer of answers) answer();
  for (const reply of await Promise.all(calling)) expect(reply).toHaveProperty('result');
  await busy.close();
  await hanging.close();
});

test('S2-37, S3-20: the curl commands of the founding page work', async () => {
  const open = await start({ auth: undefined });
  const commands = `
    curl -fsSI "$PARLEY/mcp"
    curl -fsSI "$PARLEY/health"
    curl -sS -X POST "$PARLEY/mcp" -H "Mcp-Protocol-Version: 2023-01-01" -H "Content-Type: application/json" \\
      -d '{"jsonrpc":"2.0","method":"test","id":1}'
    curl -sS -X PUT "$PARLEY/mcp"`;
  const { stdout } = await promisify(execFile)('bash', ['-euc', commands], {
    env: { PATH: process.env['PATH'], PARLEY: open.url },
    timeout: 60_000,
  });
  expect(stdout).toContain(`Mcp-Protocol-Version: ${MODERN}`);
  expect(stdout).toMatch(/Access-Control-Expose-Headers: Mcp-Session-Id, Mcp-Protocol-Version/);
  expect(stdout).toMatch(/"code":-32600,"message":"Unsupported MCP protocol version: 2023-01-01/);
  expect(stdout).toMatch(/"code":-32601,"message":"HTTP method PUT not allowed"/);
});
