// Inserts the tables of docs/era-matrix.md and docs/a2a-matrix.md into docs/compatibility.md, each between its marks.
// With --check it only reports whether they are there.
//   node scripts/insert-matrix.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs';

const PAGE = 'docs/compatibility.md';
const page = new URL(`../${PAGE}`, import.meta.url);
const MATRICES = [
  { mark: 'matrix', file: 'era-matrix.md', heading: 'Every pair of MCP revisions' },
  { mark: 'a2a-matrix', file: 'a2a-matrix.md', heading: 'Every pair of A2A versions and bindings' },
];

/** The section: a heading, the totals, and the first table of the matrix page. */
function section(file, heading) {
  const text = readFileSync(new URL(`../docs/${file}`, import.meta.url), 'utf8');
  const table = /(?:^\|.*\n?)+/m.exec(text)?.[0];
  const totals = /In all: (\d+ passed, \d+ failed)/.exec(text)?.[1];
  if (table === undefined || totals === undefined) throw new Error(`docs/${file} lacks its table or its totals`);
  return `## ${heading}\n\nIn all ${totals}. [${file}](${file}) has the details.\n\n${table.trimEnd()}\n\n`;
}

const before = readFileSync(page, 'utf8');
let after = before;
for (const { mark, file, heading } of MATRICES) {
  const marks = new RegExp(`(<!-- ${mark} -->\\n)[\\s\\S]*?(<!-- /${mark} -->)`);
  if (!marks.test(before)) throw new Error(`${PAGE} has no <!-- ${mark} --> … <!-- /${mark} -->`);
  after = after.replace(marks, (_, open, close) => `${open}${section(file, heading)}${close}`);
}
// A formatter may align the tables differently.
const shape = (text) => text.replace(/-+/g, '-').replace(/\s+/g, ' ');
if (shape(before) !== shape(after)) {
  if (process.argv.includes('--check')) {
    console.error(`${PAGE} does not show the generated matrices; run: node scripts/insert-matrix.mjs`);
    process.exitCode = 1;
  } else {
    writeFileSync(page, after);
    console.log(`${PAGE}: the matrices were inserted`);
  }
}
