/** Every error of a server with a URL names the server, the URL, the cause and what to do. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { selfSigned } from '../support/certificate.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const MCP = 'check its URL, which often ends in /mcp or /sse';

interface Failing {
  /** Starts a server that fails in this way. */
  start(): Promise<{ url: string; close(): void }>;
  /** The message after `Server "name" at URL `. */
  readonly message: string | ((url: string) => string);
}

async function listening(server: Server, scheme = 'http'): Promise<{ url: string; close(): void }> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `${scheme}://127.0.0.1:${port}/mcp`,
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

const http = (answer: (req: IncomingMessage, res: ServerResponse) => void) => () =>
  listening(
    createServer((req, res) => {
      req.resume();
      answer(req, res);
    }),
  );

const text = (status: number, body: string, headers: Record<string, string> = {}) =>
  http((_, res) => res.writeHead(status, { 'content-type': 'text/plain', ...headers }).end(body));

const FAILURES: Readonly<Record<string, Failing>> = {
  'not-found': { start: text(404, 'nothing here'), message: `has no MCP endpoint there (HTTP 404); ${MCP}` },
  page: {
    start: text(200, '<html>Welcome</html>', { 'content-type': 'text/html; charset=utf-8' }),
    message: `answered with a web page instead of MCP; ${MCP}`,
  },
  moved: {
    start: text(301, '', { location: 'https://user:secret@mcp.example.com/new?token=secret' }),
    message:
      'answered with a redirect to https://mcp.example.com/new (HTTP 301), which is not followed; correct its URL',
  },
  'host-check': {
    start: text(403, 'Invalid Host header'),
    message:
      'refused the host name of the request (HTTP 403: Invalid Host header); allow the host of its URL at the server',
  },
  forbidden: {
    start: text(403, 'no access'),
    message:
      'refused the request (HTTP 403: no access); the credentials in "headers" may be missing or lack a permission',
  },
  unauthorized: {
    start: text(401, 'who are you?'),
    message: `did not accept the gateway's credentials (HTTP 401: who are you?); check "headers" of the server in the configuration`,
  },
  failing: { start: text(500, 'disk full\nat line 3'), message: 'answered HTTP 500: disk full' },
  frozen: {
    start: () => listening(createTcpServer()),
    message: 'did not answer within 1 s; it may be busy or stuck',
  },
  'plain-behind-https': {
    start: async () => {
      const plain = await text(200, 'hello')();
      return { ...plain, url: plain.url.replace('http:', 'https:') };
    },
    message: 'cannot be reached: it does not speak TLS; a server on plain HTTP needs an http:// URL',
  },
  'tls-behind-http': {
    start: async () => {
      const { cert, key } = selfSigned('127.0.0.1');
      return listening(createHttpsServer({ cert, key }, (_, res) => res.end()));
    },
    message: 'failed before it answered: the connection was reset',
  },
  'unknown-authority': {
    start: async () => {
      const { cert, key } = selfSigned('127.0.0.1');
      return listening(
        createHttpsServer({ cert, key }, (_, res) => res.end()),
        'https',
      );
    },
    message: 'cannot be reached: its TLS certificate is self-signed; name that certificate in "tls.ca" to trust it',
  },
  gone: {
    // A port that the system never assigns at random.
    start: async () => ({ url: 'http://127.0.0.1:1/mcp', close: () => {} }),
    message: 'cannot be reached: connection refused; check that it runs, and the host and port of its URL',
  },
  nowhere: {
    start: async () => ({ url: 'http://no-such-host.invalid/mcp', close: () => {} }),
    message: 'cannot be reached: its host name does not resolve; check the host of its URL',
  },
};

let gateway: RunningGateway;
const running = new Map<string, { url: string; close(): void }>();

beforeAll(async () => {
  for (const [name, { start }] of Object.entries(FAILURES)) running.set(name, await start());
  const servers = Object.fromEntries(
    [...running].map(([name, { url }]) => [name, { url, timeouts: { call: '1s', connect: '5s' } }]),
  );
  gateway = await startGateway({ servers });
});
afterAll(async () => {
  await gateway?.close();
  for (const { close } of running.values()) close();
});

const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

interface Reply {
  readonly status: number;
  readonly body: {
    id?: unknown;
    error?: { message: string; data?: { reason?: string } };
    result?: { _meta?: Record<string, unknown>; content?: { text?: string }[] };
  };
}

async function post(path: string, message: object, headers: Record<string, string> = {}): Promise<Reply> {
  const reply = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify(message),
  });
  return { status: reply.status, body: (await reply.json()) as Reply['body'] };
}

describe.each(Object.keys(FAILURES))('%s', (name) => {
  const { message } = FAILURES[name]!;
  const expected = (): string => {
    const { url } = running.get(name)!;
    return `Server "${name}" at ${url} ${typeof message === 'string' ? message : message(url)}`;
  };

  test('the answer to initialize at its endpoint names the cause', async () => {
    const { status, body } = await post(`/mcp/${name}`, {
      ...{ jsonrpc: '2.0', id: 'mine', method: 'initialize' },
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
    });
    expect(body.error?.message).toBe(expected());
    expect(body.id).toBe('mine');
    expect(status).not.toBe(500);
  });

  test('a call of one of its tools names the cause', async () => {
    const { body } = await post(
      '/mcp',
      {
        ...{ jsonrpc: '2.0', id: 7, method: 'tools/call' },
        params: { name: `${name}__any`, arguments: {}, _meta: meta },
      },
      { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': `${name}__any` },
    );
    expect(body.error?.message ?? body.result?.content?.[0]?.text).toBe(expected());
  });

  test('/health reports the server as down', async () => {
    const { servers } = (await (await fetch(`${gateway.url}/health`)).json()) as { servers: Record<string, string> };
    expect(servers[name]).toBe('down');
  });

  test('a list of all servers names the missing server', async () => {
    const { body } = await post(
      '/mcp',
      { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } },
      { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' },
    );
    const missing = JSON.stringify(body.result?._meta ?? {});
    expect(missing).toContain(JSON.stringify(expected()).slice(1, -1));
  });
});

test('no message contains a secret', async () => {
  expect(gateway.log()).not.toContain('secret');
});
