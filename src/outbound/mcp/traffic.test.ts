import { expect, test } from 'vitest';
import { Quota, TRAFFIC_LIMITS, Traffic } from './traffic.js';

test('a quota bounds number and bytes, and gives back each thing once', () => {
  const outer = new Quota({ count: 3, bytes: 100 });
  const inner = new Quota({ count: 2, bytes: 50 }, outer);
  const first = inner.take(40)!;
  expect(inner.take(20)).toBeUndefined();
  expect(inner.take(10)).toBeDefined();
  expect(inner.take(0)).toBeUndefined();
  expect(outer.take(10)).toBeDefined();
  expect(outer.take(1)).toBeUndefined();
  first();
  first();
  expect(outer.take(1)).toBeDefined();
  expect(outer.take(1)).toBeUndefined();
  expect(inner.take(1)).toBeUndefined();
});

test('one thing that is larger than the quota is taken alone', () => {
  const quota = new Quota({ count: 10, bytes: 100 });
  const large = quota.take(1_000)!;
  expect(quota.take(1)).toBeUndefined();
  large();
  expect(quota.take(1)).toBeDefined();
});

test('the pause doubles while floods go on, and is short again after a quiet time', () => {
  let now = 0;
  const traffic = new Traffic({ ...TRAFFIC_LIMITS, pause: 10, longestPause: 35 }, () => now);
  expect(traffic.resting).toBe(0);
  expect(traffic.flooded()).toBe(10);
  // Other connections of the same server notice the same flood.
  now = 4;
  expect(traffic.flooded()).toBe(6);
  expect(traffic.resting).toBe(6);
  for (const expected of [20, 35, 35]) {
    now += traffic.resting;
    expect(traffic.flooded()).toBe(expected);
  }
  now += traffic.resting + 36;
  expect(traffic.flooded()).toBe(10);
});

test('a long message counts as several', () => {
  const traffic = new Traffic({ ...TRAFFIC_LIMITS, besideCalls: { burst: 10, second: 0.001 } });
  expect(traffic.allows(10 * 4_096)).toBe(true);
  expect(traffic.allows(1)).toBe(false);
});
