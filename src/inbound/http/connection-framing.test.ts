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
  serve,
  sleep,
  turn,
  until,
} from '../../../test/support/raw-http-clients.js';
import { SETTINGS } from './listener.js';

afterEach(closeAll);

describe('requests in pieces', () => {
  it.each([
    ['a body with a length', post('/a', 'hello\r\n\r\n')],
    ['chunks', chunked('/b', 'hel', 'lo\r\n0\r\n\r\n')],
    ['chunks with extensions and trailers', `${chunked('/c').slice(0, -5)}3;a="b"\r\nabc\r\n00;x\r\nT: v\r\n\r\n`],
    ['no body', `\r\n\r\n${get('/d')}`],
  ])('are read correctly at every cut: %s', async (_, text) => {
    const { port } = await serve(echo);
    const whole = (await (await Client.open(port)).send(text + text).reply(2)).body;
    await Promise.all(
      Array.from({ length: text.length - 1 }, async (__, i) => {
        const client = (await Client.open(port)).send(text.slice(0, i + 1));
        await sleep(10);
        // The next request arrives together with the rest of this request.
        client.send(text.slice(i + 1) + text);
        const { body } = await client.reply(2);
        expect(client.replies.map((reply) => reply.body)).toEqual([whole, body]);
        expect(body).toBe(whole);
        client.socket.destroy();
      }),
    );
  });

  it('are read correctly byte by byte', async () => {
    const { port } = await serve(echo);
    const client = await Client.open(port);
    for (const byte of get('/a') + post('/b', 'xy') + chunked('/c', 'z', 'zz')) {
      client.send(byte);
      await turn();
    }
    await client.reply(3);
    expect(client.replies.map(({ body }) => body)).toEqual(['GET /a ', 'POST /b xy', 'POST /c zzz']);
  });

  it('may follow empty lines', async () => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(`\r\n${get('/a')}\r\n\r\n${get('/b')}`);
    await client.reply(2);
    expect(client.statuses).toEqual([200, 200]);
  });

  it('are handled before their body has arrived completely', async () => {
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
    ['with large responses', (req, res) => res.send(200, [], [Buffer.alloc(20_000, 97), Buffer.from(req.target)])],
    ['later', (req, res) => void setImmediate(() => res.send(200, [], [Buffer.from(req.target)]))],
    [
      'after varying delays',
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
      'in all forms',
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
  ])('get one response each, in order: %s', async (_, handle) => {
    let under = 0;
    let handled = 0;
    const { port } = await serve((req, res) => {
      // No request is handled before the response to the previous one.
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

  it('are answered in order with chunked bodies', async () => {
    const { port } = await serve(echo);
    const client = await Client.open(port);
    for (let i = 0; i < COUNT; i++) client.send(chunked(`/${i}`, `${i}`, 'x'));
    await client.reply(COUNT);
    expect(client.replies.filter(({ body }, i) => body !== `POST /${i} ${i}x`)).toEqual([]);
  });

  it('are ignored after one that ends the connection', async () => {
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
    ['TE with a space', `${head('Transfer-Encoding : chunked', LENGTH)}0\r\n\r\n${EVIL}`],
    ['TE folded', `${head('X: y\r\n Transfer-Encoding: chunked')}${EVIL}`],
    ['CL.CL', `${head('Content-Length: 0', LENGTH)}${EVIL}`],
    ['a list of lengths', `${head('Content-Length: 0, 5')}${EVIL}`],
    ['a bare line feed in the head', `POST /a HTTP/1.1\r\nHost: a\r\nX: y\n\n${EVIL}`],
    ['a bare line feed before a length', `POST /a HTTP/1.1\r\nHost: a\nContent-Length: 0\r\n\r\n${EVIL}`],
    ['a bare carriage return', `POST /a HTTP/1.1\r\nHost: a\r\nX: y\rContent-Length: 0\r\n\r\n${EVIL}`],
    ['NUL', `${head('X: \0', 'Content-Length: 0')}${EVIL}`],
    ['a bare line feed after a size', `${head(TE)}0\n\n${EVIL}`],
    ['a bare line feed in an extension', `${head(TE)}0;a\n\r\n${EVIL}`],
    ['a bare carriage return in an extension', `${head(TE)}0;a\rb\r\n\r\n${EVIL}`],
    ['a chunk that is too long', `${head(TE)}1\r\nab\r\n0\r\n\r\n${EVIL}`],
    ['a chunk that is too short', `${head(TE)}3\r\nab\r\n0\r\n\r\n${EVIL}`],
    ['a bare line feed after a chunk', `${head(TE)}1\r\na\n0\r\n\r\n${EVIL}`],
    ['a size with a sign', `${head(TE)}+0\r\n\r\n${EVIL}`],
    ['a size with a prefix', `${head(TE)}0x0\r\n\r\n${EVIL}`],
    ['a size that is too large', `${head(TE)}10000000000000000\r\n\r\n${EVIL}`],
    ['a bare line feed in the trailers', `${head(TE)}0\r\nX: y\n\r\n\r\n${EVIL}`],
    ['HTTP/1.0 with chunks', `POST /a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n${TE}\r\n\r\n0\r\n\r\n${EVIL}`],
    ['a body without a length', `${head('Connection: close')}${EVIL}`],
    ['the rest of a body', `${post('/a', 'ab').slice(0, -2)}abcd${EVIL}`],
  ])('is not accepted: %s', async (_, text) => {
    const seen: string[] = [];
    const handle: Handle = (req, res) => {
      seen.push(req.target);
      echo(req, res);
    };
    const { port } = await serve(handle);
    const whole = await exchange(port, text);
    // The result is the same if the end of each request arrives slightly later.
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

  it('is not accepted from chunk extensions', async () => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(
      `${head(TE)}2;a="\\"${EVIL.replaceAll('\r\n', ' ')}"\r\nhi\r\n0\r\nX: ${EVIL.replaceAll('\r\n', ' ')}\r\n\r\n${get('/b')}`,
    );
    await client.reply(2);
    expect(client.replies.map(({ body }) => body)).toEqual(['POST /a hi', 'GET /b ']);
  });
});

describe('invalid requests', () => {
  it.each([
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['a response', 'HTTP/1.1 200 OK\r\n\r\n', 400],
    ['a head that is too long', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'a'.repeat(16_384)}`, 431],
    ['a line that is too long', `GET /${'a'.repeat(17_000)}`, 431],
    ['a method that is too long', 'A'.repeat(17_000), 400],
    ['too many headers', get('/', ...Array.from({ length: 128 }, () => 'X: y')), 431],
    ['no host', 'GET / HTTP/1.1\r\n\r\n', 400],
  ])('are refused at once: %s', async (_, text, status) => {
    const { port } = await serve(echo);
    const client = await exchange(port, text);
    expect(client.statuses).toEqual([status]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
    expect(client.error).toBeUndefined();
  });

  it('are refused after the responses to earlier requests', async () => {
    const { port } = await serve((req, res) => void setTimeout(() => echo(req, res), 5));
    const client = await exchange(port, `${get('/a')}${get('/b')}\0${get('/c')}`);
    expect(client.statuses).toEqual([200, 200, 400]);
  });

  it('a head of exactly the maximum size is accepted', async () => {
    const { port } = await serve(echo, { limits: { ...SETTINGS.limits, head: 8_192 } });
    const fill = (size: number): string => get('/', `X: ${'a'.repeat(size)}`);
    const fits = (await Client.open(port)).send(fill(8_000) + get('/b'));
    expect((await fits.reply(2)).status).toBe(200);
    expect((await exchange(port, fill(8_300) + get('/b'))).statuses).toEqual([431]);
  });

  it('are refused with the reason', async () => {
    const { port } = await serve(echo);
    const said = async (text: string): Promise<string> => (await exchange(port, text)).replies[0]!.body;
    expect(await said('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03')).toMatch(/it is TLS/);
    expect(await said('BREW / HTTP/1.1\r\n\r\n')).toMatch(/invalid method/);
    expect(await said('GET / HTTP/1.1\r\n\r\n')).toMatch(/Host header is missing/);
    expect(await said(get('/', 'Host: b'))).toMatch(/host header appears twice/);
    expect(await said('GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n')).toMatch(/invalid header token/);
    expect(await said(get('/', `X: ${'a'.repeat(17_000)}`))).toMatch(/at most 16384 bytes/);
  });
});

describe('another protocol', () => {
  const upgrade = (to: string): string => get('/', 'Connection: Upgrade', `Upgrade: ${to}`);

  it.each(['CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n', 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nrest'])(
    'is not tunnelled: %j',
    async (text) => {
      const { port } = await serve(echo);
      const client = await exchange(port, text);
      expect(client.statuses).toEqual([405]);
      expect(client.replies[0]!.head).toMatch(/\r\nAllow: /);
      expect(client.replies[0]!.body).toMatch(/CONNECT/);
    },
  );

  it('is not tunnelled before the response to an earlier request', async () => {
    const { port } = await serve((_, res) => void sleep(50).then(() => res.sendText(200, [], 'first')));
    const client = await exchange(port, `${get('/a')}CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n`);
    expect(client.replies.map(({ body }) => body)).toEqual(['first', expect.stringMatching(/CONNECT/)]);
    expect(client.statuses).toEqual([200, 405]);
  });

  it.each(['websocket', 'TLS/1.0', 'h2c, websocket', 'foo'])('is refused: %s', async (to) => {
    const { port } = await serve(echo);
    const client = await exchange(port, upgrade(to) + get('/evil'));
    expect(client.statuses).toEqual([400]);
    expect(client.replies[0]!.body).toContain(to);
  });

  it('an offer of HTTP/2 is answered in HTTP/1.1', async () => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(upgrade('h2c'));
    await client.reply();
    client.send(post('/b', 'hello', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk'));
    expect((await client.reply(2)).body).toBe('POST /b hello');
    client.send(get('/c'));
    await client.reply(3);
    expect(client.statuses).toEqual([200, 200, 200]);
  });

  it('an Upgrade header not named in Connection is ignored', async () => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(get('/', 'Upgrade: websocket'));
    expect((await client.reply()).status).toBe(200);
  });
});
