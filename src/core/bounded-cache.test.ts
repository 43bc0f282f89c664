import { expect, it } from 'vitest';
import { Recent } from './bounded-cache.js';

it('remembers the last entries, and not without end', () => {
  const recent = new Recent<number, string>(10);
  for (let i = 0; i < 1_000; i++) {
    recent.set(i, `value ${i}`);
    for (let last = Math.max(0, i - 9); last <= i; last++) expect(recent.get(last)).toBe(`value ${last}`);
  }
  const known = Array.from({ length: 1_000 }, (_, i) => recent.get(i)).filter((value) => value !== undefined);
  expect(known.length).toBeGreaterThanOrEqual(10);
  expect(known.length).toBeLessThanOrEqual(20);
});

it('says what was set last', () => {
  const recent = new Recent<string, number>(2);
  for (let i = 0; i < 7; i++) recent.set('a', i);
  expect(recent.get('a')).toBe(6);
  recent.set('b', 1);
  recent.set('c', 2);
  recent.set('a', 8);
  expect(recent.get('a')).toBe(8);
});
