import { expect, test } from 'vitest';
import { connectionsWithin, descriptorLimit, parseLimit } from './file-descriptors.js';

test('reserves a fifth of the descriptors and those already open', () => {
  expect(connectionsWithin(10_000, 1_000, 50)).toBe(750);
  expect(connectionsWithin(500, 1_000, 50)).toBe(500);
  expect(connectionsWithin(10_000, undefined, 50)).toBe(10_000);
  expect(connectionsWithin(10_000, 40, 50)).toBe(1);
});

test('reads the soft limit', () => {
  const line = 'Max open files            1024                 524288               files     ';
  expect(parseLimit(`Limit  Soft Limit  Hard Limit  Units\n${line}\n`)).toBe(1_024);
  expect(parseLimit('Max open files            unlimited            unlimited            files')).toBeUndefined();
  expect(parseLimit('nothing')).toBeUndefined();
  if (process.platform !== 'win32') expect(descriptorLimit()).toBeGreaterThan(20);
});
