/** The formats of a report, by name and by the ending of a file. */
import { PLAIN, type Style } from '../../telemetry/style.js';
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

export function render(report: Report, format: Format, style: Style = PLAIN): string {
  switch (format) {
    case 'text':
      return textReport(report, style);
    case 'json':
      return `${JSON.stringify(report, null, 2)}\n`;
    case 'junit':
      return junitReport(report);
    case 'markdown':
      return markdownReport(report);
    case 'html':
      return htmlReport(report);
    case 'badge':
      return badge(report);
  }
}
