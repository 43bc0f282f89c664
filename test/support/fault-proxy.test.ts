import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { sleep } from '../../src/core/timing.js';
import { type FaultProxy, startFaultProxy } from './fault-proxy.js';

let echo: Server;
let port: number;
let proxy: FaultProxy;
const sockets: Socket[] = [];

beforeAll(async () => {
  echo = createServer((socket) => {
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
  port = (echo.address() as { port: number }).port;
});
afterAll(() => new Promise((resolve) => echo.close(resolve)));
beforeEach(async () => {
  proxy = await startFaultProxy({ port });
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await proxy.close();
});

interface Seen {
  socket: Socket;
  text: string;
  end: 'open' | 'fin' | 'rst';
}

function dial(): Seen {
  const seen: Seen = { socket: connect(proxy.port, '127.0.0.1'), text: '', end: 'open' };
  sockets.push(seen.socket);
  seen.socket.on('data', (chunk) => {
    seen.text += chunk;
  });
  seen.socket.on('end', () => {
    seen.end = 'fin';
  });
  seen.socket.on('error', () => {
    seen.end = 'rst';
  });
  return seen;
}

test('passes bytes in both directions', async () => {
  const seen = dial();
  seen.socket.write('hello');
  await expect.poll(() => seen.text).toBe('hello');
  expect(proxy.connections).toBe(1);
});

test('delays both directions', async () => {
  proxy.set({ latencyMs: 100 });
  const seen = dial();
  const began = performance.now();
  seen.socket.write('hello');
  await expect.poll(() => seen.text).toBe('hello');
  expect(performance.now() - began).toBeGreaterThanOrEqual(195);
});

test.each(['fin', 'rst'] as const)('ends a connection after the given number of bytes by %s', async (cutBy) => {
  proxy.set({ cutAfterBytes: 8, cutBy });
  const seen = dial();
  seen.socket.write('12345');
  await expect.poll(() => seen.text).toBe('12345');
  seen.socket.write('67890');
  await expect.poll(() => seen.end).toBe(cutBy);
  // A reset may overtake the last bytes; a FIN may not.
  if (cutBy === 'fin') expect(seen.text).toBe('12345678');
  else expect('12345678'.startsWith(seen.text)).toBe(true);
});

test('drops all data and keeps connections open', async () => {
  const seen = dial();
  seen.socket.write('a');
  await expect.poll(() => seen.text).toBe('a');
  proxy.set({ blackHole: true });
  seen.socket.write('b');
  await sleep(150);
  expect(seen).toMatchObject({ text: 'a', end: 'open' });
});

test('refuses new connections, keeps open ones, and ends all on demand', async () => {
  const old = dial();
  old.socket.write('a');
  await expect.poll(() => old.text).toBe('a');
  proxy.set({ refuse: true });
  const refused = dial();
  await expect.poll(() => refused.end).toBe('rst');
  expect(old.end).toBe('open');
  proxy.cutAll();
  await expect.poll(() => old.end).toBe('rst');
});
