import { describe, expect, test, vi } from 'vitest';
import { type SharedCounter, SharedRateCounts, type SharedRateCountsOptions } from './shared-rate-counts.js';

class Memory implements SharedCounter {
  readonly counts = new Map<string, number>();
  asked = 0;

  async incr(key: string, n: number): Promise<number> {
    this.asked++;
    const value = (this.counts.get(key) ?? 0) + n;
    this.counts.set(key, value);
    return value;
  }
}

let at = 0;
const windows = (counter: SharedCounter, more: Partial<SharedRateCountsOptions> = {}): SharedRateCounts =>
  new SharedRateCounts({ name: 't', limit: 100, interval: 1_000, counter, now: () => at, away: () => {}, ...more });

const admitted = async (of: readonly SharedRateCounts[], calls: number, key = 'ada'): Promise<number> => {
  const answers = await Promise.all(Array.from({ length: calls }, (_, i) => of[i % of.length]!.take(key)));
  return answers.filter((wait) => wait === 0).length;
};

describe('a limit that replicas share', () => {
  test.each([1, 3, 7, 100, 5_000])(
    'admits exactly %i calls over three replicas, and asks the counter rarely',
    async (limit) => {
      at = 10_000;
      const counter = new Memory();
      const replicas = [1, 2, 3].map(() => windows(counter, { limit }));
      let count = 0;
      for (let round = 0; round < 20; round++) count += await admitted(replicas, Math.ceil(limit / 5) + 3);
      expect(count).toBeLessThanOrEqual(limit);
      // Other replicas cannot use what a replica has reserved but not used.
      expect(count).toBeGreaterThanOrEqual(limit - 2 * Math.ceil(limit / 10));
      expect(counter.asked).toBeLessThan(40);
    },
  );

  test('returns the time until the next interval, and admits calls again in that interval', async () => {
    at = 10_250;
    const one = windows(new Memory(), { limit: 2 });
    expect(await admitted([one], 2)).toBe(2);
    expect(await one.take('ada')).toBe(750);
    at = 11_000;
    expect(await one.take('ada')).toBe(0);
  });

  test('counts each key separately', async () => {
    const one = windows(new Memory(), { limit: 1 });
    expect(await admitted([one], 5, 'ada')).toBe(1);
    expect(await admitted([one], 5, 'bob')).toBe(1);
  });

  test('most calls do not wait', async () => {
    at = 20_000;
    const one = windows(new Memory());
    await one.take('ada');
    let waited = 0;
    for (let i = 0; i < 60; i++) {
      const answer = one.take('ada');
      if (answer instanceof Promise) waited++;
      await answer;
    }
    expect(waited).toBe(0);
  });
});

describe('a shared counter', () => {
  test.each([
    ['fails', () => Promise.reject(new Error('away'))],
    ['does not answer', () => new Promise<number>(() => {})],
  ])('that %s: the replica counts alone up to the limit', async (_, incr) => {
    at = 30_000;
    const away = vi.fn();
    const one = windows({ incr }, { limit: 10, away });
    expect(await admitted([one], 50)).toBe(10);
    expect(away).toHaveBeenCalled();
  });

  test('that answers again gets the uses that the replica counted alone', async () => {
    at = 40_000;
    const counter = new Memory();
    let broken = true;
    const incr: SharedCounter['incr'] = (key, n) => (broken ? Promise.reject(new Error('away')) : counter.incr(key, n));
    const one = windows({ incr }, { limit: 100, interval: 60_000 });
    expect(await admitted([one], 40)).toBe(40);
    broken = false;
    at += 2_000;
    expect(await admitted([one], 100)).toBe(60);
    expect(await admitted([windows(counter, { limit: 100, interval: 60_000 })], 10)).toBe(0);
  });
});
