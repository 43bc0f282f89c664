import { hideTokens } from '../identity/mask-secrets.js';

/** Number of unchanged lines that are shown around each change. */
const CONTEXT = 2;
/**
 * Maximum size of the table of the comparison, because a larger table takes too much memory. If a comparison needs a
 * larger table, all lines between the first and the last change are shown as removed and added.
 */
const MOST_CELLS = 4_000_000;

/** A line of a diff; `skipped` stands for unchanged lines. */
export interface TextLine {
  readonly mark: ' ' | '-' | '+' | 'skipped';
  readonly text: string;
}

type Line = TextLine & { readonly mark: ' ' | '-' | '+' };

/** The difference of two texts. Tokens in it are masked, because terminals keep their output. */
export function diffTexts(before: string, after: string): TextLine[] {
  const lines = compare(linesOf(before), linesOf(after));
  const near = (i: number): boolean =>
    lines.slice(Math.max(0, i - CONTEXT), i + CONTEXT + 1).some(({ mark }) => mark !== ' ');
  return lines.flatMap(({ mark, text }, i): TextLine[] => {
    if (near(i)) return [{ mark, text: hideTokens(text) }];
    return i === 0 || near(i - 1) ? [{ mark: 'skipped', text: '' }] : [];
  });
}

function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** The longest common subsequence of the lines between the common start and the common end. */
function compare(a: readonly string[], b: readonly string[]): Line[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const same = (texts: readonly string[]): Line[] => texts.map((text) => ({ mark: ' ', text }));
  return [...same(a.slice(0, start)), ...middle(left, right), ...same(a.slice(a.length - end))];
}

function middle(a: readonly string[], b: readonly string[]): Line[] {
  const removed = (text: string): Line => ({ mark: '-', text });
  const added = (text: string): Line => ({ mark: '+', text });
  const width = b.length + 1;
  if ((a.length + 1) * width > MOST_CELLS) return [...a.map(removed), ...b.map(added)];
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        a[i] === b[j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
  const out: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      out.push({ mark: ' ', text: a[i]! });
      i += 1;
      j += 1;
    } else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) out.push(removed(a[i++]!));
    else out.push(added(b[j++]!));
  }
  return [...out, ...a.slice(i).map(removed), ...b.slice(j).map(added)];
}
