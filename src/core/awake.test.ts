import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { afterTurn, stayAwake, Wakefulness } from './awake.js';

afterEach(() => stayAwake(false));

/** What comes at these pauses, in milliseconds: how long it was looked for in vain, and how long with success. */
function run(pauses: Iterable<number>): { vain: number; paid: number; time: number } {
  const wakefulness = new Wakefulness();
  const spent = { vain: 0, paid: 0, time: 0 };
  let now = 1_000;
  let looking = wakefulness.did(now);
  for (const pause of pauses) {
    if (looking) {
      let looked = 0;
      while (looked < pause && looking) {
        looked += 0.002;
        looking = wakefulness.lasts(now + looked);
      }
      if (looking) spent.paid += pause;
      else spent.vain += looked;
    }
    now += pause;
    spent.time += pause;
    looking = wakefulness.did(now) || looking;
  }
  return spent;
}

const repeat = (pauses: readonly number[], times: number): number[] =>
  Array.from({ length: times }, () => pauses).flat();

/** Pauses of callers who know nothing of each other. */
function* atRandom(mean: number, times: number): Generator<number> {
  let seed = 42;
  for (let i = 0; i < times; i++) {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    yield -mean * Math.log(1 - seed / 2 ** 32);
  }
}

test('a caller who speaks again at once is waited for awake', () => {
  const { vain, paid, time } = run(repeat([0.2, 0.15], 10_000));
  expect(vain).toBe(0);
  expect(paid / time).toBeGreaterThan(0.99);
});

test('a caller who takes its time is slept through', () => {
  const { vain, paid } = run(repeat([5], 1_000));
  expect(vain + paid).toBe(0);
});

test.each([
  ['a server that takes long and a caller that does not', repeat([5, 0.1], 10_000)],
  ['pauses that are short twice and then too long', repeat([0.1, 0.1, 0.5], 10_000)],
  ['callers at random, 2,000 messages a second', [...atRandom(0.5, 10_000)]],
  ['callers at random, 5,000 messages a second', [...atRandom(0.2, 10_000)]],
])('%s: at most a twentieth of the time goes in vain', (_, pauses) => {
  const { vain, time } = run(pauses);
  // Beside what was saved up at the beginning.
  expect(vain).toBeLessThan(time * 0.05 + 11);
});

const loops = (): number => performance.nodeTiming.uvMetricsInfo.loopCount;

/** How often the loop goes round after a row of turns that had something to do. */
async function roundsAfter(turns: number): Promise<number> {
  for (let i = 0; i < turns; i++) {
    await nextTurn();
    afterTurn();
  }
  const before = loops();
  await sleep(20);
  return loops() - before;
}

test('the loop goes round for a moment, and then sleeps', async () => {
  stayAwake(true);
  let most = 0;
  // On a busy machine the last of the turns may have been a long one.
  for (let attempt = 0; attempt < 50 && most < 20; attempt++) most = Math.max(most, await roundsAfter(50));
  expect(most).toBeGreaterThanOrEqual(20);
  await sleep(10);
  const before = loops();
  await sleep(50);
  expect(loops() - before).toBeLessThan(10);
});

test('it sleeps at once where it is not to stay awake', async () => {
  for (let attempt = 0; attempt < 5; attempt++) expect(await roundsAfter(50)).toBeLessThan(10);
});
