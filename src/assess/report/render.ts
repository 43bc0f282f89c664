/** The formats of a report, by name and by the ending of a file. */
import { PLAIN, type Style } from '../../telemetry/terminal-style.js';
import { badge } from './badge.js';
import { htmlReport } from './html.js';
import { junitReport } from './junit.js';
import { markdownReport } from './markdown.js';
import type { Report } from './model.js';
import { textReport } from './text.js';

export const FORMATS = ['text', 'json', 'junit', 'markdown', 'html', 'badge'] as const;
export type Format = (typeof FORMATS)[number];

const ENDINGS: readonly (readonly [RegExp, Format])[] = [
  [/\.json$/i, 'json'],
  [/\.xml$/i, 'junit'],
  [/\.(md|markdown)$/i, 'markdown'],
  [/\.html?$/i, 'html'],
  [/\.svg$/i, 'badge'],
  [/\.txt$/i, 'text'],
];

export const formatOfFile = (file: string): Format | undefined => ENDINGS.find(([ending]) => ending.test(file))?.[1];

/**
 * One document about one target or several. Several are a list in JSON, one page and one set of suites; the badge has the
 * lowest score.
 */
export function render(given: Report | readonly Report[], format: Format, style: Style = PLAIN): string {
  const reports: readonly Report[] = 'format' in given ? [given] : given;
  const joined = (write: (report: Report) => string): string => reports.map(write).join('\n');
  switch (format) {
    case 'text':
      return joined((report) => textReport(report, style));
    case 'json':
      return `${JSON.stringify(reports.length === 1 ? reports[0] : reports, null, 2)}\n`;
    case 'junit':
      return junitReport(...reports);
    case 'markdown':
      return joined(markdownReport);
    case 'html':
      return htmlReport(...reports);
    case 'badge':
      return badge(reports.reduce((lowest, each) => (each.score < lowest.score ? each : lowest)));
  }
}
