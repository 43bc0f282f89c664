import { expect, it } from 'vitest';
import { RequestIds } from './request-ids.js';

it('ids are integers of 31 bits without repetition', () => {
  const ids = new RequestIds();
  const seen = new Set<number>();
  for (let i = 0; i < 200_000; i++) {
    const id = ids.next();
    if (!Number.isInteger(id) || id < 1 || id >= 2 ** 31) expect.fail(`${id}`);
    seen.add(id);
  }
  expect(seen.size).toBe(200_000);
});

it('an id does not reveal the next one', () => {
  const ids = new RequestIds();
  const steps = new Map<number, number>();
  let before = ids.next();
  for (let i = 0; i < 20_000; i++) {
    const id = ids.next();
    steps.set(id - before, (steps.get(id - before) ?? 0) + 1);
    before = id;
  }
  // No difference between two successive ids is common.
  expect(Math.max(...steps.values())).toBeLessThan(20);
  expect(new RequestIds().next()).not.toBe(new RequestIds().next());
});
