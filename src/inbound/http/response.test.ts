/** Responses on the wire. */
import { afterEach, describe, expect, it } from 'vitest';
import {
  Client,
  closeAll,
  get,
  type Handle,
  post,
  serve,
  sleep,
  until,
} from '../../../test/support/raw-http-clients.js';
import type { ProtocolError } from '../../protocol/errors.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';

afterEach(closeAll);

/** The client's view of the response to `request`. */
async function answer(handle: Handle, request = get('/a', 'Connection: close')): Promise<Client> {
  const { port } = await serve(handle);
  const client = (await Client.open(port)).send(request);
  await client.end();
  return client;
}
const bodyOf = ({ text }: Client): string => text.slice(text.indexOf('\r\n\r\n') + 4);

describe('a response', () => {
  it('has a head and a body', async () => {
    const client = await answer((_, res) => {
      res.send(200, ['X-A', 'b', 'X-C', '', 'X-A', 'd'], [Buffer.from('\u00e9'), Buffer.from([0, 255])]);
      expect([res.begun, res.ended, res.closed]).toEqual([true, true, false]);
    });
    expect(client.text).toMatch(/^HTTP\/1\.1 200 OK\r\nX-A: b\r\nX-C: \r\nX-A: d\r\nContent-Length: 4\r\n/);
    expect(client.text).toMatch(/\r\nDate: .* GMT\r\n/);
    expect(bodyOf(client)).toBe('\xc3\xa9\0\xff');
  });

  it('has the length of a text in bytes', async () => {
    const client = await answer((_, res) => res.sendText(200, [], '\u00e9\u{1f600}'));
    expect(client.text).toContain('\r\nContent-Length: 6\r\n');
    expect(bodyOf(client)).toBe('\xc3\xa9\xf0\x9f\x98\x80');
  });

  it.each([0, 1, 16 * 1024, 16 * 1024 + 1, 200_000])('has a body of %i bytes', async (size) => {
    const body = Buffer.alloc(size, 'abc\xff', 'latin1');
    const client = await answer((_, res) => res.send(200, [], [body.subarray(0, 5), body.subarray(5)]));
    expect(client.text).toContain(`\r\nContent-Length: ${size}\r\n`);
    expect(bodyOf(client) === body.toString('latin1')).toBe(true);
  });

  it('is written together with its head if it is small', async () => {
    const { port } = await serve((_, res) => res.send(200, [], [Buffer.from('a'), Buffer.alloc(10_000)]));
    const client = await Client.open(port);
    const pieces: number[] = [];
    client.socket.on('data', (piece) => pieces.push(piece.length));
    for (let i = 0; i < 20; i++) {
      client.send(get('/'));
      await client.reply(i + 1);
    }
    expect(pieces).toHaveLength(20);
  });

  it('is sent once, and later calls have no effect', async () => {
    const client = await answer((_, res) => {
      res.sendText(200, [], 'a');
      res.sendText(500, [], 'b');
      res.send(500, [], []);
      res.open(500, []);
      res.write('c');
      res.write([Buffer.from('d')]);
      res.end();
    });
    expect(client.replies).toMatchObject([{ status: 200, body: 'a' }]);
  });

  it.each(['a\r\nb: c', 'a\nb', 'a\rb', 'a\0', '\x7f', '\u2028', '\u010d\u010a'])(
    'refuses the header value %j, after which another response can be sent',
    async (value) => {
      for (const request of [get('/a', 'Connection: close'), post('/a', 'ab', 'Connection: close').slice(0, -1)]) {
        const client = await answer((_, res) => {
          expect(() => res.sendText(200, ['X', value], 'a')).toThrow();
          expect(() => res.send(200, ['X', value], [])).toThrow();
          expect(() => res.open(200, ['X', value])).toThrow();
          expect(res.begun).toBe(false);
          res.sendText(500, [], 'b');
        }, request);
        expect(client.replies).toMatchObject([{ status: 500, body: 'b' }]);
      }
    },
  );

  it('ends the connection if a Connection header asks for it', async () => {
    const client = await answer((_, res) => res.send(200, ['Connection', 'close'], []), get('/a'));
    expect(client.text.match(/connection: .*/gi)).toEqual(['Connection: close']);
  });
});

describe('a streamed response', () => {
  const stream = (write: (res: InboundResponse) => void): Handle => {
    return (req, res) => {
      res.open(200, []);
      // Nothing follows the head of a HEAD request.
      expect(res.ended).toBe(req.method === 'HEAD');
      write(res);
      res.end();
    };
  };

  it('arrives in the written order', async () => {
    const client = await answer(
      stream((res) => {
        res.write('\u00e9');
        res.write([Buffer.from('abc'), Buffer.alloc(0), Buffer.from('d'.repeat(13))]);
        res.end();
        res.write('late');
      }),
    );
    expect(client.text).toContain('\r\nTransfer-Encoding: chunked\r\n');
    expect(client.replies[0]!.body).toBe(`\xc3\xa9abc${'d'.repeat(13)}`);
  });

  it.each<[string, string | Buffer[]]>([
    ['a text', ''],
    ['parts', []],
    ['an empty part', [Buffer.alloc(0)]],
  ])('does not end with an empty write: %s', async (_, nothing) => {
    const client = await answer(
      stream((res) => {
        res.write('a');
        res.write(nothing);
        res.write('b');
      }),
    );
    expect(client.replies[0]!.body).toBe('ab');
  });

  it('arrives completely if its parts are large', async () => {
    const client = await answer(
      stream((res) => res.write([Buffer.alloc(100_000, 97), Buffer.alloc(0), Buffer.alloc(100_000, 98)])),
    );
    expect(client.replies[0]!.body).toBe('a'.repeat(100_000) + 'b'.repeat(100_000));
  });

  it('delivers each part before the next is written, and the head before any part', async () => {
    let res: InboundResponse | undefined;
    const { port } = await serve((_, given) => {
      res = given;
      given.open(200, []);
    });
    const client = (await Client.open(port)).send(get('/a'));
    await until(() => client.text.endsWith('\r\n\r\n'));
    for (const part of ['one', 'two']) {
      res!.write(part);
      await until(() => client.text.endsWith(`${part}\r\n`));
    }
  });

  it('is only a head for a HEAD request', async () => {
    const client = await answer(
      stream((res) => res.write('a')),
      get('/a', 'Connection: close').replace('GET', 'HEAD'),
    );
    expect(bodyOf(client)).toBe('');
  });
});

describe('an unread response', () => {
  it('tells its writer to wait and when to continue', async () => {
    let res: InboundResponse | undefined;
    let drains = 0;
    const { port } = await serve((_, given) => {
      res = given;
      given.open(200, []);
      given.onDrain(() => drains++);
    });
    const client = (await Client.open(port)).send(get('/a'));
    await until(() => res !== undefined);
    expect(res!.full).toBe(false);
    client.socket.pause();
    await until(() => {
      res!.write([Buffer.alloc(100_000)]);
      return res!.full;
    });
    expect(res!.unread).toBeGreaterThan(0);
    client.socket.resume();
    await until(() => drains > 0 && !res!.full);
  });
});

describe('the end of a response', () => {
  it('is reported once to every remaining listener', async () => {
    const heard: string[] = [];
    const { port } = await serve((_, res) => {
      const [a, b] = [() => void heard.push('a'), () => void heard.push('b')];
      res.onClose(a);
      res.onClose(b);
      res.onClose(() => {
        heard.push(`c ${res.closed} ${res.finished}`);
        res.offClose(a);
      });
      res.offClose(b);
      res.offClose(() => {});
      res.sendText(200, [], 'x');
    });
    await (await Client.open(port)).send(get('/a')).reply();
    await until(() => heard.length > 1);
    await sleep(5);
    expect(heard).toEqual(['a', 'c true true']);
  });

  it('cuts the connection if it has to', async () => {
    let closes = 0;
    const client = await answer((_, res) => {
      res.onClose(() => closes++);
      res.open(200, []);
      res.destroy();
      res.destroy();
      res.write('late');
      expect([res.closed, res.finished, closes]).toEqual([true, false, 1]);
    });
    expect(client.text).not.toContain('late');
    expect(closes).toBe(1);
  });
});

describe('the body of a request', () => {
  const reading =
    (limit: number, tell: (body: string) => void): Handle =>
    (req: InboundRequest, res: InboundResponse) => {
      void (async () => tell((await req.read(limit)).toString()))().then(
        () => res.sendText(200, [], 'ok'),
        (error: ProtocolError) =>
          res.sendText(error.row.http, Object.entries(error.detail.headers!).flat(), error.message),
      );
    };

  it.each([
    ['with a length', post('/', 'hello')],
    ['in chunks', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n'],
  ])('is read up to its limit: %s', async (_, text) => {
    const bodies: string[] = [];
    const { port } = await serve((req, res) =>
      reading(req.target === '/small' ? 4 : 5, (body) => bodies.push(body))(req, res),
    );
    const client = (await Client.open(port)).send(text);
    expect((await client.reply()).status).toBe(200);
    client.send(text.replace('POST /', 'POST /small'));
    expect(await client.reply(2)).toMatchObject({ status: 413, body: expect.stringContaining('exceeds 4 bytes') });
    await client.end();
    expect(bodies).toEqual(['hello']);
  });

  it('is one text with chunks of any size', async () => {
    const bodies: string[] = [];
    const { port } = await serve(reading(1_000_000, (body) => bodies.push(body)));
    const client = (await Client.open(port)).send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
    for (let i = 0; i < 50; i++) client.send(`1\r\n${i % 10}\r\n`.repeat(1_000));
    client.send('0\r\n\r\n');
    await client.reply();
    expect(bodies[0]).toBe(Array.from({ length: 50 }, (_, i) => String(i % 10).repeat(1_000)).join(''));
  });

  it('fails for current and later readers', async () => {
    const reasons: string[] = [];
    const { port } = await serve((req) => {
      const read = (): void =>
        void (async () => req.read(10))().catch((error: ProtocolError) =>
          reasons.push(`${error.reason} ${error.message}`),
        );
      read();
      setTimeout(read, 300);
    });
    const client = (await Client.open(port)).send(post('/', 'hello').slice(0, -1));
    await sleep(50);
    client.socket.destroy();
    await until(() => reasons.length === 2);
    expect(reasons).toEqual(Array(2).fill('invalid_request The body ended early'));
  });
});
