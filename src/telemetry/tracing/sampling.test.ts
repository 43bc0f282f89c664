import { expect, test } from 'vitest';
import { newSpanId, newTraceId } from './finished-span.js';
import { isSampled, samplingOf } from './sampling.js';

const sampledAt = (ratio: number, end: string): boolean =>
  isSampled({ parentBased: true, ratio }, `${'f'.repeat(24)}${end}`, undefined);

test('the last 32 bits of the id decide', () => {
  expect(sampledAt(0, '00000000')).toBe(false);
  expect(sampledAt(1, 'ffffffff')).toBe(true);
  expect([sampledAt(0.5, '7fffffff'), sampledAt(0.5, '80000000')]).toEqual([true, false]);
  // 0x09abcdef is 3.777 % of the range, 0xa9000000 is 66.02 %.
  expect([sampledAt(0.038, '09abcdef'), sampledAt(0.0377, '09abcdef')]).toEqual([true, false]);
  expect([sampledAt(0.661, 'a9000000'), sampledAt(0.66, 'a9000000')]).toEqual([true, false]);
});

test('the decision of the client counts if the sampler is based on the parent', () => {
  const id = 'f'.repeat(32);
  expect(isSampled(samplingOf({}, 5), id, true)).toBe(true);
  expect(isSampled(samplingOf({ OTEL_TRACES_SAMPLER: 'always_off' }, 5), id, true)).toBe(false);
});

test('ids have the right length and differ, also at the end of the pool of random digits', () => {
  const ids = Array.from({ length: 500 }, (_, at) => (at % 3 === 0 ? newTraceId() : newSpanId()));
  for (const [at, id] of ids.entries()) expect(id).toMatch(at % 3 === 0 ? /^[\da-f]{32}$/ : /^[\da-f]{16}$/);
  expect(new Set(ids).size).toBe(ids.length);
});

test('the given percentage of new traces is sampled', () => {
  const sampling = samplingOf({}, 5);
  let sampled = 0;
  for (let i = 0; i < 20_000; i++) if (isSampled(sampling, newTraceId(), undefined)) sampled++;
  // Ten standard deviations on both sides of the expected 1,000.
  expect(sampled).toBeGreaterThan(690);
  expect(sampled).toBeLessThan(1_310);
});
