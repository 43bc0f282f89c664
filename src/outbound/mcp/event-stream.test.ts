import type { Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type RawServer, rawServer } from '../../../test/support/raw-http-servers.js';
import { sleep } from '../../core/timing.js';
import { HttpClient, httpTarget } from '../http/index.js';
import { EventStream } from './event-stream.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function raw(asked: (socket: Socket) => void): Promise<RawServer> {
  const server = await rawServer(asked);
  closing.push(() => server.close());
  return server;
}

function client(): HttpClient {
  const http = new HttpClient({ connectTimeout: 5_000 });
  closing.push(() => http.close());
  return http;
}

function listen(http: HttpClient, url: string): { heard: string[]; stream: EventStream } {
  const heard: string[] = [];
  const stream = EventStream.open(
    http,
    httpTarget(url),
    [],
    {
      open: () => heard.push('open'),
      event: (name, data) => heard.push(`${name} ${data}`),
      refused: (status) => heard.push(`refused ${status}`),
      end: (why) => heard.push(`end ${why}`),
    },
    1 << 20,
  );
  return { heard, stream };
}

const eventually = { timeout: 20_000 };
const BLOCK = `8000\r\n${'x'.repeat(0x8000)}\r\n`;

function flood(socket: Socket): void {
  while (!socket.destroyed && socket.write(BLOCK));
  socket.once('drain', () => flood(socket));
}

describe('a refused event stream', () => {
  it.each([
    ['has no end', 405, flood],
    ['never comes', 405, () => {}],
    ['stops in the middle', 404, (socket: Socket) => void socket.write(BLOCK)],
    ['breaks off', 404, (socket: Socket) => void socket.resetAndDestroy()],
    ['is something else', 200, flood],
  ])('is reported if its body %s, and the connection is closed', eventually, async (_, status, rest) => {
    const { url, sockets } = await raw((socket) => {
      socket.write(`HTTP/1.1 ${status} No\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n`, () =>
        setTimeout(() => rest(socket), 50),
      );
    });
    const { heard } = listen(client(), url);
    await expect.poll(() => heard, eventually).toEqual([`refused ${status}`]);
    await expect.poll(() => sockets[0]!.destroyed, eventually).toBe(true);
    expect(heard).toHaveLength(1);
  });

  it('keeps the connection for other requests if its body is small', async () => {
    const { url, sockets } = await raw((socket) => socket.write('HTTP/1.1 405 No\r\ncontent-length: 2\r\n\r\nno'));
    const http = client();
    for (let i = 0; i < 3; i++) {
      const { heard } = listen(http, url);
      await expect.poll(() => heard, eventually).toEqual(['refused 405']);
    }
    expect(sockets).toHaveLength(1);
  });

  it('is not reported after close', eventually, async () => {
    const { url, sockets } = await raw((socket) =>
      socket.write('HTTP/1.1 405 No\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n'),
    );
    const { heard, stream } = listen(client(), url);
    await expect.poll(() => sockets.length, eventually).toBe(1);
    setTimeout(() => stream.close(), 200);
    await sleep(1_800);
    expect(heard).toEqual([]);
  });
});

it('an event stream may have a content type in capital letters', async () => {
  const { url } = await raw((socket) =>
    socket.end('HTTP/1.1 200 OK\r\ncontent-type: TEXT/EVENT-STREAM\r\n\r\ndata: 1\n\n'),
  );
  const { heard } = listen(client(), url);
  await expect.poll(() => heard, eventually).toEqual(['open', 'message 1', 'end its stream ended']);
});
