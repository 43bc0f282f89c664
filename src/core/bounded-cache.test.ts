import { expect, it } from 'vitest';
import { BoundedCache } from './bounded-cache.js';

it('keeps the latest entries, and a bounded number of them', () => {
  const cache = new BoundedCache<number, string>(10);
  for (let i = 0; i < 1_000; i++) {
    cache.set(i, `value ${i}`);
    for (let last = Math.max(0, i - 9); last <= i; last++) expect(cache.get(last)).toBe(`value ${last}`);
  }
  const known = Array.from({ length: 1_000 }, (_, i) => cache.get(i)).filter((value) => value !== undefined);
  expect(known.length).toBeGreaterThanOrEqual(10);
  expect(known.length).toBeLessThanOrEqual(20);
});

it('returns the latest value of a key', () => {
  const cache = new BoundedCache<string, number>(2);
  for (let i = 0; i < 7; i++) cache.set('a', i);
  expect(cache.get('a')).toBe(6);
  cache.set('b', 1);
  cache.set('c', 2);
  cache.set('a', 8);
  expect(cache.get('a')).toBe(8);
});
