import { expect, test } from 'vitest';
import { CallSlots } from './call-slots.js';

const BYTES = { bytes: 1_000, bytesPerCaller: 100 };
const owner = (caller: string, session?: string, server?: string) => ({ caller, session, server });

test.each([
  ['caller', { perCaller: 2 }, owner('a'), owner('b'), 'Too many of your calls are under way (at most 2)'],
  ['session', { perSession: 2 }, owner('a', 's'), owner('a', 't'), 'Too many calls of this session are under way'],
  ['server', { perServer: 2 }, owner('a', 's', 'x'), owner('a', 's', 'y'), 'Too many calls to "x" are under way'],
])('each %s has its own limit, which does not affect others', (_, limit, one, other, message) => {
  const slots = new CallSlots({
    ...BYTES,
    perCaller: undefined,
    perSession: undefined,
    perServer: undefined,
    ...limit,
  });
  const first = slots.take(one);
  slots.take(one);
  expect(() => slots.take(one)).toThrow(message);
  slots.take(other);
  slots.take(other);
  first();
  first();
  slots.take(one);
  expect(() => slots.take(one)).toThrow(message);
});

test('the refusal has a type, and its outcome is "not_executed"', () => {
  const slots = new CallSlots({ ...BYTES, perCaller: 0, perSession: undefined, perServer: undefined });
  expect(() => slots.take(owner('a'))).toThrow(
    expect.objectContaining({
      reason: 'overloaded',
      detail: { outcome: 'not_executed', data: { limit: 0 }, headers: { 'Retry-After': '1' } },
    }),
  );
});

test('a call that one limit refuses takes no slot of the other limits', () => {
  const slots = new CallSlots({ ...BYTES, perCaller: 1, perSession: undefined, perServer: 1 });
  slots.take(owner('a', undefined, 'x'));
  expect(() => slots.take(owner('b', undefined, 'x'))).toThrow('"x"');
  slots.take(owner('b', undefined, 'y'));
});

test('the bytes of the requests in flight are limited for each caller and in all', () => {
  const slots = new CallSlots({
    perCaller: 10,
    perSession: undefined,
    perServer: undefined,
    bytes: 200,
    bytesPerCaller: 100,
  });
  const first = slots.take(owner('a'), 60);
  expect(() => slots.take(owner('a'), 60)).toThrow('your calls under way hold too much data (at most 100 bytes)');
  slots.take(owner('a'), 40);
  slots.take(owner('b'), 90);
  expect(() => slots.take(owner('c'), 20)).toThrow('all calls under way hold too much data (at most 200 bytes)');
  first();
  first();
  slots.take(owner('c'), 20);
  slots.take(owner('a'), 50);
});

test('a single request may have any size', () => {
  const slots = new CallSlots({ ...BYTES, perCaller: 10, perSession: undefined, perServer: undefined });
  slots.take(owner('a'), 5_000)();
  slots.take(owner('b'), 5_000);
});
