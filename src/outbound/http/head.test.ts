import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CHUNKED, type HttpSyntaxError } from '../../protocol/http/fields.js';
import { checkHeadBegun, readHead, TO_THE_END } from './head.js';

const lines = (...all: string[]): string => all.join('\r\n');
const framed = (...all: string[]): { length: number; kept: boolean } => {
  const { length, keep } = readHead(lines(...all));
  return { length, kept: keep > 0 };
};
const INVALID = expect.objectContaining({ code: 'HTTP_INVALID' }) as Error;

describe('the head of a reply', () => {
  it('gives names in lower case and values without the blanks around them, in their order', () => {
    const { status, headers } = readHead(
      lines('HTTP/1.1 404 Not Found', 'Set-Cookie: a', 'X-Empty:', 'set-cookie: \t b c\t ', 'X-Latin: \u00a0\u00e9'),
    );
    expect(status).toBe(404);
    expect(headers).toEqual(['set-cookie', 'a', 'x-empty', '', 'set-cookie', 'b c', 'x-latin', '\u00a0\u00e9']);
  });

  it.each([
    [['HTTP/1.1 200 OK', 'content-length: 5'], 5, true],
    [['HTTP/1.1 200', 'Content-Length:0'], 0, true],
    [['HTTP/1.1 200 ', 'Transfer-Encoding: Chunked'], CHUNKED, true],
    [['HTTP/1.1 200 OK'], TO_THE_END, false],
    [['HTTP/1.1 205 Reset', 'content-length: 0'], 0, true],
    [['HTTP/1.1 204 No Content'], 0, true],
    [['HTTP/1.1 304 Not Modified'], 0, true],
    // No body can follow, yet one is announced: the connection is not trusted any further.
    [['HTTP/1.1 204 No Content', 'content-length: 5'], 0, false],
    [['HTTP/1.1 204 No Content', 'transfer-encoding: chunked'], 0, false],
    [['HTTP/1.1 304 Not Modified', 'content-length: 5'], 0, false],
    [['HTTP/1.1 200 OK', 'content-length: 5', 'connection: close'], 5, false],
    [['HTTP/1.1 200 OK', 'content-length: 5', 'connection: x', 'connection: Keep-Alive , Close'], 5, false],
    [['HTTP/1.1 200 OK', 'content-length: 5', 'connection: closed'], 5, true],
    [['HTTP/1.0 200 OK', 'content-length: 5'], 5, false],
    [['HTTP/1.0 200 OK', 'content-length: 5', 'connection: keep-alive'], 5, true],
    [['HTTP/1.0 200 OK', 'content-length: 5', 'connection: keep-alive, close'], 5, false],
    [['HTTP/1.0 200 OK', 'content-length: 5', 'connection: not-keep-alive'], 5, false],
    [['HTTP/1.0 200 OK', 'connection: keep-alive'], TO_THE_END, false],
    [['HTTP/1.1 100 Continue'], 0, true],
  ])('frames %j as %i', (head, length, kept) => {
    expect(framed(...head)).toEqual({ length, kept });
  });

  it.each([
    [undefined, 30_000],
    ['timeout=5', 4_000],
    ['Timeout=5, max=100', 4_000],
    ['max=100, timeout=20', 19_000],
    ['timeout=1', 0],
    ['timeout=0', 0],
    ['timeout=999999999', 600_000],
    ['timeout=soon', 30_000],
    ['my-timeout=2', 30_000],
  ])('takes the hint %j for %i ms', (hint, keep) => {
    const head = ['HTTP/1.1 200 OK', 'content-length: 1', ...(hint === undefined ? [] : [`keep-alive: ${hint}`])];
    expect(readHead(lines(...head)).keep).toBe(keep);
  });

  it.each([
    [''],
    ['HTTP/2 200 OK'],
    ['HTTP/1.2 200 OK'],
    ['http/1.1 200 OK'],
    ['HTTP/1.1  200 OK'],
    ['HTTP/1.1 20 OK'],
    ['HTTP/1.1 2000 OK'],
    ['HTTP/1.1 600 OK'],
    ['HTTP/1.1 000 OK'],
    [' HTTP/1.1 200 OK'],
    ['\r\nHTTP/1.1 200 OK'],
    ['SSH-2.0-OpenSSH_9.6'],
    ['HTTP/1.1 200 O\0K'],
    ['HTTP/1.1 200 OK', 'no colon'],
    ['HTTP/1.1 200 OK', ': no name'],
    ['HTTP/1.1 200 OK', 'content-length : 5'],
    ['HTTP/1.1 200 OK', 'content length: 5'],
    // Folded lines.
    ['HTTP/1.1 200 OK', ' content-length: 5'],
    ['HTTP/1.1 200 OK', 'x: a', '\tb: c'],
    // Line ends of one character.
    ['HTTP/1.1 200 OK\ncontent-length: 5'],
    ['HTTP/1.1 200 OK\rcontent-length: 5'],
    ['HTTP/1.1 200 OK', 'x: a\r'],
    ['HTTP/1.1 200 OK', 'x: a\n'],
    ['HTTP/1.1 200 OK', 'x: a\0b'],
    ['HTTP/1.1 200 OK', 'x: a\x7f'],
    // Lengths that could be read in two ways.
    ['HTTP/1.1 200 OK', 'content-length: 5', 'content-length: 6'],
    ['HTTP/1.1 200 OK', 'content-length: 5', 'Content-Length: 5'],
    ['HTTP/1.1 200 OK', 'content-length: 5, 5'],
    ['HTTP/1.1 200 OK', 'content-length: +5'],
    ['HTTP/1.1 200 OK', 'content-length: -5'],
    ['HTTP/1.1 200 OK', 'content-length: 0x5'],
    ['HTTP/1.1 200 OK', 'content-length: 5.0'],
    ['HTTP/1.1 200 OK', 'content-length: 5\u00a0'],
    ['HTTP/1.1 200 OK', 'content-length:'],
    ['HTTP/1.1 200 OK', 'content-length: 9999999999999999'],
    ['HTTP/1.1 200 OK', 'content-length: 5', 'transfer-encoding: chunked'],
    ['HTTP/1.1 204 OK', 'content-length: 5', 'transfer-encoding: chunked'],
    ['HTTP/1.1 200 OK', 'transfer-encoding: chunked', 'transfer-encoding: chunked'],
    ['HTTP/1.1 200 OK', 'transfer-encoding: gzip, chunked'],
    ['HTTP/1.1 200 OK', 'transfer-encoding: identity'],
    ['HTTP/1.1 200 OK', 'transfer-encoding: chunked\u00a0'],
    ['HTTP/1.1 200 OK', 'transfer-encoding:'],
    ['HTTP/1.0 200 OK', 'transfer-encoding: chunked'],
  ])('refuses %j', (...head) => {
    expect(() => readHead(lines(...head))).toThrow(INVALID);
  });

  it('is read, or refused in so many words, whatever it says', () => {
    const byte = fc.nat(255).map((code) => String.fromCharCode(code));
    const line = fc.oneof(
      fc.string({ unit: byte, maxLength: 20 }),
      fc.constantFrom('HTTP/1.1 200 OK', 'content-length: 3', 'transfer-encoding: chunked', 'a:b', ' x', ''),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 5 }), (all) => {
        try {
          const { status, length } = readHead(lines('HTTP/1.1 200 OK', ...all));
          expect(status).toBe(200);
          expect(length).toBeGreaterThanOrEqual(TO_THE_END);
        } catch (error) {
          expect((error as HttpSyntaxError).code).toBe('HTTP_INVALID');
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('half a head', () => {
  const begun = (text: string, seen = 0): void =>
    checkHeadBegun(Buffer.from(`zz${text}zz\n`), 2, 2 + text.length, seen);

  it.each([
    'H',
    'HTTP/1',
    'HTTP/1.',
    'HTTP/1.1 200 OK',
    'HTTP/1.1 200 OK\r',
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.1 2\r\na: b\r',
  ])('waits for the rest of %j', (text) => {
    for (let seen = 0; seen < text.length; seen++) begun(text, seen);
  });

  it.each(['\r', '\n', 'h', 'HTTP/2', '\x16\x03\x01', '220 mail', 'HTTP/1.1 200\n', 'HTTP/1.1 200\ra', 'HTTP/1.1 \0'])(
    'does not wait for the rest of %j',
    (text) => {
      expect(() => begun(text)).toThrow(INVALID);
      // Whichever part of it is new.
      expect(() => begun(text, text.length - 1)).toThrow(INVALID);
    },
  );
});
