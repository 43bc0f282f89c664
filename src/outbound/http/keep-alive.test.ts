import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import { ask, type RawServer, rawServer } from '../../../test/support/raw-http-servers.js';
import { HttpClient } from './index.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Closes connections that were idle for the given time. `hint` is the header that announces it. */
async function closingAfter(milliseconds: number, hint = ''): Promise<RawServer> {
  const timers = new Map<object, NodeJS.Timeout>();
  const server = await rawServer((socket) => {
    clearTimeout(timers.get(socket));
    timers.set(
      socket,
      setTimeout(() => socket.end(), milliseconds),
    );
    socket.write(`HTTP/1.1 200 OK\r\n${hint}content-length: 2\r\n\r\nhi`);
  });
  closing.push(async () => {
    for (const timer of timers.values()) clearTimeout(timer);
    await server.close();
  });
  return server;
}

function client(): HttpClient {
  const http = new HttpClient({ connectTimeout: 10_000 });
  closing.push(() => http.close());
  return http;
}

it('none of 400 calls fails if the server closes idle connections after 5 s without an announcement', async () => {
  const { url, sockets } = await closingAfter(5_000);
  const http = client();
  const outcomes = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      const first = ask(http, url, { method: 'POST', body: Buffer.from('{}') });
      await first.over;
      // From one second before to one second after the server closes.
      await sleep(4_000 + i * 10);
      const second = ask(http, url, { method: 'POST', body: Buffer.from('{}') });
      await second.over;
      return [first.outcome, second.outcome];
    }),
  );
  expect(outcomes.flat()).toEqual(Array.from({ length: 400 }, () => ({ status: 200, body: 'hi' })));
  // Connections were kept, but not used again after that time.
  expect(sockets.length).toBeGreaterThan(200);
});

it('a connection is kept for the time that the server announces', async () => {
  const { url, sockets } = await closingAfter(60_000, 'keep-alive: timeout=20\r\n');
  const http = client();
  for (let i = 0; i < 2; i++) {
    const ear = ask(http, url);
    await ear.over;
    expect(ear.outcome).toEqual({ status: 200, body: 'hi' });
    await sleep(i === 0 ? 6_000 : 0);
  }
  expect(sockets).toHaveLength(1);
});
