import { expect, test } from 'vitest';
import { CircuitBreaker } from './circuit-breaker.js';

test('opens after failures in a row, lets one trial pass after the pause, and closes when the trial succeeds', () => {
  let now = 0;
  const breaker = new CircuitBreaker({ failures: 2, pause: 1_000 }, () => now);
  breaker.failed();
  breaker.answered();
  breaker.failed();
  expect(breaker.enter()).toBeUndefined();
  breaker.failed();
  expect(breaker.enter()).toEqual({ state: 'open', nextTrialMs: 1_000 });
  now = 1_000;
  expect(breaker.enter()).toBeUndefined();
  expect(breaker.enter()).toEqual({ state: 'half_open', nextTrialMs: 0 });
  breaker.failed();
  expect(breaker.health()).toEqual({ state: 'open', nextTrialMs: 1_000 });
  now = 2_000;
  expect(breaker.enter()).toBeUndefined();
  breaker.answered();
  expect(breaker.enter()).toBeUndefined();
  expect(breaker.health()).toEqual({ state: 'closed', nextTrialMs: 0 });
});

test('a trial without a result does not block the next one', () => {
  let now = 0;
  const breaker = new CircuitBreaker({ failures: 1, pause: 1_000 }, () => now);
  breaker.failed();
  now = 1_000;
  expect(breaker.enter()).toBeUndefined();
  breaker.inconclusive();
  expect(breaker.enter()).toBeUndefined();
  now = 2_000;
  expect(breaker.enter()).toBeUndefined();
});

test('each failed trial doubles the pause up to the limit; late failures during a pause do not extend it', () => {
  let now = 0;
  const breaker = new CircuitBreaker({ failures: 1, pause: 1_000, longestPause: 3_000 }, () => now);
  const pauses: number[] = [];
  for (let trial = 0; trial < 4; trial += 1) {
    expect(breaker.allows()).toBe(true);
    breaker.begin();
    breaker.failed();
    const { nextTrialMs } = breaker.health();
    pauses.push(nextTrialMs);
    now += 1;
    breaker.failed();
    expect(breaker.health().nextTrialMs).toBe(nextTrialMs - 1);
    now += nextTrialMs - 1;
  }
  expect(pauses).toEqual([1_000, 2_000, 3_000, 3_000]);
  breaker.begin();
  breaker.answered();
  breaker.failed();
  expect(breaker.health().nextTrialMs).toBe(1_000);
});
