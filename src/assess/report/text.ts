/** The report on a terminal: categories, then the gaps by priority. */
import { columns, paint, plural, type Style } from '../../telemetry/terminal-style.js';
import {
  failedChecks,
  methodCoverage,
  type Report,
  type ReportedCheck,
  type Section,
  scoreChange,
  scoreHistory,
  specificationsOf,
} from './model.js';

const MAX_EVIDENCE_LINES = 14;

export function textReport(report: Report, style: Style): string {
  const head = `${report.target}: ${paint(style, 'bold', `${report.score} of 100, grade ${report.grade}`)}, profile ${report.profile}`;
  const parts = [head, ...report.notes, ...report.sections.map((section) => sectionText(section, style))];
  const { changes } = report;
  if (changes !== null) {
    const rows = changes.checks.map(({ id, before, after }) => `  ${id}: ${before} -> ${after}`);
    const history = `History: ${scoreHistory(changes, report.score)}`;
    parts.push([`Since the last report: ${scoreChange(changes, report.score)}`, ...rows, history].join('\n'));
  }
  parts.push(`Made by ${report.tool}, ${report.times.started}`);
  return `${parts.join('\n\n')}\n`;
}

function sectionText(section: Section, style: Style): string {
  const rows = section.categories.map(({ name, weight, passed, applicable, score }): [string, string] => [
    name,
    score === null
      ? `not applicable (weight ${weight})`
      : `${score} of 10, ${passed} of ${applicable} (weight ${weight})`,
  ]);
  const failed = failedChecks(section);
  const cap =
    section.score < section.uncapped
      ? `, capped from ${section.uncapped} by ${plural(section.mustFailures, 'failure')} of MUST`
      : '';
  return [
    `${section.protocol}: ${section.score}, grade ${section.grade}${cap}`,
    `Found: ${section.surfaces.join(', ')}`,
    ['Specifications:', ...specificationsOf(section)].join('\n  '),
    columns(rows),
    ...methodsText(section),
    failed.length === 0 ? paint(style, 'green', 'No gaps.') : `${plural(failed.length, 'gap')}:`,
    ...failed.map((check) => gapText(check, style)),
  ].join('\n\n');
}

function methodsText(section: Section): string[] {
  const coverage = methodCoverage(section);
  if (coverage === undefined) return [];
  const missing = Object.keys(section.methods).filter((name) => section.methods[name] === false);
  return [missing.length === 0 ? `${coverage}.` : `${coverage}. Not served: ${missing.join(', ')}.`];
}

function gapText(check: ReportedCheck, style: Style): string {
  const { id, level, priority, text, reason, fix, spec, surfaces, evidence } = check;
  const [shown] = evidence;
  return [
    `${paint(style, priority === 'P0' ? 'red' : 'yellow', `${priority} ${id}`)} ${level}: ${text}`,
    `  ${reason} (${surfaces.join(', ')})`,
    `  Fix: ${fix}`,
    `  See ${spec}`,
    ...(shown === undefined ? [] : [indent(shown.request, '> '), indent(shown.response, '< ')]),
  ].join('\n');
}

function indent(text: string, mark: string): string {
  const lines = text.split('\n');
  const cut = lines.slice(0, MAX_EVIDENCE_LINES);
  if (lines.length > cut.length) cut.push('…');
  return cut.map((line) => `    ${mark}${line}`).join('\n');
}
