import { expect, test } from 'vitest';
import { Quota } from './count-and-byte-limit.js';

test('a quota bounds count and bytes, and releases each item once', () => {
  const outer = new Quota({ count: 3, bytes: 100 });
  const inner = new Quota({ count: 2, bytes: 50 }, outer);
  const first = inner.take(40)!;
  expect(inner.take(20)).toBeUndefined();
  expect(inner.take(10)).toBeDefined();
  expect(inner.take(0)).toBeUndefined();
  expect(outer.take(10)).toBeDefined();
  expect(outer.take(1)).toBeUndefined();
  first();
  first();
  expect(outer.take(1)).toBeDefined();
  expect(outer.take(1)).toBeUndefined();
  expect(inner.take(1)).toBeUndefined();
});

test('an item larger than the quota is accepted while the quota is empty', () => {
  const quota = new Quota({ count: 10, bytes: 100 });
  const large = quota.take(1_000)!;
  expect(quota.take(1)).toBeUndefined();
  large();
  expect(quota.take(1)).toBeDefined();
});
