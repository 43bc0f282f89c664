/** The changes that `docs/extending.md` describes, read from the document itself. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

export interface Change {
  readonly title: string;
  /** The files that the change adds or changes. */
  readonly files: ReadonlyMap<string, 'new' | 'changed'>;
  readonly added: ReadonlyMap<string, string>;
  readonly patches: readonly { readonly file: string; readonly hunks: readonly Hunk[] }[];
}

interface Hunk {
  readonly before: string;
  readonly after: string;
}

export function readChanges(document: string): Change[] {
  const [, ...sections] = readFileSync(document, 'utf8').split(/^## /m);
  return sections.map((section) => {
    const [title = ''] = section.split('\n', 1);
    const rows = [...section.matchAll(/^\| `([^`]+)` \| ([^|]+) \|$/gm)];
    const files = new Map(rows.map(([, file, what]) => [file!, what === 'new' ? 'new' : 'changed'] as const));
    const blocks = [...section.matchAll(/^```(\w+) (\S+)\n([\s\S]*?)^```$/gm)];
    const added = new Map(blocks.flatMap(([, kind, file, text]) => (kind === 'ts' ? [[file!, text!] as const] : [])));
    const patches = blocks.flatMap(([, kind, file, text]) =>
      kind === 'diff' ? [{ file: file!, hunks: hunksOf(text!) }] : [],
    );
    return { title, files, added, patches };
  });
}

function hunksOf(text: string): Hunk[] {
  return text.split(/^@@\n/m).map((hunk) => {
    const lines = hunk.split('\n').slice(0, -1);
    const side = (mark: string): string =>
      lines.flatMap((line) => (line[0] === ' ' || line[0] === mark ? [`${line.slice(1)}\n`] : [])).join('');
    return { before: side('-'), after: side('+') };
  });
}

/** Whether each passage that a change replaces occurs exactly once in a copy of the repository. */
export const fits = ({ patches }: Change, folder: string): boolean =>
  patches.every(({ file, hunks }) => {
    const text = readFileSync(path.join(folder, file), 'utf8');
    return hunks.every(({ before }) => text.split(before).length === 2);
  });

/** Makes a change in a copy of the repository. */
export function apply(change: Change, folder: string): void {
  if (!fits(change, folder)) throw new Error(`"${change.title}" replaces lines that do not exist`);
  for (const [file, text] of change.added) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    writeFileSync(path.join(folder, file), text);
  }
  for (const { file, hunks } of change.patches) {
    const before = readFileSync(path.join(folder, file), 'utf8');
    const after = hunks.reduce((text, hunk) => text.replace(hunk.before, () => hunk.after), before);
    writeFileSync(path.join(folder, file), after);
  }
}
