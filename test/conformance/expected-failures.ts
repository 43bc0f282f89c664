/**
 * Scenarios that are known to fail, each with the reason. The list is exact: a failing scenario without a row fails the
 * run, and so does a row whose scenario passes.
 */

import type { SpecVersion, SuiteResult } from './run.js';

/** The server or gateway at the tested URL. */
export type Target =
  | `${'dual' | 'legacy' | 'modern' | 'tasks'} server`
  | `gateway before ${'dual' | 'legacy' | 'modern' | 'tasks'}`
  | 'gateway before dual, prefixed names';

export interface ExpectedFailure {
  target: Target;
  /** Absent for the scenarios of an extension, which belong to no revision of the protocol. */
  specVersion?: SpecVersion;
  scenario: string;
  reason: string;
}

export const EXPECTED_FAILURES: readonly ExpectedFailure[] = [];

/**
 * One line for each difference between a run and the list.
 * @param rows the list of the scenarios that are known to fail
 */
export function disagreements(
  target: Target,
  specVersion: SpecVersion | undefined,
  { scenarios }: SuiteResult,
  rows: readonly ExpectedFailure[] = EXPECTED_FAILURES,
): string[] {
  const expected = new Map(
    rows
      .filter((row) => row.target === target && row.specVersion === specVersion)
      .map(({ scenario, reason }) => [scenario, reason]),
  );
  const lines: string[] = [];
  for (const { name, failed, checks } of scenarios) {
    const reason = expected.get(name);
    expected.delete(name);
    if (failed > 0 && reason === undefined) {
      for (const check of checks.filter(({ status }) => status === 'FAILURE')) {
        lines.push(`${name} fails ${check.name} [${check.id}]: ${check.errorMessage ?? check.description}`);
      }
    } else if (failed === 0 && reason !== undefined) {
      lines.push(`${name} passes, but is listed to fail because: ${reason}`);
    }
  }
  for (const name of expected.keys()) lines.push(`${name} is listed to fail, but did not run`);
  return lines;
}
