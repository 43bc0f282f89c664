import { createServer as createHttp, type RequestListener } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { ask, Ear, type RawServer, rawServer } from '../../../test/support/raw-http-servers.js';
import { Egress, EgressRefused } from '../egress.js';
import { HttpClient, type HttpClientOptions } from './index.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function client(options: Partial<HttpClientOptions> = {}): HttpClient {
  const made = new HttpClient({ connectTimeout: 2_000, ...options });
  closing.push(() => made.close());
  return made;
}

async function raw(asked: (socket: Socket, request: string, nth: number) => void, host?: string): Promise<RawServer> {
  const server = await rawServer(asked, host === undefined ? {} : { host });
  closing.push(() => server.close());
  return server;
}

async function node(listener: RequestListener): Promise<string> {
  const server = createHttp(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi';
const HI = { status: 200, body: 'hi' };

async function byByte(socket: Socket, text: string): Promise<void> {
  socket.setNoDelay(true);
  for (const byte of text) {
    socket.write(byte, 'latin1');
    await new Promise(setImmediate);
  }
}

describe('kept connections', () => {
  it('are not used again before the client examines the data that arrived during a pause', async () => {
    const { url, sockets } = await raw((socket, _, nth) => {
      socket.write(
        nth === 0 ? 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n' : OK,
      );
    });
    const bell = createServer();
    await new Promise<void>((resolve) => bell.listen(0, '127.0.0.1', resolve));
    closing.push(() => new Promise((resolve) => bell.close(resolve)));
    const ringing = new Promise<Socket>((resolve) => bell.once('connection', resolve));
    const listening = connect((bell.address() as AddressInfo).port, '127.0.0.1');
    closing.push(() => listening.destroy());
    const http = client();
    const ear = new Ear();
    const held = new Promise<void>((resolve) => {
      ear.onData = (size) => {
        if (size > 1) return;
        ear.exchange!.pause!();
        resolve();
      };
    });
    ask(http, url, {}, ear);
    await held;
    await new Promise((resolve) => sockets[0]!.write(OK.replace('hi', 'no'), resolve));
    await sleep(50);
    // Resumes during another read: data on the connection is examined only after that read.
    const next = new Promise<Ear>((resolve) => {
      listening.once('data', () => {
        ear.exchange!.resume!();
        setImmediate(() => resolve(ask(http, url)));
      });
    });
    (await ringing).end('x');
    await (await next).over;
    expect(ear.outcome).toEqual(HI);
    expect((await next).outcome).toEqual(HI);
    expect(sockets).toHaveLength(2);
  });

  it.each([
    ['a length', OK],
    ['chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x\r\nh\r\n1\r\ni\r\n0\r\na: b\r\n\r\n'],
    ['interim replies', `HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 103 Early\r\n\r\n${OK}`],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nhi'],
  ])('deliver one reply after the other, sent byte by byte with %s', async (_, reply) => {
    const { url, sockets } = await raw((socket) => void byByte(socket, reply));
    const http = client();
    for (let i = 0; i < 3; i++) {
      const ear = ask(http, url);
      await ear.over;
      expect(ear.outcome).toEqual(HI);
      await sleep(5);
    }
    expect(sockets).toHaveLength(1);
  });

  it.each([
    ['after a reply with connection: close', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi'],
    ['after a reply of HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi'],
    [
      'if the server keeps them for only a second',
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\nkeep-alive: timeout=1\r\n\r\nhi',
    ],
    ['if bytes follow the reply', `${OK}x`],
    ['if another reply follows the reply', `${OK}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen`],
  ])('are not used again %s', async (_, reply) => {
    const { url, sockets } = await raw((socket) => socket.write(reply));
    const http = client();
    for (let i = 0; i < 3; i++) {
      const ear = ask(http, url);
      await ear.over;
      expect(ear.outcome).toEqual(HI);
    }
    expect(sockets).toHaveLength(3);
    await expect.poll(() => sockets.every((socket) => socket.destroyed || socket.readableEnded)).toBe(true);
  });

  it('are closed by data that arrives without a request', async () => {
    const { url, sockets } = await raw((socket) => {
      socket.write(OK);
      setTimeout(() => socket.write('HTTP/1.1 408 Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'), 20);
    });
    const http = client();
    for (let i = 0; i < 2; i++) {
      const ear = ask(http, url);
      await ear.over;
      expect(ear.outcome).toEqual(HI);
      await expect.poll(() => sockets.at(-1)!.destroyed || sockets.at(-1)!.readableEnded).toBe(true);
    }
    expect(sockets).toHaveLength(2);
  });

  it('are closed when the server half-closes them', async () => {
    const { url, sockets } = await raw((socket) => {
      socket.write(OK);
      setTimeout(() => socket.end(), 10);
    });
    const http = client();
    for (let i = 0; i < 2; i++) {
      const ear = ask(http, url);
      await ear.over;
      expect(ear.outcome).toEqual(HI);
      await expect.poll(() => sockets.at(-1)!.readableEnded).toBe(true);
    }
    expect(sockets).toHaveLength(2);
  });

  it('are used again for a request soon after the last one', async () => {
    const { url, sockets } = await raw((socket) => socket.write(OK));
    const http = client();
    for (let i = 0; i < 5; i++) {
      const ear = ask(http, url);
      await ear.over;
      expect(ear.outcome).toEqual(HI);
      // Excess data after a reply is examined first.
      await new Promise(setImmediate);
    }
    expect(sockets).toHaveLength(1);
  });

  it('do not deliver data after a large body as the next reply', async () => {
    const body = 'x'.repeat(200_000);
    const stolen = 'HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen';
    const { url } = await raw((socket, _, nth) =>
      socket.write(nth % 2 === 0 ? `HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n${body}${stolen}` : OK),
    );
    const http = client();
    for (let i = 0; i < 10; i++) {
      const first = new Ear();
      let second: Ear | undefined;
      first.onEnd = () => {
        second = ask(http, url);
      };
      ask(http, url, {}, first);
      await first.over;
      await second!.over;
      expect(first.body).toBe(body);
      expect(second!.outcome).toEqual(HI);
    }
  });
});

describe('a request', () => {
  it('arrives unchanged, large or small', async () => {
    const url = await node((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const heard = {
          method: request.method,
          url: request.url,
          host: request.headers.host,
          x: request.headers['x-a'],
        };
        response.setHeader('x-heard', JSON.stringify(heard)).end(Buffer.concat(parts));
      });
    });
    const http = client();
    for (const size of [0, 1, 16_384, 16_385, 1_000_000]) {
      const body = Buffer.alloc(size, '\xe9\x00\xff', 'latin1');
      const ear = ask(http, `${url}a/b?c=%20#d`, { method: 'POST', headers: ['x-a', '\u00e9'], body });
      await ear.over;
      expect(ear.body).toBe(body.toString('latin1'));
      const heard = JSON.parse(ear.headers[ear.headers.indexOf('x-heard') + 1]!);
      expect(heard).toEqual({ method: 'POST', url: '/a/b?c=%20', host: new URL(url).host, x: '\u00e9' });
    }
  });

  it('may be answered before it is completely sent', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.pause();
        socket.write('HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno');
      });
    });
    const { url, sockets } = await rawServer(() => {}, { server });
    closing.push(async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const http = client();
    for (let i = 0; i < 2; i++) {
      const ear = ask(http, url, { method: 'POST', body: Buffer.alloc(20_000_000) });
      await ear.over;
      expect(ear.outcome).toEqual({ status: 413, body: 'no' });
    }
    // The rest of the first request must not be read as the second one.
    expect(sockets).toHaveLength(2);
  });

  it('reaches IPv6 addresses', async () => {
    const { url } = await raw(
      (socket, request) => socket.end(`HTTP/1.1 200 OK\r\n\r\n${/host: (.*)\r/.exec(request)![1]}`),
      '::1',
    );
    const ear = ask(client(), url);
    await ear.over;
    expect(ear.outcome).toEqual({ status: 200, body: new URL(url).host });
  });
});

describe('a failure', () => {
  it('says that nothing was sent if no connection was opened', async () => {
    const { url, close } = await raw(() => {});
    await close();
    closing.pop();
    const egress = new Egress({ allowPrivate: true, ports: [] }, (_, __, done) =>
      done(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), []),
    );
    const refused = ask(client(), url);
    const unknown = ask(client({ egress }), 'http://nowhere.invalid/');
    await Promise.all([refused.over, unknown.over]);
    expect(refused.failure).toMatchObject({ sent: false, error: { code: 'ECONNREFUSED' } });
    expect(unknown.failure).toMatchObject({ sent: false, error: { code: 'ENOTFOUND' } });
  });

  it.each([
    ['without a reply', ''],
    ['in the head', 'HTTP/1.1 200 OK\r\nconten'],
    ['in the body', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhi'],
    ['in a chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhi'],
    ['before the last chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n'],
    ['before the last line', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n'],
  ])('is reported for a connection that is closed or reset %s', async (_, text) => {
    const { url } = await raw((socket, request) => {
      if (request.startsWith('DELETE')) socket.write(text, () => setTimeout(() => socket.resetAndDestroy(), 5));
      else socket.end(text);
    });
    const http = client();
    for (const method of ['GET', 'DELETE'] as const) {
      const ear = ask(http, url, { method }, new Ear());
      await ear.over;
      expect(ear.failure).toMatchObject({ sent: true, error: { code: 'ECONNRESET' } });
    }
  });

  it('is reported for a reset during a reply without a length, at any time', async () => {
    const { url } = await raw((socket, _, nth) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\nhi');
      if (nth % 2 === 0) setImmediate(() => socket.resetAndDestroy());
      else setTimeout(() => socket.resetAndDestroy(), 5);
    });
    const http = client();
    for (let i = 0; i < 100; i++) {
      const ear = ask(http, url);
      await ear.over;
      expect(ear.failure).toMatchObject({ sent: true, error: { code: 'ECONNRESET' } });
    }
  });

  it('is reported within the time limit if the server never answers the TLS handshake, and nothing was sent', async () => {
    const { port } = await raw(() => {});
    const ear = ask(client({ connectTimeout: 100 }), `https://127.0.0.1:${port}/`);
    await ear.over;
    expect(ear.failure).toMatchObject({ sent: false, error: { code: 'ETIMEDOUT' } });
  });

  it('is reported within the time limit if a name is never resolved', async () => {
    const egress = new Egress({ allowPrivate: true, ports: [] }, () => {});
    const ear = ask(client({ connectTimeout: 100, egress }), 'http://example.test/');
    await ear.over;
    expect(ear.failure).toMatchObject({ sent: false, error: { code: 'ETIMEDOUT' } });
  });

  it('is reported for an exception of the consumer, and affects no other exchange', async () => {
    const { url } = await raw((socket) => void byByte(socket, OK));
    const http = client();
    const others = [ask(http, url), ask(http, url)];
    const mine = (['onStart', 'onData', 'onEnd'] as const).map((where) => {
      const ear = new Ear();
      ear[where] = () => {
        throw new Error('my fault');
      };
      return ask(http, url, {}, ear);
    });
    await Promise.all([...others, ...mine].map((ear) => ear.over));
    for (const ear of others) expect(ear.outcome).toEqual(HI);
    for (const ear of mine) expect(ear.failure).toMatchObject({ sent: true, error: { message: 'my fault' } });
  });

  it.each([
    ['http://10.0.0.1/', 'names an address'],
    ['http://[::1]/', 'names an address'],
    ['http://[::ffff:7f00:1]/', 'names an address'],
    ['http://127.1/', 'names an address'],
    ['https://2130706433/', 'names an address'],
    ['http://localhost/', 'names a host'],
    ['http://example.com:22/', 'names port 22'],
    ['http://example.com/', 'resolves to'],
  ])('is reported for %s, which must not be dialled', async (url, why) => {
    const egress = new Egress({ allowPrivate: false, ports: [] }, (_, __, done) =>
      done(null, [{ address: '127.0.0.1', family: 4 }]),
    );
    const ear = ask(client({ egress }), url);
    await ear.over;
    expect(ear.failure).toMatchObject({ sent: false, error: { message: expect.stringContaining(why) } });
    expect(ear.failure!.error).toBeInstanceOf(EgressRefused);
  });
});

describe('a closed client', () => {
  it('fails requests under way, and reports whether they were sent', async () => {
    const { url, sockets } = await raw((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhi'));
    const { port } = await raw(() => {});
    const http = client();
    const running = ask(http, url);
    const held = ask(http, url);
    held.exchange!.pause!();
    await expect.poll(() => running.size).toBe(2);
    const connecting = ask(http, `https://127.0.0.1:${port}/`);
    const begun = ask(http, url);
    await http.close();
    for (const ear of [running, held]) expect(ear.failure).toMatchObject({ sent: true, error: { code: 'ECONNRESET' } });
    for (const ear of [connecting, begun])
      expect(ear.failure).toMatchObject({ sent: false, error: { code: 'ECONNRESET' } });
    await expect.poll(() => sockets.every(({ destroyed, readableEnded }) => destroyed || readableEnded)).toBe(true);
  });

  it('sends nothing more, not even for failed requests', async () => {
    const { url, sockets } = await raw(() => {});
    const http = client();
    const ear = ask(http, url);
    await expect.poll(() => sockets.length).toBe(1);
    let again: Ear | undefined;
    void ear.over.then(() => {
      again = ask(http, url);
    });
    await http.close();
    await expect.poll(() => again?.failure).toMatchObject({ sent: false, error: { code: 'ECONNRESET' } });
    expect(sockets).toHaveLength(1);
  });
});

describe('an aborted exchange', () => {
  it('sends nothing if it was aborted while connecting', async () => {
    const asked: string[] = [];
    const { url } = await raw((_, request) => void asked.push(request));
    const http = client();
    const ear = ask(http, url);
    ear.exchange!.abort();
    await sleep(50);
    expect([ear.ends, asked.length]).toEqual([0, 0]);
  });

  it('closes the connection, and no other exchange gets its bytes', async () => {
    const { url, sockets } = await raw((socket, _, nth) => {
      if (nth === 0) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhi');
      else socket.write(OK);
    });
    const http = client();
    const ear = ask(http, url);
    await expect.poll(() => ear.size).toBe(2);
    ear.exchange!.abort();
    const next = ask(http, url);
    await next.over;
    expect(next.outcome).toEqual(HI);
    expect(ear.ends).toBe(0);
    await expect.poll(() => sockets[0]!.destroyed || sockets[0]!.readableEnded).toBe(true);
  });

  it.each(['onStart', 'onData', 'onEnd'] as const)(
    'gets no more callbacks if it was aborted in its own %s',
    async (where) => {
      const { url } = await raw((socket) => socket.write(OK));
      const http = client();
      const ear = new Ear();
      ear[where] = () => ear.exchange!.abort();
      ask(http, url, {}, ear);
      await sleep(50);
      expect(ear).toMatchObject({ starts: 1, size: where === 'onStart' ? 0 : 2, ends: where === 'onEnd' ? 1 : 0 });
      const next = ask(http, url);
      await next.over;
      expect(next.outcome).toEqual(HI);
    },
  );
});

describe('a paused exchange', () => {
  it('delays its reply if it was paused before the connection', async () => {
    const { url } = await raw((socket) => socket.write(OK));
    const ear = ask(client(), url);
    ear.exchange!.pause!();
    await sleep(50);
    expect(ear.starts).toBe(0);
    ear.exchange!.resume!();
    await ear.over;
    expect(ear.outcome).toEqual(HI);
  });

  it('leaves a connection that the next exchange can use', async () => {
    const reply = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n';
    const { url, sockets } = await raw((socket) => socket.write(reply));
    const http = client();
    for (let i = 0; i < 5; i++) {
      const ear = new Ear();
      ear.onData = () => {
        ear.exchange!.pause!();
        setTimeout(() => ear.exchange!.resume!(), 5);
      };
      ask(http, url, {}, ear);
      await ear.over;
      expect(ear.outcome).toEqual(HI);
      await sleep(5);
    }
    expect(sockets).toHaveLength(1);
  });
});
