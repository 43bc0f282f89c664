import { expect, test } from 'vitest';
import { retryAfterMs, retryAfterOf } from './retry-after.js';

test.each([
  ['120', 120_000],
  [' 5 ', 5_000],
  ['0', 0],
  [undefined, 0],
  ['soon', 0],
  ['-3', 0],
  ['Thu, 01 Jan 1970 00:01:00 GMT', 50_000],
  ['Thursday, 01-Jan-70 00:01:00 GMT', 50_000],
  ['Thu Jan  1 00:01:00 1970', 50_000],
  ['Thu, 01 Jan 1970 00:00:01 GMT', 0],
  ['999999999', 12 * 60 * 60 * 1_000],
])('Retry-After %j is %i ms', (value, expected) => {
  expect(retryAfterMs(retryAfterOf(value === undefined ? [] : ['retry-after', value]), 10_000)).toBe(expected);
});
