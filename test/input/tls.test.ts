/** The gateway with TLS: HTTP/1.1 and HTTP/2 clients, replaced certificates, client certificates. */
import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';
import { promisify } from 'node:util';
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Agent, buildConnector, fetch as undiciFetch } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Authority, type Certificate, selfSigned } from '../support/certificate.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { type EchoServer, startEcho } from './support/echo.js';
import { modernBody, modernHeaders } from './support/speak.js';
import { eventually, sleep } from './support/wire.js';
import { escaped } from './support/world.js';

const folder = mkdtempSync(join(tmpdir(), 'parley-tls-'));
const CERT = join(folder, 'cert.pem');
const KEY = join(folder, 'key.pem');
const CA = join(folder, 'ca.pem');
const put = ({ cert, key }: Certificate): void => {
  writeFileSync(CERT, cert);
  writeFileSync(KEY, key);
};

const first = selfSigned('localhost', '127.0.0.1');
const second = selfSigned('localhost', '127.0.0.1');
const authority = new Authority();
const ada = authority.sign('ada');
const eve = new Authority().sign('eve');
const trusted = [first.cert, second.cert];

let echo: EchoServer;
let gateway: RunningGateway;
beforeAll(async () => {
  put(first);
  writeFileSync(CA, authority.cert);
  echo = await startEcho();
  gateway = await startGateway(
    {
      tls: { cert: CERT, key: KEY },
      servers: { echo: { url: echo.url, revision: 'modern' } },
      agents: { tools: { tools: ['echo__*'] } },
    },
    { settled: false },
  );
  expect(gateway.url).toMatch(/^https:/);
  const { fetch, close } = fetching(false);
  await eventually(
    async () => (await fetch(`${gateway.url}/mcp`, { headers: { accept: 'application/json' } })).text(),
    (page) => page.includes('echo__steps'),
  );
  await close();
});
afterAll(async () => {
  expect(escaped(gateway.log())).toEqual([]);
  expect(await gateway.close()).toBe(0);
  await echo.close();
  rmSync(folder, { recursive: true });
});

/** A `fetch` for one of the protocols that records the negotiated protocol of its connections. */
function fetching(allowH2: boolean): { fetch: typeof fetch; protocols: Set<string>; close(): Promise<void> } {
  const protocols = new Set<string>();
  const connect = buildConnector({ allowH2, ca: trusted });
  const agent = new Agent({
    allowH2,
    connect: (options, done) =>
      connect(options, (...result) => {
        const [, socket] = result;
        if (socket instanceof tls.TLSSocket) protocols.add(String(socket.alpnProtocol));
        done(...result);
      }),
  });
  const over = (input: unknown, init?: object): Promise<unknown> =>
    undiciFetch(input as string, { ...init, dispatcher: agent });
  return { fetch: over as typeof fetch, protocols, close: () => agent.destroy() };
}

const info = { name: 'tls-test', version: '1.0.0' };
const textOf = (result: unknown): string => (result as { content: { text: string }[] }).content[0]!.text;
const STEPS = { name: 'echo__steps', arguments: { text: 'steps', count: 3, size: 10, pause: 20 } };

describe.each([
  ['HTTP/1.1', false, 'http/1.1'],
  ['HTTP/2', true, 'h2'],
] as const)('%s', (_, allowH2, protocol) => {
  it('serves a modern SDK client: calls, and progress on a stream', async () => {
    const { fetch, protocols, close } = fetching(allowH2);
    const client = new ModernClient(info);
    await client.connect(new ModernTransport(new URL(`${gateway.url}/mcp`), { fetch }));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('echo__echo');
    const calls = await Promise.all(
      Array.from({ length: 20 }, (__, i) => client.callTool({ name: 'echo__echo', arguments: { text: `text ${i}` } })),
    );
    expect(calls.map(textOf)).toEqual(calls.map((__, i) => `text ${i}`));
    const progress: number[] = [];
    const onprogress = ({ progress: done }: { progress: number }): void => void progress.push(done);
    expect(textOf(await client.callTool(STEPS, { onprogress }))).toBe('steps');
    expect(progress).toEqual([1, 2, 3]);
    await client.close();
    await close();
    expect([...protocols]).toEqual([protocol]);
  });

  it('serves a client with a session: calls beside an open stream', async () => {
    const { fetch, protocols, close } = fetching(allowH2);
    const client = new Client(info);
    let changes = 0;
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void changes++);
    const transport = new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), { fetch });
    await client.connect(transport as Parameters<Client['connect']>[0]);
    await client.listTools();
    const progress: number[] = [];
    const onprogress = ({ progress: done }: { progress: number }): void => void progress.push(done);
    expect(textOf(await client.callTool(STEPS, undefined, { onprogress }))).toBe('steps');
    expect(progress).toEqual([1, 2, 3]);
    // The client opens its stream in the background; once it is open, list changes arrive there.
    await eventually(
      () => {
        echo.announce();
        return changes;
      },
      (count) => count > 0,
    );
    expect(textOf(await client.callTool({ name: 'echo__echo', arguments: { text: 'after' } }))).toBe('after');
    await transport.terminateSession();
    await client.close();
    await close();
    expect([...protocols]).toEqual([protocol]);
  });

  it('serves a client of HTTP+SSE', async () => {
    const { fetch, close } = fetching(allowH2);
    const client = new Client(info);
    const transport = new SSEClientTransport(new URL(`${gateway.url}/sse`), { fetch, eventSourceInit: { fetch } });
    await client.connect(transport);
    expect(textOf(await client.callTool({ name: 'echo__echo', arguments: { text: 'sse' } }))).toBe('sse');
    await client.close();
    await close();
  });

  it('serves A2A: a card with https URLs, a message, and a stream of events', async () => {
    const { fetch, close } = fetching(allowH2);
    const card = await (await fetch(`${gateway.url}/a2a/tools/.well-known/agent-card.json`)).text();
    expect(card).toContain(`"${gateway.url}/a2a/tools"`);
    const send = (method: string): Promise<Response> =>
      fetch(`${gateway.url}/a2a/tools`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method,
          params: {
            message: {
              messageId: 'm1',
              role: 'ROLE_USER',
              parts: [{ data: { tool: 'echo', arguments: { text: 'by A2A' } } }],
            },
          },
        }),
      });
    expect(await (await send('SendMessage')).text()).toContain('by A2A');
    const stream = await send('SendStreamingMessage');
    expect(stream.headers.get('content-type')).toContain('text/event-stream');
    expect(await stream.text()).toContain('by A2A');
    await close();
  });

  it('refuses invalid requests with a reason', async () => {
    const { fetch, close } = fetching(allowH2);
    const post = (init: RequestInit): Promise<Response> => fetch(`${gateway.url}/mcp`, { method: 'POST', ...init });
    const gzipped = await post({
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: 'x',
    });
    expect([gzipped.status, await gzipped.json()]).toMatchObject([
      415,
      { error: { data: { reason: 'unsupported_media_type' } } },
    ]);
    const large = await post({ headers: { 'content-type': 'application/json' }, body: 'x'.repeat(5_000_000) });
    expect([large.status, await large.json()]).toMatchObject([413, { error: { data: { reason: 'body_too_large' } } }]);
    expect((await fetch(`${gateway.url}/health`, { method: 'PUT' })).status).toBe(405);
    await close();
  });

  const hasCurl = spawnSync('curl', ['--version']).error === undefined;
  const curlIt = hasCurl ? it : (): void => {};
  curlIt('serves curl: a call and a stream', async () => {
    const ca = join(folder, 'first.pem');
    writeFileSync(ca, trusted.join(''));
    const curl = async (params: typeof STEPS | object, meta: object): Promise<string> => {
      const headers = Object.entries(modernHeaders('tools/call', params)).flatMap(([name, value]) => [
        '-H',
        `${name}: ${value}`,
      ]);
      const body = JSON.stringify(modernBody('tools/call', params, { meta: { ...meta } }));
      const version = allowH2 ? '--http2' : '--http1.1';
      const all = ['-sS', version, '--cacert', ca, '-w', '\n%{http_version} %{http_code}', ...headers];
      const args = [...all, '-H', 'content-type: application/json', '-d', body, `${gateway.url}/mcp`];
      return (await promisify(execFile)('curl', args)).stdout;
    };
    const called = await curl({ name: 'echo__echo', arguments: { text: 'by curl' } }, {});
    expect(called).toContain('by curl');
    expect(called.endsWith(`\n${allowH2 ? '2' : '1.1'} 200`)).toBe(true);
    const streamed = await curl(STEPS, { progressToken: 'p' });
    expect(streamed.match(/^event: message|^data: /gm)!.length).toBeGreaterThanOrEqual(4);
    expect(streamed).toContain('"progress":3');
  });
});

/** The subject of the certificate that a new connection receives. */
async function subject(): Promise<string> {
  const socket = tls.connect({ port: Number(new URL(gateway.url).port), host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const shown = socket.getPeerX509Certificate()!.subject;
  socket.end();
  return shown;
}

it('replaces the certificate under load without a failed call; open streams continue', async () => {
  const before = await subject();
  const agents = [fetching(false), fetching(true)];
  let going = true;
  let served = 0;
  const failures: string[] = [];
  const call = async (over: typeof fetch, text: string): Promise<void> => {
    const params = { name: 'echo__echo', arguments: { text } };
    const reply = await over(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: { ...modernHeaders('tools/call', params), 'content-type': 'application/json' },
      body: JSON.stringify(modernBody('tools/call', params)),
    });
    const body = await reply.text();
    if (reply.status === 200 && body.includes(text)) served++;
    else failures.push(`${reply.status} ${body}`);
  };
  const clients = Array.from({ length: 6 }, async (_, i) => {
    for (let n = 0; going; n++) {
      // Some clients keep their connections; others open a connection for each call.
      const own = i < 2 ? fetching(i === 1) : undefined;
      await call((own ?? agents[i % 2]!).fetch, `call ${i} ${n}`).catch((error: Error) => failures.push(String(error)));
      await own?.close();
    }
  });
  const session = http2.connect(gateway.url, { ca: trusted });
  const params = { notifications: { toolsListChanged: true } };
  const headers = { ':method': 'POST', ':path': '/mcp', ...modernHeaders('subscriptions/listen', params) };
  const listening = session.request({ ...headers, 'content-type': 'application/json' });
  listening.end(JSON.stringify(modernBody('subscriptions/listen', params, { id: 'listen' })));
  let heard = '';
  listening.on('data', (chunk: Buffer) => (heard += chunk.toString()));
  const changed = (): number => heard.split('notifications/tools/list_changed').length - 1;
  await eventually(
    () => heard,
    (text) => text.includes('acknowledged'),
  );

  await eventually(
    () => served,
    (count) => count > 50,
  );
  put(second);
  gateway.process.kill('SIGHUP');
  await eventually(subject, (now) => now !== before, 30_000);
  const at = served;
  await eventually(
    () => served,
    (count) => count > at + 50,
    30_000,
  );
  // An invalid file changes nothing.
  writeFileSync(CERT, 'nonsense');
  gateway.process.kill('SIGHUP');
  await eventually(
    () => gateway.log(),
    (log) => log.includes('contains no certificate'),
    30_000,
  );
  expect(await subject()).not.toBe(before);
  put(second);
  await eventually(
    () => {
      echo.announce();
      return changed();
    },
    (count) => count > 0,
  );
  going = false;
  await Promise.all(clients);
  expect(failures).toEqual([]);
  session.destroy();
  for (const { close } of agents) await close();
});

it('refuses client certificates of another authority', async () => {
  const guarded = await startGateway({ tls: { cert: CERT, key: KEY, clientCa: CA } });
  const ask = async (own: object): Promise<number | string> => {
    const agent = new Agent({ connect: { ca: trusted, ...own } });
    try {
      const { status } = await undiciFetch(`${guarded.url}/health`, { dispatcher: agent });
      return status;
    } catch (error) {
      return (error as { cause: { code: string } }).cause.code;
    } finally {
      await agent.destroy();
    }
  };
  expect(await ask(ada)).toBe(200);
  for (const wrong of [eve, {}, selfSigned('ada')])
    expect(await ask(wrong)).toMatch(/^(ERR_SSL|UND_ERR_SOCKET|ECONNRESET)/);
  await sleep(50);
  expect(await ask(ada)).toBe(200);
  expect(await guarded.close()).toBe(0);
});

it('does not start with invalid files, and reports the reason', async () => {
  const start = (settings: object): Promise<unknown> => startGateway({ tls: settings });
  writeFileSync(join(folder, 'none.pem'), 'nonsense');
  await expect(start({ cert: join(folder, 'none.pem'), key: KEY })).rejects.toThrow(
    /tls.cert: .* contains no certificate/,
  );
  await expect(start({ cert: CERT, key: join(folder, 'missing.pem') })).rejects.toThrow(/missing.pem" cannot be read/);
  writeFileSync(join(folder, 'other.pem'), first.key);
  await expect(start({ cert: CERT, key: join(folder, 'other.pem') })).rejects.toThrow(
    /is not the key of the certificate/,
  );
});
