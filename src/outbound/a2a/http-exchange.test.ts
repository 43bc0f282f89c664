import { afterEach, describe, expect, it } from 'vitest';
import { bytesHeld } from '../../../test/support/heap.js';
import { byteByByte, rawServer } from '../../../test/support/raw-http-servers.js';
import { HttpClient, httpTarget } from '../http/index.js';
import { exchange, type HttpCall } from './http-exchange.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function callTo(url: string): HttpCall {
  const http = new HttpClient({ connectTimeout: 5_000 });
  closing.push(() => http.close());
  const bounds = { idle: 60_000, total: 60_000, limit: 4 * 1024 * 1024 };
  return { http, target: httpTarget(url), agent: { name: 'it' }, method: 'GET', headers: [], ...bounds };
}

describe('the reply of an agent', () => {
  it('needs little more memory than its bytes with one byte per chunk, and arrives complete', {
    timeout: 60_000,
  }, async () => {
    const size = 500_000;
    let held = 0;
    const server = await rawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n');
      byteByByte(socket, 'x'.repeat(size), () => {
        // By now all bytes are read except those in buffers of the operating system.
        setTimeout(() => {
          held = bytesHeld() - empty;
          socket.write('0\r\n\r\n');
        }, 500);
      });
    });
    closing.push(() => server.close());
    const empty = bytesHeld();
    const reply = await exchange(callTo(server.url));
    expect(held).toBeLessThan(40 * size);
    expect(reply?.body.toString()).toBe('x'.repeat(size));
  });

  it('is a stream even if its content type has capital letters', async () => {
    const server = await rawServer((socket) =>
      socket.end('HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream\r\n\r\ndata: 1\n\n'),
    );
    closing.push(() => server.close());
    const heard: string[] = [];
    const reply = await exchange(callTo(server.url), {
      open: () => heard.push('open'),
      event: (_, data) => heard.push(data.toString()),
      end: () => heard.push('end'),
      fail: (error) => heard.push(error.message),
    });
    expect(reply).toBeUndefined();
    await expect.poll(() => heard, { timeout: 10_000 }).toEqual(['open', '1', 'end']);
  });
});
