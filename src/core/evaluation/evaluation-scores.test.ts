import { expect, test } from 'vitest';
import { type CallScore, type ScoreRecords, type ScoreSum, Scores } from './evaluation-scores.js';

const HOUR = 3_600_000;

class Records implements ScoreRecords {
  readonly sums: ScoreSum[] = [];
  away = false;

  async add(sums: readonly ScoreSum[]): Promise<void> {
    if (this.away) throw new Error('no database');
    this.sums.push(...sums);
  }

  async recent(since: number): Promise<readonly ScoreSum[]> {
    return this.sums.filter((sum) => sum.since >= since);
  }
}

const score = (value: number, more: Partial<CallScore> = {}): CallScore => ({
  ...{ evaluator: 'schema', upstream: 'units', target: 'convert', score: value, requestId: `r${value}` },
  ...more,
});

function scoresOf(records: Records) {
  const failures: unknown[] = [];
  let now = 100 * HOUR + 5;
  const scores = new Scores({ records, now: () => now, failed: (error) => failures.push(error) });
  return { scores, failures, later: (ms: number) => (now += ms) };
}

test('stores sums per target and hour, with the request id of the lowest score', async () => {
  const records = new Records();
  const { scores, later } = scoresOf(records);
  for (const value of [1, 0.25, 0.75]) scores.add(score(value));
  scores.add(score(0.5, { target: 'list' }));
  await scores.store();
  later(HOUR);
  scores.add(score(1));
  await scores.store();
  expect(records.sums).toEqual([
    {
      ...{ evaluator: 'schema', upstream: 'units', target: 'convert', since: 100 * HOUR },
      ...{ count: 3, total: 2_000, lowest: 250, lowestRequest: 'r0.25' },
    },
    expect.objectContaining({ target: 'list', count: 1, total: 500 }),
    expect.objectContaining({ target: 'convert', since: 101 * HOUR, count: 1 }),
  ]);
});

test('routing reads scores of this replica at once, and scores of other replicas from the store', async () => {
  const records = new Records();
  const [here, there] = [scoresOf(records), scoresOf(records)];
  expect(here.scores.qualityOf('units', 'convert')).toBeUndefined();
  here.scores.add(score(1));
  here.scores.add(score(0, { evaluator: 'latency' }));
  expect(here.scores.qualityOf('units', 'convert')).toEqual({ mean: 0.5, count: 2 });
  await here.scores.store();
  await there.scores.start();
  expect(there.scores.qualityOf('units', 'convert')).toEqual({ mean: 0.5, count: 2 });
  there.scores.add(score(1));
  expect(there.scores.qualityOf('units', 'convert')).toEqual({ mean: 2 / 3, count: 3 });
  await there.scores.close();
  // Old hours no longer count.
  const later = scoresOf(records);
  later.later(30 * HOUR);
  await later.scores.start();
  expect(later.scores.qualityOf('units', 'convert')).toBeUndefined();
  await later.scores.close();
});

test('tells listeners of each score', () => {
  const { scores } = scoresOf(new Records());
  const heard: number[] = [];
  const forget = scores.onScore((each) => heard.push(each.score));
  scores.add(score(0.5));
  forget();
  scores.add(score(1));
  expect(heard).toEqual([0.5]);
});

test('keeps a bounded number of waiting sums, and loses them if the store fails', async () => {
  const records = new Records();
  records.away = true;
  const { scores, failures } = scoresOf(records);
  for (let i = 0; i < 5_000; i++) scores.add(score(1, { target: `invented ${i}`, upstream: `u${i % 2_000}` }));
  await scores.store();
  expect(failures).toHaveLength(1);
  records.away = false;
  for (let i = 0; i < 5_000; i++) scores.add(score(1, { target: `invented ${i}` }));
  await scores.store();
  expect(records.sums.length).toBe(501);
  expect(records.sums.at(-1)).toMatchObject({ target: 'other', count: 4_500 });
});
