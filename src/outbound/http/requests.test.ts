/** Requests as sent to the server: none can be read in two ways. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Ear, type RawServer, rawServer } from '../../../test/support/raw-http-servers.js';
import { HttpClient, type HttpRequest } from './index.js';

let server: RawServer;
let http: HttpClient;
let arrived: string[] = [];
beforeAll(async () => {
  server = await rawServer((socket, request) => {
    arrived.push(request);
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
  });
  http = new HttpClient({ connectTimeout: 2_000 });
});
afterAll(async () => {
  await http.close();
  await server.close();
});

async function sent(request: Partial<HttpRequest>, path = '/p?q'): Promise<string | NonNullable<Ear['failure']>> {
  arrived = [];
  const ear = new Ear();
  const target = { origin: server.url.slice(0, -1), path };
  ear.exchange = http.request(target, { method: 'GET', headers: [], ...request }, ear);
  expect(ear.ends).toBe(0);
  await ear.over;
  return ear.failure ?? arrived[0]!;
}
const UNSENDABLE = { sent: false, error: { code: 'HTTP_UNSENDABLE' } };

describe('a request', () => {
  it('has the path, the host and the given headers, in that order', async () => {
    expect(await sent({ headers: ['Accept', 'a/b', 'x', ''] })).toBe(
      `GET /p?q HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\nconnection: keep-alive\r\nAccept: a/b\r\nx: \r\n\r\n`,
    );
  });

  it('has the length of the body', async () => {
    expect(await sent({ method: 'POST', body: Buffer.from('h\u00e9') })).toContain('\r\ncontent-length: 3\r\n\r\n');
    expect(await sent({ method: 'POST' })).toContain('\r\ncontent-length: 0\r\n\r\n');
    expect(await sent({ method: 'POST', body: Buffer.alloc(0) })).toContain('\r\ncontent-length: 0\r\n\r\n');
    expect(await sent({ method: 'DELETE' })).not.toContain('content-length');
    expect(await sent({ method: 'GET' })).not.toContain('content-length');
  });

  it('has the given host header instead of one from its URL', async () => {
    expect(String(await sent({ headers: ['a', 'b', 'Host', 'other'] })).match(/host: .*/gi)).toEqual(['host: other']);
  });

  it('sends header values in Latin-1 unchanged', async () => {
    expect(await sent({ headers: ['x', 'a\t\u00e9\u00ff\u0080'] })).toContain('\r\nx: a\t\u00e9\u00ff\u0080\r\n');
  });

  const bad = ['\r', '\n', '\0', '\r\nx: y', '\x1f', '\x7f', '\u0100', '\u010a', '\u560a', '\ud83d\ude00'];
  it.each(bad.map((text) => [text]))('cannot have %j in a header or path', async (text) => {
    for (const value of [text, `a${text}`, `${text}a`, `a${text}b`]) {
      expect(await sent({ headers: ['x', value] })).toMatchObject(UNSENDABLE);
      expect(await sent({ headers: ['host', value] })).toMatchObject(UNSENDABLE);
      expect(await sent({ headers: [`x${value}`, 'a'] })).toMatchObject(UNSENDABLE);
    }
    if (text !== '\x7f') expect(await sent({}, `/a${text}b`)).toMatchObject(UNSENDABLE);
  });

  it.each(['', ' x', 'x ', 'x:', 'x y', 'x(', '\u00e9', 'x\t'])(
    'cannot have a header with the name %j',
    async (name) => {
      expect(await sent({ headers: [name, 'a'] })).toMatchObject(UNSENDABLE);
    },
  );

  it.each(['Content-Length', 'EXPECT', 'keep-alive', 'Transfer-Encoding', 'upgrade'])(
    'that sets %s itself fails, and nothing is sent',
    async (name) => {
      expect(await sent({ method: 'POST', headers: [name, '1'], body: Buffer.from('ab') })).toMatchObject(UNSENDABLE);
    },
  );

  it.each(['ftp://127.0.0.1', 'null', '', 'file://', 'ws://127.0.0.1'])(
    'cannot go to the origin %j',
    async (origin) => {
      const ear = new Ear();
      http.request({ origin, path: '/' }, { method: 'GET', headers: [] }, ear);
      await ear.over;
      expect(ear.failure).toMatchObject(UNSENDABLE);
    },
  );

  it('has one line per given header, whatever the value', async () => {
    const odd = fc.constantFrom('\r', '\n', '\r\n', '\0', ':', ' ', '\t', '\x7f', '\u010a', 'host');
    const unit = fc.oneof({ weight: 9, arbitrary: fc.constantFrom('a', 'B', '-', '1') }, odd);
    const text = fc.string({ unit, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(text, text), { maxLength: 3 }), text, async (pairs, path) => {
        const written = await sent({ headers: pairs.flat() }, `/${path}`);
        if (typeof written !== 'string') {
          expect(written).toMatchObject(UNSENDABLE);
          return;
        }
        const named = pairs.filter(([name]) => name.toLowerCase() !== 'host').length;
        expect(written.split(/\r|\n|\r\n/).filter(Boolean)).toHaveLength(3 + named);
        expect(written.indexOf('\r\n\r\n')).toBe(written.length - 4);
      }),
      { numRuns: 500 },
    );
  });
});
