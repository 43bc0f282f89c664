import { expect, test } from 'vitest';
import { newRequestId, requestIdFrom } from './request-id.js';

test('every request id is new', () => {
  const ids = Array.from({ length: 10_000 }, newRequestId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(requestIdFrom(id)).toBe(id);
});

test.each(['a', '7f3c.b-1_2', 'x'.repeat(128)])('the given id %s is used', (given) => {
  expect(requestIdFrom(given)).toBe(given);
});

test.each([undefined, '', 'x'.repeat(129), 'two words', 'a\nb', 'ä', '{"a":1}'])(
  '%j is not accepted as an id',
  (given) => {
    expect(requestIdFrom(given)).not.toBe(given);
    expect(requestIdFrom(given)).toMatch(/^[0-9a-f]{12}-[0-9a-z]+$/);
  },
);

test('S3: new ids do not reveal how many other ids were made in between', () => {
  const ids = Array.from({ length: 2_000 }, newRequestId);
  expect(new Set(ids).size).toBe(2_000);
  for (const id of ids) expect(requestIdFrom(id)).toBe(id);
  // If the ids came from a counter, all of them would be in order.
  const inOrder = ids.filter((id, at) => at > 0 && id > ids[at - 1]!).length;
  expect(inOrder).toBeGreaterThan(500);
  expect(inOrder).toBeLessThan(1_500);
});
