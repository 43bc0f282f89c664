/** One HTML page without scripts and references: readable on a phone and on paper. */
import { escapeXml as e } from './escape.js';
import { failedChecks, type Report, type ReportedCheck, type Section } from './model.js';

const STYLE = `
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
.score { font-size: 2.2rem; font-weight: 700; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid #8886; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; border-left: 3px solid #8886; padding-left: .6rem; }
.fail { color: #c62828; font-weight: 600; } .pass { color: #2e7d32; } .skip, .unobservable { opacity: .7; }
section.gap { border-top: 1px solid #8886; padding: .5rem 0; break-inside: avoid; }
@media print { body { font-size: 11px; max-width: none; padding: 0; } details { display: block; } a { color: inherit; } }
`;

export function htmlReport(report: Report): string {
  const { changes, times } = report;
  const body = [
    `<h1>Assessment of ${e(report.target)}</h1>`,
    `<p><span class="score">${report.score}</span> of 100, grade <strong>${e(report.grade)}</strong></p>`,
    `<p>Profile ${e(report.profile)}, ${e(report.tool)}, ${e(times.started)}${report.complete ? '' : ', <strong>incomplete</strong>'}</p>`,
    ...report.notes.map((note) => `<p>${e(note)}</p>`),
    ...report.sections.map(sectionHtml),
  ];
  if (changes !== null) {
    const items = changes.checks.map(({ id, before, after }) => `<li>${e(id)}: ${before} → ${after}</li>`);
    body.push(`<h2>Changes</h2><p>Score before: ${changes.scoreBefore}</p><ul>${items.join('')}</ul>`);
  }
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Assessment of ${e(report.target)}</title><style>${STYLE}</style></head>
<body>
${body.join('\n')}
</body></html>
`;
}

function sectionHtml(section: Section): string {
  const failed = failedChecks(section);
  const categories = section.categories.map(
    ({ name, weight, score, passed, applicable }) =>
      `<tr><td>${e(name)}</td><td>${weight}</td><td>${score ?? '–'}</td><td>${passed} of ${applicable}</td></tr>`,
  );
  const matrix = section.checks.map(
    ({ id, level, outcome, text, reason, spec }) =>
      `<tr><td><a href="${e(spec)}">${e(id)}</a></td><td>${level}</td><td class="${outcome}">${outcome}</td>` +
      `<td>${e(text)}${outcome === 'pass' || reason === null ? '' : `<br><small>${e(reason)}</small>`}</td></tr>`,
  );
  const methods = Object.entries(section.methods).map(
    ([name, served]) => `<li class="${served ? 'pass' : 'skip'}">${e(name)}: ${served ? 'served' : 'refused'}</li>`,
  );
  return [
    `<h2>${section.protocol}: ${section.score}, grade ${e(section.grade)}</h2>`,
    `<p>${e(section.surfaces.join(', '))}</p>`,
    table(['category', 'weight', 'score of 10', 'passed'], categories),
    `<h3>Gaps</h3>`,
    failed.length === 0 ? '<p>None.</p>' : failed.map(gapHtml).join('\n'),
    `<h3>Requirements</h3>`,
    table(['id', 'level', 'outcome', 'requirement'], matrix),
    `<h3>Methods</h3><ul>${methods.join('')}</ul>`,
  ].join('\n');
}

const table = (head: readonly string[], rows: readonly string[]): string =>
  `<div class="wide"><table><thead><tr>${head.map((each) => `<th>${each}</th>`).join('')}</tr></thead><tbody>${rows.join('\n')}</tbody></table></div>`;

function gapHtml({ id, level, priority, text, reason, surfaces, fix, spec, evidence }: ReportedCheck): string {
  const shown = evidence.map(
    ({ request, response }) =>
      `<details open><summary>Evidence</summary><pre>${e(request)}</pre><pre>${e(response)}</pre></details>`,
  );
  return `<section class="gap"><p><strong class="fail">${priority} ${e(id)}</strong> ${level}: ${e(text)}</p>
<p>${e(reason ?? '')} (${e(surfaces.join(', '))})</p><p>Recommendation: ${e(fix ?? '')} <a href="${e(spec)}">Specification</a></p>${shown.join('')}</section>`;
}
