/** docs/coverage.md is complete and current. */
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { DIMENSIONS, dimensions, interoperability } from './interoperability.js';
import { coverageDocument, DOES_NOT_APPLY, FEATURES, PENDING, testsByFeature, titlesOf } from './table.js';

const COUNTS = { S0: 60, S1: 84, S2: 39, S3: 20, S4: 20 };
const UNBUILT = ['telemetry', 'plugins', 'assessment', 'learned routing'];
const tests = testsByFeature();

describe('the features of the founding documents', () => {
  test('are all in the table, in order', () => {
    const expected = Object.entries(COUNTS).flatMap(([seed, count]) =>
      Array.from({ length: count }, (_, n) => `${seed}-${String(n + 1).padStart(2, '0')}`),
    );
    expect(Object.keys(FEATURES)).toEqual(expected);
  });

  test('have a test that carries their id, or do not apply, or are pending', () => {
    const without = Object.keys(FEATURES).filter((id) => !(id in DOES_NOT_APPLY) && !(id in PENDING) && !tests.has(id));
    expect(without).toEqual([]);
  });

  test('that do not apply are ten at most, and those that are pending belong to parts that are not built', () => {
    expect(Object.keys(DOES_NOT_APPLY).length).toBeLessThanOrEqual(10);
    for (const reason of Object.values(DOES_NOT_APPLY)) expect(reason).toMatch(/^[A-Z].{5,200}\.$/);
    for (const [id, part] of Object.entries(PENDING))
      expect([id, UNBUILT]).toEqual([id, expect.arrayContaining([part])]);
    const both = Object.keys(PENDING).filter((id) => id in DOES_NOT_APPLY);
    expect(both).toEqual([]);
  });

  test('that have a test are neither pending nor without application', () => {
    expect([...tests.keys()].filter((id) => id in PENDING || id in DOES_NOT_APPLY)).toEqual([]);
  });

  test('are the only ids of this form in names of tests', () => {
    expect([...tests.keys()].filter((id) => !(id in FEATURES))).toEqual([]);
  });
});

describe('S2-36, S4-20: docs/coverage.md', () => {
  const page = readFileSync(new URL('../../docs/coverage.md', import.meta.url), 'utf8');

  test('is derived from the tests (run scripts/generate-coverage.ts)', () => {
    expect(page).toBe(coverageDocument());
  });

  test('names only files that exist', () => {
    const files = new Set([...page.matchAll(/\(`([\w./-]+\.test\.ts)`\)/g)].map(([, file]) => file!));
    expect(files.size).toBeGreaterThan(50);
    expect([...files].filter((file) => !existsSync(new URL(`../../${file}`, import.meta.url)))).toEqual([]);
  });

  test('reads names of tests with and without a table of cases', () => {
    const source =
      "describe('a', () => {\n test.each([\n ['x'],\n ])('b \\'%s\\'', f);\n it(`c`, g); expect(h).toBe('d') });";
    expect(titlesOf(source)).toEqual(['a', "b '%s'", 'c']);
  });
});

describe('S1-70: the interoperability score', () => {
  const every = (): boolean => true;

  test('is the mean of six dimensions: the figures of the founding document give 41 of 60, which is 68', () => {
    expect(Object.keys(DIMENSIONS)).toHaveLength(6);
    expect(interoperability([9, 9, 7, 7, 5, 4])).toBe(68);
  });

  test('is computed from the features that have tests, and falls with each feature without a test', () => {
    const scores = (hasTest: (id: string) => boolean): number[] => dimensions(hasTest, every).map(({ score }) => score);
    expect(interoperability(scores(every))).toBe(100);
    for (const [index, ids] of Object.values(DIMENSIONS).entries())
      for (const missing of ids) {
        const own = scores((id) => id !== missing);
        expect(own[index]).toBeCloseTo((10 * (ids.length - 1)) / ids.length, 1);
        expect(interoperability(own)).toBeLessThan(100);
      }
  });

  test('counts each feature of the table once', () => {
    const ids = Object.values(DIMENSIONS).flat();
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter((id) => !(id in FEATURES))).toEqual([]);
  });
});

test('S0-60: the areas that the founding documents name have suites', () => {
  const areas = {
    'parity with LiteLLM': 'test/rest/reads.test.ts',
    OAuth: 'test/oauth/code-grant.test.ts',
    'raw proxy': 'test/rest/raw-proxy.test.ts',
    flags: 'src/config/parley-variables.test.ts',
    invocation: 'test/input/sessions.test.ts',
    'private addresses': 'test/security/egress.test.ts',
    timeouts: 'test/faults/upstream-http.test.ts',
    tokens: 'test/input/access.test.ts',
    'properties of random input': 'test/fuzz/endpoints.test.ts',
    'JSON-RPC': 'test/input/bodies.test.ts',
    'HTTP+SSE': 'test/input/old-revisions.test.ts',
    traces: 'test/telemetry/traces.test.ts',
  };
  for (const [area, file] of Object.entries(areas)) {
    const titles = titlesOf(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8'));
    expect([area, titles.length > 2]).toEqual([area, true]);
  }
});
