import { describe, expect, test } from 'vitest';
import {
  duration,
  flag,
  formatDuration,
  formatSize,
  integer,
  oneOf,
  Refusal,
  type Scalar,
  secret,
  size,
  text,
} from './field.js';

const read = (field: Scalar<unknown>, value: string | number | boolean): unknown =>
  field.read(value, { directory: '/here' });
const description = 'd';

describe('duration', () => {
  const field = duration({ description });
  test.each([
    ['500ms', 500],
    ['5s', 5000],
    ['1.5s', 1500],
    ['10m', 600_000],
    ['1h', 3_600_000],
    ['1d', 86_400_000],
    ['1m30s', 90_000],
  ])('%s is %d ms', (written, ms) => {
    expect(read(field, written)).toBe(ms);
  });

  test.each(['5', 5, 0, '', 's', '5 s', '-5s', '5x', '1e3s', true, 'soon'])('%j is refused', (written) => {
    expect(read(field, written)).toBeInstanceOf(Refusal);
  });

  test('a value that would overflow a timer is refused, because Node would fire the timer at once', () => {
    expect(read(field, '24d')).toBe(24 * 86_400_000);
    expect(read(field, '25d')).toBeInstanceOf(Refusal);
    expect(read(field, '0s')).toBeInstanceOf(Refusal);
  });

  test('is shown in the largest unit that fits', () => {
    expect([1, 1500, 60_000, 90_000, 7_200_000, 86_400_000].map(formatDuration)).toEqual([
      '1ms',
      '1500ms',
      '1m',
      '90s',
      '2h',
      '1d',
    ]);
  });
});

describe('size', () => {
  const field = size({ description });
  test.each([
    ['4MiB', 4 * 2 ** 20],
    ['4mib', 4 * 2 ** 20],
    ['4 MiB', 4 * 2 ** 20],
    ['4MB', 4_000_000],
    ['1.5KiB', 1536],
    ['2048B', 2048],
    ['2048', 2048],
    [2048, 2048],
  ])('%s is %d bytes', (written, bytes) => {
    expect(read(field, written)).toBe(bytes);
  });

  test.each(['4M', '4', '-4MiB', '2GiB', 'big', '', true])('%j is refused', (written) => {
    expect(read(field, written)).toBeInstanceOf(Refusal);
  });

  test('is shown in the largest unit that fits', () => {
    expect([1000, 1536, 2048, 4 * 2 ** 20, 2 ** 30].map(formatSize)).toEqual([
      '1000B',
      '1536B',
      '2KiB',
      '4MiB',
      '1GiB',
    ]);
  });
});

describe('integer', () => {
  const field = integer({ description, min: 1, max: 10 });
  test.each([
    [1, 1],
    ['10', 10],
  ])('%j is %d', (written, value) => {
    expect(read(field, written)).toBe(value);
  });
  test.each([0, 11, 1.5, '1.5', 'x', '', true, Number.NaN, Number.POSITIVE_INFINITY, '0x5'])(
    '%j is refused',
    (written) => {
      expect(read(field, written)).toBeInstanceOf(Refusal);
    },
  );
});

test('a flag accepts the usual words for true and false', () => {
  const field = flag({ description });
  for (const yes of [true, 'true', 'TRUE', 'yes', 'on', '1', 1]) expect(read(field, yes)).toBe(true);
  for (const no of [false, 'false', 'no', 'Off', '0', 0]) expect(read(field, no)).toBe(false);
  for (const neither of ['', 'maybe', 2]) expect(read(field, neither)).toBeInstanceOf(Refusal);
});

test('a choice is case-sensitive, and the error lists the choices', () => {
  const field = oneOf(['always', 'never'], { description });
  expect(read(field, 'always')).toBe('always');
  expect(read(field, 'Always')).toMatchObject({ fix: 'write one of always, never' });
});

test('text takes numbers and booleans as written', () => {
  expect(read(text({ description }), 8080)).toBe('8080');
  expect(read(text({ description }), true)).toBe('true');
  expect(read(text({ description, pattern: /^a/ }), 'b')).toBeInstanceOf(Refusal);
});

test('a secret is marked as one', () => {
  expect(secret({ description })).toMatchObject({ type: 'secret', secret: true });
});
