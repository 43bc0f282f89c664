/** Each request has one id, from its inbound adapter to the line in the log. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, beforeEach, expect, it, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { startStdio } from '../../src/app/stdio.js';
import { configFrom } from '../../src/config/load.js';
import { SERVICE_1_0 } from '../../src/protocol/a2a/proto/services.js';
import { SILENT } from '../../src/telemetry/log.js';
import { type EchoServer, startEcho } from './support/echo.js';

const MODERN = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};
const LIST_TASKS = SERVICE_1_0.methods.find(({ operation }) => operation === 'ListTasks')!;
const GENERATED = /^[0-9a-f]{12}-[0-9a-z]+$/;

type Line = { readonly method: string; readonly requestId?: string; readonly id?: unknown };

let data: string;
let echo: EchoServer;
let gateway: RunningGateway;
let lines: Line[] = [];
const calls = { enabled: () => true, write: (line: object) => void lines.push(line as Line) };

const configOf = (folder: string) =>
  configFrom(
    {
      listen: '127.0.0.1:0',
      grpc: { listen: '127.0.0.1:0' },
      data: join(data, folder),
      servers: { echo: { url: echo.url } },
      agents: { desk: { tools: ['echo__*'] } },
    },
    { env: {} },
  ).config;

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'parley-request-id-'));
  echo = await startEcho();
  gateway = await startServe(configOf('http'), { log: SILENT, calls });
});
afterAll(async () => {
  await gateway?.close();
  await echo?.close();
  await rm(data, { recursive: true, force: true });
});
beforeEach(() => {
  lines = [];
});

async function post(path: string, body: object, headers: Record<string, string>): Promise<Response> {
  const reply = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify(body),
  });
  await reply.clone().text();
  return reply;
}

const list = (params: object = {}) => ({ jsonrpc: '2.0', id: 7, method: 'tools/list', params });
const modern = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' };

async function session(): Promise<Record<string, string>> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const reply = await post('/mcp', { jsonrpc: '2.0', id: 1, method: 'initialize', params }, {});
  return { 'mcp-session-id': reply.headers.get('mcp-session-id')!, 'mcp-protocol-version': '2025-11-25' };
}

const overGrpc = async (id: Record<string, string>): Promise<Answer> => {
  const address = gateway.summary().endpoints.find(({ label }) => label === 'A2A gRPC')!.address;
  const client = new Client(address, credentials.createInsecure());
  const metadata = new Metadata();
  for (const [name, value] of Object.entries({ 'x-parley-agent': 'desk', 'a2a-version': '1.0', ...id }))
    metadata.set(name, value);
  const same = (bytes: Buffer): Buffer => bytes;
  try {
    return await new Promise<Answer>((resolve) => {
      // An empty message is a request without fields.
      const call = client.makeUnaryRequest(LIST_TASKS.path, same, same, Buffer.alloc(0), metadata, () => {});
      call.on('metadata', (head) => resolve({ headers: { get: (name) => String(head.get(name)[0]) } }));
    });
  } finally {
    client.close();
  }
};

/** The headers of an answer. */
interface Answer {
  readonly headers: { get(name: string): string | null };
}

const WAYS: Readonly<Record<string, (id: Record<string, string>) => Promise<Answer>>> = {
  'MCP without sessions': (id) => post('/mcp', list({ _meta: MODERN }), { ...modern, ...id }),
  'a session of MCP': async (id) => post('/mcp', list(), { ...(await session()), ...id }),
  'A2A over JSON-RPC': (id) =>
    post(
      '/a2a/desk',
      { jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 'none' } },
      { 'a2a-version': '1.0', ...id },
    ),
  'A2A over HTTP+JSON': (id) =>
    fetch(`${gateway.url}/a2a/desk/tasks/none`, { headers: { 'a2a-version': '1.0', ...id } }),
  'A2A over gRPC': overGrpc,
};

it.each(Object.entries(WAYS))(
  '%s: the line of a call and the answer have the id of the client, or one of the gateway',
  async (_, ask) => {
    const idOf = ({ headers }: Answer) => headers.get('x-request-id');
    expect(idOf(await ask({ 'x-request-id': 'given.1' }))).toBe('given.1');
    expect(lines.at(-1)).toMatchObject({ requestId: 'given.1' });
    const ids: unknown[] = [];
    for (const headers of [{}, {}, { 'x-request-id': 'no id' }] as Record<string, string>[]) {
      const answer = await ask(headers);
      ids.push(lines.at(-1)?.requestId);
      expect(idOf(answer)).toBe(ids.at(-1));
    }
    for (const id of ids) expect(id).toMatch(GENERATED);
    expect(new Set(ids).size).toBe(3);
    expect(lines.every(({ requestId }) => requestId !== undefined)).toBe(true);
  },
);

test.each([
  ['/nothing', 404],
  ['/health', 200],
  ['/mcp', 200],
])('the answer of %s has the id once', async (path, status) => {
  const reply = await fetch(`${gateway.url}${path}`, { headers: { 'x-request-id': 'given.2' } });
  await reply.text();
  expect([reply.status, reply.headers.get('x-request-id')]).toEqual([status, 'given.2']);
});

test('each request over stdio has an id', async () => {
  const input = new PassThrough();
  const output = new PassThrough();
  const served = startStdio(configOf('stdio'), { log: SILENT, calls, input, output });
  for (const id of [1, 2]) input.write(`${JSON.stringify({ ...list({ _meta: MODERN }), id })}\n`);
  let answers = '';
  for await (const chunk of output) {
    answers += String(chunk);
    if (answers.split('\n').length > 2) break;
  }
  input.end();
  await served;
  expect(lines.map(({ id }) => id).sort()).toEqual([1, 2]);
  for (const { requestId } of lines) expect(requestId).toMatch(GENERATED);
  expect(new Set(lines.map(({ requestId }) => requestId)).size).toBe(2);
});
