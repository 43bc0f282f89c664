/**
 * The era matrix: clients of every revision against servers of every revision, over every transport they have.
 *
 *   node --import ./test/support/ts.mjs test/eras/run.ts [--client 2025-06-18[/http]] [--server 2024-11-05[/sse]] [--case text]
 *
 * Without a choice it also writes docs/era-matrix.md. The last line is `N passed, M failed`.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { CASES } from './cases.js';
import { type Outcome, openTestbed, runCell } from './matrix.js';
import { CLIENT_TRANSPORTS, type ClientTransport, REVISIONS, type Revision, SERVER_TRANSPORTS } from './peers.js';
import { type Column, markdown, type Row, text } from './report.js';

const { values } = parseArgs({
  options: {
    client: { type: 'string', multiple: true },
    server: { type: 'string', multiple: true },
    case: { type: 'string', multiple: true },
    verbose: { type: 'boolean', default: false },
  },
});
const chosen = (wanted: readonly string[] | undefined, label: string): boolean =>
  wanted === undefined || wanted.some((part) => label.includes(part));

const cases = [...CASES.gateway, ...CASES.bridge].filter(({ name }) => chosen(values.case, name));
const columns: Column[] = REVISIONS.flatMap((revision) =>
  SERVER_TRANSPORTS[revision].map((transport) => ({ revision, transport })),
).filter(({ revision, transport }) => chosen(values.server, `${revision}/${transport}`));
const rows: { revision: Revision; transport: ClientTransport }[] = REVISIONS.flatMap((revision) =>
  CLIENT_TRANSPORTS[revision].map((transport) => ({ revision, transport })),
).filter(({ revision, transport }) => chosen(values.client, `${revision}/${transport}`));

/**
 * The number of columns that run concurrently. Cells of one column run in sequence, because they change the lists of
 * the same server.
 */
const LANES = 3;

const testbed = await openTestbed(columns.map(({ revision, transport }) => [revision, transport] as const));
const results = new Map<string, Outcome[]>();
const key = (row: Row, column: Column): string =>
  `${row.revision}/${row.transport} → ${column.revision}/${column.transport}`;
try {
  const waiting = [...columns];
  const lane = async (): Promise<void> => {
    for (let column = waiting.shift(); column; column = waiting.shift()) {
      const server = testbed.server(column.revision, column.transport);
      for (const last of [false, true]) {
        const now = cases.filter((one) => (one.last ?? false) === last);
        for (const row of now.length > 0 ? rows : []) {
          const outcomes = await runCell(testbed, row.revision, row.transport, server, now);
          results.set(key(row, column), [...(results.get(key(row, column)) ?? []), ...outcomes]);
          if (!values.verbose) continue;
          for (const { case: name, verdict, problem } of outcomes)
            console.log(`${problem === undefined ? 'ok  ' : 'FAIL'} ${key(row, column)}: ${name} (${verdict})`);
        }
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
} finally {
  await testbed.close();
}

const matrix = {
  rows,
  columns,
  cases: cases.map(({ name }) => name),
  at: (row: Row, column: Column) => results.get(key(row, column)) ?? [],
};
if (!values.client && !values.server && !values.case)
  await writeFile(new URL('../../docs/era-matrix.md', import.meta.url), markdown(matrix));
console.log(text(matrix));
const all = [...results.values()].flat();
const failed = all.filter(({ problem }) => problem !== undefined).length;
console.log(`${all.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
