import { expect, test } from 'vitest';
import { AuditQueue } from './audit-queue.js';

const added = (times: readonly number[], json = '1'): AuditQueue => {
  const queue = new AuditQueue();
  for (const at of times) queue.add(at, json, false);
  return queue;
};

test('records share a group as long as their times do not decrease and are close', () => {
  const sizes = (times: readonly number[]): number[] =>
    added(times)
      .oldest(1_000)
      .map(({ records }) => records);
  expect(sizes([5, 5, 6, 255])).toEqual([4]);
  expect(sizes([5, 5, 4, 4])).toEqual([2, 2]);
  expect(sizes([0, 250, 251, 300])).toEqual([2, 2]);
});

test('a group has at most 1,024 records and about 256 kB', () => {
  expect(
    added(Array(1_500).fill(1))
      .oldest(9_999)
      .map(({ records }) => records),
  ).toEqual([1_024, 476]);
  const large = added(Array(9).fill(1), `"${'x'.repeat(80_000)}"`).oldest(9_999);
  expect(large.every(({ text }) => text.length <= 262_144)).toBe(true);
  expect(large.reduce((sum, { records }) => sum + records, 0)).toBe(9);
  const [huge] = added([1], `"${'x'.repeat(900_000)}"`).oldest(9);
  expect(huge).toMatchObject({ records: 1, text: `0 "${'x'.repeat(900_000)}"` });
});

test('the oldest groups are given, at least one, and take no further records', () => {
  const queue = added([1, 1, 400, 400, 800]);
  expect(queue.oldest(1).map(({ records }) => records)).toEqual([2]);
  const oldest = queue.oldest(4);
  expect(oldest.map(({ text }) => text)).toEqual(['0 1\n0 1', '0 1\n0 1']);
  queue.add(800, '2', false);
  expect(queue.size).toBe(6);
  queue.remove(oldest);
  expect(queue.size).toBe(2);
  expect(queue.oldest(9).map(({ text }) => text)).toEqual(['0 1', '0 2']);
});

test('the newest record that is not a checkpoint is known', () => {
  const queue = new AuditQueue();
  queue.add(3, '1', false);
  queue.add(4, '2', true);
  expect(queue.oldest(9)[0]).toMatchObject({ first: 3, last: 4, recordedAt: 3 });
});

test('impatient callers fail, others wait', () => {
  const queue = new AuditQueue();
  const settled: unknown[] = [];
  const waiter = (name: string, impatient: boolean) => ({
    settle: (error?: Error) => settled.push([name, error?.message]),
    impatient,
  });
  queue.add(1, '1', false, waiter('a', true));
  queue.add(1, '1', false, waiter('b', false));
  queue.oldest(9);
  queue.add(1, '1', false, waiter('c', true));
  expect(queue.awaited).toBe(true);
  queue.failImpatient(new Error('away'));
  queue.failImpatient(new Error('away'));
  expect(settled).toEqual([
    ['a', 'away'],
    ['c', 'away'],
  ]);
  expect(queue.awaited).toBe(true);
  const cleared = queue.clear();
  for (const { waiters } of cleared) for (const { settle } of waiters) settle();
  expect(settled.at(-1)).toEqual(['b', undefined]);
  expect([queue.size, queue.awaited]).toEqual([0, false]);
});
