import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ChunkedBody } from './chunked.js';

/** What the extensions of chunks and the trailers may take together. */
const MOST_BESIDE = 32 * 1024;
const INVALID = expect.objectContaining({ code: 'HTTP_INVALID' }) as Error;

interface Read {
  body: string;
  over: boolean;
  /** What was left behind the body. */
  rest: string;
}

/** Reads pieces as a connection does, each out of a buffer that holds other things around it. */
function read(pieces: readonly string[]): Read {
  const chunked = new ChunkedBody();
  const result: Read = { body: '', over: false, rest: '' };
  for (const piece of pieces) {
    const source = Buffer.from(`0\r\n${piece}\r\n0`, 'latin1');
    const end = 3 + piece.length;
    let at = 3;
    while (at < end && !chunked.over) {
      const stopped = chunked.read(source, at, end);
      if (stopped <= at || chunked.from < at) throw new Error('it does not go on');
      result.body += source.toString('latin1', chunked.from, stopped);
      at = stopped;
    }
    result.rest += source.toString('latin1', at, end);
  }
  result.over = chunked.over;
  return result;
}

function cut(text: string, at: readonly number[]): string[] {
  const points = [...new Set(at.map((point) => point % (text.length + 1)))].sort((a, b) => a - b);
  return [0, ...points].map((from, i) => text.slice(from, points[i] ?? text.length)).filter((piece) => piece !== '');
}

describe('a chunked body', () => {
  it.each([
    ['0\r\n\r\n', ''],
    ['000\r\n\r\n', ''],
    ['2\r\nhi\r\n0\r\n\r\n', 'hi'],
    ['1\r\nh\r\n1\r\ni\r\n0\r\n\r\n', 'hi'],
    ['A\r\n0123456789\r\na\r\nabcdefghij\r\n0\r\n\r\n', '0123456789abcdefghij'],
    ['2;a=b;c="d;e"\r\nhi\r\n0;x\r\n\r\n', 'hi'],
    ['2 \t\r\nhi\r\n0\r\n\r\n', 'hi'],
    ['2 ; a\r\nhi\r\n0\r\n\r\n', 'hi'],
    ['2\r\nhi\r\n0\r\nx-trailer: a\r\ny: b\r\n\r\n', 'hi'],
    ['4\r\n\r\n\r\n\r\n0\r\n\r\n', '\r\n\r\n'],
  ])('of %j is %j', (text, body) => {
    expect(read([text])).toEqual({ body, over: true, rest: '' });
    expect(read([...text])).toEqual({ body, over: true, rest: '' });
    expect(read([`${text}HTTP/1.1 200`])).toEqual({ body, over: true, rest: 'HTTP/1.1 200' });
    for (let end = 0; end < text.length; end++) expect(read([text.slice(0, end)]).over).toBe(false);
  });

  it('is refused where it says too much beside the body', () => {
    for (const text of [`1;${'x'.repeat(MOST_BESIDE + 1)}`, `0\r\n${'x: y\r\n'.repeat(MOST_BESIDE / 4 + 1)}`]) {
      expect(() => read([text])).toThrow(INVALID);
      expect(() => read([...text])).toThrow(INVALID);
    }
  });

  it.each([
    ['\r\n'],
    ['x\r\n'],
    ['-1\r\n'],
    ['+1\r\n'],
    [' 1\r\nh'],
    ['0x1\r\n'],
    [';a\r\n'],
    ['1 1\r\n'],
    ['1\t,\r\n'],
    ['1\n'],
    ['1\r\r'],
    ['1;a\n'],
    ['1;a\rb'],
    ['1\r\nhi'],
    ['1\r\nh\n'],
    ['1\r\nh\rx'],
    ['2\r\nh\r\n0\r\n\r\n'],
    ['0\r\n\n'],
    ['0\r\n\rx'],
    ['0\r\na: b\n'],
    ['0\r\na: b\rc'],
    ['fffffffffffffff\r\n'],
  ])('is refused where it says %j', (text) => {
    expect(() => read([text])).toThrow(INVALID);
    expect(() => read([...text])).toThrow(INVALID);
  });

  it('may say something beside every one of endless chunks', () => {
    const chunk = `1;${'x'.repeat(1_000)}\r\nh\r\n`;
    expect(read([`${chunk.repeat(100)}0\r\n\r\n`])).toEqual({ body: 'h'.repeat(100), over: true, rest: '' });
  });

  it('is the same however it was cut', () => {
    const blanks = fc.constantFrom('', ' ', '\t ');
    const extension = fc.constantFrom('', ';a', ';a=b', ';a="\t;"');
    const chunk = fc.record({
      data: fc.string({ unit: fc.constantFrom('a', '0', '\r', '\n', ';', '\xff'), minLength: 1, maxLength: 30 }),
      zeros: fc.constantFrom('', '0', '00'),
      blanks,
      extension,
    });
    const trailers = fc.array(fc.constantFrom('a: b\r\n', 'c:\r\n'), { maxLength: 2 });
    fc.assert(
      fc.property(
        fc.array(chunk, { maxLength: 6 }),
        trailers,
        fc.string({ maxLength: 5 }),
        fc.array(fc.nat(), { maxLength: 20 }),
        (chunks, after, rest, cuts) => {
          const said = chunks.map(
            ({ data, zeros, blanks: b, extension: e }) => `${zeros}${data.length.toString(16)}${b}${e}\r\n${data}\r\n`,
          );
          const text = `${said.join('')}0\r\n${after.join('')}\r\n${rest}`;
          const body = chunks.map(({ data }) => data).join('');
          expect(read(cut(text, cuts))).toEqual({ body, over: true, rest });
        },
      ),
      { numRuns: 500 },
    );
  });

  it('never gives more than it was sent, and ends or refuses whatever comes', () => {
    const piece = fc.constantFrom('0', '1', 'f', '\r', '\n', '\r\n', ';', ' ', 'x', '0\r\n\r\n');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        let whole: Read | undefined;
        try {
          whole = read([pieces.join('')]);
        } catch {
          expect(() => read(pieces)).toThrow();
        }
        if (whole) expect(read(pieces)).toEqual(whole);
      }),
      { numRuns: 1_000 },
    );
  });
});
