import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { ProtocolError } from '../../protocol/errors.js';
import { Connection, type ConnectionOwner, TIMES, type Times } from './connection.js';
import { Listener } from './listener.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';

type Handle = (req: InboundRequest, res: InboundResponse) => void;

const sleep = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const open: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

const refuse = (_: InboundRequest, res: InboundResponse, error: ProtocolError): void =>
  res.sendText(error.row.http, Object.entries(error.detail.headers ?? {}).flat(), error.reason);

async function until(holds: () => boolean, what: () => unknown = () => ''): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`waited in vain: ${JSON.stringify(what())?.slice(0, 500)}`);
    await sleep(2);
  }
}

async function serve(handle: Handle, times: Times = TIMES): Promise<{ port: number; listener: Listener }> {
  const listener = new Listener({ maxConnections: 100, times, handle, refuse });
  const { port } = await listener.listen('127.0.0.1', 0);
  open.push(async () => {
    const closed = listener.close();
    listener.closeAll();
    await closed;
  });
  return { port, listener };
}

/** A listener whose seconds pass when the test says so. */
class Clock implements ConnectionOwner {
  seconds = 0;
  leaving = false;
  readonly lines = { kept: 'Connection: keep-alive\r\nKeep-Alive: timeout=65\r\n', closed: 'Connection: close\r\n' };
  readonly connections = new Set<Connection>();
  readonly refused: string[] = [];
  readonly server: Server;

  constructor(
    readonly handle: Handle,
    readonly times: Times = TIMES,
  ) {
    this.server = createServer((socket) => void this.connections.add(new Connection(socket, this)));
  }

  static async serve(handle: Handle): Promise<{ port: number; clock: Clock }> {
    const clock = new Clock(handle);
    await new Promise<void>((resolve) => clock.server.listen(0, '127.0.0.1', resolve));
    open.push(() => {
      for (const { socket } of clock.connections) socket.destroy();
      clock.server.close();
    });
    return { port: (clock.server.address() as { port: number }).port, clock };
  }

  refuse(req: InboundRequest, res: InboundResponse, error: ProtocolError): void {
    this.refused.push(error.reason);
    refuse(req, res, error);
  }

  gone(connection: Connection): void {
    this.connections.delete(connection);
  }

  pass(seconds: number): void {
    for (let i = 0; i < seconds; i++) {
      this.seconds++;
      for (const connection of this.connections) connection.check();
    }
  }
}

interface Reply {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Takes one reply after the other; what is left is no whole one. */
function readReplies(text: string, isBare: (i: number) => boolean = () => false): { replies: Reply[]; rest: string } {
  const replies: Reply[] = [];
  let rest = text;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n/.exec(rest)?.[1]);
    if (end < 0 || Number.isNaN(status)) return { replies, rest };
    const head = rest.slice(0, end + 2);
    let at = end + 4;
    let body = '';
    const length = Number(/\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1] ?? 0);
    if (isBare(replies.length) || status === 204 || status === 304 || status === 100) body = '';
    else if (/\r\ntransfer-encoding: chunked\r\n/i.test(head)) {
      for (;;) {
        const size = /^([\da-f]+)\r\n/.exec(rest.slice(at, at + 20));
        if (!size) return { replies, rest };
        const count = Number.parseInt(size[1]!, 16);
        at += size[0].length;
        if (rest.length < at + count + 2) return { replies, rest };
        body += rest.slice(at, at + count);
        expect(rest.slice(at + count, at + count + 2)).toBe('\r\n');
        at += count + 2;
        if (count === 0) break;
      }
    } else {
      if (rest.length < at + length) return { replies, rest };
      body = rest.slice(at, at + length);
      at += length;
    }
    replies.push({ status, head, body });
    rest = rest.slice(at);
  }
}

class Client {
  private readonly chunks: Buffer[] = [];
  size = 0;
  closed = false;
  ended = false;
  error: NodeJS.ErrnoException | undefined;

  private constructor(readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.size += chunk.length;
      this.chunks.push(chunk);
    });
    socket.on('error', (error) => {
      this.error = error;
    });
    socket.on('end', () => {
      this.ended = true;
    });
    socket.on('close', () => {
      this.closed = true;
    });
    open.push(() => void socket.destroy());
  }

  static open(port: number, allowHalfOpen = false): Promise<Client> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen, noDelay: true }, () =>
        resolve(new Client(socket)),
      );
      socket.once('error', reject);
    });
  }

  get text(): string {
    if (this.chunks.length > 1) this.chunks.splice(0, this.chunks.length, Buffer.concat(this.chunks));
    return this.chunks[0]?.toString('latin1') ?? '';
  }

  get replies(): Reply[] {
    return readReplies(this.text).replies;
  }

  get statuses(): number[] {
    return this.replies.map(({ status }) => status);
  }

  send(text: string | Buffer): this {
    this.socket.write(text, 'latin1');
    return this;
  }

  async reply(count = 1): Promise<Reply> {
    await until(
      () => this.replies.length >= count,
      () => ({ text: this.text, closed: this.closed }),
    );
    return this.replies[count - 1]!;
  }

  async end(): Promise<string> {
    await until(
      () => this.closed,
      () => this.text,
    );
    return this.text;
  }
}

async function exchange(port: number, text: string | Buffer): Promise<Client> {
  const client = (await Client.open(port)).send(text);
  await client.end();
  return client;
}

const get = (path: string, ...headers: string[]): string =>
  `${[`GET ${path} HTTP/1.1`, 'Host: a', ...headers].join('\r\n')}\r\n\r\n`;
const post = (path: string, body: string, ...headers: string[]): string =>
  `${[`POST ${path} HTTP/1.1`, 'Host: a', `Content-Length: ${body.length}`, ...headers].join('\r\n')}\r\n\r\n${body}`;
const chunked = (path: string, ...chunks: string[]): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${[...chunks, '']
    .map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
    .join('')}`;

/** Says what it was asked. */
const echo: Handle = (req, res) => {
  void (async () => {
    const body = await req.read(20_000_000);
    res.sendText(200, [], `${req.method} ${req.target} ${body.toString('latin1')}`);
  })().catch((error: ProtocolError) => refuse(req, res, error));
};

describe('requests in pieces', () => {
  it.each([
    ['a body with a length', post('/a', 'hello\r\n\r\n')],
    ['chunks', chunked('/b', 'hel', 'lo\r\n0\r\n\r\n')],
    ['chunks with everything chunks may have', `${chunked('/c').slice(0, -5)}3 ;a="b"\r\nabc\r\n00;x\r\nT: v\r\n\r\n`],
    ['no body', `\r\n\r\n${get('/d')}`],
  ])('are the same wherever they are cut: %s', async (_, text) => {
    const { port } = await serve(echo);
    const whole = (await (await Client.open(port)).send(text + text).reply(2)).body;
    await Promise.all(
      Array.from({ length: text.length - 1 }, async (__, i) => {
        const client = (await Client.open(port)).send(text.slice(0, i + 1));
        await sleep(10);
        // What follows comes with the rest.
        client.send(text.slice(i + 1) + text);
        const { body } = await client.reply(2);
        expect(client.replies.map((reply) => reply.body)).toEqual([whole, body]);
        expect(body).toBe(whole);
        client.socket.destroy();
      }),
    );
  });

  it('are the same byte by byte', async () => {
    const { port } = await serve(echo);
    const client = await Client.open(port);
    for (const byte of get('/a') + post('/b', 'xy') + chunked('/c', 'z', 'zz')) {
      client.send(byte);
      await turn();
    }
    await client.reply(3);
    expect(client.replies.map(({ body }) => body)).toEqual(['GET /a ', 'POST /b xy', 'POST /c zzz']);
  });

  it('may have empty lines before them', async () => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(`\r\n${get('/a')}\r\n\r\n${get('/b')}`);
    await client.reply(2);
    expect(client.statuses).toEqual([200, 200]);
  });

  it('are handled before their body is all there', async () => {
    let handled = 0;
    const { port } = await serve((req, res) => {
      handled++;
      echo(req, res);
    });
    const client = (await Client.open(port)).send(post('/a', 'hello').slice(0, -2));
    await until(() => handled === 1);
    expect((await client.send('lo').reply()).body).toBe('POST /a hello');
  });
});

describe('several requests at once', () => {
  const COUNT = 500;
  const many = Array.from({ length: COUNT }, (_, i) =>
    i % 3 === 0 ? get(`/${i}`) : i % 3 === 1 ? post(`/${i}`, `${i}`) : post(`/${i}`, get('/0')),
  ).join('');

  it.each<[string, Handle]>([
    ['at once', (req, res) => res.sendText(200, [], req.target)],
    ['in large pieces', (req, res) => res.send(200, [], [Buffer.alloc(20_000, 97), Buffer.from(req.target)])],
    ['later', (req, res) => void setImmediate(() => res.send(200, [], [Buffer.from(req.target)]))],
    [
      'after some time that differs',
      (req, res) => void setTimeout(() => res.sendText(200, [], req.target), Number(req.target.slice(1)) % 3),
    ],
    [
      'as streams',
      (req, res) => {
        res.open(200, []);
        res.write(req.target.slice(0, 2));
        res.write([Buffer.from(req.target.slice(2, 3)), Buffer.from(`${req.target.slice(3)}.`)]);
        res.end();
      },
    ],
    [
      'in every way',
      (req, res) => {
        const i = Number(req.target.slice(1));
        if (i % 4 === 0) res.sendText(200, [], req.target);
        else if (i % 4 === 1) setImmediate(() => res.send(200, [], [Buffer.from(req.target)]));
        else {
          res.open(200, []);
          if (i % 4 === 2) res.end();
          else queueMicrotask(() => res.end());
        }
      },
    ],
  ])('are answered in order, each once: %s', async (_, handle) => {
    let under = 0;
    let handled = 0;
    const { port } = await serve((req, res) => {
      // None is looked at before the one before it was answered.
      expect(under++).toBe(0);
      expect(req.target).toBe(`/${handled++}`);
      res.onClose(() => {
        expect(res.finished).toBe(true);
        under--;
      });
      handle(req, res);
    });
    const client = (await Client.open(port)).send(many);
    await until(() => handled === COUNT && under === 0);
    await until(() => readReplies(client.text).rest === '' && client.replies.length === COUNT);
    const named = client.replies.map(({ body }) => body.replace(/^a+|\.$/g, ''));
    expect(named.filter((body, i) => body !== '' && body !== `/${i}`)).toEqual([]);
    expect((await client.send(get('/500')).reply(COUNT + 1)).status).toBe(200);
  });

  it('are answered in order where their bodies come in chunks', async () => {
    const { port } = await serve(echo);
    const client = await Client.open(port);
    for (let i = 0; i < COUNT; i++) client.send(chunked(`/${i}`, `${i}`, 'x'));
    await client.reply(COUNT);
    expect(client.replies.filter(({ body }, i) => body !== `POST /${i} ${i}x`)).toEqual([]);
  });

  it('do not follow one that ends the connection', async () => {
    const seen: string[] = [];
    const { port } = await serve((req, res) => {
      seen.push(req.target);
      echo(req, res);
    });
    const client = await exchange(port, get('/a') + get('/b', 'Connection: close') + get('/c'));
    expect(client.statuses).toEqual([200, 200]);
    expect(client.replies[1]!.head).toContain('\r\nConnection: close\r\n');
    expect(seen).toEqual(['/a', '/b']);
  });
});

describe('a second request within the first', () => {
  const EVIL = get('/evil');
  const head = (...headers: string[]): string => `${['POST /a HTTP/1.1', 'Host: a', ...headers].join('\r\n')}\r\n\r\n`;
  const LENGTH = `Content-Length: ${EVIL.length}`;
  const TE = 'Transfer-Encoding: chunked';

  it.each([
    ['CL.TE', `${head(LENGTH, TE)}0\r\n\r\n${EVIL}`],
    ['TE.CL', `${head(TE, 'Content-Length: 3')}${EVIL.length.toString(16)}\r\n${EVIL}\r\n0\r\n\r\n`],
    ['TE.TE', `${head(TE, 'Transfer-Encoding: identity')}0\r\n\r\n${EVIL}`],
    ['TE.TE in one line', `${head('Transfer-Encoding: identity, chunked')}0\r\n\r\n${EVIL}`],
    ['TE with a blank', `${head('Transfer-Encoding : chunked', LENGTH)}0\r\n\r\n${EVIL}`],
    ['TE folded', `${head('X: y\r\n Transfer-Encoding: chunked')}${EVIL}`],
    ['CL.CL', `${head('Content-Length: 0', LENGTH)}${EVIL}`],
    ['a list of lengths', `${head('Content-Length: 0, 5')}${EVIL}`],
    ['a bare line feed in the head', `POST /a HTTP/1.1\r\nHost: a\r\nX: y\n\n${EVIL}`],
    ['a bare line feed before a length', `POST /a HTTP/1.1\r\nHost: a\nContent-Length: 0\r\n\r\n${EVIL}`],
    ['a bare carriage return', `POST /a HTTP/1.1\r\nHost: a\r\nX: y\rContent-Length: 0\r\n\r\n${EVIL}`],
    ['NUL', `${head('X: \0', 'Content-Length: 0')}${EVIL}`],
    ['a bare line feed behind a size', `${head(TE)}0\n\n${EVIL}`],
    ['a bare line feed in an extension', `${head(TE)}0;a\n\r\n${EVIL}`],
    ['a bare carriage return in an extension', `${head(TE)}0;a\rb\r\n\r\n${EVIL}`],
    ['a chunk that is too long', `${head(TE)}1\r\nab\r\n0\r\n\r\n${EVIL}`],
    ['a chunk that is too short', `${head(TE)}3\r\nab\r\n0\r\n\r\n${EVIL}`],
    ['a bare line feed behind a chunk', `${head(TE)}1\r\na\n0\r\n\r\n${EVIL}`],
    ['a size with a sign', `${head(TE)}+0\r\n\r\n${EVIL}`],
    ['a size with a prefix', `${head(TE)}0x0\r\n\r\n${EVIL}`],
    ['a size that is too large', `${head(TE)}10000000000000000\r\n\r\n${EVIL}`],
    ['a bare line feed in the trailers', `${head(TE)}0\r\nX: y\n\r\n\r\n${EVIL}`],
    ['HTTP/1.0 with chunks', `POST /a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n${TE}\r\n\r\n0\r\n\r\n${EVIL}`],
    ['a body without a length', `${head('Connection: close')}${EVIL}`],
    ['the rest of a body', `${post('/a', 'ab').slice(0, -2)}abcd${EVIL}`],
  ])('is none: %s', async (_, text) => {
    const seen: string[] = [];
    const handle: Handle = (req, res) => {
      seen.push(req.target);
      echo(req, res);
    };
    const { port } = await serve(handle);
    const whole = await exchange(port, text);
    // The same where the end of each comes a moment later.
    const late = await Client.open(port);
    for (const part of [text.slice(0, -EVIL.length - 2), text.slice(-EVIL.length - 2, -EVIL.length), EVIL]) {
      late.send(part);
      await sleep(3);
    }
    await late.end();
    expect(seen).not.toContain('/evil');
    for (const client of [whole, late]) {
      expect(client.replies.at(-1)!.head).toContain('\r\nConnection: close\r\n');
      expect(client.statuses.at(-1)).toBe(_ === 'a body without a length' ? 200 : 400);
    }
  });

  it('is none where chunks say what nobody reads', async () => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(
      `${head(TE)}2;a="\\"${EVIL.replaceAll('\r\n', ' ')}"\r\nhi\r\n0\r\nX: ${EVIL.replaceAll('\r\n', ' ')}\r\n\r\n${get('/b')}`,
    );
    await client.reply(2);
    expect(client.replies.map(({ body }) => body)).toEqual(['POST /a hi', 'GET /b ']);
  });
});

describe('what is no request', () => {
  it.each([
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['an answer', 'HTTP/1.1 200 OK\r\n\r\n', 400],
    ['half an empty line', '\rGET / HTTP/1.1\r\nHost: a\r\n\r\n', 400],
    ['a head that is too long', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'a'.repeat(16_384)}`, 431],
    ['a line that is too long', 'a'.repeat(16_385), 431],
    ['too many headers', get('/', ...Array.from({ length: 128 }, () => 'X: y')), 431],
    ['no host', 'GET / HTTP/1.1\r\n\r\n', 400],
  ])('is told so at once: %s', async (_, text, status) => {
    const { port } = await serve(echo);
    const client = await exchange(port, text);
    expect(client.statuses).toEqual([status]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
    expect(client.error).toBeUndefined();
  });

  it('is told so after the answers to what were requests', async () => {
    const { port } = await serve((req, res) => void setTimeout(() => echo(req, res), 5));
    const client = await exchange(port, `${get('/a')}${get('/b')}\0${get('/c')}`);
    expect(client.statuses).toEqual([200, 200, 400]);
  });

  it('begins behind a head of 16 KiB', async () => {
    const { port } = await serve(echo);
    const fill = (size: number): string => {
      const bare = get('/', 'X: ').length - 4;
      return get('/', `X: ${'a'.repeat(size - bare)}`);
    };
    const fits = (await Client.open(port)).send(fill(16_384) + get('/b'));
    expect((await fits.reply(2)).status).toBe(200);
    expect((await exchange(port, fill(16_385) + get('/b'))).statuses).toEqual([431]);
  });
});

describe('a body that nobody reads', () => {
  it('does not keep the client from its answer, nor the answer from the client', async () => {
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

  it('is not kept while the answer is awaited', async () => {
    let answer: (() => void) | undefined;
    let source: Connection | undefined;
    const { port } = await serve((req, res) => {
      source = req.source as Connection;
      answer = () => res.sendText(403, [], 'no');
    });
    const client = await Client.open(port);
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`);
    for (let i = 0; i < 200; i++) client.send(`186a0\r\n${'a'.repeat(100_000)}\r\n`);
    await until(() => answer !== undefined);
    let read = -1;
    // Until no more is taken.
    while (read !== source!.socket.bytesRead) {
      read = source!.socket.bytesRead;
      await sleep(50);
    }
    expect(read).toBeLessThan(1_000_000);
    answer!();
    await client.end();
    expect(client.statuses).toEqual([403]);
  });

  it('is waited for as long as it comes, so that its sender hears the answer', async () => {
    const { port, clock } = await Clock.serve((_, res) => res.sendText(401, [], 'no'));
    const client = (await Client.open(port, true)).send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n');
    await client.reply();
    for (let i = 0; i < 5; i++) {
      clock.pass(1);
      await sleep(5);
      client.send('a');
      await sleep(5);
    }
    expect(clock.connections.size).toBe(1);
    clock.pass(3);
    await until(() => clock.connections.size === 0);
    expect(client.replies).toMatchObject([{ status: 401, body: 'no' }]);
  });

  it.each([
    ['with a length', post('/a', 'abc')],
    ['in chunks', chunked('/a', 'abc')],
  ])('does not end the connection where it had come: %s', async (_, text) => {
    const { port } = await serve((__, res) => res.sendText(401, [], 'no'));
    const client = (await Client.open(port)).send(text + get('/b'));
    await client.reply(2);
    expect(client.statuses).toEqual([401, 401]);
  });
});

describe('Expect: 100-continue', () => {
  const EXPECT = 'Expect: 100-Continue';

  it('is answered when the body is asked for', async () => {
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

  it('is not answered where the body is refused', async () => {
    const { port } = await serve((_, res) => res.sendText(401, [], 'no'));
    const client = await exchange(port, post('/a', 'hello', EXPECT).slice(0, -5));
    expect(client.statuses).toEqual([401]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
  });

  it('is not answered where the body is too large', async () => {
    const { port } = await serve((req, res) => {
      void (async () => req.read(3))().catch((error: ProtocolError) => refuse(req, res, error));
    });
    expect((await exchange(port, post('/a', 'hello', EXPECT).slice(0, -5))).statuses).toEqual([413]);
  });

  it.each([
    ['the body came with it', post('/a', 'hello', EXPECT)],
    ['some of the body came with it', [post('/a', 'hello', EXPECT).slice(0, -2), 'lo']],
    ['there is no body', get('/a', EXPECT)],
    [
      'it is HTTP/1.0',
      [post('/a', 'hello', EXPECT, 'Connection: keep-alive').replace('1.1', '1.0').slice(0, -5), 'hello'],
    ],
  ])('is not answered where %s', async (_, parts) => {
    const { port } = await serve(echo);
    const client = await Client.open(port);
    for (const part of [parts].flat()) {
      client.send(part);
      await sleep(20);
    }
    await client.reply();
    expect(client.statuses).toEqual([200]);
  });

  it('is not answered within an answer', async () => {
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

describe('answers without a body', () => {
  it('leave the connection as it was', async () => {
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

  it('ends the connection with the answer', async () => {
    const { port } = await serve(echo);
    const client = await exchange(port, old() + old());
    expect(client.replies).toMatchObject([{ status: 200, body: 'GET /a ' }]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
  });

  it('keeps it where the client asks for that', async () => {
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

describe('a client that leaves', () => {
  interface Seen {
    closes: number;
    finished: boolean | undefined;
    body: string;
  }
  /** Watches one request. */
  const watch = (req: InboundRequest, res: InboundResponse, seen: Seen): void => {
    res.onClose(() => {
      seen.closes++;
      seen.finished = res.finished;
    });
    void (async () => req.read(1_000_000))().then(
      () => {
        seen.body = 'read';
      },
      (error: ProtocolError) => {
        seen.body = error.reason;
      },
    );
  };
  const leave: Record<string, (client: Client) => void> = {
    FIN: ({ socket }) => void socket.end(),
    RST: ({ socket }) => void socket.resetAndDestroy(),
    'no word more than that it is gone': ({ socket }) => void socket.destroy(),
  };
  const ways = Object.keys(leave);

  it.each(ways)('before all of its body, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    let res: InboundResponse | undefined;
    const { port, listener } = await serve((req, given) => {
      res = given;
      watch(req, given, seen);
    });
    const client = (await Client.open(port, true)).send(post('/a', 'hello').slice(0, -1));
    await until(() => res !== undefined);
    leave[way]!(client);
    await until(() => seen.closes > 0 && listener.count === 0);
    await turn();
    expect(seen).toEqual({ closes: 1, finished: false, body: 'invalid_request' });
    // Too late for anything.
    res!.sendText(200, [], 'late');
    res!.open(200, []);
    res!.write('late');
    res!.end();
    res!.destroy();
    await turn();
    expect(seen.closes).toBe(1);
    expect(res!.finished).toBe(false);
  });

  it.each(ways)('before its answer, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    const { port, listener } = await serve((req, res) => watch(req, res, seen));
    const client = (await Client.open(port, true)).send(post('/a', 'hello'));
    await until(() => seen.body !== '');
    leave[way]!(client);
    await until(() => seen.closes > 0 && listener.count === 0);
    expect(seen).toEqual({ closes: 1, finished: false, body: 'read' });
  });

  it.each(ways)('during its answer, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    let res: InboundResponse | undefined;
    const { port, listener } = await serve((req, given) => {
      res = given;
      watch(req, given, seen);
      given.open(200, []);
      given.write('abc');
    });
    const client = (await Client.open(port, true)).send(post('/a', 'hello'));
    await until(() => client.text.endsWith('abc\r\n'));
    leave[way]!(client);
    await until(() => seen.closes > 0 && listener.count === 0);
    res!.write('def');
    res!.end();
    await turn();
    expect(seen).toEqual({ closes: 1, finished: false, body: 'read' });
  });

  it.each(ways.slice(1))('during an answer it does not read, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    const { port, listener } = await serve((req, res) => {
      watch(req, res, seen);
      res.send(200, [], [Buffer.alloc(50_000_000)]);
    });
    const client = await Client.open(port, true);
    client.send(post('/a', 'hello'));
    client.socket.pause();
    await sleep(50);
    expect(seen.closes).toBe(0);
    leave[way]!(client);
    await until(() => seen.closes > 0 && listener.count === 0);
    expect(seen).toEqual({ closes: 1, finished: false, body: 'read' });
  });

  it.each(ways)('after its answer, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    const { port, listener } = await serve((req, res) => {
      watch(req, res, seen);
      res.sendText(200, [], 'hello');
    });
    const client = (await Client.open(port, true)).send(post('/a', 'hello'));
    await client.reply();
    leave[way]!(client);
    await until(() => listener.count === 0);
    expect(seen).toEqual({ closes: 1, finished: true, body: 'read' });
  });

  it('is not told that it was answered when it could not be: while its end is noticed', async () => {
    const finished: boolean[] = [];
    const { port } = await serve((req, res) => {
      res.onClose(() => finished.push(res.finished));
      (req.source as Connection).socket.once('end', () =>
        // When it was answered in kind.
        process.nextTick(() =>
          process.nextTick(() => {
            res.open(200, []);
            res.end();
          }),
        ),
      );
    });
    const client = (await Client.open(port, true)).send(get('/a'));
    await sleep(20);
    client.socket.end();
    await until(() => finished.length > 0);
    await client.end();
    expect(client.text).toBe('');
    expect(finished).toEqual([false]);
  });

  it.each<[string, (res: InboundResponse) => void]>([
    ['in one piece', (res) => res.sendText(200, [], 'late')],
    ['in pieces', (res) => res.send(200, [], [Buffer.alloc(20_000)])],
    [
      'as a stream',
      (res) => {
        res.open(200, []);
        res.end();
      },
    ],
  ])('is not told that it was answered when it could not be: after the connection was cut, %s', async (_, answer) => {
    const finished: boolean[] = [];
    const { port } = await serve((req, res) => {
      res.onClose(() => finished.push(res.finished));
      (req.source as Connection).destroy();
      answer(res);
    });
    (await Client.open(port)).send(get('/a'));
    await until(() => finished.length > 0);
    await sleep(10);
    expect(finished).toEqual([false]);
  });

  it('is not told that it was answered when it could not be: when it is gone and nobody has noticed', async () => {
    const finished: boolean[] = [];
    let answer: (() => void) | undefined;
    const { port, listener } = await serve((_, res) => {
      res.onClose(() => finished.push(res.finished));
      answer = () => res.sendText(200, [], 'late');
    });
    const client = await Client.open(port);
    // So much more that nothing is read any longer.
    client.send(get('/a') + get('/b').repeat(10_000));
    await sleep(100);
    client.socket.resetAndDestroy();
    await sleep(50);
    answer!();
    await until(() => listener.count === 0);
    expect(finished).toEqual([false]);
  });

  it('is noticed while it is served, whatever the size of its body', async () => {
    let closes = 0;
    let waiting = 0;
    const { port } = await serve((req, res) => {
      res.onClose(() => closes++);
      // The body is asked for when all of it is there.
      const look = setInterval(() => {
        if (!req.complete) return;
        clearInterval(look);
        waiting = req.read(1_000_000) instanceof Buffer ? 1 : 0;
      }, 2);
    });
    const client = (await Client.open(port)).send(post('/a', 'a'.repeat(100_000)));
    await until(() => waiting === 1);
    client.socket.destroy();
    await until(() => closes === 1);
  });

  it('hears of one that is over already', async () => {
    const heard: string[] = [];
    const { port } = await serve((_, res) => {
      res.onClose(() => {
        heard.push('first');
        res.onClose(() => heard.push('later'));
      });
    });
    const client = (await Client.open(port)).send(get('/a'));
    await sleep(20);
    client.socket.destroy();
    await until(() => heard.length === 2);
    expect(heard).toEqual(['first', 'later']);
  });
});

describe('large answers to clients that read slowly', () => {
  it('come whole, are finished at their end, and the connection goes on', async () => {
    const body = Buffer.alloc(5_000_000);
    for (let i = 0; i < body.length; i += 4) body.writeUInt32LE(i, i);
    const closed: [string, boolean][] = [];
    const { port } = await serve((req, res) => {
      res.onClose(() => closed.push([req.target, res.finished]));
      if (req.target === '/stream') {
        res.open(200, []);
        for (let at = 0; at < body.length; at += 70_000) res.write([body.subarray(at, at + 70_000)]);
        res.end();
      } else if (req.target === '/one') res.send(200, [], [body.subarray(0, 1_000), body.subarray(1_000)]);
      else res.sendText(200, [], 'next');
    });
    const client = await Client.open(port);
    const { socket } = client;
    let unread = true;
    socket.on('data', () => {
      socket.pause();
      unread = closed.length === 0;
      setTimeout(() => socket.resume(), 1);
    });
    client.send(get('/one') + get('/stream') + get('/next'));
    const seen: Reply[] = await (async () => {
      await until(
        () => closed.length === 3,
        () => closed,
      );
      await client.reply(3);
      return client.replies;
    })();
    expect(unread).toBe(false);
    expect(seen[0]!.body === body.toString('latin1')).toBe(true);
    expect(seen[1]!.body === body.toString('latin1')).toBe(true);
    expect(seen[2]!.body).toBe('next');
    expect(closed).toEqual([
      ['/one', true],
      ['/stream', true],
      ['/next', true],
    ]);
  });

  it('are not finished before the client takes them', async () => {
    const closed: boolean[] = [];
    const { port } = await serve((_, res) => {
      res.onClose(() => closed.push(res.finished));
      res.send(200, [], [Buffer.alloc(30_000_000)]);
    });
    const client = await Client.open(port);
    client.socket.pause();
    client.send(get('/a'));
    await sleep(100);
    expect(closed).toEqual([]);
    client.socket.resume();
    await until(() => client.size > 30_000_000);
    await until(() => closed.length > 0);
    expect(closed).toEqual([true]);
  });
});

describe('a client that sends on and on', () => {
  it('is not listened to before it was answered, and found gone then', async () => {
    let source: Connection | undefined;
    let answer: (() => void) | undefined;
    const { port, listener } = await serve((req, res) => {
      source = req.source as Connection;
      answer = () => res.sendText(200, [], 'ok');
    });
    const client = (await Client.open(port)).send(get('/a'));
    await until(() => source !== undefined);
    const part = Buffer.alloc(1_000_000, 97);
    for (let i = 0; i < 100; i++) client.send(part);
    let read = -1;
    while (read !== source!.socket.bytesRead) {
      read = source!.socket.bytesRead;
      await sleep(50);
    }
    expect(read).toBeLessThan(500_000);
    expect(listener.count).toBe(1);
    client.socket.destroy();
    await sleep(50);
    answer!();
    await until(() => listener.count === 0);
  });

  it('is not kept because of empty lines', async () => {
    const { port, clock } = await Clock.serve(echo);
    const client = (await Client.open(port)).send(get('/a'));
    await client.reply();
    for (let i = 0; i < 40 && clock.connections.size > 0; i++) {
      client.send('\r\n');
      await sleep(3);
      clock.pass(2);
    }
    await client.end();
    expect(clock.connections.size).toBe(0);
  });
});

describe('time', () => {
  it('ends a connection that nobody uses, without a word', async () => {
    const { port, clock } = await Clock.serve(echo);
    const client = (await Client.open(port)).send(get('/a'));
    const { head } = await client.reply();
    expect(head).toContain('\r\nKeep-Alive: timeout=65\r\n');
    clock.pass(65);
    await sleep(10);
    expect(client.closed).toBe(false);
    clock.pass(1);
    await client.end();
    expect(client.statuses).toEqual([200]);
  });

  it.each([
    ['nothing', ''],
    ['an empty line', '\r\n'],
    ['half an empty line', '\r'],
    ['half a head', 'GET / HTTP/1.1\r\nHost'],
  ])('ends a connection on which %s comes', async (_, text) => {
    const { port, clock } = await Clock.serve(echo);
    const client = await Client.open(port);
    if (text) client.send(text);
    await until(() => clock.connections.size === 1);
    await sleep(10);
    clock.pass(5);
    await sleep(10);
    expect(client.text).toBe('');
    clock.pass(1);
    await client.reply();
    clock.pass(10);
    await client.end();
    expect(client.statuses).toEqual([408]);
    expect(clock.refused).toEqual(['request_timeout']);
  });

  it('does not count for a head what passed before it', async () => {
    const { port, clock } = await Clock.serve(echo);
    const client = (await Client.open(port)).send(get('/a'));
    await client.reply();
    clock.pass(60);
    client.send(get('/b').slice(0, -2));
    await sleep(20);
    clock.pass(5);
    expect((await client.send('\r\n').reply(2)).status).toBe(200);
    client.send(get('/c').slice(0, -2));
    await sleep(20);
    clock.pass(6);
    expect((await client.reply(3)).status).toBe(408);
    await client.end();
  });

  it.each<[string, Handle]>([
    ['awaited', echo],
    ['not asked for', () => {}],
    [
      'asked for too late',
      (req, res) => {
        setTimeout(() => echo(req, res), 100);
      },
    ],
  ])('ends a request whose body does not come, and is %s', async (_, handle) => {
    let closes = 0;
    const { port, clock } = await Clock.serve((req, res) => {
      res.onClose(() => closes++);
      handle(req, res);
    });
    const client = (await Client.open(port)).send(post('/a', 'hello').slice(0, -1));
    await until(() => clock.connections.size === 1);
    await sleep(20);
    clock.pass(30);
    await sleep(10);
    expect(client.text).toBe('');
    clock.pass(5);
    await client.reply();
    clock.pass(40);
    await sleep(120);
    clock.pass(5);
    await client.end();
    expect(client.statuses).toEqual([408]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
    expect(closes).toBe(1);
  });

  it('does not end a request that takes long to answer', async () => {
    let answer: (() => void) | undefined;
    const { port, clock } = await Clock.serve((_, res) => {
      answer = () => res.sendText(200, [], 'ok');
    });
    const client = (await Client.open(port)).send(post('/a', 'hello'));
    await until(() => answer !== undefined);
    clock.pass(1_000);
    answer!();
    expect((await client.reply()).status).toBe(200);
    expect(clock.connections.size).toBe(1);
  });

  it('is given to a client that is to hear that the connection is over', async () => {
    const { port, clock } = await Clock.serve(echo);
    const client = (await Client.open(port, true)).send(get('/a', 'Connection: close'));
    await client.reply();
    await until(() => client.ended);
    expect(clock.connections.size).toBe(1);
    clock.pass(2);
    await until(() => clock.connections.size === 0);
  });
});

it('answers whatever its clients do, and forgets them', async () => {
  const { port, listener } = await serve((req, res) => {
    if (req.target === '/stream') {
      res.open(200, []);
      res.write('a');
    } else echo(req, res);
  });
  const texts = [get('/a'), get('/stream'), post('/b', 'abc').slice(0, -1), 'GET', chunked('/c', 'abc').slice(0, -3)];
  await Promise.all(
    Array.from({ length: 60 }, async (_, i) => {
      const client = (await Client.open(port)).send(texts[i % texts.length]!);
      await sleep(i % 7);
      if (i % 2) client.socket.resetAndDestroy();
      else client.socket.end();
      await client.end();
    }),
  );
  await until(() => listener.count === 0);
  expect((await (await Client.open(port)).send(get('/z')).reply()).status).toBe(200);
});
