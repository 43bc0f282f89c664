import { expect, it } from 'vitest';
import { RequestIds } from './request-ids.js';

it('ids are whole numbers of 31 bits, none of which comes twice', () => {
  const ids = new RequestIds();
  const seen = new Set<number>();
  for (let i = 0; i < 200_000; i++) {
    const id = ids.next();
    if (!Number.isInteger(id) || id < 1 || id >= 2 ** 31) expect.fail(`${id}`);
    seen.add(id);
  }
  expect(seen.size).toBe(200_000);
});

it('an id says nothing of the next', () => {
  const ids = new RequestIds();
  const steps = new Map<number, number>();
  let before = ids.next();
  for (let i = 0; i < 20_000; i++) {
    const id = ids.next();
    steps.set(id - before, (steps.get(id - before) ?? 0) + 1);
    before = id;
  }
  // Of steps between two numbers below 2^16 none is common.
  expect(Math.max(...steps.values())).toBeLessThan(20);
  expect(new RequestIds().next()).not.toBe(new RequestIds().next());
});
