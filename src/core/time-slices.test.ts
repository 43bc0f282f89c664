import { expect, test } from 'vitest';
import { mapInSlices, someInSlices } from './time-slices.js';

/** Uses the processor for some milliseconds. */
function busy(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

const NUMBERS = Array.from({ length: 60 }, (_, index) => index);

test('a short list is finished at once', () => {
  expect(mapInSlices([1, 2, 3], (n) => n * 2)).toEqual([2, 4, 6]);
  expect(someInSlices([1, 2, 3], (n) => n > 2)).toBe(true);
  expect(someInSlices([1, 2, 3], (n) => n > 3)).toBe(false);
  expect(mapInSlices([], () => 1)).toEqual([]);
});

test('a long list is finished in slices, with the same result', async () => {
  const doubled = mapInSlices(NUMBERS, (n) => {
    busy(0.5);
    return n * 2;
  });
  expect(doubled).toBeInstanceOf(Promise);
  expect(await doubled).toEqual(NUMBERS.map((n) => n * 2));
});

test('items after the first match are not tested', async () => {
  const tested: number[] = [];
  const found = someInSlices(NUMBERS, (n) => {
    busy(0.5);
    tested.push(n);
    return n === 30;
  });
  expect(await found).toBe(true);
  expect(tested).toEqual(NUMBERS.slice(0, 31));
});

test('an error at one item rejects the whole list', async () => {
  const failing = mapInSlices(NUMBERS, (n) => {
    busy(0.5);
    if (n === 30) throw new Error('thirty');
    return n;
  });
  await expect(failing).rejects.toThrow('thirty');
});

test('many lists together use one slice per event-loop turn, so that other work runs in between', async () => {
  let turns = 0;
  let over = false;
  const count = (): void => {
    turns++;
    if (!over) setImmediate(count);
  };
  const lists = Array.from({ length: 10 }, () => mapInSlices(NUMBERS.slice(0, 30), () => busy(0.5)));
  setImmediate(count);
  await Promise.all(lists);
  over = true;
  // Each list needs some slices after its first one.
  expect(turns).toBeGreaterThan(20);
});
