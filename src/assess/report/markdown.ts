import { failedChecks, type Report, type Section } from './model.js';

const cell = (text: string): string => text.replaceAll('|', '\\|').replace(/\s+/g, ' ');

export function markdownReport(report: Report): string {
  const lines = [
    `# Assessment of ${report.target}`,
    '',
    `Score **${report.score}** of 100, grade **${report.grade}**. Profile ${report.profile}, ${report.tool}, ${report.times.started}.`,
    ...report.notes.flatMap((note) => ['', note]),
    ...report.sections.flatMap(sectionLines),
  ];
  if (report.changes !== null) {
    lines.push('', '## Changes', '', `Score before: ${report.changes.scoreBefore}.`, '');
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
      `| ${priority} | [${id}](${spec}) | ${cell(text)} | ${cell(`${reason} (${surfaces.join(', ')})`)} | ${cell(fix ?? '')} |`,
    );
  lines.push('', '### Methods', '');
  lines.push(
    Object.entries(section.methods)
      .map(([name, served]) => `${served ? '✓' : '✗'} \`${name}\``)
      .join(', '),
  );
  return lines;
}
