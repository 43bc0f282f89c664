import { describe, expect, test } from 'vitest';
import { parseText, type Raw } from './parsed-file.js';
import { Problems } from './problem.js';

function parse(text: string, format: 'yaml' | 'json' = 'yaml') {
  const problems = new Problems();
  return { raw: parseText(text, format, { file: 'f' }, problems), problems: problems.all };
}

/** The plain values, for comparison. */
function plain(raw: Raw | undefined): unknown {
  if (raw === undefined) return undefined;
  if (raw.kind === 'scalar') return raw.value;
  if (raw.kind === 'list') return raw.items.map(plain);
  return new Map([...raw.entries].map(([key, { node }]) => [key, plain(node)]));
}

describe('YAML', () => {
  test('values keep the line they stand on', () => {
    const { raw } = parse('a: 1\nb:\n  - x\n  - y: true\n');
    expect(plain(raw)).toEqual(
      new Map<string, unknown>([
        ['a', 1],
        ['b', ['x', new Map([['y', true]])]],
      ]),
    );
    const list = raw?.kind === 'map' ? raw.entries.get('b')?.node : undefined;
    expect(list?.kind === 'list' && list.items.map((item) => item.origin.line)).toEqual([3, 4]);
  });

  test('dates, versions and addresses stay text', () => {
    expect(plain(parse('a: 1999-01-01\nb: 127.0.0.1:4600\nc: yes\n').raw)).toEqual(
      new Map([
        ['a', '1999-01-01'],
        ['b', '127.0.0.1:4600'],
        ['c', 'yes'],
      ]),
    );
  });

  test('anchors, aliases and merge keys', () => {
    const { raw } = parse('base: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}\nd: *b\n');
    expect(plain(raw)).toEqual(
      new Map([
        [
          'base',
          new Map([
            ['x', 1],
            ['y', 2],
          ]),
        ],
        [
          'c',
          new Map([
            ['x', 1],
            ['y', 3],
          ]),
        ],
        [
          'd',
          new Map([
            ['x', 1],
            ['y', 2],
          ]),
        ],
      ]),
    );
  });

  test('aliases that expand to too many values are refused', () => {
    const rows = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
    for (let i = 1; i < 10; i++)
      rows.push(
        `a${i}: &a${i} [${Array(10)
          .fill(`*a${i - 1}`)
          .join(', ')}]`,
      );
    const { raw, problems } = parse(rows.join('\n'));
    expect(raw).toBeUndefined();
    expect(problems).toMatchObject([{ code: 'syntax', message: expect.stringContaining('aliases') }]);
  });

  test('an alias that contains itself is refused', () => {
    expect(parse('a: &a [*a]\n').problems).toMatchObject([
      { code: 'syntax', message: expect.stringContaining('nested') },
    ]);
  });

  test('values with too many levels are one problem with a name', () => {
    for (const text of [`a: ${'['.repeat(20_000)}`, `a: ${'['.repeat(60)}${']'.repeat(60)}`])
      expect(parse(text).problems).toMatchObject([{ message: 'values are nested more than 50 deep' }]);
  });

  test('a second document in the same file is refused, not ignored', () => {
    expect(parse('a: 1\n---\nb: 2\n').problems).toMatchObject([
      { code: 'syntax', message: expect.stringContaining('multiple documents') },
    ]);
  });

  test('all syntax errors are reported with their lines, and the text of these lines is not quoted', () => {
    const { raw, problems } = parse('a: [1, 2\nb: "open\nc: }hush-hush\n');
    expect(raw).toBeUndefined();
    expect(problems.length).toBeGreaterThan(0);
    expect(problems.every(({ code, origin }) => code === 'syntax' && (origin.line ?? 0) > 0)).toBe(true);
    expect(JSON.stringify(problems)).not.toContain('hush-hush');
  });

  test('a key given twice is an error', () => {
    expect(parse('a: 1\na: 2\n').problems).toMatchObject([{ code: 'syntax', origin: { line: 2 } }]);
  });

  test('keys such as __proto__ are ordinary', () => {
    const { raw } = parse('__proto__: {polluted: true}\nconstructor: 1\n');
    expect(raw?.kind === 'map' && [...raw.entries.keys()]).toEqual(['__proto__', 'constructor']);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

describe('JSON as editors write it', () => {
  test('comments, trailing commas, tabs and a byte order mark', () => {
    const text =
      '\uFEFF{\n\t// a comment, with "quotes"\n\t"a": [1, 2, /* inside */ 3,],\r\n\t"url": "http://x//y", "s": "/* no */ \\" // no",\n}\n';
    const { raw, problems } = parse(text, 'json');
    expect(problems).toEqual([]);
    expect(plain(raw)).toEqual(
      new Map<string, unknown>([
        ['a', [1, 2, 3]],
        ['url', 'http://x//y'],
        ['s', '/* no */ " // no'],
      ]),
    );
    expect(raw?.kind === 'map' && raw.entries.get('url')?.origin.line).toBe(4);
  });

  test.each(['{"a": }', '{"a": 1', '{"a": "x}', '/* open'])('%j is reported, or empty, and never throws', (text) => {
    const { raw, problems } = parse(text, 'json');
    expect(problems.length > 0 || plain(raw) !== undefined).toBe(true);
  });
});
