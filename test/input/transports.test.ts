/** One test body for every transport of MCP: stdio, Streamable HTTP, HTTP+SSE and WebSocket. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { startStdio } from '../../src/app/stdio.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';
import type { Message } from '../era-bridge/support/wire.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { eventually } from '../support/eventually.js';
import { EventStream } from './support/wire.js';

const REVISION = '2025-11-25';

/** A connection as the test body sees it. Every message of the gateway is in `messages`, from any stream. */
interface Connection {
  readonly messages: Message[];
  /** Sends text, which need not be a message. */
  send(text: string): void;
  close(): void;
}

let folder: string;
let server: HttpFixture;
let gateway: RunningGateway;
const input = new PassThrough();
const output = new PassThrough();
let stdioEnded: Promise<void>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-transports-'));
  server = await new HttpFixture({}).start();
  const servers = { one: { url: server.url, revision: REVISION } };
  const config = (data: string) => configFrom({ listen: '127.0.0.1:0', data: join(folder, data), servers }).config;
  gateway = await startServe(config('http'), { log: SILENT });
  stdioEnded = startStdio(config('stdio'), { log: SILENT, input, output });
  await gateway.settled(10_000);
});
afterAll(async () => {
  input.end();
  await stdioEnded;
  await gateway?.close();
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

const readLines = (text: string): Message[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Message);

async function stdio(): Promise<Connection> {
  let text = '';
  output.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  return {
    get messages() {
      return readLines(text.slice(0, text.lastIndexOf('\n') + 1));
    },
    send: (line) => void input.write(`${line}\n`),
    close: () => {},
  };
}

async function webSocket(): Promise<Connection> {
  const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/ws`, 'mcp');
  const messages: Message[] = [];
  socket.on('message', (data) => messages.push(JSON.parse(String(data)) as Message));
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  expect(socket.protocol).toBe('mcp');
  return { messages, send: (text) => socket.send(text), close: () => socket.close() };
}

async function sse(): Promise<Connection> {
  const stream = await EventStream.open(`${gateway.url}/sse`, { headers: { accept: 'text/event-stream' } });
  const address = await stream.until(({ events }) => events.find(({ event }) => event === 'endpoint')?.data);
  const refused: Message[] = [];
  return {
    get messages() {
      return [...refused, ...(stream.messages as unknown as Message[])];
    },
    send: (body) =>
      void fetch(`${gateway.url}${address}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
        .then(async (reply) =>
          reply.ok ? void (await reply.text()) : void refused.push((await reply.json()) as Message),
        )
        .catch(() => {}),
    close: () => stream.close(),
  };
}

/** Each POST has its own response; the events of all responses are collected. */
async function http(): Promise<Connection> {
  const messages: Message[] = [];
  let session: string | undefined;
  const aborting = new AbortController();
  const post = async (body: string): Promise<void> => {
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(session !== undefined && { 'mcp-session-id': session, 'mcp-protocol-version': REVISION }),
    };
    const reply = await fetch(`${gateway.url}/mcp`, { method: 'POST', headers, body, signal: aborting.signal });
    session ??= reply.headers.get('mcp-session-id') ?? undefined;
    if (!reply.headers.get('content-type')?.startsWith('text/event-stream')) {
      const text = await reply.text();
      if (text !== '') messages.push(JSON.parse(text) as Message);
      return;
    }
    let text = '';
    for await (const chunk of reply.body!.pipeThrough(new TextDecoderStream())) {
      const events = (text + chunk).split('\n\n');
      text = events.pop()!;
      for (const event of events) {
        const data = event.split('\n').find((line) => line.startsWith('data: {'));
        if (data) messages.push(JSON.parse(data.slice(6)) as Message);
      }
    }
  };
  return { messages, send: (body) => void post(body).catch(() => {}), close: () => aborting.abort() };
}

describe.each([
  ['stdio', stdio],
  ['HTTP', http],
  ['HTTP+SSE', sse],
  ['WebSocket', webSocket],
])('S3-15 S0-29 S4-19: MCP over %s', (name, open) => {
  const key = `over ${name}`;
  let client: Connection;
  let next = 0;
  const message = (wanted: (message: Message) => boolean): Promise<Message> =>
    eventually(() => client.messages.find(wanted), Boolean) as Promise<Message>;
  const say = (body: object): void => client.send(JSON.stringify({ jsonrpc: '2.0', ...body }));
  const begin = (method: string, params: object): number => {
    say({ id: ++next, method, params });
    return next;
  };
  const request = async (method: string, params: object = {}): Promise<Message> => {
    const id = begin(method, params);
    return message((each) => each.id === id && each.method === undefined);
  };

  beforeAll(async () => {
    client = await open();
  });
  afterAll(() => client.close());

  it('initializes a session and lists the tools', async () => {
    const capabilities = { elicitation: {} };
    const { result } = await request('initialize', {
      protocolVersion: REVISION,
      capabilities,
      clientInfo: { name, version: '1' },
    });
    expect(result).toMatchObject({ protocolVersion: REVISION, serverInfo: { name: 'parley' } });
    say({ method: 'notifications/initialized' });
    const { tools } = (await request('tools/list')).result;
    expect((tools as { name: string }[]).map((tool) => tool.name)).toContain('one__echo');
  });

  it('calls a tool', async () => {
    const { result } = await request('tools/call', { name: 'one__echo', arguments: { text: key } });
    expect(result.content[0].text).toBe(key);
  });

  it('survives garbage', async () => {
    for (const garbage of ['{"jsonrpc": nonsense', '"text"', '{"jsonrpc":"1.0"}']) client.send(garbage);
    expect((await message(({ error }) => error?.code === -32700)).error).toBeDefined();
    expect((await request('ping')).result).toEqual({});
  });

  it('passes the question of a server on, and the answer back', async () => {
    const id = begin('tools/call', { name: 'one__ask', arguments: { key } });
    const question = await message(({ method }) => method === 'elicitation/create');
    expect(question.params.message).toBe(`${key} question 1`);
    say({ id: question.id, result: { action: 'accept', content: { answer: 'forty-two' } } });
    const { result } = await message((each) => each.id === id && each.method === undefined);
    expect(result.content[0].text).toBe(`${key}: forty-two`);
  });

  it('cancels a call at its server', async () => {
    const cancelled = `${key}, cancelled`;
    const seen = (kind: string) => server.entries.some((entry) => entry.kind === kind && entry.key === cancelled);
    const requestId = begin('tools/call', { name: 'one__slow', arguments: { key: cancelled, milliseconds: 3_000 } });
    await eventually(() => seen('run'), Boolean);
    say({ method: 'notifications/cancelled', params: { requestId, reason: 'changed my mind' } });
    await eventually(() => seen('cancelled'), Boolean);
    expect((await request('ping')).result).toEqual({});
    expect(client.messages.find(({ id, method, result }) => id === requestId && !method && result)).toBeUndefined();
  });
});
