import { expect, test } from 'vitest';
import { HealthProbes } from './health-probes.js';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('S0-55: probes of 1,000 upstreams are spread over the interval, and few run at a time', async () => {
  let now = 0;
  let running = 0;
  let most = 0;
  const counts = new Map<string, number>();
  const upstreams = Array.from({ length: 1_000 }, (_, n) => ({
    name: `s${n}`,
    checkHealth: async () => {
      most = Math.max(most, ++running);
      counts.set(`s${n}`, (counts.get(`s${n}`) ?? 0) + 1);
      await turn();
      running--;
    },
  }));
  const probes = new HealthProbes({ upstreams: () => upstreams, interval: 300_000, now: () => now });
  probes.tick();
  expect(counts.size).toBe(0);
  for (now = 0; now < 800_000; now += 1_000) {
    probes.tick();
    await turn();
  }
  expect(most).toBeLessThanOrEqual(8);
  expect(counts.size).toBe(1_000);
  expect(Math.min(...counts.values())).toBeGreaterThanOrEqual(1);
  expect(Math.max(...counts.values())).toBeLessThanOrEqual(4);
});

test('a probe that hangs is not started again, and a failed probe is repeated', async () => {
  let now = 0;
  let hung = 0;
  let failed = 0;
  const hangs = { name: 'a', checkHealth: () => new Promise<void>(() => void hung++) };
  const fails = { name: 'b', checkHealth: () => Promise.reject(new Error(String(failed++))) };
  const probes = new HealthProbes({
    upstreams: () => [hangs, fails],
    interval: 1_000,
    now: () => now,
    random: () => 0,
  });
  for (now = 0; now < 10_000; now += 500) {
    probes.tick();
    await turn();
  }
  expect(hung).toBe(1);
  expect(failed).toBeGreaterThan(5);
});
