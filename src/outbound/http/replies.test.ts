/** Replies of servers, byte by byte, and how the client reads them: on real sockets. */
import type { Socket } from 'node:net';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { ask, Ear, type RawServer, rawServer } from '../../../test/support/raw-http-servers.js';
import { sleep } from '../../core/timing.js';
import { HttpClient } from './index.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function raw(asked: (socket: Socket, request: string, nth: number) => void): Promise<RawServer> {
  const server = await rawServer(asked);
  closing.push(() => server.close());
  return server;
}

function client(): HttpClient {
  const http = new HttpClient({ connectTimeout: 5_000 });
  closing.push(() => http.close());
  return http;
}

const lines = (...all: string[]): string => `${all.join('\r\n')}\r\n\r\n`;

describe('the head of a reply', () => {
  it('has names in lower case and values without surrounding blanks, in order', async () => {
    const { url } = await raw((socket) =>
      socket.end(
        lines('HTTP/1.1 404 Not Found', 'Set-Cookie: a', 'X-Empty:', 'set-cookie: \t b c\t ', 'X-Latin: \u00e9'),
        'latin1',
      ),
    );
    const ear = ask(client(), url);
    await ear.over;
    expect(ear.status).toBe(404);
    expect(ear.headers).toEqual(['set-cookie', 'a', 'x-empty', '', 'set-cookie', 'b c', 'x-latin', '\u00e9']);
  });

  it.each([
    [['HTTP/2 200 OK']],
    [['HTTP/1.2 200 OK']],
    [['http/1.1 200 OK']],
    [['HTTP/1.1  200 OK']],
    [['HTTP/1.1 20 OK']],
    [['HTTP/1.1 2000 OK']],
    [['HTTP/1.1 000 OK']],
    [[' HTTP/1.1 200 OK']],
    [['SSH-2.0-OpenSSH_9.6']],
    [['220 mail.example ESMTP']],
    [['\x15\x03\x01\x00\x02\x02\x46']],
    [['HTTP/1.1 200 OK', 'no colon']],
    [['HTTP/1.1 200 OK', ': no name']],
    [['HTTP/1.1 200 OK', 'content-length : 5']],
    [['HTTP/1.1 200 OK', 'content length: 5']],
    // Folded lines.
    [['HTTP/1.1 200 OK', ' content-length: 5']],
    [['HTTP/1.1 200 OK', 'x: a', '\tb: c']],
    // Line ends of one character.
    [['HTTP/1.1 200 OK\ncontent-length: 5']],
    [['HTTP/1.1 200 OK\rcontent-length: 5']],
    [['HTTP/1.1 200 OK', 'x: a\r']],
    [['HTTP/1.1 200 OK', 'x: a\n']],
    [['HTTP/1.1 200 OK', 'x: a\0b']],
    [['HTTP/1.1 200 OK', 'x: a\x7f']],
    // Ambiguous lengths.
    [['HTTP/1.1 200 OK', 'content-length: 5', 'content-length: 6']],
    [['HTTP/1.1 200 OK', 'content-length: 5', 'Content-Length: 5']],
    [['HTTP/1.1 200 OK', 'content-length: 5, 5']],
    [['HTTP/1.1 200 OK', 'content-length: +5']],
    [['HTTP/1.1 200 OK', 'content-length: -5']],
    [['HTTP/1.1 200 OK', 'content-length: 0x5']],
    [['HTTP/1.1 200 OK', 'content-length: 5.0']],
    [['HTTP/1.1 200 OK', 'content-length: 5\u00a0']],
    [['HTTP/1.1 200 OK', 'content-length:']],
    [['HTTP/1.1 200 OK', 'content-length: 99999999999999999999999']],
    [['HTTP/1.1 200 OK', 'content-length: 5', 'transfer-encoding: chunked']],
    [['HTTP/1.1 204 OK', 'content-length: 5', 'transfer-encoding: chunked']],
    [['HTTP/1.1 101 Switching Protocols', 'upgrade: x', 'connection: upgrade']],
    [['HTTP/1.1 200 OK', `x: ${'a'.repeat(40_000)}`]],
  ])('is refused at once if it is %j', async (head) => {
    const { url, sockets } = await raw((socket) => socket.write(lines(...head), 'latin1'));
    const ear = ask(client(), url);
    await ear.over;
    expect(ear.failure).toMatchObject({ sent: true, error: { code: 'HTTP_INVALID' } });
    await expect.poll(() => sockets[0]!.destroyed || sockets[0]!.readableEnded).toBe(true);
  });

  it('may be long and arrive in many pieces', async () => {
    const text = `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(30_000)}\r\ncontent-length: 2\r\n\r\nhi`;
    const { url } = await raw(async (socket) => {
      socket.setNoDelay(true);
      for (let at = 0; at < text.length; at += 1_000) {
        socket.write(text.slice(at, at + 1_000));
        await new Promise(setImmediate);
      }
    });
    const ear = ask(client(), url);
    await ear.over;
    expect(ear.outcome).toEqual({ status: 200, body: 'hi' });
  });
});

/** Valid replies in every framing. */
const VALID = {
  length: 'HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nH\r\n\r\n0\r\n\xff ab',
  chunks:
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nH\r\n\r\n\r\n7\r\n0\r\n\xff ab\r\n0\r\na: b\r\n\r\n',
  'an interim reply':
    'HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nH\r\n\r\n0\r\n\xff ab',
  'HTTP/1.0': 'HTTP/1.0 200 OK\r\ncontent-length: 12\r\n\r\nH\r\n\r\n0\r\n\xff ab',
  'the end of the connection': 'HTTP/1.1 200 OK\r\nx: y\r\n\r\nH\r\n\r\n0\r\n\xff ab',
};
const BODY = 'H\r\n\r\n0\r\n\xff ab';

describe.each(Object.entries(VALID))('a reply framed by %s', (framing, text) => {
  const untilClose = framing === 'the end of the connection';

  it('is read the same way wherever it is split or paused', async () => {
    const { url } = await raw(async (socket, request) => {
      const cut = Number(/cut=(\d+)/.exec(request)![1]);
      socket.setNoDelay(true);
      socket.write(text.slice(0, cut), 'latin1');
      await sleep(2);
      if (untilClose) socket.end(text.slice(cut), 'latin1');
      else socket.write(text.slice(cut), 'latin1');
    });
    const http = client();
    const asked = Array.from({ length: text.length - 1 }, (_, cut) => {
      const ear = new Ear();
      const pause = (): void => {
        ear.exchange!.pause!();
        setTimeout(() => ear.exchange!.resume!(), 3);
      };
      if (cut % 2 === 0) ear.onStart = pause;
      if (cut % 3 !== 0) ear.onData = pause;
      return ask(http, `${url}?cut=${cut + 1}`, {}, ear);
    });
    await Promise.all(asked.map((ear) => ear.over));
    for (const ear of asked) {
      expect(ear.outcome).toEqual({ status: 200, body: BODY });
      expect([ear.starts, ear.ends]).toEqual([1, 1]);
    }
  });

  it.each(['closes', 'resets'])('fails once if the server %s the connection at any byte', async (how) => {
    const { url } = await raw((socket, request) => {
      const cut = Number(/cut=(\d+)/.exec(request)![1]);
      if (how === 'closes') socket.end(text.slice(0, cut), 'latin1');
      else socket.write(text.slice(0, cut), 'latin1', () => setTimeout(() => socket.resetAndDestroy(), 3));
    });
    const http = client();
    const head = text.lastIndexOf('\r\n\r\n', text.indexOf('H\r\n\r\n0') - 1) + 4;
    const asked = Array.from(
      { length: text.length - 1 },
      (_, cut) => [cut + 1, ask(http, `${url}?cut=${cut + 1}`)] as const,
    );
    await Promise.all(asked.map(([, ear]) => ear.over));
    for (const [cut, ear] of asked) {
      expect(ear.ends).toBe(1);
      expect(BODY.startsWith(ear.body)).toBe(true);
      // Where the end of the connection ends the reply, a premature end cannot be detected.
      if (untilClose && how === 'closes' && cut >= head) expect(ear.failure).toBeUndefined();
      else expect(ear.failure).toMatchObject({ sent: true, error: { code: 'ECONNRESET' } });
    }
  });
});

it('a reply without a request, or garbage in any pieces, fails one request and never ends the process', async () => {
  const bit = fc.constantFrom(
    'HTTP/1.1 200 OK',
    'HTTP/1.1 ',
    'content-length: 2',
    'transfer-encoding: chunked',
    '\r\n',
    '\r\n\r\n',
    '\n',
    '\r',
    '2\r\nhi\r\n',
    '0\r\n\r\n',
    'hi',
    ':',
    ' ',
    '\0',
  );
  let text = '';
  const { url } = await raw(async (socket) => {
    for (const byte of text) {
      socket.write(byte, 'latin1');
      if (byte === '\n') await new Promise(setImmediate);
    }
    socket.end();
  });
  const http = client();
  await fc.assert(
    fc.asyncProperty(fc.array(bit, { maxLength: 12 }), async (bits) => {
      text = bits.join('');
      const ear = new Ear();
      ear.onData = () => {
        ear.exchange!.pause!();
        setImmediate(() => ear.exchange!.resume!());
      };
      ask(http, url, { method: 'POST', body: Buffer.from('x') }, ear);
      await ear.over;
      expect(ear.ends).toBe(1);
      if (ear.failure)
        expect(ear.failure).toMatchObject({
          sent: true,
          error: { code: expect.stringMatching(/^(ECONNRESET|HTTP_INVALID)$/) },
        });
    }),
    { numRuns: 300 },
  );
});
