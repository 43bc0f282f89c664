import { diffTexts } from '../config/text-diff.js';
import { oneLine, paint, type Style } from '../telemetry/terminal-style.js';

/** The differences between two texts, for people. */
export function textDiff(before: string, after: string, style: Style): string {
  return diffTexts(before, after)
    .map(({ mark, text }) => {
      if (mark === 'skipped') return `${paint(style, 'dim', '  ...')}\n`;
      const line = `${mark} ${oneLine(text)}`.trimEnd();
      return `${mark === ' ' ? line : paint(style, mark === '+' ? 'green' : 'red', line)}\n`;
    })
    .join('');
}
