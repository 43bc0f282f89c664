import { escapeXml } from './escape.js';
import type { Report, Section } from './model.js';

/**
 * JUnit XML: one suite per target and protocol, one test case per requirement. A target that could not be examined to
 * the end has a suite with an error, so that readers do not take it for a suite without failures.
 */
export function junitReport(...reports: readonly Report[]): string {
  const name = reports.map(({ target }) => target).join(', ');
  const suites = reports.flatMap((report) => suitesOf(report, reports.length > 1 ? ` ${report.target}` : ''));
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="${escapeXml(name)}">\n${suites.join('\n')}\n</testsuites>\n`;
}

function suitesOf({ sections, complete, notes }: Report, suffix: string): string[] {
  const suites = sections.map((section) => suiteOf(section, suffix));
  if (complete) return suites;
  const said = escapeXml(notes.join(' '));
  return [
    ...suites,
    [
      `  <testsuite name="${escapeXml(`assessment${suffix}`)}" tests="1" failures="0" errors="1" skipped="0">`,
      `    <testcase classname="assessment" name="The assessment is complete."><error message="${said}"/></testcase>`,
      '  </testsuite>',
    ].join('\n'),
  ];
}

function suiteOf({ protocol, checks }: Section, suffix: string): string {
  const count = (outcome: string): number => checks.filter((check) => check.outcome === outcome).length;
  const cases = checks.map((check) => {
    const name = escapeXml(`${check.id} ${check.text}`);
    const open = `    <testcase classname="${protocol}.${escapeXml(check.category)}" name="${name}"`;
    if (check.outcome === 'pass') return `${open}/>`;
    const reason = escapeXml(check.reason ?? '');
    if (check.outcome !== 'fail') return `${open}><skipped message="${reason}"/></testcase>`;
    const evidence = check.evidence.map(({ request, response }) => `${request}\n\n${response}`).join('\n\n');
    return `${open}><failure type="${check.level}" message="${reason}">${escapeXml(evidence)}</failure></testcase>`;
  });
  const skipped = count('skip') + count('unobservable');
  return [
    `  <testsuite name="${escapeXml(`${protocol}${suffix}`)}" tests="${checks.length}" failures="${count('fail')}" skipped="${skipped}">`,
    ...cases,
    '  </testsuite>',
  ].join('\n');
}
