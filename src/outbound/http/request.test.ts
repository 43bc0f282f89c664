import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Ear } from '../../../test/support/raw-http.js';
import { HttpClient, type HttpError, type HttpRequest } from './index.js';
import { requestHead } from './request.js';

const head = (request: Partial<HttpRequest>, path = '/p?q'): string =>
  requestHead(path, 'example:8080', { method: 'GET', headers: [], ...request });
const UNSENDABLE = expect.objectContaining({ code: 'HTTP_UNSENDABLE' }) as Error;

describe('the head of a request', () => {
  it('names path, host and what it was given, in that order', () => {
    expect(head({ headers: ['Accept', 'a/b', 'x', ''] })).toBe(
      'GET /p?q HTTP/1.1\r\nhost: example:8080\r\nconnection: keep-alive\r\nAccept: a/b\r\nx: \r\n\r\n',
    );
  });

  it('says how long the body is', () => {
    expect(head({ method: 'POST', body: Buffer.from('h\u00e9') })).toContain('\r\ncontent-length: 3\r\n\r\n');
    expect(head({ method: 'POST' })).toContain('\r\ncontent-length: 0\r\n\r\n');
    expect(head({ method: 'POST', body: Buffer.alloc(0) })).toContain('\r\ncontent-length: 0\r\n\r\n');
    expect(head({ method: 'DELETE' })).not.toContain('content-length');
    expect(head({ method: 'GET' })).not.toContain('content-length');
  });

  it('names another host where it was told to, and only that one', () => {
    const text = head({ headers: ['a', 'b', 'Host', 'other'] });
    expect(text.match(/host: .*/gi)).toEqual(['host: other']);
  });

  const bad = ['\r', '\n', '\0', '\r\nx: y', '\x1f', '\x7f', '\u0100', '\u010a', '\u560a', '\ud83d\ude00'];
  it.each(bad.map((text) => [text]))('has no header with %j in it', (text) => {
    for (const value of [text, `a${text}`, `${text}a`, `a${text}b`]) {
      expect(() => head({ headers: ['x', value] })).toThrow(UNSENDABLE);
      expect(() => head({ headers: ['host', value] })).toThrow(UNSENDABLE);
      expect(() => head({ headers: [`x${value}`, 'a'] })).toThrow(UNSENDABLE);
      expect(() => head({}, `/${value}`)).toThrow(UNSENDABLE);
    }
  });

  it.each(['', ' x', 'x ', 'x:', 'x y', 'x(', '\u00e9', 'x\t'])('has no header of the name %j', (name) => {
    expect(() => head({ headers: [name, 'a'] })).toThrow(UNSENDABLE);
  });

  it.each(['', 'p', ' /', '/ ', '/a b', '/\u00e9', '*', 'http://x/'])('has no path like %j', (path) => {
    expect(() => head({}, path)).toThrow(UNSENDABLE);
  });

  it('sends values of one byte as they are', () => {
    expect(head({ headers: ['x', 'a\t\u00e9\u00ff\u0080'] })).toContain('\r\nx: a\t\u00e9\u00ff\u0080\r\n');
  });

  it('has as many lines as it was given headers, whatever they say', () => {
    const odd = fc.constantFrom('\r', '\n', '\r\n', '\0', ':', ' ', '\t', '\x7f', '\u010a', 'host');
    const unit = fc.oneof({ weight: 9, arbitrary: fc.constantFrom('a', 'B', '-', '1') }, odd);
    const text = fc.string({ unit, maxLength: 6 });
    fc.assert(
      fc.property(fc.array(fc.tuple(text, text), { maxLength: 3 }), text, (pairs, path) => {
        let written: string;
        try {
          written = head({ headers: pairs.flat() }, `/${path}`);
        } catch (error) {
          expect((error as HttpError).code).toBe('HTTP_UNSENDABLE');
          return;
        }
        const named = pairs.filter(([name]) => name.toLowerCase() !== 'host').length;
        expect(written.split(/\r|\n|\r\n/).filter(Boolean)).toHaveLength(3 + named);
        expect(written.indexOf('\r\n\r\n')).toBe(written.length - 4);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('a request that cannot be sent', () => {
  const framing = ['Connection', 'content-length', 'EXPECT', 'keep-alive', 'Transfer-Encoding', 'upgrade'];
  it.each(framing)('for it sets %s itself fails, and nothing was sent', async (name) => {
    const http = new HttpClient({ connectTimeout: 1_000 });
    const ear = new Ear();
    const target = { origin: 'http://127.0.0.1:1', path: '/' };
    http.request(target, { method: 'POST', headers: [name, '1'] }, ear);
    expect(ear.ends).toBe(0);
    await ear.over;
    expect(ear.failure).toMatchObject({ sent: false, error: { code: 'HTTP_UNSENDABLE' } });
    await http.close();
  });

  it.each(['ftp://127.0.0.1', 'null', '', 'file://', 'ws://127.0.0.1'])('goes nowhere like %j', async (origin) => {
    for (const bounds of [{}, { timeout: 1_000, maxReply: 10 }]) {
      const http = new HttpClient({ connectTimeout: 1_000, ...bounds });
      const ear = new Ear();
      http.request({ origin, path: '/' }, { method: 'GET', headers: [] }, ear);
      await ear.over;
      expect(ear.failure).toMatchObject({ sent: false, error: { code: 'HTTP_UNSENDABLE' } });
      expect(ear.ends).toBe(1);
      await http.close();
    }
  });
});
