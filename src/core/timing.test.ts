import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Cancellation } from './caller.js';
import { Backoff, backoff, Paced, sleep, within } from './timing.js';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** Whether a promise has settled by now. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol('open');
  return (await Promise.race([promise, Promise.resolve().then(() => open)])) !== open;
}

describe('sleep', () => {
  test('lasts the given time', async () => {
    const slept = sleep(100);
    await vi.advanceTimersByTimeAsync(99);
    expect(await settled(slept)).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await slept;
  });

  test.each([
    ['a cancellation', () => new Cancellation(), (it: Cancellation) => it.cancel('enough')],
    ['an abort controller', () => new AbortController(), (it: AbortController) => it.abort()],
  ] as const)('ends early with %s and leaves no timer behind', async (_, make, end) => {
    const interrupt = make();
    const slept = sleep(60_000, { until: 'signal' in interrupt ? interrupt.signal : interrupt });
    expect(vi.getTimerCount()).toBe(1);
    (end as (it: unknown) => void)(interrupt);
    await slept;
    expect(vi.getTimerCount()).toBe(0);
    await sleep(60_000, { until: 'signal' in interrupt ? interrupt.signal : interrupt });
    expect(vi.getTimerCount()).toBe(0);
  });

  test('removes its listener at the end', async () => {
    const listeners = new Set<() => void>();
    const until = {
      onCancel: (listener: () => void) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    };
    const slept = sleep(10, { until });
    expect(listeners.size).toBe(1);
    await vi.advanceTimersByTimeAsync(10);
    await slept;
    expect(listeners.size).toBe(0);
  });

  test('does not end early for a time beyond the range of timers', async () => {
    const slept = sleep(2 ** 40);
    await vi.advanceTimersByTimeAsync(1_000_000);
    expect(await settled(slept)).toBe(false);
  });

  test.each([-1, Number.NaN])('of %s milliseconds ends at once', async (milliseconds) => {
    const slept = sleep(milliseconds);
    await vi.advanceTimersByTimeAsync(1);
    await slept;
  });

  test('does not keep the process alive with ref: false', async () => {
    vi.useRealTimers();
    const loader = new URL('../../test/support/ts.mjs', import.meta.url).href;
    const module = new URL('./timing.ts', import.meta.url).href;
    const text = `import { sleep, within } from ${JSON.stringify(module)};
      sleep(3_600_000, { ref: false });
      within(new Promise(() => {}), 3_600_000, { ref: false });`;
    const args = ['--import', loader, '--input-type=module', '-e', text];
    await promisify(execFile)(process.execPath, args, { cwd: fileURLToPath(new URL('.', import.meta.url)) });
  });
});

describe('within', () => {
  test('returns the outcome of work that ends in time, and leaves no timer behind', async () => {
    expect(await within(Promise.resolve(7), 100)).toBe(7);
    await expect(within(Promise.reject(new Error('no')), 100)).rejects.toThrow('no');
    expect(vi.getTimerCount()).toBe(0);
  });

  test('returns undefined for late work, calls late() once, and ignores a later failure', async () => {
    let fail = (_: Error): void => {};
    const late = vi.fn();
    const outcome = within(new Promise<number>((_, reject) => (fail = reject)), 100, { late });
    await vi.advanceTimersByTimeAsync(100);
    expect(await outcome).toBeUndefined();
    expect(late).toHaveBeenCalledOnce();
    // Vitest fails the run on an unhandled rejection.
    fail(new Error('too late'));
    await vi.advanceTimersByTimeAsync(0);
  });
});

describe('backoff', () => {
  const options = { first: 100, longest: 1_000 };

  test('doubles from the first pause to the longest', () => {
    expect([1, 2, 3, 4, 5, 6, 1_000].map((failures) => backoff(failures, options))).toEqual([
      100, 200, 400, 800, 1_000, 1_000, 1_000,
    ]);
    expect(backoff(0, options)).toBe(100);
  });

  test('is random within the jitter, and never longer than the longest pause', () => {
    const varied = { ...options, jitter: 0.5 };
    expect([0, 0.5, 1].map((random) => backoff(2, varied, () => random))).toEqual([100, 200, 300]);
    expect(backoff(9, varied, () => 1)).toBe(1_000);
  });

  test('counts failures until a success', () => {
    const pauses = new Backoff(options);
    expect([pauses.next(), pauses.next(), pauses.failures]).toEqual([100, 200, 2]);
    pauses.reset();
    expect([pauses.next(), pauses.failures]).toEqual([100, 1]);
  });
});

describe('Paced', () => {
  test('runs at the first signal, and then at most once per interval, however many signals arrive', () => {
    let runs = 0;
    const paced = new Paced(() => runs++, 1_000);
    for (let i = 0; i < 100; i++) paced.signal();
    expect(runs).toBe(1);
    vi.advanceTimersByTime(1_000);
    expect(runs).toBe(2);
    vi.advanceTimersByTime(10_000);
    expect(runs).toBe(2);
    paced.signal();
    expect(runs).toBe(3);
  });

  test('runs no more after its end', () => {
    let runs = 0;
    const paced = new Paced(() => runs++, 1_000);
    paced.signal();
    paced.signal();
    paced.stop();
    paced.signal();
    vi.advanceTimersByTime(10_000);
    expect(runs).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});
