/** HTML pages without scripts and references: readable on a phone and on paper. */
import { plural } from '../../telemetry/terminal-style.js';
import { escapeXml as e } from './escape.js';
import { STYLE } from './html-style.js';
import {
  countsOf,
  failedChecks,
  gapsByPriority,
  methodCoverage,
  methodMark,
  type Report,
  type ReportedCheck,
  type Section,
  scoreChange,
  scoreHistory,
} from './model.js';

/** One page about one target, or about several targets after a table of their scores. */
export function htmlReport(...reports: readonly Report[]): string {
  const titles = reports.map((report) => `Assessment of ${e(report.target)}`);
  const title = titles.length === 1 ? titles[0]! : `Assessment of ${titles.length} targets`;
  const parts = reports.map((report, i) => reportHtml(report, titles[i]!, reports.length > 1 ? `${i + 1}-` : ''));
  const body = reports.length > 1 ? [overviewHtml(reports, title), ...parts] : parts;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title><style>${STYLE}</style></head>
<body>
${body.join('\n')}
</body></html>
`;
}

function reportHtml(report: Report, title: string, prefix: string): string {
  return [
    `<h1 id="${prefix}report">${title}</h1>`,
    summaryHtml(report),
    navigation(report, prefix),
    ...report.notes.map((note) => `<p><strong>${e(note)}</strong></p>`),
    changesHtml(report, prefix),
    ...report.sections.map((section) => sectionHtml(section, prefix)),
  ].join('\n');
}

function overviewHtml(reports: readonly Report[], title: string): string {
  const rows = reports.map(
    ({ target, score, grade, complete }, i) =>
      `<tr><td><a href="#${i + 1}-report">${e(target)}</a></td><td class="number">${score}</td><td>${e(grade)}${complete ? '' : ', <strong class="fail">incomplete</strong>'}</td></tr>`,
  );
  return `<h1>${title}</h1><table><thead><tr><th>target</th><th class="number">score</th><th>grade</th></tr></thead><tbody>${rows.join('\n')}</tbody></table>`;
}

function summaryHtml(report: Report): string {
  const sections = report.sections.map((section) => {
    const { pass, fail, skip, unobservable } = countsOf(section);
    const counts = `${pass} passed, <span class="${fail > 0 ? 'fail' : 'pass'}">${fail} failed</span>`;
    const rest = `${skip} not applicable, ${unobservable} not observable`;
    const facts: [string, string][] = [
      [`${section.protocol} requirements`, `${counts}, ${rest}`],
      [`${section.protocol} examined`, e(section.surfaces.join(', '))],
      [
        `${section.protocol} specifications`,
        section.specifications.map(({ version, url }) => `<a href="${e(url)}">${e(version)}</a>`).join(', '),
      ],
    ];
    if (section.score < section.uncapped)
      facts.push([
        `${section.protocol} cap`,
        `${section.score} because of ${plural(section.mustFailures, 'failure')} of MUST; ${section.uncapped} otherwise`,
      ]);
    return facts;
  });
  const facts: [string, string][] = [
    ['Profile', e(report.profile)],
    ...sections.flat(),
    [
      'Mode',
      report.active
        ? 'active: any tool may be called'
        : 'careful: only tools that declare themselves read-only may be called',
    ],
    ['Made by', `${e(report.tool)}, ${e(report.times.started)}, ${report.times.requests} requests`],
  ];
  const rows = facts.map(([name, value]) => `<dt>${name}</dt><dd>${value}</dd>`).join('');
  const incomplete = report.complete ? '' : ', <strong class="fail">incomplete</strong>';
  return `<p><span class="score">${report.score}</span> of 100, grade <strong>${e(report.grade)}</strong>${incomplete}</p><dl>${rows}</dl>`;
}

function navigation({ sections, changes }: Report, prefix: string): string {
  const links = sections.flatMap(({ protocol }) =>
    ['Categories', 'Gaps', 'Requirements', 'Methods'].map(
      (part) => `<a href="#${prefix}${anchor(protocol, part)}">${sections.length > 1 ? `${protocol} ` : ''}${part}</a>`,
    ),
  );
  return `<nav>${changes === null ? '' : `<a href="#${prefix}changes">Changes</a>`}${links.join(' ')}</nav>`;
}

const anchor = (protocol: string, part: string): string => `${protocol}-${part}`.toLowerCase();

function changesHtml({ changes, score }: Report, prefix: string): string {
  if (changes === null) return '';
  const items = changes.checks.map(
    ({ id, before, after }) =>
      `<li>${e(id)}: <span class="${e(before)}">${e(before)}</span> → <span class="${after}">${after}</span></li>`,
  );
  return [
    `<h2 id="${prefix}changes">Changes since the last run</h2>`,
    `<p>Score ${scoreChange(changes, score, '→')}. History: ${scoreHistory(changes, score, '→')}.</p>`,
    items.length === 0 ? '<p>No requirement has another outcome.</p>' : `<ul>${items.join('')}</ul>`,
  ].join('\n');
}

function sectionHtml(section: Section, prefix: string): string {
  const { protocol } = section;
  const categories = section.categories.map(
    ({ name, weight, score, passed, applicable }) =>
      `<tr><td>${e(name)}</td><td class="number">${weight}</td><td class="number">${score ?? '–'}</td>` +
      `<td>${passed} of ${applicable} <meter min="0" max="10" value="${score ?? 0}"></meter></td></tr>`,
  );
  const methods = Object.entries(section.methods).map(
    ([name, served]) => `<li class="${served ? 'pass' : 'skip'}">${methodMark(served)} ${e(name)}</li>`,
  );
  return [
    `<h2>${protocol}: ${section.score}, grade ${e(section.grade)}</h2>`,
    `<h3 id="${prefix}${anchor(protocol, 'Categories')}">Categories</h3>`,
    `<table class="categories"><thead><tr><th>category</th><th class="number">weight</th><th class="number">of 10</th><th>passed</th></tr></thead><tbody>${categories.join('\n')}</tbody></table>`,
    `<h3 id="${prefix}${anchor(protocol, 'Gaps')}">Gaps</h3>`,
    gapsHtml(section),
    `<h3 id="${prefix}${anchor(protocol, 'Requirements')}">Requirements</h3>`,
    matrixHtml(section),
    `<h3 id="${prefix}${anchor(protocol, 'Methods')}">Methods</h3>`,
    methods.length === 0
      ? '<p>None was recorded.</p>'
      : `<p>${methodCoverage(section)}</p><ul class="methods">${methods.join('')}</ul>`,
  ].join('\n');
}

const URGENCY = { P0: ['violation', ' of MUST'], P1: ['violation', ' of SHOULD'], P2: ['option', ''] } as const;

function gapsHtml(section: Section): string {
  if (failedChecks(section).length === 0) return '<p class="pass">None.</p>';
  return gapsByPriority(section)
    .map(([priority, checks]) => {
      const [what, of] = URGENCY[priority];
      const head = `<h4 class="${priority}">${priority}: ${plural(checks.length, what)}${of}</h4>`;
      return [head, ...checks.map(gapHtml)].join('\n');
    })
    .join('\n');
}

/** The compliance matrix, by category. */
function matrixHtml({ checks }: Section): string {
  const names = [...new Set(checks.map(({ category }) => category))];
  return names
    .map((name) => {
      const rows = checks.filter(({ category }) => category === name).map(matrixRow);
      return `<h4>${e(name)}</h4><table class="matrix"><thead><tr><th>id</th><th>level</th><th>outcome</th><th>requirement</th></tr></thead><tbody>${rows.join('\n')}</tbody></table>`;
    })
    .join('\n');
}

const OUTCOMES = { pass: 'pass', fail: 'fail', skip: 'not applicable', unobservable: 'not observable' } as const;

const matrixRow = ({ id, level, outcome, text, reason, spec }: ReportedCheck): string =>
  `<tr><td><a href="${e(spec)}">${e(id)}</a></td><td>${level}</td><td class="${outcome}">${OUTCOMES[outcome]}</td>` +
  `<td>${e(text)}${outcome === 'pass' || reason === null ? '' : `<br><small>${e(reason)}</small>`}</td></tr>`;

function gapHtml({ id, level, text, reason, surfaces, fix, spec, evidence }: ReportedCheck): string {
  const shown = evidence.map(
    ({ request, response }) =>
      `<details open><summary>Request and response</summary><pre>${e(request)}</pre><pre>${e(response)}</pre></details>`,
  );
  return `<section class="gap"><p><strong>${e(id)}</strong> ${level}: ${e(text)}</p>
<p class="fail">${e(reason ?? '')}</p><p><small>${e(surfaces.join(', '))}</small></p>
<p>Recommendation: ${e(fix ?? '')} <a href="${e(spec)}">Specification</a></p>${shown.join('')}</section>`;
}
