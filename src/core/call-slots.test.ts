import { expect, test } from 'vitest';
import { CallSlots } from './call-slots.js';

const owner = (caller: string, session?: string, server?: string) => ({ caller, session, server });

test.each([
  ['caller', { perCaller: 2 }, owner('a'), owner('b'), 'Too many of your calls are under way (at most 2)'],
  ['session', { perSession: 2 }, owner('a', 's'), owner('a', 't'), 'Too many calls of this session are under way'],
  ['server', { perServer: 2 }, owner('a', 's', 'x'), owner('a', 's', 'y'), 'Too many calls to "x" are under way'],
])('the calls of one %s are bounded, and those of others are not', (_, limit, one, other, message) => {
  const slots = new CallSlots({ perCaller: undefined, perSession: undefined, perServer: undefined, ...limit });
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
  const slots = new CallSlots({ perCaller: 0, perSession: undefined, perServer: undefined });
  expect(() => slots.take(owner('a'))).toThrow(
    expect.objectContaining({
      reason: 'overloaded',
      detail: { outcome: 'not_executed', data: { limit: 0 }, headers: { 'Retry-After': '1' } },
    }),
  );
});

test('a call that one limit refuses takes no slot of the other limits', () => {
  const slots = new CallSlots({ perCaller: 1, perSession: undefined, perServer: 1 });
  slots.take(owner('a', undefined, 'x'));
  expect(() => slots.take(owner('b', undefined, 'x'))).toThrow('"x"');
  slots.take(owner('b', undefined, 'y'));
});
