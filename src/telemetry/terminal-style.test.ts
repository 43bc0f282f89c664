import { expect, test } from 'vitest';
import { columns, duration, oneLine, PLAIN, paint, plural, styleOf, terminalText, wrap } from './terminal-style.js';

test.each([
  [0.2, '<1 ms'],
  [1, '1 ms'],
  [12.345, '12 ms'],
  [999.4, '999 ms'],
  [999.6, '1.0 s'],
  [1_234.567, '1.2 s'],
  [9_960, '10 s'],
  [59_900, '60 s'],
  [119_400, '119 s'],
  [150_000, '3 min'],
  [7_100_000, '118 min'],
  [10_800_000, '3 h'],
  [172_800_000, '2 days'],
])('%d milliseconds are %s', (milliseconds, shown) => expect(duration(milliseconds)).toBe(shown));

test('the noun is singular for 1', () => {
  expect([plural(0, 'tool'), plural(1, 'tool'), plural(2, 'tool')]).toEqual(['0 tools', '1 tool', '2 tools']);
});

test('text breaks at spaces, and inside a word that is longer than the line', () => {
  expect(wrap('connection refused by peer', 10)).toEqual(['connection', 'refused by', 'peer']);
  expect(wrap('abcdefghijkl mn', 5)).toEqual(['abcde', 'fghij', 'kl mn']);
  expect(wrap('', 5)).toEqual(['']);
  expect(wrap('all of it', Number.POSITIVE_INFINITY)).toEqual(['all of it']);
});

test('control and direction characters are escaped', () => {
  expect(oneLine('a\nb\tc\u001b[2J\u009b1m\u202e')).toBe('a\\nb\\tc\\u001b[2J\\u009b1m\\u202e');
});

test('output keeps its lines, its tabs and its colors; JSON keeps its meaning', () => {
  const colors = { width: 80, color: true };
  const painted = `${paint(colors, 'red', 'down')}\ta\n`;
  expect(terminalText(painted, colors)).toBe(painted);
  expect(terminalText(painted, PLAIN)).toBe('\\u001b[31mdown\\u001b[0m\ta\n');
  expect(terminalText('a\r\u001b[2K\u001b]0;x\u0007\u001b[8m\u202eb', colors)).toBe(
    'a\\r\\u001b[2K\\u001b]0;x\\u0007\\u001b[8m\\u202eb',
  );
  const value = { name: 'a\u009b2J\u007f\u202e\u001b[2J' };
  expect(JSON.parse(terminalText(JSON.stringify(value), colors))).toEqual(value);
});

test('a line end in a cell makes no row', () => {
  expect(columns([['a\nb  admin', 'x\r\ny']])).toBe('  a\\nb  admin  x\\r\\ny');
});

test('colors are used only on terminals that support them', () => {
  expect(paint(PLAIN, 'red', 'down')).toBe('down');
  expect(paint({ width: 80, color: true }, 'red', 'down')).toBe('\u001b[31mdown\u001b[0m');
  const terminal = (columns: number | undefined, colors: boolean) =>
    ({ isTTY: true, columns, hasColors: () => colors }) as unknown as NodeJS.WriteStream;
  expect(styleOf(terminal(100, true))).toEqual({ width: 100, color: true });
  expect(styleOf(terminal(undefined, false))).toEqual({ width: 80, color: false });
  expect(styleOf({ isTTY: false } as NodeJS.WriteStream)).toBe(PLAIN);
});
