import { expect, test } from 'vitest';
import { SERVER_TRAFFIC_LIMITS, ServerTraffic } from './server-traffic-limits.js';

test('the pause doubles while floods go on, and is short again after a quiet time', () => {
  let now = 0;
  const traffic = new ServerTraffic({ ...SERVER_TRAFFIC_LIMITS, pause: 10, longestPause: 35 }, () => now);
  expect(traffic.resting).toBe(0);
  expect(traffic.flooded()).toBe(10);
  // Another connection of the same server reports the same flood.
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
  const traffic = new ServerTraffic({ ...SERVER_TRAFFIC_LIMITS, besideCalls: { burst: 10, second: 0.001 } });
  expect(traffic.allows(10 * 4_096)).toBe(true);
  expect(traffic.allows(1)).toBe(false);
});
