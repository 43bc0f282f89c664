/** WebSocket endpoints of a running gateway: the handshake, callers, limits, pings and the stop. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type ClientOptions, WebSocket } from 'ws';
import { createApiKey, revokeApiKeys } from '../../src/app/commands/api-keys.js';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import type { Config } from '../../src/config/schema.js';
import { SILENT } from '../../src/telemetry/log.js';
import type { Message } from '../era-bridge/support/wire.js';
import { type Issuer, startIssuer } from '../identity/support.js';
import { eventually } from '../support/eventually.js';
import { type EchoServer, startEcho } from './support/echo.js';
import { modernBody } from './support/speak.js';
import { ask } from './support/wire.js';

const TOKEN = 'user-0123456789-Kj8sLq2vXz7mNw4pRt6y';
const OTHER = 'other-0123456789-Kj8sLq2vXz7mNw4pRt6y';
const LIMIT = 3;

let folder: string;
let echo: EchoServer;
let issuer: Issuer;
let config: Config;
let gateway: RunningGateway;

const settings = (data: string): object => ({
  listen: '127.0.0.1:0',
  data: join(folder, data),
  servers: { echo: { url: echo.url }, hidden: { url: echo.url } },
  auth: {
    tokens: [
      { name: 'ada', token: TOKEN },
      { name: 'bob', token: OTHER },
    ],
    keys: true,
    jwt: [{ issuer: issuer.url, audience: ['ws'] }],
    failures: { perAddress: 1_000_000 },
  },
  limits: { webSockets: 5, webSocketsPerCaller: LIMIT, body: '64KiB' },
  timeouts: { webSocketPing: '300ms' },
});

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-websocket-'));
  [echo, issuer] = [await startEcho(), await startIssuer()];
  ({ config } = configFrom(settings('data')));
  gateway = await startServe(config, { log: SILENT });
  await gateway.settled(10_000);
});
afterAll(async () => {
  await gateway?.close();
  await Promise.all([echo?.close(), issuer?.close()]);
  await rm(folder, { recursive: true, force: true });
});

const sockets: WebSocket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.terminate();
});

class Client {
  readonly messages: Message[] = [];
  readonly closed: Promise<{ code: number; reason: string }>;

  constructor(readonly socket: WebSocket) {
    socket.on('message', (data) => this.messages.push(JSON.parse(String(data)) as Message));
    this.closed = new Promise((resolve) =>
      socket.once('close', (code, reason) => resolve({ code, reason: String(reason) })),
    );
  }

  send(body: object): void {
    this.socket.send(JSON.stringify(body));
  }

  reply(id: number): Promise<Message> {
    return eventually(() => this.messages.find((message) => message.id === id), Boolean) as Promise<Message>;
  }

  async modern(id: number, method: string, params: object = {}): Promise<Message> {
    this.send({ ...modernBody(method, params), id });
    return this.reply(id);
  }
}

interface Refusal {
  readonly status: number;
  readonly body: string;
  readonly headers: Record<string, unknown>;
}

interface Attempt extends ClientOptions {
  readonly path?: string;
  readonly at?: string;
  readonly protocols?: string[];
  readonly token?: string;
}

/** Opens a WebSocket, or returns the response that refuses it. */
function attempt({ path = '/ws', at = gateway.url, protocols = ['mcp'], token = TOKEN, ...more }: Attempt = {}) {
  const headers = { ...(token !== '' && { authorization: `Bearer ${token}` }), ...more.headers };
  const socket = new WebSocket(`${at.replace('http', 'ws')}${path}`, protocols, { ...more, headers });
  sockets.push(socket);
  return new Promise<Client | Refusal>((resolve, reject) => {
    const client = new Client(socket);
    socket.once('open', () => resolve(client));
    socket.once('error', reject);
    socket.once('unexpected-response', (_, res) => {
      let body = '';
      res.on('data', (chunk: Buffer) => {
        body += chunk.toString();
      });
      res.on('end', () => resolve({ status: res.statusCode!, body, headers: res.headers }));
    });
  });
}

/** Tries again while the gateway still counts a connection that its client has closed. */
const open = async (options?: Attempt): Promise<Client> => {
  const client = await eventually(
    () => attempt(options),
    (given) => given instanceof Client || ![429, 503].includes(given.status),
  );
  if (!(client instanceof Client)) throw new Error(`refused: ${client.status} ${client.body}`);
  return client;
};
const refused = async (options?: Attempt): Promise<Refusal> => {
  const refusal = await attempt(options);
  if (refusal instanceof Client) throw new Error('not refused');
  return refusal;
};

const keyOf = async (name: string, servers: string[] = []): Promise<string> => {
  const scope = { roles: [], servers, tools: [], tenant: undefined, expires: '1h' };
  return (await createApiKey(config, { name, ...scope })).key;
};

describe('S3-15: the handshake of a WebSocket', () => {
  it('needs the same credential as HTTP', async () => {
    const without = await refused({ token: '' });
    expect(without.status).toBe(401);
    expect(without.headers['www-authenticate']).toMatch(/^Bearer /);
    expect((await refused({ token: 'nonsense-0123456789' })).status).toBe(401);
  });

  it('is refused for a foreign Host or Origin', async () => {
    expect((await refused({ headers: { host: 'evil.example' } })).status).toBe(403);
    const { status, body } = await refused({ origin: 'https://evil.example' });
    expect([status, body]).toEqual([403, expect.stringContaining('Origin')]);
    const own = await open({ origin: 'http://localhost:3000' });
    expect(own.socket.readyState).toBe(WebSocket.OPEN);
  });

  it('selects the subprotocol "mcp", and needs none', async () => {
    expect((await open({ protocols: ['other', 'mcp'] })).socket.protocol).toBe('mcp');
    expect((await open({ protocols: [] })).socket.protocol).toBe('');
    const { status, body } = await refused({ protocols: ['other'] });
    expect([status, body]).toEqual([400, expect.stringContaining('must offer \\"mcp\\"')]);
  });

  it('answers other requests with 426, and other paths with 400', async () => {
    const plain = await ask(`${gateway.url}/ws`, { method: 'GET', headers: { authorization: `Bearer ${TOKEN}` } });
    expect([plain.status, plain.headers['upgrade']]).toEqual([426, 'websocket']);
    expect((await refused({ path: '/mcp' })).status).toBe(400);
    expect((await refused({ path: '/nothing' })).status).toBe(400);
  });

  it('serves one server at its own path, and reveals no servers that the caller may not use', async () => {
    const token = await keyOf('narrow', ['echo']);
    const { result } = await (await open({ path: '/ws/echo', token })).modern(1, 'tools/list');
    expect((result.tools as { name: string }[]).map(({ name }) => name)).toContain('echo');
    const hidden = await refused({ path: '/ws/hidden', token });
    const missing = await refused({ path: '/ws/nobody', token });
    expect(hidden.status).toBe(404);
    expect(hidden.body.replace('hidden', 'nobody')).toBe(missing.body);
  });
});

describe('S3-15: a WebSocket', () => {
  it('carries modern requests, concurrently, beside a session', async () => {
    const client = await open();
    const call = (text: string) =>
      client.modern(Number(text), 'tools/call', { name: 'echo__echo', arguments: { text } });
    const texts = await Promise.all(['1', '2', '3'].map(call));
    expect(texts.map(({ result }) => result.content[0].text)).toEqual(['1', '2', '3']);
    client.send({
      jsonrpc: '2.0',
      id: 10,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
    });
    expect((await client.reply(10)).result.protocolVersion).toBe('2025-06-18');
    expect((await call('4')).result.content[0].text).toBe('4');
  });

  it('refuses binary frames and survives them; a message over the limit closes it', async () => {
    const client = await open();
    client.socket.send(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}'));
    await eventually(
      () => client.messages[0]?.error?.message,
      (text) => text?.includes('text frame') === true,
    );
    expect((await client.modern(2, 'server/discover')).result).toBeDefined();
    client.socket.send(`"${'x'.repeat(65 * 1024)}"`);
    expect((await client.closed).code).toBe(1009);
  });

  it('is limited in number for a caller and for all callers', async () => {
    for (let i = 0; i < LIMIT; i++) await open();
    const { status, body } = await refused();
    expect([status, body]).toEqual([429, expect.stringContaining('limits.webSocketsPerCaller')]);
    for (let i = 0; i < 2; i++) await open({ token: OTHER });
    expect((await refused({ token: OTHER })).status).toBe(503);
    sockets[0]!.close();
    await eventually(
      () => attempt(),
      (given) => given instanceof Client,
    );
  });

  it('ends if its client does not answer pings', async () => {
    const alive = await open();
    const dead = await open({ autoPong: false });
    expect((await dead.closed).code).toBe(1006);
    expect(alive.socket.readyState).toBe(WebSocket.OPEN);
  });

  it('ends with the key that opened it, and runs no further call', async () => {
    const client = await open({ token: await keyOf('listener') });
    expect((await client.modern(1, 'tools/list')).result.tools).toBeDefined();
    await revokeApiKeys(config, 'listener');
    expect(await client.closed).toMatchObject({ code: 1008, reason: expect.stringContaining('no longer valid') });
  });

  it('ends when its access token expires; a running call may finish, another is refused', async () => {
    // The gateway accepts a token for 60 s after its expiry, because clocks differ.
    const exp = Math.floor(Date.now() / 1_000) - 58;
    const token = await issuer.token({ sub: 'eve', aud: 'ws', exp });
    const client = await open({ token });
    const running = client.modern(1, 'tools/call', { name: 'echo__wait', arguments: { text: 'late', ms: 3_500 } });
    expect((await running).result.content[0].text).toBe('late');
    expect(Date.now()).toBeGreaterThan((exp + 60) * 1_000);
    expect((await client.closed).code).toBe(1008);
  });

  it('cancels the calls of a client that disconnects', async () => {
    const client = await open();
    client.send({
      ...modernBody('tools/call', { name: 'echo__wait', arguments: { text: 'left', ms: 20_000 } }),
      id: 1,
    });
    await eventually(() => echo.calls.some(({ args }) => args['text'] === 'left'), Boolean);
    client.socket.terminate();
    await eventually(
      () => echo.cancelled,
      (texts) => texts.includes('left'),
    );
  });

  it('refuses a second request with the id of a running one, and more than 100 subscriptions', async () => {
    const client = await open();
    const listen = (id: number): void =>
      client.send({ ...modernBody('subscriptions/listen', { notifications: {} }), id });
    for (let id = 1; id <= 101; id++) listen(id);
    expect((await client.reply(101)).error?.message).toContain('at most 100 subscriptions');
    listen(1);
    expect((await client.reply(1)).error?.message).toContain('id is running');
  });

  it('of a gateway that stops ends after its running calls', async () => {
    const stopping = await startServe(configFrom(settings('stopping')).config, { log: SILENT });
    await stopping.settled(10_000);
    const [idle, busy] = [await open({ at: stopping.url }), await open({ at: stopping.url })];
    const running = busy.modern(1, 'tools/call', { name: 'echo__wait', arguments: { text: 'last', ms: 1_500 } });
    await eventually(() => echo.calls.some(({ args }) => args['text'] === 'last'), Boolean);
    const closed = stopping.close();
    expect(await idle.closed).toEqual({ code: 1001, reason: 'The gateway is stopping' });
    expect((await running).result.content[0].text).toBe('last');
    expect((await busy.closed).code).toBe(1001);
    await closed;
  });
});
