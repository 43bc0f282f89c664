/** The text of `parley pins`. Names and definitions come from servers, so hidden characters are made visible. */
import type { PinDetail } from '../app/commands/pins.js';
import { columns, paint, plural, type Style } from '../telemetry/terminal-style.js';

export type Visible = (text: string) => string;

export type PinState = 'pinned' | 'changed' | 'new';

/** `new` and `changed` need an approval. */
export const stateOf = ({ seen, hash }: PinDetail): PinState =>
  seen === undefined ? 'pinned' : hash === '' ? 'new' : 'changed';

const short = (hash: string): string => (hash === '' ? '-' : hash.slice(0, 12));
const time = (at: number | undefined): string | undefined =>
  at === undefined ? undefined : new Date(at).toISOString();

/** One pin in the JSON output. */
export function pinJson(pin: PinDetail): object {
  const { server, kind, name, hash, seen, reason, flags, firstAt, changedAt, approvedAt } = pin;
  return {
    server,
    kind,
    name,
    state: stateOf(pin),
    hash,
    ...(seen !== undefined && { seen }),
    ...(reason !== '' && { reason }),
    flags,
    firstSeen: time(firstAt),
    ...(changedAt !== undefined && { changed: time(changedAt) }),
    ...(approvedAt !== undefined && { approved: time(approvedAt) }),
  };
}

export function listText(pins: readonly PinDetail[], visible: Visible): string {
  if (pins.length === 0)
    return 'Nothing is pinned. The gateway pins definitions when it reads the lists of a server.\n';
  const rows = pins.map((pin): [string, string] => {
    const { server, kind, name, hash, seen, reason, flags } = pin;
    const state = stateOf(pin);
    const notes = [
      state === 'pinned' ? `pinned ${short(hash)}` : `${state} ${short(hash)} -> ${short(seen ?? '')} (${reason})`,
      ...(flags.length > 0 ? [`flags: ${flags.join(', ')}`] : []),
    ];
    return [`${server} ${kind} ${oneLine(visible(name))}`, oneLine(visible(notes.join('; ')))];
  });
  const waiting = pins.filter((pin) => stateOf(pin) !== 'pinned').length;
  const flagged = pins.filter(({ flags }) => flags.length > 0).length;
  const hint = waiting > 0 ? 'parley pins diff shows the changes, parley pins approve accepts them.\n' : '';
  return `${columns(rows)}\n${plural(pins.length, 'pin')}, ${waiting} to approve, ${flagged} with flags.\n${hint}`;
}

const oneLine = (text: string): string => text.replace(/[\n\t]/g, ' ');

/** The difference between the approved definition and the definition that was seen last. */
export function diffText(pin: PinDetail, visible: Visible, style: Style): string {
  const { server, kind, name, hash, seen, definition, seenDefinition, reason, flags, changedAt } = pin;
  const lines = [
    paint(style, 'bold', `${server} ${kind} ${oneLine(visible(name))}`),
    `${oneLine(visible(reason))}${changedAt === undefined ? '' : `, ${time(changedAt)}`}`,
    `--- ${hash === '' ? 'nothing approved' : hash}`,
    `+++ ${seen}`,
    ...(flags.length > 0 ? [`flags: ${flags.join(', ')}`] : []),
    ...difference(linesOf(definition), linesOf(seenDefinition ?? '')).map(([sign, line]) => {
      const text = `${sign} ${visible(line)}`;
      return sign === '-' ? paint(style, 'red', text) : sign === '+' ? paint(style, 'green', text) : text;
    }),
  ];
  return `${lines.join('\n')}\n`;
}

/** The definition as indented JSON; texts with line breaks become several lines. */
function linesOf(definition: string): string[] {
  if (definition === '') return [];
  let text = definition;
  try {
    text = JSON.stringify(JSON.parse(definition), null, 2);
  } catch {
    // The stored text of a very long definition is cut.
  }
  return text.split('\n').flatMap((line) => line.split('\\n').flatMap((part) => part.match(/.{1,200}/gsu) ?? ['']));
}

type Line = readonly [sign: ' ' | '-' | '+', text: string];

/** Number of unchanged lines that are shown around a change. */
const AROUND = 3;
/** Longer texts are shown as a removal and an addition, because the comparison takes quadratic time. */
const MOST_LINES = 2_000;

/** The changed lines with a few lines around them, by the longest common subsequence. */
export function difference(before: readonly string[], after: readonly string[]): Line[] {
  const all = compared(before, after);
  const near = all.map((_, at) => all.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(([sign]) => sign !== ' '));
  return all.filter((_, at) => near[at]);
}

function compared(before: readonly string[], after: readonly string[]): Line[] {
  const removed = before.map((line): Line => ['-', line]);
  const added = after.map((line): Line => ['+', line]);
  if (before.length > MOST_LINES || after.length > MOST_LINES) return [...removed, ...added];
  const width = after.length + 1;
  const longest = new Uint16Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      longest[i * width + j] =
        before[i] === after[j]
          ? longest[(i + 1) * width + j + 1]! + 1
          : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length && j < after.length) {
    if (before[i] === after[j]) {
      lines.push([' ', before[i]!]);
      i++;
      j++;
    } else if (longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!) lines.push(removed[i++]!);
    else lines.push(added[j++]!);
  }
  return [...lines, ...removed.slice(i), ...added.slice(j)];
}
