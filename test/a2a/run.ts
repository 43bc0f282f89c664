/**
 * The A2A matrix: clients of every version and binding against agents of every version and binding.
 *
 *   node --import ./test/support/ts.mjs test/a2a/run.ts [--only client:agent:case] [--verbose]
 *
 * `--only` takes parts of names, any of them empty, and may be given several times. Without a choice it also writes
 * docs/a2a-matrix.md. The last line is `N passed, M failed`.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { COLUMNS } from '../fixtures/a2a/agents.js';
import { ROWS } from '../fixtures/a2a/clients.js';
import { CASES } from './cases/index.js';
import { type Outcome, runCell } from './matrix.js';
import { markdown, text } from './report.js';
import { openTestbed } from './testbed.js';

const { values } = parseArgs({
  options: { only: { type: 'string', multiple: true }, verbose: { type: 'boolean', default: false } },
});
const choices = (values.only ?? ['::']).map((one) => one.split(':'));
const chosen = (place: number, name: string): boolean =>
  choices.some((parts) =>
    name.includes(parts.length > 3 && place === 2 ? parts.slice(2).join(':') : (parts[place] ?? '')),
  );

const rows = ROWS.filter(({ name }) => chosen(0, name));
const columns = COLUMNS.filter(({ name }) => chosen(1, name));
const cases = CASES.filter(({ name }) => chosen(2, name));
if (rows.length === 0 || columns.length === 0 || cases.length === 0) throw new Error('the selection is empty');

/** Columns that run in parallel; the cells of a column run one after another. */
const LANES = 4;

const print = (line: string): void => void process.stdout.write(`${line}\n`);
// The agents' SDKs print every webhook delivery and every closed stream.
console.log = console.info = console.error = console.warn = () => {};

const testbed = await openTestbed(columns);
const results = new Map<string, Outcome[]>();
const key = (row: { name: string }, column: { name: string }): string => `${row.name} → ${column.name}`;
let log = '';
try {
  const waiting = [...columns];
  const lane = async (): Promise<void> => {
    for (let column = waiting.shift(); column; column = waiting.shift()) {
      const now = cases.filter(({ once }) => once !== true || column === columns[0]);
      for (const row of rows) {
        const outcomes = await runCell(testbed, row, column, now, ({ case: name, problem }) => {
          if (values.verbose) print(`${problem === undefined ? 'ok  ' : 'FAIL'} ${key(row, column!)}: ${name}`);
        });
        results.set(key(row, column), outcomes);
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  log = testbed.gateway.log();
} finally {
  await testbed.close();
}

const matrix = {
  rows,
  columns,
  cases,
  at: (row: { name: string }, column: { name: string }) => results.get(key(row, column)) ?? [],
};
if (!values.only) await writeFile(new URL('../../docs/a2a-matrix.md', import.meta.url), markdown(matrix));
if (values.verbose && log !== '') print(log.slice(-8_000));
print(text(matrix));
const all = [...results.values()].flat();
const failed = all.filter(({ problem }) => problem !== undefined).length;
print(`${all.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 && all.length > 0 ? 0 : 1;
// The gRPC clients cannot close their channels, which would keep the process alive.
process.stdout.write('', () => process.exit());
