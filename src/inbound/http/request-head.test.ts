/** Ambiguous and invalid heads, sent to a real listener (fault 11). */
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import {
  Client,
  closeAll,
  echo,
  exchange,
  type Handle,
  serve,
  sleep,
  until,
} from '../../../test/support/raw-http-clients.js';

afterEach(closeAll);

const lines = (...all: string[]): string => `${all.join('\r\n')}\r\n\r\n`;
const HOST = 'Host: a';
const GET = 'GET / HTTP/1.1';
const POST = 'POST / HTTP/1.1';

/** Sends a head followed by a second request, which must not be read if the head is refused. */
async function outcome(text: string): Promise<{ status: number; body: string; seen: string[] }> {
  const seen: string[] = [];
  const { port } = await serve((req, res) => {
    seen.push(req.target);
    res.sendText(200, [], req.target);
  });
  const client = (await Client.open(port)).send(text + lines('GET /behind HTTP/1.1', HOST));
  const { status, body } = await client.reply();
  if (status !== 200) await client.end();
  await sleep(5);
  return { status, body, seen };
}

const refused = async (text: string): Promise<void> => {
  const { status, seen } = await outcome(text);
  expect(status).toBe(400);
  expect(seen).toEqual([]);
};

describe('the first line', () => {
  it.each([
    ['GET / HTTP/1.1', '/'],
    ['GET //b/c?d HTTP/1.1', '//b/c?d'],
    ['GET http://a/b?c HTTP/1.1', '/b?c'],
    ['GET HTTPS://A/b HTTP/1.1', '/b'],
    ['GET http://a HTTP/1.1', '/'],
    ['GET http://a:80/b HTTP/1.1', '/b'],
    ['GET http://a?b HTTP/1.1', '/?b'],
    ['OPTIONS * HTTP/1.1', '*'],
    ['OPTIONS /b HTTP/1.1', '/b'],
    ['DELETE /b HTTP/1.0', '/b'],
  ])('%j asks for %j', async (line, target) => {
    expect(await outcome(lines(line, HOST))).toMatchObject({ status: 200, body: target });
  });

  it.each([
    [' GET / HTTP/1.1'],
    ['get / HTTP/1.1'],
    ['GET / HTTP/1.1 '],
    ['GET /\tHTTP/1.1'],
    ['GET /a b HTTP/1.1'],
    ['GET /'],
    ['GET / HTTP/0.9'],
    ['GET / HTTP/1.2'],
    ['GET / HTTP/1.10'],
    ['GET / HTTP/2'],
    ['GET / HTTP/2.0'],
    ['PRI * HTTP/2.0'],
    ['GET / http/1.1'],
    ['GET / HTTPS/1.1'],
    ['HTTP/1.1 200 OK'],
    ['BREW / HTTP/1.1'],
    ['GETPOST / HTTP/1.1'],
    ['XGET / HTTP/1.1'],
    ['GET * HTTP/1.1'],
    ['GET b HTTP/1.1'],
    ['GET ?b HTTP/1.1'],
    ['GET ftp://a/b HTTP/1.1'],
    ['GET http:/// HTTP/1.1'],
    ['GET http://b/ HTTP/1.1'],
    ['GET http://a:81/ HTTP/1.1'],
    ['GET http://b@a/ HTTP/1.1'],
    ['GET https://a:80/ HTTP/1.1'],
    ['GET /\0 HTTP/1.1'],
    ['GET /\x7f HTTP/1.1'],
    ['GET /\r HTTP/1.1'],
    ['GET / HTTP/1.1\n'],
    ['GET / HTTP/1.1\r'],
  ])('%j is refused', async (line) => {
    await refused(lines(line, HOST));
  });

  it('may name a server only if Host names the same', async () => {
    await refused(lines('GET http://a/ HTTP/1.0'));
    expect((await outcome(lines('GET http://a/ HTTP/1.0', HOST))).status).toBe(200);
  });
});

describe('headers', () => {
  it.each([
    [[GET], 400],
    [[GET, 'Hosts: a'], 400],
    [[GET, 'X: host', 'host-x: a'], 400],
    [['GET / HTTP/1.0'], 200],
    [[GET, HOST, HOST], 400],
    [[GET, HOST, 'hOST: b'], 400],
    [['GET / HTTP/1.0', HOST, 'Host: b'], 400],
    [[GET, HOST, 'Authorization: a', 'authorization: b'], 400],
    [[GET, HOST, 'Content-Type: a', 'X: y', 'Content-Type: a'], 400],
    [[GET, HOST, 'Mcp-Session-Id: a', 'mcp-session-id: b'], 400],
    [[GET, HOST, 'a: b', 'a: c', HOST], 400],
    [[GET, HOST, 'a: b', 'a: c', 'content-type: d', 'content-type: e'], 400],
    // These names have the same lengths as the checked names.
    [[GET, HOST, 'Xost: a', 'Xost: b', 'Content-Size: 1', 'Content-Size: 2'], 200],
  ])('%j: %i', async (head, status) => {
    expect((await outcome(lines(...head))).status).toBe(status);
  });

  it('are joined if a name is repeated, and a value is never read as a name', async () => {
    const told: (string | undefined)[] = [];
    const { port } = await serve((req, res) => {
      for (const name of ['x', 'y', 'accept', 'authorization', 'constructor', '__proto__']) told.push(req.header(name));
      res.sendText(200, [], '');
    });
    const text = lines(GET, HOST, 'x: y', 'y: host', 'X: authorization', 'accept: a', 'ACCEPT: b, c', 'x: host');
    await (await Client.open(port)).send(text).reply();
    expect(told).toEqual(['y, authorization, host', 'host', 'a, b, c', undefined, undefined, undefined]);
  });

  it.each([
    ['no colon'],
    [': no name'],
    ['content-length : 5'],
    ['content-length\t: 5'],
    ['content length: 5'],
    ['content-l\u00e9ngth: 5'],
    ['(a): b'],
    // Folded headers, which continue on a second line.
    [' a: b'],
    ['\ta: b'],
    ['a: b\r\n c'],
    ['a: b\r\n\tc: d'],
    // These lines end with one character.
    ['a: b\nc: d'],
    ['a: b\rc: d'],
    ['a: b\r'],
    ['a: b\n'],
    ['\na: b'],
    ['a: b\0'],
    ['a\0: b'],
    ['a: \x7f'],
    ['a: \x0b'],
    ['a: \x1b[0m'],
  ])('%j is refused', async (header) => {
    await refused(lines(GET, HOST, header));
    await refused(lines(GET, HOST, header, 'x: y'));
  });

  it('are at most 128, with any names', async () => {
    const many = (count: number, name: (i: number) => string): string =>
      lines(GET, HOST, ...Array.from({ length: count - 1 }, (_, i) => `${name(i)}: y`));
    for (const name of [(i: number) => `x${i}`, () => 'x']) {
      expect((await outcome(many(128, name))).status).toBe(200);
      expect((await outcome(many(129, name))).status).toBe(431);
      expect((await outcome(many(3_000, name))).status).toBe(431);
    }
  });
});

describe('framing', () => {
  it.each([
    [['content-length: 0'], ''],
    [['content-length: 5'], 'hello'],
    [['Content-Length:\t005 '], 'hello'],
    [['transfer-encoding: chunked'], '5\r\nhello\r\n0\r\n\r\n'],
    [['Transfer-Encoding:\tChunKed '], '5\r\nhello\r\n0\r\n\r\n'],
    // These names only look similar to the checked names.
    [['content_length: 5', 'transfer_encoding: chunked', 'x-content-length: 6'], ''],
    [[], ''],
  ])('%j is read', async (headers, body) => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(lines(POST, HOST, ...headers) + body + lines(GET, HOST));
    await client.reply(2);
    expect(client.replies.map((reply) => reply.body)).toEqual([`POST / ${body === '' ? '' : 'hello'}`, 'GET / ']);
  });

  it.each([
    [['content-length:']],
    [['content-length: +5']],
    [['content-length: -5']],
    [['content-length: -0']],
    [['content-length: 0x5']],
    [['content-length: 5e1']],
    [['content-length: 5.0']],
    [['content-length: 5, 5']],
    [['content-length: 5 5']],
    [['content-length: 5;']],
    [['content-length: 5\u00a0']],
    [['content-length: Infinity']],
    [['content-length: 18446744073709551621']],
    [['content-length: 5', 'Content-Length: 5']],
    [['content-length: 5', 'content-length: 6']],
    [['content-length: 5', 'transfer-encoding: chunked']],
    [['transfer-encoding: chunked', 'content-length: 0']],
    [['transfer-encoding:']],
    [['transfer-encoding: gzip']],
    [['transfer-encoding: identity']],
    [['transfer-encoding: gzip, chunked']],
    [['transfer-encoding: chunked, chunked']],
    [['transfer-encoding: chunked, identity']],
    [['transfer-encoding: chunked,']],
    [['transfer-encoding: ,chunked']],
    [['transfer-encoding: "chunked"']],
    [['transfer-encoding: chunked;a=b']],
    [['transfer-encoding: xchunked']],
    [['transfer-encoding: chunked\u00a0']],
    [['transfer-encoding: \u0085chunked']],
    [['transfer-encoding: chunked', 'transfer-encoding: chunked']],
    [['transfer-encoding: identity', 'transfer-encoding: chunked']],
    [['transfer-encoding : chunked']],
    [['transfer-encoding\r\n : chunked']],
    [['transfer-encoding:\r\n chunked']],
  ])('%j is refused', async (headers) => {
    await refused(lines(POST, HOST, ...headers));
    await refused(lines(GET, HOST, ...headers, 'x: y'));
  });

  it('has no transfer coding before HTTP/1.1', async () => {
    await refused(lines('POST / HTTP/1.0', HOST, 'transfer-encoding: chunked'));
  });
});

it.each([
  ['1.1', [], true],
  ['1.1', ['Connection: close'], false],
  ['1.1', ['Connection: Upgrade , CLOSE'], false],
  ['1.1', ['Connection: keep-alive', 'Connection: close'], false],
  ['1.1', ['X: close', 'close: connection'], true],
  ['1.0', [], false],
  ['1.0', ['Connection: Keep-Alive'], true],
  ['1.0', ['Keep-Alive: timeout=5'], false],
])('HTTP/%s with %j is kept: %s', async (version, headers, kept) => {
  const { port } = await serve(echo);
  const client = (await Client.open(port)).send(lines(`GET / HTTP/${version}`, HOST, ...headers));
  const { head } = await client.reply();
  expect(head.toLowerCase()).toContain(`\r\nconnection: ${kept ? 'keep-alive' : 'close'}\r\n`);
  if (!kept) await client.end();
});

it('responds to any bytes, or refuses them with a reason', async () => {
  const handle: Handle = (req, res) => {
    expect(req.target === '*' || req.target.startsWith('/')).toBe(true);
    res.sendText(200, [], '');
  };
  const { port } = await serve(handle);
  const byte = fc.nat(255).map((code) => String.fromCharCode(code));
  const line = fc.oneof(
    fc.string({ unit: byte, maxLength: 30 }),
    fc.constantFrom(
      ...[HOST, 'content-length: 3', 'transfer-encoding: chunked', 'a:b', ' x', '', 'connection: close', 'host:'],
    ),
  );
  const first = fc.oneof(
    fc.constantFrom(GET, POST, 'GET http://a/ HTTP/1.0', 'OPTIONS * HTTP/1.1'),
    fc.string({ unit: byte, minLength: 1, maxLength: 20 }),
    fc.string({ unit: byte, minLength: 1, maxLength: 20 }).map((target) => `GET ${target} HTTP/1.1`),
  );
  await fc.assert(
    fc.asyncProperty(first, fc.array(line, { maxLength: 6 }), async (begin, all) => {
      const client = (await Client.open(port)).send(lines(begin, ...all));
      // An incomplete request ends here.
      client.socket.end();
      await client.end();
      for (const { status, body } of client.replies) {
        expect([200, 400, 405, 417, 431]).toContain(status);
        if (status === 400) expect(body).toMatch(/^invalid_request: ./);
      }
    }),
    { numRuns: 500 },
  );
  expect((await exchange(port, lines(GET, HOST, 'Connection: close'))).statuses).toEqual([200]);
});

it.each(['\0', ' GET', '\t', '\x16\x03\x01\x02', '\xff', 'GET / HTTP/1.1\ra', 'GET / HTTP/1.1\r\r', 'GET \0'])(
  'does not wait for the rest of %j',
  async (text) => {
    const { port } = await serve(echo);
    const client = (await Client.open(port)).send(text);
    expect((await client.reply()).status).toBe(400);
    await until(() => client.closed);
  },
);
