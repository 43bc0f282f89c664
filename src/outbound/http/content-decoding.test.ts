import type { Socket } from 'node:net';
import { brotliCompressSync, createGzip, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { ask, Ear, rawServer } from '../../../test/support/raw-http-servers.js';
import { sleep } from '../../core/timing.js';
import { HttpClient, headerOf } from './index.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serving(write: (socket: Socket) => void): Promise<{ http: HttpClient; url: string; sockets: Socket[] }> {
  const { url, sockets, close } = await rawServer(write);
  closing.push(close);
  const http = new HttpClient({ connectTimeout: 5_000 });
  closing.push(() => http.close());
  return { http, url, sockets };
}

const head = (coding: string, framing: string): string =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: ${coding}\r\n${framing}\r\n\r\n`;

const TEXT = JSON.stringify(Array.from({ length: 50_000 }, (_, i) => `line ${i * 7919}`));
const CODED: Record<string, [string, Buffer]> = {
  gzip: ['gzip', gzipSync(TEXT)],
  'x-gzip in capitals': ['X-GZIP', gzipSync(TEXT)],
  deflate: ['deflate', deflateSync(TEXT)],
  'deflate without the zlib format': ['deflate', deflateRawSync(TEXT)],
  br: ['br', brotliCompressSync(TEXT)],
};

describe.each(Object.entries(CODED))('a reply in %s', (_, [coding, body]) => {
  it('is decoded several times on one connection, and loses the length header of the encoded body', async () => {
    const { http, url, sockets } = await serving((socket) => {
      socket.write(head(coding, `content-length: ${body.length}`));
      socket.write(body);
    });
    for (let i = 0; i < 3; i++) {
      const ear = ask(http, url);
      await ear.over;
      expect(ear.failure).toBeUndefined();
      expect(ear.body === TEXT).toBe(true);
      expect(headerOf(ear.headers, 'content-encoding')).toBeUndefined();
      expect(headerOf(ear.headers, 'content-length')).toBeUndefined();
      expect(headerOf(ear.headers, 'content-type')).toBe('application/json');
      await sleep(5);
    }
    expect(sockets).toHaveLength(1);
  });

  it('waits for a reader that pauses', async () => {
    const { http, url } = await serving((socket) => {
      socket.write(head(coding, `content-length: ${body.length}`));
      socket.write(body);
    });
    const ear = new Ear();
    let pauses = 0;
    ear.onData = () => {
      if (pauses++ > 20) return;
      ear.exchange!.pause!();
      const { size } = ear;
      setTimeout(() => {
        expect(ear.size).toBe(size);
        ear.exchange!.resume!();
      }, 2);
    };
    ask(http, url, {}, ear);
    await ear.over;
    expect(ear.body === TEXT).toBe(true);
  });

  it.each(['half of it', 'something else'])('fails if %s arrived', async (what) => {
    const wrong = what === 'half of it' ? body.subarray(0, body.length / 2) : Buffer.alloc(100, 'no');
    const { http, url } = await serving((socket) => {
      socket.write(head(coding, `content-length: ${wrong.length}`));
      socket.write(wrong);
    });
    const ear = ask(http, url);
    await ear.over;
    expect(ear.failure).toMatchObject({ sent: true, error: { code: 'HTTP_ENCODING' } });
    expect(ear.ends).toBe(1);
  });
});

describe('a reply that is compressed', () => {
  it('may have no body', async () => {
    const { http, url } = await serving((socket) => socket.write(head('gzip', 'content-length: 0')));
    const ear = ask(http, url);
    await ear.over;
    expect(ear.outcome).toEqual({ status: 200, body: '' });
  });

  it('delivers each event as soon as the server writes it', async () => {
    const { http, url } = await serving((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n');
      const gzip = createGzip();
      gzip.on('data', (chunk) => socket.write(chunk));
      gzip.write('data: 1\n\n');
      gzip.flush();
    });
    const ear = ask(http, url);
    await expect.poll(() => ear.body).toBe('data: 1\n\n');
    ear.exchange!.abort();
  });

  it.each(['identity', '', 'IDENTITY'])('is not decoded if its coding is %j', async (coding) => {
    const { http, url } = await serving((socket) => socket.write(`${head(coding, 'content-length: 2')}hi`));
    const ear = ask(http, url);
    await ear.over;
    expect(ear.outcome).toEqual({ status: 200, body: 'hi' });
  });

  it.each(['zstd', 'gzip, br', 'constructor'])('in %s is refused', async (coding) => {
    const { http, url, sockets } = await serving((socket) => socket.write(`${head(coding, 'content-length: 2')}hi`));
    const ear = ask(http, url);
    await ear.over;
    expect(ear.failure).toMatchObject({
      sent: true,
      error: { code: 'HTTP_ENCODING', message: expect.stringContaining(`"${coding}"`) },
    });
    await expect.poll(() => sockets[0]!.destroyed || sockets[0]!.readableEnded).toBe(true);
  });

  it('is decoded only as far as its reader reads', async () => {
    // 256 MB, compressed to 256 kB.
    const bomb = createGzip();
    const parts: Buffer[] = [];
    bomb.on('data', (part: Buffer) => parts.push(part));
    const zeros = Buffer.alloc(16 * 1024 * 1024);
    for (let i = 0; i < 16; i++) await new Promise((resolve) => bomb.write(zeros, resolve));
    await new Promise<void>((resolve) => bomb.end(resolve));
    const body = Buffer.concat(parts);
    const { http, url, sockets } = await serving((socket) => {
      socket.write(head('gzip', `content-length: ${body.length}`));
      socket.write(body);
    });
    const before = process.memoryUsage.rss();
    const ear = new Ear();
    ear.onData = (size) => {
      if (size > 1024 * 1024) ear.exchange!.abort();
    };
    ask(http, url, {}, ear);
    await expect.poll(() => sockets[0]?.destroyed || sockets[0]?.readableEnded, { timeout: 20_000 }).toBe(true);
    const { size } = ear;
    await sleep(100);
    expect(ear.size).toBe(size);
    expect(size).toBeLessThan(2 * 1024 * 1024);
    expect(ear.ends).toBe(0);
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024);
  });

  it.each([
    ['gzip', gzipSync('{}')],
    ['deflate', deflateSync('{}')],
    ['br', brotliCompressSync('{}')],
  ])('in %s leaves no connection open if its server adds bytes and never ends the body', async (coding, body) => {
    const { http, url, sockets } = await serving((socket) => {
      socket.write(head(coding, `content-length: ${body.length + 1_000}`));
      socket.write(Buffer.concat([body, Buffer.alloc(3)]));
    });
    for (let i = 0; i < 3; i++) {
      const ear = ask(http, url);
      await ear.over;
      expect(ear.body).toBe('{}');
    }
    expect(sockets).toHaveLength(3);
    await expect.poll(() => sockets.every(({ destroyed }) => destroyed)).toBe(true);
  });

  it('fails with the error that its reader throws', async () => {
    const body = gzipSync(TEXT);
    const { http, url } = await serving((socket) => {
      socket.write(head('gzip', `content-length: ${body.length}`));
      socket.write(body);
    });
    for (const where of ['onStart', 'onData', 'onEnd'] as const) {
      const ear = new Ear();
      ear[where] = () => {
        throw new Error('my fault');
      };
      ask(http, url, {}, ear);
      await expect.poll(() => ear.failure, { timeout: 10_000 }).toMatchObject({ error: { message: 'my fault' } });
    }
  });
});
