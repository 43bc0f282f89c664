import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { type ScoreRow, Scores } from './evaluation-scores.js';

const HOUR = 3_600_000;
const NOW = Math.floor(Date.now() / HOUR) * HOUR;
const row = (more: Partial<ScoreRow> = {}): ScoreRow => ({
  ...{ evaluator: 'schema', upstream: 'units', target: 'convert', since: NOW },
  ...{ count: 2, total: 1_500, lowest: 500, lowestRequest: 'r1', ...more },
});

describe.each(['sqlite', 'postgres'] as const)('scores on %s', (engine) => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
  });
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  test('the sums of all replicas are added', async () => {
    const [a, b] = await Promise.all([cluster.open(), cluster.open()]);
    await Promise.all([
      a.scores.add([row(), row({ target: 'list' })]),
      b.scores.add([row({ target: 'list' }), row({ count: 1, total: 100, lowest: 100, lowestRequest: 'r2' })]),
    ]);
    const stored = await a.scores.list({ since: NOW, limit: 10 });
    expect(stored).toEqual([
      row({ count: 3, total: 1_600, lowest: 100, lowestRequest: 'r2' }),
      row({ target: 'list', count: 4, total: 3_000 }),
    ]);
  });

  test('lists the rows that match a filter, and continues after a given row', async () => {
    const { scores } = await cluster.open();
    const all = ['a', 'b', 'c'].flatMap((target) => [NOW - HOUR, NOW].map((since) => row({ target, since })));
    await scores.add([...all, row({ evaluator: 'latency', upstream: 'clock' })]);
    expect(await scores.list({ since: NOW, target: 'b', limit: 10 })).toEqual([row({ target: 'b' })]);
    expect(await scores.list({ since: 0, upstream: 'clock', limit: 10 })).toHaveLength(1);
    const found: ScoreRow[] = [];
    for (let after: ScoreRow | undefined; ; ) {
      const page = await scores.list({ since: 0, evaluator: 'schema', after, limit: 4 });
      found.push(...page);
      after = page.at(-1);
      if (page.length < 4) break;
    }
    expect(found).toEqual(all);
  });

  test('the sweeper removes old rows, and the oldest rows beyond the limit', async () => {
    const { db, scores } = await cluster.open();
    const old = row({ since: NOW - 8 * 24 * HOUR });
    const hours = Array.from({ length: 6 }, (_, hour) => row({ since: NOW - hour * HOUR }));
    await scores.add([old, ...hours]);
    expect(await scores.sweep()).toBe(1);
    expect(await scores.sweep()).toBe(0);
    expect(await new Scores(db, 4).sweep()).toBe(2);
    expect((await scores.list({ since: 0, limit: 10 })).map(({ since }) => since)).toEqual(
      hours
        .slice(0, 4)
        .map(({ since }) => since)
        .reverse(),
    );
  });
});
