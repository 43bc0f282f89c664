import type { FieldNote, ImportedEntry, Verdict } from '../config/import/entries.js';
import type { MergedEntry } from '../config/import/merge.js';
import type { MovedSecret } from '../config/import/secrets.js';
import { oneLine, paint, type Style } from '../telemetry/terminal-style.js';

const COLORS = { exact: 'green', approximate: 'yellow', manual: 'yellow', unsupported: 'red' } as const;

const STATES: Readonly<Record<MergedEntry['state'], string>> = {
  added: 'is added',
  replaced: 'replaces the entry of the same name',
  same: 'is there already, with the same settings',
  taken: 'is left out: the file has another entry of this name; --replace replaces it',
};

export interface ImportReport {
  readonly file: string;
  readonly notes: readonly FieldNote[];
  readonly entries: readonly (MergedEntry | { readonly entry: ImportedEntry; readonly refused: string })[];
}

/** The report for a person: each entry with the fields that are not taken over exactly, and at the end a count. */
export function reportText(reports: readonly ImportReport[], moved: readonly MovedSecret[], style: Style): string {
  const parts = reports.map(({ file, entries, notes }) =>
    [
      paint(style, 'bold', oneLine(file)),
      ...entries.flatMap((each) => [
        `  ${each.entry.name === '' ? 'an entry' : oneLine(each.entry.name)} ${'refused' in each ? `is left out: ${oneLine(each.refused)}` : STATES[each.state]}`,
        ...noteLines(each.entry.notes, style),
      ]),
      ...noteLines(notes, style),
      `  ${countText([...notes, ...entries.flatMap(({ entry }) => entry.notes)])}`,
    ].join('\n'),
  );
  return `${[...parts, ...secretLines(moved)].join('\n')}\n`;
}

function noteLines(notes: readonly FieldNote[], style: Style): string[] {
  return notes
    .filter(({ verdict }) => verdict !== 'exact')
    .map(({ field, verdict, note }) => {
      const text = note === undefined ? '' : `: ${oneLine(note)}`;
      return `    ${paint(style, COLORS[verdict], verdict.padEnd(11))}  ${oneLine(field)}${text}`;
    });
}

function countText(notes: readonly FieldNote[]): string {
  const count = (wanted: Verdict): number => notes.filter(({ verdict }) => verdict === wanted).length;
  return (['exact', 'approximate', 'manual', 'unsupported'] as const)
    .map((verdict) => `${count(verdict)} ${verdict}`)
    .join(', ');
}

/** The list of variables that a person has to set before the gateway starts. */
function secretLines(moved: readonly MovedSecret[]): string[] {
  if (moved.length === 0) return [];
  const variables = [...new Set(moved.map(({ variable }) => variable))];
  return [
    'Secrets are not copied. Set these variables to the values of the old file before you start the gateway:',
    ...variables.map((variable) => {
      const keys = moved.filter((each) => each.variable === variable).map(({ key }) => key);
      return `  export ${variable}=…    # ${oneLine(keys.join(', '))}`;
    }),
  ];
}
