import { escapeXml } from './escape.js';
import type { Report } from './model.js';

const COLORS: Readonly<Record<string, string>> = {
  A: '#2e7d32',
  B: '#558b2f',
  C: '#b26a00',
  D: '#c75000',
  F: '#b71c1c',
};
const LEFT = 74;
const RIGHT = 62;

/** A badge as SVG, without scripts and references. */
export function badge({ score, grade, sections }: Report): string {
  const label = sections.map(({ protocol }) => protocol).join(' + ') || 'protocol';
  const value = `${score} ${grade}`;
  const text = (x: number, content: string): string =>
    `<text x="${x}" y="14" fill="#fff" text-anchor="middle" font-family="sans-serif" font-size="11">${escapeXml(content)}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${LEFT + RIGHT}" height="20" role="img" aria-label="${escapeXml(`${label}: ${value}`)}">`,
    `<rect width="${LEFT}" height="20" fill="#444"/>`,
    `<rect x="${LEFT}" width="${RIGHT}" height="20" fill="${COLORS[grade] ?? '#444'}"/>`,
    text(LEFT / 2, label),
    text(LEFT + RIGHT / 2, value),
    '</svg>\n',
  ].join('');
}
