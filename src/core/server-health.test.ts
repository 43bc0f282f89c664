import { expect, test } from 'vitest';
import { serverHealth } from './server-health.js';
import { UpstreamMonitor } from './upstream-monitor.js';

test('S0-55: the health of a server has its reason, its time and the state of its breaker', () => {
  let status: 'up' | 'down' = 'up';
  const monitor = new UpstreamMonitor({
    upstreams: () => [
      {
        kind: 'server',
        name: 'one',
        health: () => ({ status, ...(status === 'down' && { detail: 'Server "one" is unavailable' }) }),
        offer: () => ({ known: true, count: 3 }),
      },
    ],
  });
  const breaker = { state: 'open', nextTrialMs: 900 } as const;
  const upstream = () => ({
    health: () => ({ status, speaks: [], probed: { at: 5, took: 7 }, ...(status === 'down' && { breaker }) }),
  });
  monitor.sample();
  const before = Date.now();
  expect(serverHealth(['one', 'gone'], monitor, (name) => (name === 'one' ? upstream() : undefined))).toEqual([
    { name: 'one', status: 'healthy', since: expect.any(Number), checkedAt: 5, latencyMs: 7, tools: 3 },
    { name: 'gone', status: 'unknown' },
  ]);
  status = 'down';
  monitor.sample();
  const [down] = serverHealth(['one'], monitor, upstream);
  expect(down).toMatchObject({ status: 'unhealthy', reason: 'Server "one" is unavailable', breaker });
  expect(down!.since).toBeGreaterThanOrEqual(before - 1);
  monitor.close();
});
