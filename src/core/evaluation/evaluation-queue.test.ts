import { expect, test } from 'vitest';
import { Quota } from '../count-and-byte-limit.js';
import { EvaluationQueue, type EvaluationResult } from './evaluation-queue.js';
import { type EvaluatedCall, EvaluationFailure, type Evaluator, evaluationOf } from './evaluator.js';
import { latencyEvaluator } from './latency-evaluator.js';

const called = (more: Partial<EvaluatedCall> = {}): EvaluatedCall => ({
  requestId: 'r1',
  caller: 'ada',
  protocol: 'mcp',
  upstream: 'units',
  target: 'convert',
  outcome: 'ok',
  ms: 10,
  json: Buffer.from('{}'),
  ...more,
});

function queueOf(evaluator: Evaluator, within = new Quota({ count: 10_000, bytes: 1e9 })) {
  const counts: Record<EvaluationResult, number> = { scored: 0, skipped: 0, failed: 0, dropped: 0 };
  const [scores, reasons]: [(number | null)[], string[]] = [[], []];
  const queue = new EvaluationQueue({
    ...{ evaluator, concurrency: 4, within },
    done: (_, { score }) => scores.push(score),
    counted: (result) => counts[result]++,
    failed: (reason) => reasons.push(reason),
  });
  const offer = (call: EvaluatedCall): void => {
    if (queue.accepts(call.caller)) queue.add(call);
  };
  return { queue, offer, counts, scores, reasons };
}

/** An evaluator that answers when the test says so. */
function held() {
  const open: ((score: number) => void)[] = [];
  const evaluator: Evaluator = {
    evaluate: () => new Promise((resolve) => open.push((score) => resolve({ score }))),
  };
  return { evaluator, open };
}

test('evaluates a few calls at a time, and never in the event-loop turn in which the call ended', async () => {
  const { evaluator, open } = held();
  const { queue, offer, counts, scores } = queueOf(evaluator);
  for (let i = 0; i < 6; i++) offer(called());
  expect(open).toHaveLength(0);
  await expect.poll(() => open.length).toBe(4);
  for (const answer of open.splice(0)) answer(0.5);
  await expect.poll(() => open.length).toBe(2);
  for (const answer of open.splice(0)) answer(1);
  await expect.poll(() => queue.size).toBe(0);
  expect(counts).toEqual({ scored: 6, skipped: 0, failed: 0, dropped: 0 });
  expect(scores).toEqual([0.5, 0.5, 0.5, 0.5, 1, 1]);
});

test('limits waiting calls by number, by bytes, per caller, and over all queues', async () => {
  const { evaluator } = held();
  const { queue, offer, counts } = queueOf(evaluator);
  for (let i = 0; i < 200; i++) offer(called());
  expect([queue.size, counts.dropped]).toEqual([125, 75]);
  for (let i = 0; i < 1_000; i++) offer(called({ caller: `caller ${i}` }));
  expect(queue.size).toBe(500);
  const large = queueOf(evaluator);
  const json = Buffer.alloc(6 * 1024 * 1024);
  for (let i = 0; i < 4; i++) large.offer(called({ json }));
  expect([large.queue.size, large.counts.dropped]).toEqual([2, 2]);
  const within = new Quota({ count: 3, bytes: 1e9 });
  const [one, two] = [queueOf(evaluator, within), queueOf(evaluator, within)];
  for (const each of [one, two]) for (let i = 0; i < 2; i++) each.offer(called());
  expect([one.queue.size, two.queue.size, two.counts.dropped]).toEqual([2, 1, 1]);
});

test('a failure affects one call only, and after many failures in a row the evaluator pauses', async () => {
  let broken = true;
  const evaluator: Evaluator = {
    evaluate: async () => {
      if (broken) throw new TypeError('the secret of the call');
      return { score: 1 };
    },
  };
  const { offer, counts, reasons } = queueOf(evaluator);
  offer(called());
  await expect.poll(() => counts.failed).toBe(1);
  broken = false;
  offer(called());
  await expect.poll(() => counts.scored).toBe(1);
  broken = true;
  for (let i = 0; i < 5; i++) offer(called());
  await expect.poll(() => counts.failed).toBe(6);
  offer(called());
  expect(counts.dropped).toBe(1);
  expect(new Set(reasons)).toEqual(new Set(['TypeError']));
});

test('drops the waiting calls when it closes, and finishes the calls under evaluation', async () => {
  const { evaluator, open } = held();
  const { queue, offer, counts } = queueOf(evaluator);
  for (let i = 0; i < 6; i++) offer(called());
  await expect.poll(() => open.length).toBe(4);
  const closed = queue.close();
  for (const answer of open.splice(0)) answer(1);
  await closed;
  expect(counts).toMatchObject({ scored: 4, dropped: 2 });
  offer(called());
  expect(counts.dropped).toBe(3);
});

test('an evaluation is a number from 0 to 1, null, or an object with a score', () => {
  expect(evaluationOf(0.25)).toEqual({ score: 0.25 });
  expect(evaluationOf(undefined)).toEqual({ score: null });
  expect(evaluationOf({ score: null, label: 'unsure' })).toEqual({ score: null, label: 'unsure' });
  expect(evaluationOf({ score: 1, label: 'x'.repeat(500), more: {} }).label).toHaveLength(64);
  for (const garbage of [2, -1, Number.NaN, 'high', {}, [], { score: '1' }, { score: Number.POSITIVE_INFINITY }, true])
    expect(() => evaluationOf(garbage)).toThrow(EvaluationFailure);
});

test('latency scores successful calls by their objective', () => {
  const { evaluate } = latencyEvaluator(100);
  expect([50, 100, 200, 1_000].map((ms) => evaluate(called({ ms })))).toEqual([
    { score: 1 },
    { score: 1 },
    { score: 0.5 },
    { score: 0.1 },
  ]);
  expect(evaluate(called({ outcome: 'error' }))).toEqual({ score: null });
});
