import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import { CHUNKED, HttpSyntaxError } from '../../protocol/http/fields.js';
import { checkRequestBegun, readRequestHead } from './request-head.js';

const lines = (...all: string[]): string => all.join('\r\n');
const HOST = 'Host: a';
const GET = 'GET / HTTP/1.1';
const POST = 'POST / HTTP/1.1';
const reasonOf = (error: unknown): string =>
  error instanceof HttpSyntaxError ? 'syntax' : error instanceof ProtocolError ? error.reason : 'a bug';
function refusal(text: string): string {
  try {
    readRequestHead(text);
  } catch (error) {
    return reasonOf(error);
  }
  return 'taken';
}

describe('the head of a request', () => {
  it('gives names in lower case and values without the blanks around them, in their order', () => {
    expect(
      readRequestHead(lines('GET /a?b=c HTTP/1.1', HOST, 'X-Empty:', 'X-B: \t b c\t ', 'X-L: \u00a0\u00e9')),
    ).toEqual({
      method: 'GET',
      target: '/a?b=c',
      headers: ['host', 'a', 'x-empty', '', 'x-b', 'b c', 'x-l', '\u00a0\u00e9'],
      length: 0,
      keepAlive: true,
      old: false,
    });
  });

  it.each([
    ['GET / HTTP/1.1', '/'],
    ['GET //b/c?d#e HTTP/1.1', '//b/c?d#e'],
    ['GET /\u00e9 HTTP/1.1', '/\u00e9'],
    ['GET http://a/b?c HTTP/1.1', '/b?c'],
    ['GET HTTPS://A/b HTTP/1.1', '/b'],
    ['GET http://a HTTP/1.1', '/'],
    ['GET http://a?b HTTP/1.1', '/?b'],
    ['OPTIONS * HTTP/1.1', '*'],
    ['OPTIONS /b HTTP/1.1', '/b'],
    ['DELETE /b HTTP/1.0', '/b'],
  ])('takes %j for %j', (line, target) => {
    expect(readRequestHead(lines(line, HOST)).target).toBe(target);
  });

  it.each([
    [''],
    [' GET / HTTP/1.1'],
    ['get / HTTP/1.1'],
    ['GET  / HTTP/1.1'],
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
    ['CONNECT a:443 HTTP/1.1'],
    ['GET /\0 HTTP/1.1'],
    ['GET /\x7f HTTP/1.1'],
    ['GET /\r HTTP/1.1'],
    ['GET / HTTP/1.1\n'],
    ['GET / HTTP/1.1\r'],
    ['\r\nGET / HTTP/1.1'],
  ])('refuses the line %j', (line) => {
    expect(refusal(lines(line, HOST))).toBe('syntax');
  });

  it('takes a target on the host only where the host is named', () => {
    expect(refusal('GET http://a/ HTTP/1.0')).toBe('syntax');
    expect(refusal(lines('GET http://a/ HTTP/1.0', HOST))).toBe('taken');
  });

  it.each([
    [[GET], 'syntax'],
    [[GET, 'Hosts: a'], 'syntax'],
    [[GET, 'X: host', 'host-x: a'], 'syntax'],
    [['GET / HTTP/1.0'], 'taken'],
    [[GET, HOST, HOST], 'invalid_request'],
    [[GET, HOST, 'hOST: b'], 'invalid_request'],
    [['GET / HTTP/1.0', HOST, 'Host: b'], 'invalid_request'],
    [[GET, HOST, 'Authorization: a', 'authorization: b'], 'invalid_request'],
    [[GET, HOST, 'Content-Type: a', 'X: y', 'Content-Type: a'], 'invalid_request'],
    [[GET, HOST, 'Mcp-Session-Id: a', 'mcp-session-id: b'], 'invalid_request'],
    // After something was joined as well.
    [[GET, HOST, 'a: b', 'a: c', HOST], 'invalid_request'],
    [[GET, HOST, 'a: b', 'a: c', 'content-type: d', 'content-type: e'], 'invalid_request'],
  ])('%j: %s', (head, outcome) => {
    expect(refusal(lines(...head))).toBe(outcome);
  });

  it('joins what came in several lines, and takes no value for a name', () => {
    const { headers } = readRequestHead(
      lines(
        GET,
        HOST,
        'x: y',
        'y: host',
        'z: x',
        'X: authorization',
        'accept: a',
        'Accept:',
        'x: host',
        'ACCEPT: b, c',
        'authorization: x',
        'y: y',
      ),
    );
    expect(headers).toEqual(
      [
        ['host', 'a'],
        ['x', 'y, authorization, host'],
        ['y', 'host, y'],
        ['z', 'x'],
        ['accept', 'a, , b, c'],
        ['authorization', 'x'],
      ].flat(),
    );
  });

  it('joins the same whatever stands between', () => {
    const name = fc.constantFrom('a', 'b', 'c', 'host', 'authorization', '__proto__', 'constructor');
    fc.assert(
      fc.property(fc.array(fc.tuple(name, name), { maxLength: 12 }), (pairs) => {
        const single = ['host', 'authorization'];
        const want = new Map<string, string>([['host', 'a']]);
        let repeated = false;
        for (const [key, value] of pairs) {
          const before = want.get(key);
          repeated ||= before !== undefined && single.includes(key);
          want.set(key, before === undefined ? value : `${before}, ${value}`);
        }
        const text = lines(GET, HOST, ...pairs.map((pair) => pair.join(': ')));
        if (repeated) expect(refusal(text)).toBe('invalid_request');
        else expect(readRequestHead(text).headers).toEqual([...want].flat());
      }),
    );
  });

  it.each([
    ['no colon'],
    [': no name'],
    ['content-length : 5'],
    ['content-length\t: 5'],
    ['content length: 5'],
    ['content-l\u00e9ngth: 5'],
    ['(a): b'],
    // Folded lines.
    [' a: b'],
    ['\ta: b'],
    ['a: b\r\n c'],
    ['a: b\r\n\tc: d'],
    ['a: b\r\n '],
    // An empty line, or line ends of one character.
    ['\r\na: b'],
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
  ])('refuses the header %j', (header) => {
    expect(refusal(lines(GET, HOST, header))).toBe('syntax');
    expect(refusal(lines(GET, HOST, header, 'x: y'))).toBe('syntax');
  });

  it.each([
    [['content-length: 0'], 0],
    [['content-length: 5'], 5],
    [['Content-Length:\t005 '], 5],
    [['content-length: 999999999999999'], 999_999_999_999_999],
    [['transfer-encoding: chunked'], CHUNKED],
    [['Transfer-Encoding:\tChunKed '], CHUNKED],
    // Names that only look alike.
    [['content_length: 5', 'transfer_encoding: chunked', 'x-content-length: 6'], 0],
    [[], 0],
  ])('frames %j as %i', (headers, length) => {
    expect(readRequestHead(lines(POST, HOST, ...headers)).length).toBe(length);
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
    [['content-length: 9999999999999999']],
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
  ])('refuses the framing %j', (headers) => {
    expect(refusal(lines(POST, HOST, ...headers))).toBe('syntax');
    expect(refusal(lines(GET, HOST, ...headers, 'x: y'))).toBe('syntax');
  });

  it('knows no transfer coding before HTTP/1.1', () => {
    expect(refusal(lines('POST / HTTP/1.0', HOST, 'transfer-encoding: chunked'))).toBe('syntax');
  });

  it.each([
    ['1.1', [], true],
    ['1.1', ['Connection: close'], false],
    ['1.1', ['Connection: Upgrade , CLOSE'], false],
    ['1.1', ['Connection: keep-alive', 'Connection: close'], false],
    ['1.1', ['Connection: closed'], true],
    ['1.1', ['Connection: not-close'], true],
    ['1.1', ['X: close', 'close: connection'], true],
    ['1.0', [], false],
    ['1.0', ['Connection: Keep-Alive'], true],
    ['1.0', ['Connection: x,keep-alive'], true],
    ['1.0', ['Connection: keep-alive, close'], false],
    ['1.0', ['Keep-Alive: timeout=5'], false],
  ])('HTTP/%s with %j is kept: %s', (version, headers, kept) => {
    const head = readRequestHead(lines(`GET / HTTP/${version}`, HOST, ...headers));
    expect(head).toMatchObject({ keepAlive: kept, old: version === '1.0' });
  });

  it('has at most 128 headers, however they are named', () => {
    const many = (count: number, name: (i: number) => string): string =>
      lines(GET, HOST, ...Array.from({ length: count - 1 }, (_, i) => `${name(i)}: y`));
    for (const name of [(i: number) => `x${i}`, () => 'x']) {
      expect(refusal(many(128, name))).toBe('taken');
      expect(refusal(many(129, name))).toBe('headers_too_large');
    }
  });

  it('is read, or refused in so many words, whatever it says', () => {
    const byte = fc.nat(255).map((code) => String.fromCharCode(code));
    const line = fc.oneof(
      fc.string({ unit: byte, maxLength: 30 }),
      fc.constantFrom(
        ...[HOST, 'content-length: 3', 'transfer-encoding: chunked', 'a:b', ' x', '', 'connection: close', 'host:'],
      ),
    );
    const first = fc.oneof(
      fc.constantFrom(GET, POST, 'GET http://a/ HTTP/1.0', 'OPTIONS * HTTP/1.1'),
      fc.string({ unit: byte, maxLength: 20 }),
      fc.string({ unit: byte, minLength: 1, maxLength: 20 }).map((target) => `GET ${target} HTTP/1.1`),
    );
    fc.assert(
      fc.property(first, fc.array(line, { maxLength: 6 }), (begin, all) => {
        try {
          const { target, length, headers } = readRequestHead(lines(begin, ...all));
          expect(target === '*' || target.startsWith('/')).toBe(true);
          expect(length).toBeGreaterThanOrEqual(CHUNKED);
          const names = headers.filter((_, i) => i % 2 === 0);
          expect(new Set(names).size).toBe(names.length);
        } catch (error) {
          if (!(error instanceof HttpSyntaxError) && !(error instanceof ProtocolError)) throw error;
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it('is read in a time that grows with its length, whatever it is made of', () => {
    const worst = ['\r\n', ' ', ':', 'a:', 'a: ,\r\n', 'http://', 'close ,', '\r', '\t'];
    const of = (unit: string, size: number): string => `${lines(GET, HOST)}\r\n${unit.repeat(size / unit.length)}`;
    const time = (size: number): number => {
      const begun = process.cpuUsage();
      for (const unit of worst) {
        refusal(of(unit, size));
        refusal(of(`connection:${unit}`, size));
        refusal(unit.repeat(size / unit.length));
      }
      const { user, system } = process.cpuUsage(begun);
      return user + system;
    };
    time(16_384);
    // Eight times the length would be 64 times the work of something quadratic.
    expect(time(131_072)).toBeLessThan(30 * time(16_384) + 20_000);
  });
});

describe('half a head', () => {
  const begun = (text: string, seen = 0): void => checkRequestBegun(Buffer.from(text, 'latin1'), seen);

  it.each([
    'G',
    'GET',
    'GET / HTTP/1.1',
    'GET / HTTP/1.1\r',
    'GET / HTTP/1.1\r\n',
    'GET / HTTP/1.1\r\na: \tb\xff\r\nc\r',
  ])('waits for the rest of %j', (text) => {
    for (let seen = 0; seen < text.length; seen++) begun(text, seen);
  });

  it.each([
    '\0',
    ' GET',
    '\t',
    '\x16\x03\x01\x02',
    '\xff',
    'GET /\n',
    'GET / HTTP/1.1\ra',
    'GET / HTTP/1.1\r\r',
    'GET \0',
  ])('does not wait for the rest of %j', (text) => {
    expect(() => begun(text)).toThrow(HttpSyntaxError);
    expect(() => begun(text, text.length - 1)).toThrow(HttpSyntaxError);
  });

  it('never refuses the beginning of what would be taken', () => {
    const whole = lines('POST /a HTTP/1.1', HOST, 'a:\tb \xe9', 'content-length: 5', '', '');
    for (let end = 1; end < whole.length; end++)
      for (let seen = 0; seen < end; seen++) begun(whole.slice(0, end), seen);
  });
});
