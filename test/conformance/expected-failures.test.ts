import { describe, expect, it } from 'vitest';
import { disagreements, type ExpectedFailure } from './expected-failures.js';
import type { ScenarioResult, SuiteResult } from './run.js';

const TARGET = 'gateway before dual';
const VERSION = '2026-07-28';

const scenario = (name: string, failed: number): ScenarioResult => ({
  name,
  passed: 1,
  failed,
  warnings: 0,
  checks: Array.from({ length: failed }, (_, index) => ({
    id: `check-${index}`,
    name: 'Check',
    description: 'A check',
    status: 'FAILURE',
    errorMessage: 'it is wrong',
  })),
});

const result = (...scenarios: ScenarioResult[]): SuiteResult => ({ scenarios, passed: 0, failed: 0, warnings: 0 });

const row = (name: string): ExpectedFailure => ({
  target: TARGET,
  specVersion: VERSION,
  scenario: name,
  reason: 'it cannot be',
});

describe('expected failures', () => {
  it('agrees when exactly the listed scenarios fail', () => {
    expect(disagreements(TARGET, VERSION, result(scenario('a', 0), scenario('b', 2)), [row('b')])).toEqual([]);
  });

  it('names every failing check of a scenario that is not listed', () => {
    expect(disagreements(TARGET, VERSION, result(scenario('a', 2)), [])).toEqual([
      'a fails Check [check-0]: it is wrong',
      'a fails Check [check-1]: it is wrong',
    ]);
  });

  it('reports a listed scenario that passes', () => {
    expect(disagreements(TARGET, VERSION, result(scenario('a', 0)), [row('a')])).toEqual([
      'a passes, but is listed to fail because: it cannot be',
    ]);
  });

  it('reports a listed scenario that did not run', () => {
    expect(disagreements(TARGET, VERSION, result(scenario('a', 0)), [row('b')])).toEqual([
      'b is listed to fail, but did not run',
    ]);
  });

  it('compares a run only with the rows of its target and revision', () => {
    const rows: ExpectedFailure[] = [
      { ...row('a'), target: 'gateway before modern' },
      { ...row('a'), specVersion: '2025-11-25' },
    ];
    expect(disagreements(TARGET, VERSION, result(scenario('a', 0)), rows)).toEqual([]);
  });
});
