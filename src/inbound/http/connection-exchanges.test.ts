import { afterEach, describe, expect, it } from 'vitest';
import {
  Client,
  chunked,
  closeAll,
  echo,
  exchange,
  get,
  type Handle,
  post,
  readReplies,
  refuse,
  serve,
  sleep,
  turn,
  until,
} from '../../../test/support/raw-http-clients.js';
import type { ProtocolError } from '../../protocol/errors.js';
import { Connection } from './connection.js';

afterEach(closeAll);

describe('an unread body', () => {
  it('does not block the response', async () => {
    const { port, listener } = await serve((_, res) => res.sendText(401, [], 'no'));
    const client = await Client.open(port);
    const size = 10_000_000;
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`);
    const part = Buffer.alloc(100_000, 97);
    for (let sent = 0; sent < size && !client.closed; sent += part.length) {
      client.send(part);
      await turn();
    }
    await client.end();
    expect(client.replies).toMatchObject([{ status: 401, body: 'no' }]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
    await until(() => listener.count === 0);
  });

  it('is not buffered before the response', async () => {
    let answer: (() => void) | undefined;
    let source: Connection | undefined;
    const { port } = await serve((req, res) => {
      if (req.source instanceof Connection) source = req.source;
      answer = () => res.sendText(403, [], 'no');
    });
    const client = await Client.open(port);
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`);
    for (let i = 0; i < 200; i++) client.send(`186a0\r\n${'a'.repeat(100_000)}\r\n`);
    await until(() => answer !== undefined);
    let read = -1;
    // Wait until the gateway stops reading.
    while (read !== source!.socket.bytesRead) {
      read = source!.socket.bytesRead;
      await sleep(50);
    }
    expect(read).toBeLessThan(1_000_000);
    answer!();
    await client.end();
    expect(client.statuses).toEqual([403]);
  });

  it('is drained while it arrives, so that its sender receives the response', async () => {
    const { port, listener } = await serve((_, res) => res.sendText(401, [], 'no'));
    const client = (await Client.open(port, true)).send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n');
    await client.reply();
    await until(() => client.ended);
    // Wait for longer than the time limit for a silent client.
    for (let i = 0; i < 15; i++) {
      client.send('a');
      await sleep(200);
    }
    expect(client.closed).toBe(false);
    expect(listener.count).toBe(1);
    await until(() => listener.count === 0);
    expect(client.replies).toMatchObject([{ status: 401, body: 'no' }]);
  });

  it.each([
    ['with a length', post('/a', 'abc')],
    ['in chunks', chunked('/a', 'abc')],
  ])('does not end the connection if it has arrived completely: %s', async (_, text) => {
    const { port } = await serve((__, res) => res.sendText(401, [], 'no'));
    const client = (await Client.open(port)).send(text + get('/b'));
    await client.reply(2);
    expect(client.statuses).toEqual([401, 401]);
  });
});

describe('Expect: 100-continue', () => {
  const EXPECT = 'Expect: 100-Continue';

  it('is answered when the body is requested', async () => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(post('/a', 'hello', EXPECT).slice(0, -5));
    await client.reply();
    expect(client.text).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    client.send('hello');
    expect((await client.reply(2)).body).toBe('POST /a hello');
    client.send(post('/b', 'again', EXPECT).slice(0, -5));
    expect((await client.reply(3)).status).toBe(100);
    expect((await client.send('again').reply(4)).body).toBe('POST /b again');
  });

  it('is not answered if the body is refused', async () => {
    const { port } = await serve((_, res) => res.sendText(401, [], 'no'));
    const client = await exchange(port, post('/a', 'hello', EXPECT).slice(0, -5));
    expect(client.statuses).toEqual([401]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
  });

  it('is not answered if the body is too large', async () => {
    const { port } = await serve((req, res) => {
      void (async () => req.read(3))().catch((error: ProtocolError) => refuse(req, res, error));
    });
    expect((await exchange(port, post('/a', 'hello', EXPECT).slice(0, -5))).statuses).toEqual([413]);
  });

  it('is also answered if the body came with the head', async () => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(post('/a', 'hello', EXPECT) + get('/b'));
    await client.reply(3);
    expect(client.statuses).toEqual([100, 200, 200]);
  });

  it('is not answered in HTTP/1.0', async () => {
    const { port } = await serve(echo);
    const text = post('/a', 'hello', EXPECT, 'Connection: keep-alive').replace('1.1', '1.0');
    const client = (await Client.open(port)).send(text.slice(0, -5));
    await sleep(20);
    await client.send('hello').reply();
    expect(client.statuses).toEqual([200]);
  });

  it('is not answered after the response has begun', async () => {
    const { port } = await serve((req, res) => {
      res.open(200, []);
      res.write('early');
      void (async () => {
        res.write((await req.read(10)).toString());
        res.end();
      })();
    });
    const client = (await Client.open(port)).send(post('/a', 'hello', EXPECT).slice(0, -5));
    await until(() => client.text.includes('early'));
    client.send('hello');
    await client.end();
    expect(client.replies).toMatchObject([{ status: 200, body: 'earlyhello' }]);
  });
});

describe('responses without a body', () => {
  it('keep the connection open', async () => {
    const { port } = await serve((req, res) => {
      if (req.target === '/stream') {
        res.open(200, []);
        res.write('abc');
        res.end();
      } else res.send(Number(req.target.slice(1, 4)), [], [Buffer.from('abc')]);
    });
    const client = await Client.open(port);
    const head = (path: string): string => get(path).replace('GET', 'HEAD');
    client.send(head('/200') + get('/204') + get('/304') + head('/stream') + head('/204') + get('/200'));
    const bare = (i: number): boolean => i < 5;
    await until(
      () => readReplies(client.text, bare).replies.length === 6,
      () => client.text,
    );
    const { replies, rest } = readReplies(client.text, bare);
    expect(rest).toBe('');
    expect(replies.map(({ status }) => status)).toEqual([200, 204, 304, 200, 204, 200]);
    expect(replies[0]!.head).toContain('\r\nContent-Length: 3\r\n');
    expect(replies[1]!.head).not.toMatch(/content-length|transfer-encoding/i);
    expect(replies[4]!.head).not.toMatch(/content-length|transfer-encoding/i);
    expect(replies[5]!.body).toBe('abc');
  });
});

describe('HTTP/1.0', () => {
  const old = (...headers: string[]): string => `${['GET /a HTTP/1.0', 'Host: a', ...headers].join('\r\n')}\r\n\r\n`;
  const stream: Handle = (_, res) => {
    res.open(200, []);
    res.write('abc');
    res.write([Buffer.from('def')]);
    setImmediate(() => res.end());
  };

  it('ends the connection after the response', async () => {
    const { port } = await serve(echo);
    const client = await exchange(port, old() + old());
    expect(client.replies).toMatchObject([{ status: 200, body: 'GET /a ' }]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
  });

  it('keeps the connection if the client asks for that', async () => {
    const { port } = await serve(echo);
    const client = await exchange(port, old('Connection: keep-alive') + old());
    expect(client.statuses).toEqual([200, 200]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: keep-alive\r\n');
  });

  it.each([[[]], [['Connection: keep-alive']]])('ends a stream with the connection: %j', async (headers) => {
    const { port } = await serve(stream);
    const client = await exchange(port, old(...headers));
    expect(client.text).not.toMatch(/transfer-encoding/i);
    expect(client.text).toContain('\r\nConnection: close\r\n');
    expect(client.text.endsWith('\r\n\r\nabcdef')).toBe(true);
  });
});
