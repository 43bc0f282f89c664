import { describe, expect, it } from 'vitest';
import { RESTART, RestartPolicy } from './restart-policy.js';

const even = () => 0.5;

describe('RestartPolicy', () => {
  it('doubles from 1 s to 60 s, then stays there', () => {
    const policy = new RestartPolicy({ ...RESTART, failAfter: Number.POSITIVE_INFINITY }, even);
    const pauses = Array.from({ length: 50 }, () => policy.ended(0).pauseMs);
    expect(pauses.slice(0, 8)).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    expect(pauses.slice(8).every((pause) => pause === 60_000)).toBe(true);
  });

  it('varies every pause within 1..60 s', () => {
    for (const random of [() => 0, () => 0.999]) {
      const policy = new RestartPolicy({ ...RESTART, failAfter: Number.POSITIVE_INFINITY }, random);
      const pauses = Array.from({ length: 10 }, () => policy.ended(0).pauseMs);
      for (const [n, pause] of pauses.entries()) {
        expect(pause).toBeGreaterThanOrEqual(1000);
        expect(pause).toBeLessThanOrEqual(60_000);
        const base = Math.min(60_000, 1000 * 2 ** n);
        expect(Math.abs(pause - base)).toBeLessThanOrEqual(base * 0.2);
      }
    }
  });

  it('reports failed after five quick failures in a row, and after each further quick failure', () => {
    const policy = new RestartPolicy(RESTART, even);
    expect(Array.from({ length: 6 }, () => policy.ended(100).failed)).toEqual([false, false, false, false, true, true]);
    expect(policy.ended(0).pauseMs).toBe(60_000);
  });

  it('starts again with the first pause after a child that served long enough', () => {
    const policy = new RestartPolicy(RESTART, even);
    for (let n = 0; n < 4; n++) policy.ended(0);
    expect(policy.ended(10_000)).toEqual({ pauseMs: 1000, failed: false });
    expect(policy.failures).toBe(1);
  });

  it('counts a child that served for less time than its pause as a quick failure', () => {
    const policy = new RestartPolicy({ ...RESTART, failAfter: 10 }, even);
    for (let n = 0; n < 6; n++) policy.ended(0);
    expect(policy.ended(31_000).pauseMs).toBe(60_000);
    expect(policy.ended(61_000).pauseMs).toBe(1000);
  });
});
