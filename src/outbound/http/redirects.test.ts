import type { Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { ask, type RawServer, rawServer } from '../../../test/support/raw-http-servers.js';
import { sleep } from '../../core/timing.js';
import { Egress } from '../egress.js';
import { HttpClient, headerOf } from './index.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Moving extends RawServer {
  readonly asked: string[];
}

/** Answers a request for `from` with a redirect, and other requests with their first line and body. */
async function moving(
  from: string,
  to: (server: RawServer) => string,
  status = 307,
  rest: (socket: Socket) => void = () => {},
): Promise<Moving> {
  const asked: string[] = [];
  const server = await rawServer((socket, request) => {
    const [line] = request.split('\r\n') as [string];
    asked.push(line.replace(' HTTP/1.1', ''));
    if (line.split(' ')[1] === from) {
      socket.write(`HTTP/1.1 ${status} Moved\r\nlocation: ${to(server)}\r\ncontent-length: 2\r\n\r\nno`);
      rest(socket);
      return;
    }
    const body = `${line} ${request.split('\r\n\r\n')[1]}`;
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  });
  closing.push(() => server.close());
  return Object.assign(server, { asked });
}

function client(egress?: Egress): HttpClient {
  const http = new HttpClient({ connectTimeout: 2_000, egress });
  closing.push(() => http.close());
  return http;
}

const at = ({ port }: RawServer, path: string): string => `http://127.0.0.1:${port}${path}`;
const POST = { method: 'POST', body: Buffer.from('{}') } as const;

describe('a redirect', () => {
  it.each([
    [301, '/mcp', () => '/mcp/'],
    [302, '/mcp', () => '/mcp/'],
    [307, '/mcp', (server: RawServer) => at(server, '/mcp/')],
    [308, '/mcp/', () => '/mcp'],
    [308, '/mcp?a=b', () => '/mcp/?a=b'],
    [307, '/mcp', () => 'mcp/'],
  ])(
    '%i from %s that only adds or removes a slash is followed with the same method and body',
    async (status, from, to) => {
      const server = await moving(from, to, status);
      const ear = ask(client(), at(server, from), POST);
      await ear.over;
      const path = new URL(to(server), at(server, from));
      expect(ear.outcome).toEqual({ status: 200, body: `POST ${path.pathname}${path.search} HTTP/1.1 {}` });
      expect([ear.starts, ear.ends]).toEqual([1, 1]);
    },
  );

  it('is remembered, and the connection is used again', async () => {
    const server = await moving('/mcp', () => '/mcp/');
    const http = client();
    for (let i = 0; i < 3; i++) {
      const ear = ask(http, at(server, '/mcp'));
      await ear.over;
      expect(ear.status).toBe(200);
    }
    expect(server.asked).toEqual(['GET /mcp', 'GET /mcp/', 'GET /mcp/', 'GET /mcp/']);
  });

  it.each([
    ['another host', 307, () => 'http://elsewhere.example/mcp/'],
    ['another port', 307, () => 'http://127.0.0.1:1/mcp/'],
    ['another scheme', 307, ({ port }: RawServer) => `https://127.0.0.1:${port}/mcp/`],
    ['a user', 307, ({ port }: RawServer) => `http://ada@127.0.0.1:${port}/mcp/`],
    ['another path', 308, () => '/login/'],
    ['two slashes', 308, () => '/mcp//'],
    ['another query', 308, () => '/mcp/?a=b'],
    ['another method', 303, () => '/mcp/'],
    ['itself', 307, () => '/mcp'],
    ['nothing', 307, () => ''],
    ['nonsense', 307, () => 'http://['],
  ])('to %s is passed to the caller', async (_, status, to) => {
    const server = await moving('/mcp', to, status);
    const ear = ask(client(), at(server, '/mcp'), POST);
    await ear.over;
    expect(ear.outcome).toEqual({ status, body: 'no' });
    expect(headerOf(ear.headers, 'location')).toBe(to(server));
    expect(server.asked).toHaveLength(1);
  });

  it('is not followed twice', async () => {
    const asked: string[] = [];
    const server = await rawServer((socket, request) => {
      const [, path] = request.split(' ') as [string, string];
      asked.push(path);
      const to = path.endsWith('/') ? path.slice(0, -1) : `${path}/`;
      socket.write(`HTTP/1.1 307 Moved\r\nlocation: ${to}\r\ncontent-length: 0\r\n\r\n`);
    });
    closing.push(() => server.close());
    const http = client();
    for (let i = 0; i < 2; i++) {
      const ear = ask(http, at(server, '/mcp'), POST);
      await ear.over;
      expect(ear.outcome).toEqual({ status: 307, body: '' });
    }
    expect(asked.length).toBeLessThanOrEqual(4);
  });

  it('is never followed at an origin that a stranger named', async () => {
    const server = await moving('/mcp', () => '/mcp/');
    const ear = ask(client(new Egress({ allowPrivate: true, ports: [] })), at(server, '/mcp'), POST);
    await ear.over;
    expect(ear.status).toBe(307);
  });

  it('is followed even if its connection breaks, and its body is read only as far as needed', async () => {
    for (const rest of [
      (socket: Socket) => void socket.end('x'.repeat(3)),
      (socket: Socket) => void socket.resetAndDestroy(),
    ]) {
      const server = await moving('/mcp', () => '/mcp/', 307, rest);
      const ear = ask(client(), at(server, '/mcp'), POST);
      await ear.over;
      if (ear.failure) expect(ear.failure).toMatchObject({ sent: true, error: { code: 'ECONNRESET' } });
      else expect(ear.status).toBe(200);
    }
    const flooding = await rawServer((socket, request) => {
      if (request.includes('/mcp/ ')) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi');
      else {
        socket.write('HTTP/1.1 307 Moved\r\nlocation: /mcp/\r\ntransfer-encoding: chunked\r\n\r\n');
        const flood = (): void => {
          while (!socket.destroyed && socket.write(`1000\r\n${'x'.repeat(0x1000)}\r\n`));
          socket.once('drain', flood);
        };
        flood();
      }
    });
    closing.push(() => flooding.close());
    const ear = ask(client(), at(flooding, '/mcp'), POST);
    await ear.over;
    expect(ear.outcome).toEqual({ status: 200, body: 'hi' });
  });

  it('is not followed after an abort', async () => {
    const asked: string[] = [];
    const server = await rawServer((socket, request) => {
      asked.push(request);
      socket.write('HTTP/1.1 307 Moved\r\nlocation: /mcp/\r\ncontent-length: 2\r\n\r\nn');
    });
    closing.push(() => server.close());
    const ear = ask(client(), at(server, '/mcp'), POST);
    await expect.poll(() => asked.length).toBe(1);
    await sleep(50);
    ear.exchange!.abort();
    await sleep(50);
    expect([ear.ends, asked.length]).toEqual([0, 1]);
  });
});
