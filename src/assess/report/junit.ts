import { escapeXml } from './escape.js';
import type { Report } from './model.js';

/** JUnit XML: one suite per protocol, one test case per requirement. */
export function junitReport(report: Report): string {
  const suites = report.sections.map(({ protocol, checks }) => {
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
      `  <testsuite name="${protocol}" tests="${checks.length}" failures="${count('fail')}" skipped="${skipped}">`,
      ...cases,
      '  </testsuite>',
    ].join('\n');
  });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="${escapeXml(report.target)}">\n${suites.join('\n')}\n</testsuites>\n`;
}
