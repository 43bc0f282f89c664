/**
 * Canaries: a secret in every place of a request where a client can put one. Each is in its own place of the server's
 * or agent's message at most (S12), and never in the log, in answers to others, in the audit trail, in /health, in a
 * recording without contents, or readable in the database (S24).
 */
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { credentials, Client as GrpcClient, Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SERVICE_1_0 } from '../../src/protocol/a2a/proto/services.js';
import { SseClient } from '../input/support/speak.js';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';
import { type Collector, startCollector } from '../telemetry/otlp-collector.js';
import { type Recording, startRecording } from './recording-upstreams.js';

const canary = (place: string): string => `canary-${place}-${randomBytes(8).toString('hex')}`;

/** One canary for each place. */
const C = {
  token: randomBytes(24).toString('hex'),
  wrongToken: canary('wrong-token'),
  basic: canary('basic'),
  apiKey: canary('api-key'),
  custom: canary('custom'),
  cookie: canary('cookie'),
  proxy: canary('proxy'),
  query: canary('query'),
  session: canary('session'),
  lastEvent: canary('last-event'),
  userinfo: canary('userinfo'),
  clientInfo: canary('client-info'),
  argument: canary('argument'),
  password: canary('password'),
  meta: canary('meta'),
  unknownArgument: canary('unknown-argument'),
  uri: canary('uri'),
  message: canary('message'),
  messageMeta: canary('message-meta'),
  pushToken: canary('push-token'),
  pushCredentials: canary('push-credentials'),
  pushUrl: canary('push-url'),
} as const;
type Place = keyof typeof C;
const ALL = Object.keys(C) as Place[];
const OTHER = '6f74686572206f74686572206f74686572206f';
const ADMIN = '61646d696e61646d696e61646d696e61646d';

/** The places that belong to the message itself. The message passes them on; its server may see them. */
const OF_TOOLS: readonly Place[] = ['argument', 'password', 'meta'];
const OF_AGENTS: readonly Place[] = ['message', 'messageMeta'];

const HEADERS = {
  authorization: `Bearer ${C.token}`,
  'x-api-key': C.apiKey,
  'api-key': C.apiKey,
  'x-auth-token': C.custom,
  'x-amz-security-token': C.custom,
  'x-forwarded-access-token': C.custom,
  cookie: `session=${C.cookie}`,
  'proxy-authorization': `Basic ${C.proxy}`,
};

const PREFIX = 'io.modelcontextprotocol';
const CLIENT = { name: 'canary-client', version: '1', title: C.clientInfo, websiteUrl: `https://${C.clientInfo}/` };
const meta = { [`${PREFIX}/protocolVersion`]: '2026-07-28', [`${PREFIX}/clientCapabilities`]: {} };

let folder: string;
let upstreams: Recording;
let gateway: RunningGateway;
let collector: Collector;
/** The live tail so far, and two recordings: without and with contents. */
let tailed: () => string;
let recorded: () => string;
let recordedContents: () => string;
/** Answers to other callers. */
const others: string[] = [];

/** Reads a stream in the background. */
function tail({ body }: Response): () => string {
  let text = '';
  void (async () => {
    for await (const chunk of body ?? []) text += Buffer.from(chunk as Uint8Array).toString();
  })().catch(() => {});
  return () => text;
}

interface Sent {
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
  readonly method?: string;
}

/** Sends a request whose target is written as given, so that it may contain a user. */
function send(
  target: string,
  { headers = HEADERS, body, method = 'POST' }: Sent,
): Promise<{ status: number; text: string; headers: Record<string, unknown> }> {
  const { hostname, port } = new URL(gateway.url);
  const own = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  return new Promise((resolve, reject) => {
    const req = request(
      { host: hostname, port, path: target, method, headers: { ...own, ...headers } },
      async (res) => {
        const text = Buffer.concat(await res.toArray()).toString();
        resolve({ status: res.statusCode!, text, headers: res.headers });
      },
    );
    req.on('error', reject);
    req.end(body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body));
  });
}

const modern = (
  method: string,
  params: Record<string, unknown>,
  given: Record<string, string> = HEADERS,
  target = '/mcp',
) => {
  const name = params['name'] ?? params['uri'];
  return send(target, {
    headers: {
      ...given,
      ...{ 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'last-event-id': C.lastEvent },
      ...(given === HEADERS && { 'mcp-session-id': C.session }),
      ...(typeof name === 'string' && { 'mcp-name': name }),
    },
    body: {
      jsonrpc: '2.0',
      id: 1,
      method,
      params: { ...params, _meta: { ...meta, [`${PREFIX}/clientInfo`]: CLIENT, 'example.com/note': C.meta } },
    },
  });
};

const call = { arguments: { text: C.argument, password: C.password }, _meta: { 'example.com/note': C.meta } };
const SERVERS = ['modern', 'legacy', 'events', 'stdio'];
const AGENTS = ['jsonrpc', 'rest', 'grpc'];

const message = () => ({
  message: {
    messageId: randomBytes(6).toString('hex'),
    role: 'ROLE_USER',
    parts: [{ text: C.message }],
    metadata: { note: C.messageMeta },
  },
  configuration: {
    taskPushNotificationConfig: {
      url: `http://127.0.0.1:9/${C.pushUrl}`,
      token: C.pushToken,
      authentication: { scheme: 'Bearer', credentials: C.pushCredentials },
    },
  },
});

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-canary-'));
  [upstreams, collector] = await Promise.all([startRecording(), startCollector()]);
  const program = fileURLToPath(new URL('./recording-program.mjs', import.meta.url));
  gateway = await startGateway(
    {
      log: { level: 'trace', format: 'json' },
      grpc: { listen: '127.0.0.1:0' },
      egress: { allowPrivate: true, ports: [9, Number(upstreams.grpc.split(':')[1])] },
      auth: {
        tokens: [
          { name: 'ada', token: C.token },
          { name: 'bob', token: OTHER },
          { name: 'root', token: ADMIN, admin: true },
        ],
      },
      servers: {
        modern: { url: `${upstreams.url}/modern` },
        legacy: { url: `${upstreams.url}/legacy`, revision: 'legacy' },
        events: { url: `${upstreams.url}/events`, transport: 'sse' },
        stdio: { command: process.execPath, args: [program], env: { RECORD: join(folder, 'stdio') } },
      },
      agents: Object.fromEntries(AGENTS.map((name) => [name, { url: `${upstreams.url}/${name}` }])),
      evaluators: { schema: { builtin: 'schema' }, latency: { builtin: 'latency' } },
    },
    {
      data: join(folder, 'data'),
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_TRACES_SAMPLER: 'always_on',
        OTEL_BSP_SCHEDULE_DELAY: '100',
        OTEL_METRIC_EXPORT_INTERVAL: '200',
      },
    },
  );
  const follow = async (path: string): Promise<() => string> =>
    tail(await fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${ADMIN}` } }));
  tailed = await follow('/api/v1/tail');
  recorded = await follow('/api/v1/recording');
  recordedContents = await follow('/api/v1/recording?arguments=true&results=true');
  await mcpRequests();
  await a2aRequests();
  await refusedRequests();
}, 120_000);

afterAll(async () => {
  await gateway?.close();
  await upstreams?.close();
  await collector?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Every server, through a modern client, a session, and HTTP+SSE. */
async function mcpRequests(): Promise<void> {
  const query = `?token=${C.query}&api_key=${C.query}`;
  for (const server of SERVERS) {
    const name = `${server}__keep`;
    const answer = await modern('tools/call', { name, arguments: call.arguments }, HEADERS, `/mcp${query}`);
    expect(answer.text, server).toContain('kept');
    await modern('tools/call', { name, arguments: C.unknownArgument }, HEADERS, `/mcp/${server}${query}`);
  }
  const initialize = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: CLIENT };
  const opened = await send(`/mcp${query}`, {
    body: { jsonrpc: '2.0', id: 1, method: 'initialize', params: initialize },
  });
  const session = {
    ...HEADERS,
    'mcp-session-id': String(opened.headers['mcp-session-id']),
    'mcp-protocol-version': '2025-06-18',
  };
  await send('/mcp', { headers: session, body: { jsonrpc: '2.0', method: 'notifications/initialized' } });
  for (const server of SERVERS) {
    const body = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: `${server}__keep`, ...call } };
    expect((await send('/mcp', { headers: session, body })).text, server).toContain('kept');
  }
  const stream = await SseClient.connect(`${gateway.url}/sse${query}`, HEADERS);
  await stream.initialize('2024-11-05');
  for (const [index, server] of SERVERS.entries()) {
    const answer = await stream.request('tools/call', { name: `${server}__keep`, ...call }, index + 10);
    expect(JSON.stringify(answer), server).toContain('kept');
  }
  stream.close();
}

/** Every agent, through every binding. */
async function a2aRequests(): Promise<void> {
  const a2a = { ...HEADERS, 'a2a-version': '1.0' };
  const cards = await send('/a2a/jsonrpc/.well-known/agent-card.json', { headers: a2a, method: 'GET' });
  const interfaces = (JSON.parse(cards.text) as { supportedInterfaces: { url: string; protocolBinding: string }[] })
    .supportedInterfaces;
  const grpc = new GrpcClient(
    interfaces.find(({ protocolBinding }) => protocolBinding === 'GRPC')!.url,
    credentials.createInsecure(),
  );
  for (const agent of AGENTS) {
    const rpc = await send(`/a2a/${agent}?token=${C.query}`, {
      headers: a2a,
      body: { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: message() },
    });
    expect(rpc.text, agent).toContain('"task"');
    const rest = await send(`/a2a/${agent}/message:send?token=${C.query}`, { headers: a2a, body: message() });
    expect(rest.text, agent).toContain('"task"');
    expect((await overGrpc(grpc, agent)).length, agent).toBeGreaterThan(10);
  }
  grpc.close();
}

function overGrpc(client: GrpcClient, agent: string): Promise<Buffer> {
  const method = SERVICE_1_0.methods.find(({ operation }) => operation === 'SendMessage')!;
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(HEADERS)) metadata.set(name, value);
  metadata.set('x-parley-agent', agent);
  metadata.set('a2a-version', '1.0');
  const asIs = (bytes: Buffer): Buffer => bytes;
  const body = SERVICE_1_0.codec.encode(method.request, message());
  return new Promise((resolve, reject) =>
    client.makeUnaryRequest(method.path, asIs, asIs, body, metadata, (error, answer) =>
      error ? reject(error) : resolve(answer!),
    ),
  );
}

/** Requests that fail, and requests of other callers after them. */
async function refusedRequests(): Promise<void> {
  const listed = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  for (const authorization of [`Bearer ${C.wrongToken}`, `Basic ${C.basic}`, C.basic])
    expect((await send(`/mcp?token=${C.query}`, { headers: { authorization }, body: listed })).status).toBe(401);
  // A token in the query next to another one is refused (S14).
  expect((await send(`/mcp?access_token=${C.query}`, { body: listed })).status).toBe(400);
  const { port } = new URL(gateway.url);
  await send(`http://user:${C.userinfo}@127.0.0.1:${port}/mcp`, { body: listed });
  await send(`/${C.query}`, { body: listed });
  await send('/mcp', {
    body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":${C.argument}`,
  });
  await modern('resources/read', { uri: `https://user:${C.uri}@example.com/?key=${C.uri}` });
  for (const server of [...SERVERS, 'none']) {
    const name = `${server}__absent`;
    others.push((await modern('tools/call', { name, arguments: {} }, { authorization: `Bearer ${OTHER}` })).text);
  }
  others.push((await send('/mcp', { headers: { authorization: `Bearer ${OTHER}` }, body: '{' })).text);
  others.push((await send('/mcp', { headers: { authorization: 'Bearer nobody' }, body: '{' })).text);
  for (const path of ['/health', '/', '/a2a/agents', '/a2a/jsonrpc/tasks', '/servers/stdio/logs'])
    for (const token of [OTHER, ADMIN, undefined])
      others.push(
        (await send(path, { headers: token === undefined ? {} : { authorization: `Bearer ${token}` }, method: 'GET' }))
          .text,
      );
}

async function audit(): Promise<{ kind: string; [key: string]: unknown }[]> {
  const args = [BIN, 'audit', 'export', '--config', gateway.file];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 64 * 1024 * 1024 });
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

/** The places whose canaries are in a text, in any of the forms in which a text may contain them. */
function found(text: string, places: readonly Place[] = ALL): Place[] {
  return places.filter((place) => {
    const secret = C[place];
    const forms = [
      secret,
      encodeURIComponent(secret),
      Buffer.from(secret).toString('hex'),
      Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    ];
    return forms.some((form) => text.includes(form));
  });
}

describe('S12: a canary in every place of a request', () => {
  test.each(['modern', 'legacy', 'events'])('reaches the server "%s" only as an argument', (kind) => {
    const text = upstreams.heard.get(kind)!.join('\n');
    expect(found(text)).toContain('argument');
    expect(found(text).filter((place) => !OF_TOOLS.includes(place) && place !== 'unknownArgument')).toEqual([]);
  });

  test('reaches the stdio server only as an argument', async () => {
    const text = await readFile(join(folder, 'stdio'), 'utf8');
    expect(found(text)).toContain('argument');
    expect(found(text).filter((place) => !OF_TOOLS.includes(place) && place !== 'unknownArgument')).toEqual([]);
  });

  test.each(AGENTS)('reaches the agent "%s" only in the message', (kind) => {
    const text = upstreams.heard.get(kind)!.join('\n');
    expect(found(text)).toContain('message');
    expect(found(text).filter((place) => !OF_AGENTS.includes(place))).toEqual([]);
  });
});

describe('S24: a canary in every place of a request', () => {
  test('is not in spans, metrics and the live tail', async () => {
    await expect.poll(() => collector.spans.length).toBeGreaterThan(40);
    await expect.poll(() => tailed()).toContain('"method":"SendMessage"');
    const metrics = await send('/metrics', { headers: { authorization: `Bearer ${ADMIN}` }, method: 'GET' });
    expect(metrics.text).toMatch(/parley_calls_total\{protocol="a2a"/);
    await expect.poll(() => collector.metrics.has('parley_evaluation_score')).toBe(true);
    expect([found(collector.text()), found(metrics.text), found(tailed())]).toEqual([[], [], []]);
  });

  test('is not in a recording, and in a recording of contents only as contents that look like no secret', async () => {
    for (const text of [recorded, recordedContents]) await expect.poll(text).toContain('"method":"SendMessage"');
    expect(found(recorded())).toEqual([]);
    expect(recordedContents()).toContain('"password":"********"');
    const contents: readonly Place[] = ['argument', 'unknownArgument', 'message', 'messageMeta'];
    expect(found(recordedContents()).filter((place) => !contents.includes(place))).toEqual([]);
    expect(found(recordedContents())).toContain('message');
  });

  test('is not in the log, at the lowest level', () => {
    expect(gateway.log()).toContain('"event":"call"');
    // The helper keeps the end of a longer log only.
    expect(gateway.log().length).toBeLessThan(200_000);
    expect(found(gateway.log())).toEqual([]);
  });

  test('is not in answers to others, in errors and in health', () => {
    expect(others.join('\n')).toContain('error');
    expect(found(others.join('\n'))).toEqual([]);
  });

  test('is not in the audit trail, which has the calls and the refusals', async () => {
    // Records are written in groups.
    await expect
      .poll(async () => (await audit()).filter(({ caller }) => caller === 'bob').length)
      .toBeGreaterThanOrEqual(5);
    const records = await audit();
    const of = (fields: object) =>
      records.filter((record) => Object.entries(fields).every(([name, value]) => record[name] === value));
    for (const server of SERVERS)
      expect(
        of({ kind: 'call', caller: 'ada', server, name: 'keep', outcome: 'ok' }).length,
        server,
      ).toBeGreaterThanOrEqual(3);
    for (const server of AGENTS)
      expect(of({ kind: 'call', caller: 'ada', server, method: 'SendMessage' }).length, server).toBeGreaterThanOrEqual(
        3,
      );
    expect(of({ kind: 'authentication', outcome: 'refused', reason: 'unauthorized' }).length).toBeGreaterThanOrEqual(3);
    expect(of({ kind: 'call', caller: 'bob', decision: 'denied' }).length).toBeGreaterThanOrEqual(1);
    expect(records.every(({ address, kind }) => kind === 'change' || address === '127.0.0.1')).toBe(true);
    expect(found(JSON.stringify(records))).toEqual([]);
  });

  test('S18: is not readable in the files of the database', async () => {
    const names = await readdir(join(folder, 'data'));
    const files = await Promise.all(
      names.map((name) => readFile(join(folder, 'data', name)).catch(() => Buffer.alloc(0))),
    );
    const text = files.map((bytes) => bytes.toString('latin1')).join('\n');
    expect(text).toContain('TASK_STATE_INPUT_REQUIRED');
    // The messages of a task are its content, which the gateway keeps for its owner. A session keeps its client's name.
    expect(found(text).filter((place) => !OF_AGENTS.includes(place) && place !== 'clientInfo')).toEqual([]);
  });
});

test('S12, S24: over `parley stdio` a canary reaches the servers only as an argument, and no log', async () => {
  const config = JSON.parse(await readFile(gateway.file, 'utf8')) as Record<string, unknown>;
  const record = join(folder, 'pipe-stdio');
  const program = fileURLToPath(new URL('./recording-program.mjs', import.meta.url));
  const file = join(folder, 'pipe.json');
  const servers = {
    modern: { url: `${upstreams.url}/modern` },
    stdio: { command: process.execPath, args: [program], env: { RECORD: record } },
  };
  await writeFile(file, JSON.stringify({ log: config['log'], data: join(folder, 'pipe-data'), servers }));
  // The environment of the client's process may contain secrets too.
  const env = { ...process.env, API_TOKEN: C.custom, AUTHORIZATION: `Bearer ${C.token}` };
  const child = spawn(process.execPath, [BIN, 'stdio', '--config', file], { env });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (id: number, method: string, params: object): Promise<string> => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    for (;;) {
      const { value, done } = await lines.next();
      if (done) throw new Error(`parley stdio ended: ${log}`);
      if ((JSON.parse(value) as { id?: number }).id === id) return value;
    }
  };
  const before = upstreams.heard.get('modern')!.length;
  try {
    const initialize = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: CLIENT };
    await ask(1, 'initialize', { ...initialize, _meta: { token: C.session } });
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`);
    for (const [index, server] of ['modern', 'stdio'].entries())
      await expect
        .poll(() => ask(index + 10, 'tools/call', { name: `${server}__keep`, ...call }), { timeout: 20_000 })
        .toContain('kept');
    const refused = await ask(20, 'tools/call', { name: 'stdio__absent', arguments: { text: C.unknownArgument } });
    expect(refused).toContain('error');
    await ask(21, 'resources/read', { uri: `https://user:${C.uri}@example.com/?key=${C.uri}` });
    child.stdin.write(`{"jsonrpc":"2.0","id":22,"method":"tools/call","params":${C.message}\n`);
  } finally {
    const exit = once(child, 'exit');
    child.stdin.end();
    await exit;
  }
  const heard = [await readFile(record, 'utf8'), upstreams.heard.get('modern')!.slice(before).join('\n')];
  for (const text of heard) {
    expect(found(text)).toContain('argument');
    expect(found(text).filter((place) => !OF_TOOLS.includes(place))).toEqual([]);
  }
  expect(log).toContain('"event":"call"');
  expect(found(log)).toEqual([]);
}, 60_000);
