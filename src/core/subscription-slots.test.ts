import { describe, expect, test } from 'vitest';
import { type Caller, GATEWAY, LOCAL } from './caller.js';
import { SubscriptionSlots } from './subscription-slots.js';

const callerOf = (key: string): Caller => ({ ...GATEWAY, principal: { ...LOCAL, key } });
const [ada, bob] = [callerOf('ada'), callerOf('bob')];
const uris = (count: number): string[] => Array.from({ length: count }, (_, i) => `x://${i}`);
const refused = expect.objectContaining({ reason: 'rate_limited' });

describe('subscriptions', () => {
  const limits = { entries: 10, perCaller: 3, entriesPerCaller: 25, charactersPerCaller: 1_000 };

  test('name a limited number of resources and tasks', () => {
    const slots = new SubscriptionSlots(limits);
    expect(() => slots.take(ada, { resourceSubscriptions: uris(6), taskIds: uris(5) })).toThrow(
      expect.objectContaining({ reason: 'invalid_params' }),
    );
    slots.take(ada, { resourceSubscriptions: uris(5), taskIds: uris(5) });
  });

  test('of a caller are limited in number and in the names in them, and other callers are not affected', () => {
    const slots = new SubscriptionSlots(limits);
    const [first] = [slots.take(ada, { toolsListChanged: true }), slots.take(ada, {}), slots.take(ada, {})];
    expect(() => slots.take(ada, {})).toThrow(refused);
    slots.take(bob, { resourceSubscriptions: uris(10) });
    slots.take(bob, { resourceSubscriptions: uris(10) });
    expect(() => slots.take(bob, { resourceSubscriptions: uris(6) })).toThrow(refused);
    first!();
    first!();
    slots.take(ada, {});
    expect(() => slots.take(ada, {})).toThrow(refused);
  });

  test('of a caller name a limited number of characters', () => {
    const slots = new SubscriptionSlots(limits);
    const long = (name: string): string => name.repeat(600);
    const first = slots.take(ada, { resourceSubscriptions: [long('a')] });
    expect(() => slots.take(ada, { resourceSubscriptions: [long('b')] })).toThrow(refused);
    expect(() => slots.take(ada, { taskIds: [long('b')] })).toThrow(refused);
    slots.take(bob, { resourceSubscriptions: [long('b')] });
    first();
    slots.take(ada, { resourceSubscriptions: [long('b')] });
  });

  test('of the gateway itself are not counted', () => {
    const slots = new SubscriptionSlots({ ...limits, perCaller: 1 });
    for (let i = 0; i < 5; i++) slots.take(GATEWAY, { toolsListChanged: true });
  });
});
