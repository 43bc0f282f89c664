/** Tests the fixtures without a gateway, so that a failure behind a gateway is caused by the gateway. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { disagreements, type Target } from './expected-failures.js';
import { type Fixture, startFixture, type Variant } from './fixture.js';
import { describeFailures, locateSuite, runServerSuite, type SpecVersion } from './run.js';
import { CHECKS, isTasksScenario, SCENARIOS, TASKS_CHECKS, TASKS_SCENARIOS } from './scenarios.js';

const SPOKEN: Record<Exclude<Variant, 'tasks'>, SpecVersion[]> = {
  dual: ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'],
  legacy: ['2025-06-18', '2025-11-25'],
  modern: ['2026-07-28'],
};

beforeAll(locateSuite, 660_000);

describe.each(Object.entries(SPOKEN) as [Variant, SpecVersion[]][])('the %s server', (variant, specVersions) => {
  const target: Target = `${variant} server`;
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await startFixture(variant);
  });
  afterAll(() => fixture.close());

  it.each(specVersions)('passes every check at %s', { timeout: 300_000 }, async (specVersion) => {
    const result = await runServerSuite({ url: fixture.url, specVersion });
    expect(disagreements(target, specVersion, result)).toEqual([]);
    expect(result.scenarios).toHaveLength(SCENARIOS[specVersion]);
    expect(result.passed, describeFailures(result)).toBe(CHECKS[specVersion]);
  });
});

describe('the tasks server', () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await startFixture('tasks');
  });
  afterAll(() => fixture.close());

  it('passes every check of the tasks extension', { timeout: 300_000 }, async () => {
    const result = await runServerSuite({ url: fixture.url, suite: 'pending', scenarios: isTasksScenario });
    expect(disagreements('tasks server', undefined, result)).toEqual([]);
    expect(result.scenarios).toHaveLength(TASKS_SCENARIOS);
    expect(result.passed, describeFailures(result)).toBe(TASKS_CHECKS);
  });
});
