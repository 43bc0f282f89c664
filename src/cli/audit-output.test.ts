import { expect, test } from 'vitest';
import { CSV_HEADER, csvLine, jsonLine, textLine, timeOf } from './audit-output.js';

const record = (value: unknown) => ({ chain: 'c', seq: 1, at: Date.UTC(2026, 6, 28), hash: 'h', value });
const AT = '2026-07-28T00:00:00.000Z';

test('a JSON line has the place in the chain, the time and the facts', () => {
  expect(JSON.parse(jsonLine(record({ kind: 'call', caller: 'ada' })))).toEqual({
    ...{ at: AT, chain: 'c', seq: 1, kind: 'call', caller: 'ada', hash: 'h' },
  });
});

test('CSV quotes texts, and no spreadsheet takes a cell for a formula', () => {
  const line = csvLine(
    record({ kind: 'call', caller: '=HYPERLINK("http://x")', name: 'a,"b"\n', ms: 1.5, roles: ['r'] }),
  );
  expect(line).toContain(`"'=HYPERLINK(""http://x"")"`);
  expect(line).toContain('"a,""b""\n"');
  expect(line).toContain(',1.5,');
  expect(line).toContain('"[""r""]"');
  expect(csvLine(record({ kind: 'call' })).split(',')).toHaveLength(CSV_HEADER.split(',').length);
});

test('a line for people contains no control characters', () => {
  const line = textLine(record({ kind: 'call', caller: 'a\x1b[2Jb', method: 'tools/call', server: 's', name: 'x\ny' }));
  expect(line).toBe(`${AT}  a\\u001b[2Jb  tools/call  s/x\\ny\n`);
});

test('a record with any members is shown', () => {
  for (const value of [null, 'text', 7, []])
    for (const write of [jsonLine, csvLine, textLine]) expect(write(record(value))).toContain(AT);
});

test.each([
  ['2026-07-28', Date.UTC(2026, 6, 28)],
  ['2026-07-28T10:00Z', Date.UTC(2026, 6, 28, 10)],
  ['90m', 10_000_000 - 90 * 60_000],
  ['1d', 10_000_000 - 86_400_000],
  ['yesterday', undefined],
  ['', undefined],
])('the time %s', (text, expected) => {
  expect(timeOf(text, 10_000_000)).toBe(expected);
});
