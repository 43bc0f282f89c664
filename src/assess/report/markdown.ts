import { escapeXml, escapeMarkdown as md } from './escape.js';
import {
  failedChecks,
  methodCoverage,
  methodMark,
  type Report,
  type Section,
  scoreChange,
  scoreHistory,
  specificationsOf,
} from './model.js';

export function markdownReport(report: Report): string {
  const lines = [
    `# Assessment of ${md(report.target)}`,
    '',
    `Score **${report.score}** of 100, grade **${report.grade}**. Profile ${report.profile}, ${report.tool}, ${report.times.started}.`,
    ...report.notes.flatMap((note) => ['', md(note)]),
    ...report.sections.flatMap(sectionLines),
  ];
  if (report.changes !== null) {
    lines.push(
      '',
      '## Changes',
      '',
      `Score ${scoreChange(report.changes, report.score, '→')}. History: ${scoreHistory(report.changes, report.score, '→')}.`,
      '',
    );
    lines.push(...report.changes.checks.map(({ id, before, after }) => `- ${id}: ${before} → ${after}`));
  }
  return `${lines.join('\n')}\n`;
}

function sectionLines(section: Section): string[] {
  const lines = [
    '',
    `## ${section.protocol}: ${section.score}, grade ${section.grade}`,
    '',
    section.surfaces.join(', '),
    '',
    `Specifications: ${specificationsOf(section).join(', ')}.`,
    '',
  ];
  lines.push('| category | weight | score | passed | requirements |', '|---|---|---|---|---|');
  for (const { name, weight, score, passed, applicable, ids } of section.categories)
    lines.push(`| ${name} | ${weight} | ${score ?? '-'} | ${passed}/${applicable} | ${ids.join(' ')} |`);
  lines.push('', '### Gaps', '');
  const failed = failedChecks(section);
  if (failed.length === 0) lines.push('None.');
  else lines.push('| priority | id | requirement | finding | recommendation |', '|---|---|---|---|---|');
  for (const { priority, id, spec, text, reason, surfaces, fix } of failed)
    lines.push(
      `| ${priority} | [${id}](${spec}) | ${md(text)} | ${md(`${reason} (${surfaces.join(', ')})`)} | ${md(fix ?? '')} |`,
    );
  for (const { id, evidence } of failed)
    for (const { request, response } of evidence)
      lines.push('', `**${id}**, request and response:`, '', preformatted(request), preformatted(response));
  const coverage = methodCoverage(section);
  if (coverage === undefined) return lines;
  const methods = Object.entries(section.methods).map(
    ([name, served]) => `${methodMark(served)} \`${name.replace(/[`<>|]/g, '')}\``,
  );
  lines.push('', '### Methods', '', `${coverage}: ${methods.join(', ')}`);
  return lines;
}

/** Text in HTML, which Markdown takes as it is: in a block of code, the text could end the block. */
const preformatted = (text: string): string =>
  `<pre>${escapeXml(text).replaceAll('[', '&#91;').replaceAll(']', '&#93;')}</pre>`;
