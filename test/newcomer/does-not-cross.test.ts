/**
 * What does not cross the gateway. Each line of that section of docs/compatibility.md names one of these tests. The
 * peers are made of plain messages, because the SDKs would not let them misbehave.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { credentials, Client as GrpcClient, Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { CARDS, type Heard, message, type Reply, rpc, startAgent, task, type WireAgent } from './peers/a2a.js';
import { type Answer, callTool, type Json, LegacyClient, modern, textOf } from './peers/wire.js';

const peer = (name: string): string => fileURLToPath(new URL(`./peers/${name}`, import.meta.url));
const FORM = { elicitation: { form: {} } };
const LEGACY_REVISIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];

let folder: string;
let upstream: ChildProcess;
let gateway: RunningGateway;
let servers: Record<string, object>;
let all: string;
let legacy: string;
let modernServer: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-crossing-'));
  const env = (name: string) => ({ RECORD: join(folder, name) });
  upstream = spawn(process.execPath, [peer('modern.mjs')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env('modern') },
  });
  const [line] = await once(createInterface(upstream.stdout!), 'line');
  const url = String(line).replace('listening ', '');
  servers = {
    legacy: { command: process.execPath, args: [peer('legacy.mjs')], env: env('legacy') },
    modern: { url: `${url}/mcp` },
    moved: { url: `${url}/moved`, revision: 'modern', transport: 'http' },
  };
  gateway = await startGateway(
    { servers, limits: { body: '64KiB', members: 1000 } },
    { env: { SECRET_OF_THE_GATEWAY: 'x' } },
  );
  all = `${gateway.url}/mcp`;
  legacy = `${all}/legacy`;
  modernServer = `${all}/modern`;
});

afterAll(async () => {
  await gateway?.close();
  upstream?.stdin?.end();
  await once(upstream, 'exit');
  rmSync(folder, { recursive: true, force: true });
});

/** The messages that a peer has received so far. */
function told(name: 'legacy' | 'modern'): Json[] {
  try {
    const lines = readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line) as Json);
  } catch {
    return [];
  }
}

/** The messages that a peer receives during an action and shortly after it. */
async function toldDuring(name: 'legacy' | 'modern', act: () => Promise<unknown>): Promise<Json[]> {
  const before = told(name).length;
  await act();
  await delay(400);
  return told(name).slice(before);
}

const replies = (messages: Json[]): Json[] => messages.filter((message) => message['method'] === undefined);

describe('questions', () => {
  test('NX-01 a question of a server outside of any call is refused', async () => {
    let answer: Answer | undefined;
    const messages = await toldDuring('legacy', async () => {
      answer = await callTool(legacy, 'ask_later', {}, { capabilities: FORM });
    });
    expect(textOf(answer!)).toBe('later');
    expect(replies(messages)).toMatchObject([{ error: { code: -32602 } }]);
  });

  test('NX-02 a question of a server during a completion is refused', async () => {
    const ref = { type: 'ref/resource', uri: 'legacy://{name}' };
    const messages = await toldDuring('legacy', async () => {
      const params = { ref, argument: { name: 'name', value: '' } };
      const { result } = await modern(legacy, 'completion/complete', params, { capabilities: FORM });
      expect(result).toMatchObject({ resultType: 'complete', completion: { values: ['done'] } });
    });
    expect(replies(messages)).toMatchObject([{ error: { code: expect.any(Number) } }]);
  });

  test.each([
    ['2024-11-05', 'ask', { elicitation: {} }],
    ['2025-03-26', 'ask', { elicitation: {} }],
    ['2025-06-18', 'ask_url', { elicitation: { form: {}, url: {} } }],
    ['2025-06-18', 'ask_several', { elicitation: {} }],
    ['2025-06-18', 'sample_tools', { sampling: { tools: {} } }],
    ['2024-11-05', 'sample_audio', { sampling: {} }],
  ])(
    'NX-03 a question that the client revision cannot express is not asked: %s, %s',
    async (revision, tool, capabilities) => {
      const client = await LegacyClient.open(modernServer, revision, capabilities, () => ({
        result: { action: 'accept' },
      }));
      const { messages, result, error } = await client.call(tool);
      expect(messages.filter((message) => 'method' in message)).toEqual([]);
      // Refused with an error, or answered on behalf of the client with a cancelled form.
      if (error === undefined && result?.['isError'] !== true)
        expect(textOf({ result, error } as Answer)).toContain('"cancel"');
    },
  );

  test('NX-04 an error of the client while it answers reaches a modern server as a cancelled form, or ends the call', async () => {
    const capabilities = { ...FORM, sampling: {} };
    const client = await LegacyClient.open(modernServer, '2025-11-25', capabilities);
    expect(JSON.parse(textOf(await client.call('ask'))).answers).toEqual({ one: { action: 'cancel' } });
    const { result, error } = await client.call('sample');
    expect(error !== undefined || result?.['isError'] === true).toBe(true);
  });

  test('NX-05 includeContext is removed from sampling requests', async () => {
    const { result } = await callTool(legacy, 'sample', {}, { capabilities: { sampling: { context: {} } } });
    const [question] = Object.values(result?.['inputRequests'] as Record<string, { params: Json }>);
    expect(question?.params).toMatchObject({ maxTokens: 9 });
    expect(question?.params).not.toHaveProperty('includeContext');
  });

  test('NX-06 a parked call ends with its gateway: the answer is refused, and the tool does not run again', async () => {
    const data = join(folder, 'data');
    const first = await startGateway({ servers }, { data });
    const asked = await callTool(`${first.url}/mcp/legacy`, 'ask', {}, { capabilities: FORM });
    expect(asked.result).toMatchObject({ resultType: 'input_required' });
    const { requestState, inputRequests } = asked.result as { requestState: string; inputRequests: Json };
    await first.close();
    const second = await startGateway({ servers }, { data });
    const answers = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: 'decline' }]));
    const messages = await toldDuring('legacy', async () => {
      const late = await callTool(
        `${second.url}/mcp/legacy`,
        'ask',
        {},
        { capabilities: FORM, state: requestState, answers },
      );
      expect(late.error?.code).toBe(-32602);
    });
    await second.close();
    expect(messages.filter(({ method }) => method === 'tools/call')).toEqual([]);
  });

  test('NX-07 tasks hosted by a client are not offered to servers', async () => {
    const messages = await toldDuring('legacy', async () => {
      const tasks = { requests: { elicitation: { create: {} } } };
      const client = await LegacyClient.open(legacy, '2025-11-25', { ...FORM, tasks }, () => ({
        result: { action: 'decline' },
      }));
      await client.call('ask');
    });
    for (const { method, params } of messages) {
      if (method === 'initialize') expect((params as Json)['capabilities']).not.toHaveProperty('tasks.requests');
    }
  });
});

describe('messages outside of calls', () => {
  test('NX-08 log lines of a server on stdio are dropped when two calls are under way', async () => {
    const log = (ms: number): Promise<Answer> =>
      callTool(legacy, 'log', { ms }, { meta: { 'io.modelcontextprotocol/logLevel': 'debug' } });
    const lines = ({ messages }: Answer): number =>
      messages.filter(({ method }) => method === 'notifications/message').length;
    expect(lines(await log(1))).toBe(1);
    const [one, two] = await Promise.all([log(200), log(200)]);
    expect(lines(one) + lines(two)).toBe(0);
  });

  test('NX-09 notifications of a client that belong to no call are not passed on', async () => {
    const messages = await toldDuring('legacy', async () => {
      const client = await LegacyClient.open(legacy, '2025-11-25', { roots: { listChanged: true } });
      await client.tell('notifications/roots/list_changed');
      await client.tell('notifications/example/odd');
      await client.call('recall');
    });
    expect(messages.map(({ method }) => method)).not.toContain('notifications/roots/list_changed');
    expect(messages.map(({ method }) => method)).not.toContain('notifications/example/odd');
  });

  test('NX-10 ping is answered by the gateway', async () => {
    const messages = await toldDuring('legacy', async () => {
      const client = await LegacyClient.open(legacy, '2025-11-25');
      expect((await client.request('ping')).result).toEqual({});
    });
    expect(messages.map(({ method }) => method)).not.toContain('ping');
  });

  test('NX-48 a client that reads slower than progress arrives gets the newest progress, and a flood ends its call', async () => {
    const report = (times: number): Promise<Answer> =>
      callTool(legacy, 'report', { times }, { meta: { progressToken: 'p' } });
    const progress = ({ messages }: Answer): unknown[] =>
      messages
        .filter(({ method }) => method === 'notifications/progress')
        .map(({ params }) => (params as Json)['progress']);
    expect(progress(await report(500))).toHaveLength(500);
    const many = await report(5_000);
    expect(textOf(many)).toBe('reported');
    expect(progress(many).length).toBeLessThan(4_000);
    expect(progress(many).at(-1)).toBe(5_000);
    const flood = await report(100_000);
    expect(flood.error?.data).toMatchObject({ outcome: 'unknown' });
  });

  test('NX-11 methods that no revision has are refused at the endpoint for all servers', async () => {
    const messages = await toldDuring('modern', async () => {
      const { status, error } = await modern(all, 'example/odd');
      expect({ status, code: error?.code }).toEqual({ status: 404, code: -32601 });
    });
    expect(messages).toEqual([]);
  });
});

describe('sessions and streams', () => {
  test('NX-12 a legacy server does not get one session per conversation of a modern client', async () => {
    expect(textOf(await callTool(legacy, 'remember', { what: 'one conversation' }))).toBe('one conversation');
    expect(textOf(await callTool(legacy, 'recall'))).toBe('one conversation');
  });

  test('NX-13 a modern client that loses its stream thereby cancels the call', async () => {
    const messages = await toldDuring('legacy', async () => {
      const lost = callTool(legacy, 'slow', {}, { signal: AbortSignal.timeout(300) });
      await expect(lost).rejects.toThrow();
    });
    expect(messages.map(({ method }) => method)).toContain('notifications/cancelled');
  });

  test('NX-14 a call whose server died is not sent again; the error says that it may have run', async () => {
    let answer: Answer | undefined;
    const messages = await toldDuring('legacy', async () => {
      answer = await callTool(legacy, 'crash');
    });
    expect(messages.filter(({ method }) => method === 'tools/call')).toHaveLength(1);
    expect(JSON.stringify(answer?.error ?? answer?.result)).toContain('unknown');
  });

  test('NX-15 ids, states and the name of the server stay on their side', async () => {
    const { result } = await callTool(modernServer, 'ask', {}, { capabilities: FORM });
    const { requestState } = result as { requestState: string };
    expect(requestState).not.toContain('tat/1');
    const again = await callTool(modernServer, 'ask', {}, { capabilities: FORM, state: requestState, answers: {} });
    expect(JSON.parse(textOf(again)).state).toBe('état/1');
    expect(again.result?.['_meta']).toMatchObject({ 'io.modelcontextprotocol/serverInfo': { name: 'parley' } });
  });
});

describe('results and lists', () => {
  test.each(LEGACY_REVISIONS)('NX-16 structured output that %s cannot express becomes text', async (revision) => {
    const client = await LegacyClient.open(modernServer, revision);
    const { result } = await client.call('number');
    expect(result).toEqual({ content: [{ type: 'text', text: '42' }] });
    const { result: listed } = await client.request('tools/list');
    const tools = new Map((listed!['tools'] as Json[]).map((tool) => [tool['name'], tool]));
    expect(tools.get('number')).not.toHaveProperty('outputSchema');
    const rank = LEGACY_REVISIONS.indexOf(revision);
    expect(Object.keys(tools.get('seen')!).sort()).toEqual(
      [
        'name',
        'inputSchema',
        ...(rank >= 1 ? ['annotations'] : []),
        ...(rank >= 2 ? ['title', 'outputSchema'] : []),
        ...(rank >= 3 ? ['icons'] : []),
      ].sort(),
    );
  });

  test('NX-17 audio and links reach older revisions as an embedded resource and as text', async () => {
    const oldest = await LegacyClient.open(modernServer, '2024-11-05');
    expect((await oldest.call('rich')).result?.['content']).toMatchObject([
      { type: 'resource', resource: { mimeType: 'audio/wav', blob: 'AAAA' } },
      { type: 'text', text: 'a <https://example.com/a>' },
    ]);
    const next = await LegacyClient.open(modernServer, '2025-03-26');
    expect((await next.call('rich')).result?.['content']).toMatchObject([{ type: 'audio' }, { type: 'text' }]);
  });

  test('NX-18 unknown extensions pass at the endpoint of one server, and not at the endpoint for all', async () => {
    const capabilities = { extensions: { 'com.example/odd': {} } };
    const reached = async (url: string, tool: string): Promise<Json> =>
      JSON.parse(textOf(await callTool(url, tool, {}, { capabilities }))).capabilities;
    expect(await reached(modernServer, 'seen')).toMatchObject(capabilities);
    expect(await reached(all, 'modern__seen')).not.toHaveProperty('extensions');
  });

  test('NX-49 lists do not depend on unknown extensions', async () => {
    const capabilities = { roots: {}, extensions: { 'com.example/odd': {} } };
    const messages = await toldDuring('modern', () => modern(modernServer, 'tools/list', {}, { capabilities }));
    const list = messages.find(({ body }) => String(body).includes('"tools/list"'));
    expect(JSON.parse(String(list?.['body']))).toMatchObject({
      params: { _meta: { 'io.modelcontextprotocol/clientCapabilities': { roots: {} } } },
    });
    expect(list?.['body']).not.toContain('com.example/odd');
  });

  test('NX-19 experimental capabilities of a server are not advertised', async () => {
    const client = await LegacyClient.open(all, '2025-11-25');
    expect(client.initialized['capabilities']).toHaveProperty('tools');
    expect(client.initialized['capabilities']).not.toHaveProperty('experimental');
  });

  test('NX-20 a resource URI of two servers is refused, and the error names the candidates', async () => {
    const { error } = await modern(all, 'resources/read', { uri: 'shared://both' });
    expect(error).toMatchObject({ code: -32602, data: { candidates: ['legacy', 'modern'] } });
    const { result } = await modern(legacy, 'resources/read', { uri: 'shared://both' });
    expect(result).toMatchObject({ contents: [{ text: 'legacy' }] });
  });

  test('NX-21 names over 64 characters are shortened at the endpoint for all servers', async () => {
    const names = async (url: string): Promise<string[]> =>
      ((await modern(url, 'tools/list')).result!['tools'] as { name: string }[]).map(({ name }) => name);
    const own = (await names(legacy)).find((name) => name.startsWith('a_tool'));
    const shown = (await names(all)).find((name) => name.startsWith('legacy__a_tool'));
    expect(own!.length).toBeGreaterThan(64);
    expect(shown).toHaveLength(64);
    expect(textOf(await callTool(all, shown!))).toBe('long');
  });
});

describe('transport', () => {
  test('NX-22 headers and credentials of the caller do not reach a server', async () => {
    const headers = { authorization: 'Bearer of-the-caller', cookie: 'a=b', 'x-anything': 'else' };
    const seen = JSON.parse(textOf(await callTool(modernServer, 'seen', {}, { headers }))).headers as Json;
    for (const name of Object.keys(headers)) expect(seen).not.toHaveProperty(name);
    expect(seen).toMatchObject({ 'mcp-method': 'tools/call', 'mcp-name': 'seen' });
  });

  test('NX-23 the environment of the gateway does not reach a program it starts', async () => {
    const names = textOf(await callTool(legacy, 'environment')).split(' ');
    expect(names).toContain('PATH');
    expect(names).toContain('RECORD');
    expect(names).not.toContain('SECRET_OF_THE_GATEWAY');
  });

  test('NX-24 redirects of a server are not followed', async () => {
    const messages = await toldDuring('modern', async () => {
      const { result, error } = await callTool(`${all}/moved`, 'seen');
      expect(error !== undefined || result?.['isError'] === true).toBe(true);
    });
    expect(messages.filter(({ path }) => path === '/mcp')).toEqual([]);
  });

  test('NX-25 requests over the configured size, depth or number of members are refused', async () => {
    const messages = await toldDuring('modern', async () => {
      expect((await callTool(modernServer, 'seen', { long: 'x'.repeat(70_000) })).status).toBe(413);
      let deep: Json = {};
      for (let i = 0; i < 100; i++) deep = { deep };
      expect((await callTool(modernServer, 'seen', deep)).error).toBeDefined();
      const wide = { list: Array.from({ length: 1_100 }, () => ({})) };
      expect((await callTool(modernServer, 'seen', wide)).error).toMatchObject({
        message: 'The body has more than 1000 objects, arrays and members',
      });
    });
    expect(messages).toEqual([]);
  });
});

describe('agents', () => {
  const TOKEN = 'token-of-ada-0123456789';
  const ADA = { authorization: `Bearer ${TOKEN}` };
  let one: WireAgent;
  let plain: WireAgent;
  let three: WireAgent;
  let threeRest: WireAgent;
  let first: WireAgent;
  /** An MCP server. */
  let odd: WireAgent;
  let testbed: RunningGateway;

  beforeAll(async () => {
    const extensions = [{ uri: 'https://example.com/known', description: 'Known.' }];
    const guarded = (url: string): Json => ({
      ...CARDS['1.0'](url),
      capabilities: { streaming: true, pushNotifications: true, extensions },
      securitySchemes: {
        device: { oauth2SecurityScheme: { flows: { deviceCode: { tokenUrl: 'https://example.com' } } } },
      },
      securityRequirements: [{ schemes: { device: { list: [] } } }],
      signatures: [{ protected: 'eyJhbGciOiJFUzI1NiJ9', signature: 'AAAA' }],
      nobodyKnows: 'this',
    });
    [one, plain, three, threeRest, first, odd] = await Promise.all([
      startAgent(guarded),
      startAgent((url) => ({ ...CARDS['1.0'](url), capabilities: {} })),
      startAgent(CARDS['0.3']),
      startAgent(CARDS['0.3 REST']),
      startAgent(CARDS['0.1']),
      startAgent(() => ({}), /^(server|tools)\//),
    ]);
    odd.says = ({ method }) => ({
      result: {
        ...{ resultType: 'complete', ttlMs: 60_000, cacheScope: 'public' },
        ...(method === 'tools/list'
          ? { tools: [{ name: 'say', inputSchema: { type: 'object' } }] }
          : { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } }),
      },
    });
    testbed = await startGateway({
      servers: { ...servers, odd: { url: odd.url, transport: 'http', revision: 'modern' } },
      agents: {
        one: { url: one.url },
        plain: { url: plain.url },
        three: { url: three.url },
        'three-rest': { url: threeRest.url },
        first: { url: first.url },
        desk: { tools: ['legacy__*', 'modern__*', 'odd__*'] },
      },
      grpc: { listen: '127.0.0.1:0' },
      a2a: { parts: 5 },
      auth: { tokens: [{ name: 'ada', token: TOKEN }] },
      egress: { allowPrivate: true },
      log: { level: 'warn' },
    });
  });

  afterAll(async () => {
    await testbed?.close();
    await Promise.all([one, plain, three, threeRest, first, odd].map((agent) => agent?.close()));
  });

  const ask = (agent: string, method: string, params: Json, headers: Record<string, string> = {}): Promise<Reply> =>
    rpc(`${testbed.url}/a2a/${agent}`, method, params, { 'a2a-version': '1.0', ...ADA, ...headers });
  const askFirst = (agent: string, method: string, params: Json): Promise<Reply> =>
    rpc(`${testbed.url}/a2a/${agent}`, method, params, ADA);
  const send = (agent: string, text: string, more: Json = {}, headers?: Record<string, string>): Promise<Reply> =>
    ask(agent, 'SendMessage', { message: message(text, more) }, headers);
  const cardOf = async (agent: string, version = '1.0', name = 'agent-card'): Promise<Json> => {
    const url = `${testbed.url}/a2a/${agent}/.well-known/${name}.json`;
    return (await (await fetch(url, { headers: { 'a2a-version': version, ...ADA } })).json()) as Json;
  };
  const lastOf = ({ heard }: WireAgent, method: RegExp = /send|stream/i): Heard =>
    heard.findLast((each) => method.test(each.method))!;
  const parts = (...texts: string[]): Json[] => texts.map((text) => ({ text }));

  describe('between versions, and over gRPC', () => {
    test('NX-26 gRPC carries only the fields of its proto, and numbers as doubles', async () => {
      const digits = '12345678901234567890123';
      const odd = `{"data":{"many":${digits}},"oddPart":1}`;
      const made = JSON.stringify(task('exact', 'COMPLETED', { artifacts: [] })).replace(
        '"artifacts":[]',
        `"artifacts":[{"artifactId":"a","parts":[${odd}]}],"oddTask":"kept"`,
      );
      one.says = () => ({ result: `{"task":${made}}` });
      const { text } = await send('one', 'exact');
      expect(text).toContain(odd);
      expect(text).toContain('"oddTask":"kept"');
      await fetch(`${testbed.url}/a2a/one`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...ADA },
        body: `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[${odd}]},"oddRequest":1}}`,
      });
      expect(lastOf(one).text).toContain(odd);
      expect(lastOf(one).text).toContain('"oddRequest":1');
      const bytes = await overGrpc('exact');
      expect(bytes.includes('exact')).toBe(true);
      expect(bytes.includes('many')).toBe(true);
      for (const lost of ['oddTask', 'oddPart', 'kept', digits]) expect(bytes.includes(lost)).toBe(false);
      const double = Buffer.alloc(8);
      double.writeDoubleLE(Number(digits));
      expect(bytes.includes(double)).toBe(true);
    });

    /** `GetTask` of 1.0 as bytes: field 2 is the id. */
    async function overGrpc(id: string): Promise<Buffer> {
      const { supportedInterfaces } = (await cardOf('one')) as { supportedInterfaces: Record<string, string>[] };
      const { url } = supportedInterfaces.find(({ protocolBinding }) => protocolBinding === 'GRPC')!;
      const client = new GrpcClient(url!, credentials.createInsecure());
      const metadata = new Metadata();
      for (const [name, value] of Object.entries({ ...ADA, 'x-parley-agent': 'one' })) metadata.set(name, value);
      const asIs = (bytes: Buffer): Buffer => bytes;
      const request = Buffer.concat([Buffer.from([0x12, id.length]), Buffer.from(id)]);
      try {
        return await new Promise<Buffer>((resolve, reject) => {
          client.makeUnaryRequest('/lf.a2a.v1.A2AService/GetTask', asIs, asIs, request, metadata, (error, reply) =>
            error ? reject(error) : resolve(reply!),
          );
        });
      } finally {
        client.close();
      }
    }

    test('NX-27 the tenant of a request does not reach an agent', async () => {
      one.says = () => ({ result: { task: task('tenant-1', 'COMPLETED') } });
      await ask('one', 'SendMessage', { tenant: 'of-the-caller', message: message('tenant') });
      expect(lastOf(one).text).not.toContain('of-the-caller');
      three.says = () => ({ result: { kind: 'task', id: 'tenant-3', contextId: 'c', status: { state: 'completed' } } });
      await ask('three', 'SendMessage', { tenant: 'of-the-caller', message: message('tenant') });
      expect(lastOf(three).text).not.toContain('of-the-caller');
    });

    test('NX-28 the proto of 0.3 lacks some fields of a message', async () => {
      threeRest.says = () => ({
        result: { task: { id: 'proto', contextId: 'c', status: { state: 'TASK_STATE_INPUT_REQUIRED' } } },
      });
      await ask('three-rest', 'SendMessage', {
        message: message('', {
          referenceTaskIds: ['of-a-reference'],
          oddMember: 'of-nobody',
          parts: [
            { text: 'crosses', metadata: { note: 'of-a-part' }, mediaType: 'text/of-a-text' },
            { url: 'https://example.com/crosses-too', filename: 'of-a-file', mediaType: 'application/pdf' },
          ],
        }),
      });
      const { text } = lastOf(threeRest);
      for (const kept of ['crosses', 'crosses-too', 'application/pdf']) expect(text).toContain(kept);
      for (const lost of ['of-a-reference', 'of-a-part', 'of-a-file', 'of-a-text', 'of-nobody']) {
        expect(text).not.toContain(lost);
      }
      await ask('three-rest', 'CancelTask', { id: 'proto', metadata: { note: 'of-a-cancel' } });
      expect(lastOf(threeRest, /cancel/).text).not.toContain('of-a-cancel');
    });

    test('NX-29 an agent of 0.1 sees no ids of messages, references or extensions', async () => {
      first.says = ({ params }) => ({
        result: { id: params['id'], sessionId: params['sessionId'], status: { state: 'completed' } },
      });
      const { result, error } = await send('first', 'first', {
        messageId: 'of-a-message',
        referenceTaskIds: ['of-a-reference'],
        extensions: ['https://example.com/of-a-message'],
        contextId: 'a-context',
      });
      expect({ result, error }).toMatchObject({ result: { task: { contextId: 'a-context' } } });
      const { method, params, text } = lastOf(first);
      expect(method).toBe('tasks/send');
      expect(params).toMatchObject({ sessionId: 'a-context', message: { parts: [{ type: 'text', text: 'first' }] } });
      for (const lost of ['of-a-message', 'of-a-reference', 'messageId']) expect(text).not.toContain(lost);
    });

    const NAMED = {
      ...{ artifactId: 'id-of-an-artifact', name: 'named', extensions: ['https://example.com/of-an-artifact'] },
      parts: [{ text: 'x' }],
    };

    const TOLD: [string, Json, string][] = [
      ['a direct reply', { message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'well' }] } }, 'completed'],
      ['rejected', { task: task('rejected', 'REJECTED', { artifacts: [NAMED] }) }, 'failed'],
      ['auth-required', { task: task('waits', 'AUTH_REQUIRED') }, 'input-required'],
    ];
    test.each(TOLD)('NX-30 a client of 0.1 gets %s as a state that 0.1 has', async (what, result, state) => {
      one.says = () => ({ result });
      const { result: told, text } = await askFirst('one', 'tasks/send', {
        id: `mine-${state}`,
        message: { role: 'user', parts: [{ type: 'text', text: what }] },
      });
      expect(told).toMatchObject({ id: `mine-${state}`, status: { state } });
      expect(text).not.toContain('of-an-artifact');
      if (what === 'rejected') expect(told).toMatchObject({ artifacts: [{ index: 0, name: 'named' }] });
      if (!('message' in result))
        expect(told).toMatchObject({ metadata: { 'https://parley.dev/a2a/state': expect.any(String) } });
    });

    test('NX-31 a client of 0.1 has one webhook per task', async () => {
      one.says = () => ({ result: { task: task('hooked', 'INPUT_REQUIRED') } });
      await askFirst('one', 'tasks/send', {
        id: 'hooks',
        message: { role: 'user', parts: [{ type: 'text', text: 'x' }] },
      });
      for (const name of ['a', 'b']) {
        const pushNotificationConfig = { url: `http://127.0.0.1:9/${name}` };
        const { error } = await askFirst('one', 'tasks/pushNotification/set', { id: 'hooks', pushNotificationConfig });
        expect(error).toBeUndefined();
      }
      const { result } = await ask('one', 'ListTaskPushNotificationConfigs', { taskId: 'hooks' });
      expect(result!['configs']).toMatchObject([{ url: 'http://127.0.0.1:9/b' }]);
    });

    test('NX-32 fields of 0.3 that 1.0 removed are not restored', async () => {
      const { capabilities } = (await cardOf('three', '0.3')) as { capabilities: Json };
      expect(capabilities).toMatchObject({ streaming: true });
      expect(capabilities).not.toHaveProperty('stateTransitionHistory', true);
      three.says = () => ({
        result: {
          kind: 'task',
          id: 'zone',
          contextId: 'c',
          status: { state: 'input-required', timestamp: '2026-01-01T10:00:00' },
        },
      });
      const headers = { 'a2a-version': '0.3' };
      const said = { kind: 'message', messageId: 'zone-1', role: 'user', parts: [{ kind: 'text', text: 'zone' }] };
      const { result } = await ask('three', 'message/send', { message: said }, headers);
      expect(result).toMatchObject({ status: { timestamp: expect.stringMatching(/^2026-01-01T10:00:00(\.000)?Z$/) } });
      const authentication = { schemes: ['Basic', 'Bearer'], credentials: 'secret' };
      const { result: set } = await ask(
        'three',
        'tasks/pushNotificationConfig/set',
        { taskId: 'zone', pushNotificationConfig: { url: 'http://127.0.0.1:9/', authentication } },
        headers,
      );
      const { pushNotificationConfig } = set as { pushNotificationConfig: { authentication: { schemes: string[] } } };
      expect(pushNotificationConfig.authentication.schemes).toHaveLength(1);
    });
  });

  describe('in transit', () => {
    test('NX-33 clients see a card of the gateway; the original card is available next to it', async () => {
      const card = await cardOf('one');
      const text = JSON.stringify(card);
      for (const lost of ['deviceCode', 'nobodyKnows', one.url]) expect(text).not.toContain(lost);
      expect(card['signatures']).not.toEqual(expect.arrayContaining([expect.objectContaining({ signature: 'AAAA' })]));
      expect(card).toMatchObject({ securitySchemes: { bearer: expect.anything() } });
      const original = await cardOf('one', '1.0', 'original-card');
      expect(original).toMatchObject({ agent: 'one', signature: expect.stringMatching(/^(invalid|unverified)$/) });
      expect(original['card']).toMatchObject({ nobodyKnows: 'this', signatures: [{ signature: 'AAAA' }] });
    });

    test('NX-34 headers and credentials of the caller do not reach an agent', async () => {
      one.says = () => ({ result: { task: task('headers', 'COMPLETED') } });
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
      await send('one', 'headers', {}, { cookie: 'a=b', 'x-anything': 'else', traceparent });
      const { headers } = lastOf(one);
      for (const name of ['authorization', 'cookie', 'x-anything']) expect(headers).not.toHaveProperty(name);
      expect(headers).toMatchObject({ 'a2a-version': '1.0', traceparent });
    });

    test('NX-35 the webhook of a client and its secrets do not reach an agent', async () => {
      one.says = () => ({ result: { task: task('pushed', 'WORKING') } });
      const url = 'http://127.0.0.1:9/of-the-client';
      const authentication = { scheme: 'Bearer', credentials: 'credentials-of-the-client' };
      const push = { url, token: 'token-of-the-client', authentication };
      const { error } = await ask('one', 'SendMessage', {
        message: message('push'),
        configuration: { returnImmediately: true, taskPushNotificationConfig: push },
      });
      expect(error).toBeUndefined();
      await delay(300);
      const texts = one.heard.map(({ text }) => text).join();
      expect(texts).not.toContain('of-the-client');
      expect(lastOf(one, /push/i).params).toMatchObject({ url: expect.stringContaining(`${testbed.url}/a2a/push/`) });
    });

    test('NX-36 the caller sees the extensions that it requested and the card has', async () => {
      const [known, odd] = ['https://example.com/known', 'https://example.com/odd'];
      one.says = () => ({
        result: { task: task('extended', 'COMPLETED') },
        headers: { 'a2a-extensions': `${odd}, https://example.com/other` },
      });
      const { headers } = await send('one', 'extensions', {}, { 'a2a-extensions': `${known}, ${odd}` });
      expect(headers.get('a2a-extensions')).toBe(known);
    });

    test('NX-37 a late subscriber gets the current task, not its past events', async () => {
      const chunk = (text: string): Json => ({
        artifactUpdate: {
          ...{ taskId: 'joined', contextId: 'context-of-joined', append: text !== 'one' },
          artifact: { artifactId: 'a', parts: parts(text) },
        },
      });
      const done = { taskId: 'joined', contextId: 'context-of-joined', status: { state: 'TASK_STATE_COMPLETED' } };
      one.says = () => ({
        events: [
          { task: task('joined', 'WORKING') },
          chunk('one'),
          chunk('two'),
          700,
          chunk('three'),
          { statusUpdate: done },
        ],
      });
      const all = ask('one', 'SendStreamingMessage', { message: message('join') });
      await delay(350);
      const { events } = await ask('one', 'SubscribeToTask', { id: 'joined' });
      expect(events[0]).toMatchObject({ task: { artifacts: [{ parts: parts('one', 'two') }] } });
      expect(events.slice(1).filter((event) => 'artifactUpdate' in event)).toMatchObject([chunk('three')]);
      expect((await all).events.filter((event) => 'artifactUpdate' in event)).toHaveLength(3);
    });

    test('NX-38 a reader that is far behind gets the current task, not each event', async () => {
      const ids = { taskId: 'far', contextId: 'context-of-far' };
      const long = 'x'.repeat(4_000);
      const steps = Array.from({ length: 5_000 }, (_, n) => ({
        artifactUpdate: { ...ids, artifact: { artifactId: 'a', parts: parts(`${n} ${long}`) }, append: false },
      }));
      const end = { statusUpdate: { ...ids, status: { state: 'TASK_STATE_COMPLETED' } } };
      one.says = () => ({ events: [{ task: task('far', 'WORKING') }, ...steps, end] });
      const response = await fetch(`${testbed.url}/a2a/one`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...ADA },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'SendStreamingMessage',
          params: { message: message('far') },
        }),
      });
      const stands = async (): Promise<unknown> => (await ask('one', 'GetTask', { id: 'far' })).result?.['status'];
      for (let left = 100; left > 0; left--) {
        if (JSON.stringify(await stands())?.includes('COMPLETED')) break;
        await delay(100);
      }
      const events = [...(await response.text()).matchAll(/^data: ?(.+)$/gm)].map(
        ([, data]) => JSON.parse(data!).result,
      );
      const tasks = events.filter((event) => 'task' in event);
      expect(tasks.length).toBeGreaterThan(1);
      expect(tasks.at(-1)).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
      expect(events.length).toBeLessThan(steps.length);
    });

    test('NX-39 in a stored task text parts beyond the limit are joined', async () => {
      const ids = { taskId: 'pieces', contextId: 'context-of-pieces' };
      const pieces = Array.from({ length: 12 }, (_, n) => ({
        artifactUpdate: { ...ids, artifact: { artifactId: 'a', parts: parts(`${n} `) }, append: n > 0 },
      }));
      const end = { statusUpdate: { ...ids, status: { state: 'TASK_STATE_COMPLETED' } } };
      one.says = () => ({ events: [{ task: task('pieces', 'WORKING') }, ...pieces, end] });
      const { events } = await ask('one', 'SendStreamingMessage', { message: message('pieces') });
      expect(events.filter((event) => 'artifactUpdate' in event)).toHaveLength(12);
      const { result } = await ask('one', 'GetTask', { id: 'pieces' });
      const [{ parts: kept }] = result!['artifacts'] as [{ parts: { text: string }[] }];
      expect(kept.length).toBeLessThanOrEqual(5);
      expect(kept.map(({ text }) => text).join('')).toBe('0 1 2 3 4 5 6 7 8 9 10 11 ');
      const { error } = await send('one', '', { parts: parts('1', '2', '3', '4', '5', '6') });
      expect(error).toMatchObject({ code: -32602 });
    });

    test('NX-40 functions that an agent lacks are not refused, because the gateway provides them', async () => {
      plain.says = () => ({ result: { task: task('plain', 'INPUT_REQUIRED') } });
      const { events } = await ask('plain', 'SendStreamingMessage', { message: message('stream') });
      expect(events[0]).toMatchObject({ task: { id: 'plain' } });
      const push = await ask('plain', 'CreateTaskPushNotificationConfig', {
        taskId: 'plain',
        url: 'http://127.0.0.1:9/',
      });
      expect(push.error).toBeUndefined();
      const { result: listed } = await ask('plain', 'ListTasks', {});
      expect(listed).toMatchObject({ tasks: [{ id: 'plain' }] });
      const { result: card } = await ask('plain', 'GetExtendedAgentCard', {});
      expect(card).toMatchObject({ name: 'Wire', capabilities: { streaming: true, pushNotifications: true } });
      expect(new Set(plain.heard.map(({ method }) => method))).toEqual(new Set(['SendMessage']));
    });

    test('NX-41 redirects of an agent are not followed, and private addresses get no requests', async () => {
      one.says = () => ({ status: 307, headers: { location: `${plain.url}/` } });
      const before = plain.heard.length;
      expect((await send('one', 'moved')).error).toBeDefined();
      expect(plain.heard.length).toBe(before);
      const strict = await startGateway({ agents: { one: { url: one.url } }, log: { level: 'warn' } });
      one.says = () => ({ result: { task: task('strict', 'WORKING') } });
      const url = `${strict.url}/a2a/one`;
      const version = { 'a2a-version': '1.0' };
      const configuration = { returnImmediately: true };
      await rpc(url, 'SendMessage', { message: message('strict'), configuration }, version);
      const config = { taskId: 'strict', url: 'http://127.0.0.1/hook' };
      const { error } = await rpc(url, 'CreateTaskPushNotificationConfig', config, version);
      await strict.close();
      expect(error).toMatchObject({ code: -32602 });
    });

    test('NX-42 a message that passed too many gateways is refused', async () => {
      const before = one.heard.length;
      const metadata = { 'https://parley.dev/a2a/hops/v1': Array.from({ length: 9 }, (_, n) => `gateway-${n}/one`) };
      const { error } = await ask('one', 'SendMessage', { message: message('loop'), metadata });
      expect(error).toBeDefined();
      expect(one.heard.length).toBe(before);
    });
  });

  describe('between MCP and A2A', () => {
    const mcp = (): string => `${testbed.url}/mcp`;
    const desk = async (tool: string, args: Json = {}, more: Json = {}): Promise<Json> => {
      const data = { tool, arguments: args };
      const { result } = await ask('desk', 'SendMessage', { message: message('', { parts: [{ data }], ...more }) });
      return result!['task'] as Json;
    };

    test('NX-43 chunks, histories, extensions, tenants and webhooks do not cross to MCP', async () => {
      const ids = { taskId: 'as-a-tool', contextId: 'context-of-as-a-tool' };
      const piece = (text: string): Json => ({
        artifactUpdate: { ...ids, artifact: { artifactId: 'a', parts: parts(text) }, append: text !== 'one ' },
      });
      const history = [{ messageId: 'h', role: 'ROLE_AGENT', parts: parts('of-the-history') }];
      one.says = () => ({
        events: [
          { task: task('as-a-tool', 'WORKING', { history }) },
          piece('one '),
          piece('two'),
          { statusUpdate: { ...ids, status: { state: 'TASK_STATE_COMPLETED' } } },
        ],
      });
      const headers = { ...ADA, 'a2a-extensions': 'https://example.com/known' };
      const { messages, result } = await callTool(mcp(), 'one__talk', { message: 'hi' }, { headers });
      expect(result).toMatchObject({ content: parts('one ', 'two'), structuredContent: { state: 'completed' } });
      expect(messages.filter(({ method }) => method !== undefined)).toEqual([]);
      expect(JSON.stringify(result)).not.toContain('of-the-history');
      const { headers: reached, params } = lastOf(one);
      expect(reached).not.toHaveProperty('a2a-extensions');
      expect(params).not.toHaveProperty('tenant');
      expect(params).not.toHaveProperty('configuration.taskPushNotificationConfig');
    });

    test('NX-44 an A2A card has the texts and schemas of a tool; hints become tags; icons and annotations do not cross', async () => {
      const { skills } = (await cardOf('desk')) as { skills: Json[] };
      const seen = skills.find(({ id }) => id === 'modern__seen')!;
      expect(seen).toMatchObject({ name: 'Seen', tags: ['mcp', 'readOnlyHint'] });
      expect(JSON.stringify(skills)).not.toContain('"icons"');
      expect(seen).not.toHaveProperty('annotations');
      const said = {
        type: 'text',
        text: 'hi',
        annotations: { audience: ['user'] },
        _meta: { 'example/of': 'a-result' },
      };
      odd.says = () => ({ result: { resultType: 'complete', content: [said] } });
      expect(await desk('odd__say')).toMatchObject({ artifacts: [{ parts: [{ text: 'hi' }] }] });
      expect(JSON.stringify(await desk('odd__say'))).not.toMatch(/audience|a-result/);
    });

    test('NX-45 prompts and resources do not become skills', async () => {
      const { skills } = (await cardOf('desk')) as { skills: { id: string }[] };
      const { result } = await modern(mcp(), 'tools/list', {}, { headers: ADA });
      const tools = (result!['tools'] as { name: string }[]).map(({ name }) => name);
      expect(skills.length).toBeGreaterThan(10);
      for (const { id } of skills) expect(tools).toContain(id);
    });

    test('NX-46 a tool that requests sampling does not get the model of an A2A client', async () => {
      expect(await desk('modern__sample')).toMatchObject({ status: { state: 'TASK_STATE_FAILED' } });
      const messages = await toldDuring('legacy', () => desk('legacy__sample'));
      expect(replies(messages).filter(({ id }) => String(id).startsWith('ask-'))).toMatchObject([{ error: {} }]);
      for (const { method, params } of messages) {
        if (method === 'initialize') expect((params as Json)['capabilities']).not.toHaveProperty('roots');
      }
    });

    test('NX-47 a legacy server does not get one session per conversation of an A2A client', async () => {
      const one = await desk('legacy__remember', { what: 'of one conversation' }, { contextId: 'conversation-1' });
      expect(one).toMatchObject({ contextId: 'conversation-1', status: { state: 'TASK_STATE_COMPLETED' } });
      const other = await desk('legacy__recall', {}, { contextId: 'conversation-2' });
      expect(other).toMatchObject({
        contextId: 'conversation-2',
        artifacts: [{ parts: parts('of one conversation') }],
      });
    });
  });
});
