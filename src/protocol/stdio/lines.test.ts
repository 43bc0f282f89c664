import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LineReader, looksLikeMessage, oneLine } from './lines.js';

function read(chunks: readonly (Buffer | string)[], maxLine = 1000) {
  const seen = { messages: [] as string[], bad: [] as string[], tooLong: 0 };
  const reader = new LineReader(maxLine, {
    message: (line) => seen.messages.push(line.toString()),
    bad: (preview) => seen.bad.push(preview.toString()),
    tooLong: () => {
      seen.tooLong++;
    },
  });
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  reader.end();
  return seen;
}

describe('LineReader (STD-01)', () => {
  it('splits lines with any chunks', () => {
    expect(read(['{"a":1}\n{"b"', ':2}\n', '{"c":3}', '\n']).messages).toEqual(['{"a":1}', '{"b":2}', '{"c":3}']);
  });

  it('tolerates CRLF, a byte order mark, surrounding white space and empty lines', () => {
    const seen = read(['\ufeff{"a":1}\r\n', '\r\n\n   \n', ' {"b":2}\t\r\n', '\ufeff{"c"', ':3}\r', '\n']);
    expect(seen).toEqual({ messages: ['{"a":1}', '{"b":2}', '{"c":3}'], bad: [], tooLong: 0 });
  });

  it('reports and skips lines that are not messages', () => {
    const seen = read(['Server ready\n[12:00:01] [info]\n{oops}\n"text"\n42\nnull\n{"a":1}\n[{"a":1}]\n']);
    expect(seen.messages).toEqual(['{"a":1}', '[{"a":1}]']);
    expect(seen.bad).toEqual(['Server ready', '[12:00:01] [info]', '{oops}', '"text"', '42', 'null']);
  });

  it('reports only the beginning of an invalid line', () => {
    expect(read([`${'x'.repeat(900)}\n`]).bad[0]).toHaveLength(120);
  });

  it('passes a last line without newline only if it is complete', () => {
    expect(read(['{"a":1}']).messages).toEqual(['{"a":1}']);
    expect(read(['{"a":{"b":1}']).messages).toEqual([]);
    expect(read(['{"a":{"b":1}']).bad).toHaveLength(1);
  });

  it('accepts a line of exactly maxLine bytes in one or many chunks, and skips a longer one', () => {
    const fits = `{"a":"${'x'.repeat(92)}"}`;
    expect(fits).toHaveLength(100);
    for (const eol of ['\n', '\r\n']) {
      expect(read([fits + eol], 100).messages).toEqual([fits]);
      expect(read([...`${fits}${eol}`], 100).messages).toEqual([fits]);
      const over = fits.replace('xx', 'xxx');
      for (const chunks of [[over + eol], [...`${over}${eol}`]]) {
        expect(read([...chunks, '{"b":1}\n'], 100)).toEqual({ messages: ['{"b":1}'], bad: [], tooLong: 1 });
      }
    }
  });

  it('reports an endless line once and reads the next one', () => {
    const flood = Array.from({ length: 100 }, () => 'y'.repeat(1000));
    expect(read([...flood, '\n{"a":1}\n'])).toEqual({ messages: ['{"a":1}'], bad: [], tooLong: 1 });
  });

  it('returns bytes that later input does not overwrite', () => {
    const lines: Buffer[] = [];
    const reader = new LineReader(1000, { message: (l) => lines.push(l), bad() {}, tooLong() {} });
    reader.push(Buffer.from('{"a":'));
    reader.push(Buffer.from('1}\n{"b":'));
    reader.push(Buffer.from('2}\n'));
    expect(lines.map(String)).toEqual(['{"a":1}', '{"b":2}']);
  });

  it('finds the same messages with any chunks', () => {
    const value = fc.oneof(fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 4 }), fc.string());
    fc.assert(
      fc.property(fc.array(value, { maxLength: 20 }), fc.array(fc.nat(40), { minLength: 1 }), (values, cuts) => {
        const bytes = Buffer.from(values.map((v) => `${JSON.stringify(v)}\n`).join(''));
        const chunks: Buffer[] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = 1 + (cuts[i % cuts.length] ?? 0);
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        const seen = read(chunks, 1_000_000);
        expect(seen.messages).toEqual(values.filter((v) => typeof v === 'object').map((v) => JSON.stringify(v)));
        expect(seen.bad).toHaveLength(values.filter((v) => typeof v === 'string').length);
      }),
    );
  });
});

describe('oneLine (STD-01)', () => {
  it('does not change a message on one line', () => {
    const bytes = Buffer.from('{"a":"\\n"}');
    expect(oneLine(bytes)).toBe(bytes);
    expect(oneLine('{"a":1}')).toBe('{"a":1}');
  });

  it('replaces only the line breaks of a pretty-printed message', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const pretty = JSON.stringify(value, null, 2)?.replaceAll('\n', '\r\n') ?? 'null';
        for (const line of [oneLine(pretty), oneLine(Buffer.from(pretty)).toString()]) {
          expect(line).not.toMatch(/[\r\n]/);
          expect(JSON.parse(String(line))).toEqual(JSON.parse(pretty));
        }
      }),
    );
  });
});

describe('looksLikeMessage', () => {
  it.each([
    ['{"a":1}', true],
    ['{ "a":1 }', true],
    ['{}', true],
    ['[{"a":1},{"b":2}]', true],
    ['[ {"a":1} ]', true],
    ['[]', false],
    ['[1]', false],
    ['{a}', false],
    ['{"a":1', false],
    ['{', false],
    ['[', false],
  ])('%s: %s', (text, expected) => {
    expect(looksLikeMessage(Buffer.from(text))).toBe(expected);
  });
});
