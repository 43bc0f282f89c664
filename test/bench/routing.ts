/**
 * How well search finds tools and servers, on four public sets with labels. The data are not part of this repository:
 * docs/routing.md says where they come from.
 *
 *   npm run bench:routing [-- FOLDER] [--tune]
 *
 * `--tune` shows the train and dev splits, the only ones that constants may be tuned on.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { measureLearned } from './routing/learning.js';
import { byWords, indexOf, measure, type Row, tokensSaved } from './routing/search-quality.js';
import { loadSet, type Query, SETS } from './routing/sets.js';
import { measureSize } from './routing/size.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { tune: { type: 'boolean', default: false } },
});
const folder = resolve(positionals[0] ?? resolve(import.meta.dirname, '../../../shared/data/routing'));
if (!existsSync(folder)) {
  console.error(`${folder} does not exist. Give the folder of the sets: npm run bench:routing -- FOLDER`);
  console.error('docs/routing.md says where the sets come from.');
  process.exit(2);
}

const isChosen = ({ split }: Query): boolean => split.startsWith('test') !== values.tune;
const sets = new Map(SETS.map((name) => [name, loadSet(folder, name)]));
const rows: Row[] = [];
const saved: string[] = [];
const learned: string[] = [];

for (const name of SETS) {
  const set = sets.get(name)!;
  const queries = set.queries.filter(isChosen);
  if (queries.length === 0) continue;
  const index = indexOf(set);
  rows.push(measure(name, queries, byWords(index)));
  saved.push(`${name} ${tokensSaved(set, index, queries).toFixed(1)} % (${set.tools.length} tools)`);
  for (const [callers, confirmations] of [
    [1, 3],
    [20, 3],
    [20, 1],
  ] as const) {
    // Nothing of the measured split is seen: dev is measured with train, test with train and dev.
    const seen = set.queries.filter(({ split }) => split === 'train' || (!values.tune && split === 'dev'));
    const measured = values.tune ? queries.filter(({ split }) => split === 'dev') : queries;
    if (seen.length === 0) continue;
    if (values.tune && callers === 1) rows.push(measure(`${name}, dev only`, measured, byWords(index)));
    const row = measureLearned(set, index, seen, measured, callers, confirmations);
    rows.push(row);
    learned.push(`${row.label}: ${row.weights}`);
  }
  if (name === 'bfcl') {
    const names = new Map(set.tools.map((tool) => [tool.id, tool.name]));
    const sameName = ({ relevant }: Query): string[][] =>
      relevant.map((slot) =>
        set.tools.filter((tool) => slot.some((id) => names.get(id) === tool.name)).map(({ id }) => id),
      );
    rows.push(measure('bfcl, same name', queries, byWords(index), sameName));
  }
  if (name === 'livemcpbench') {
    const servers = ({ relevant_servers }: Query): readonly (readonly string[])[] => relevant_servers!;
    const ranked = (needs: readonly string[], message?: string): string[] =>
      index.rankServers(needs, { limit: 10, ...(message !== undefined && { message }) }).map(({ server }) => server);
    rows.push(measure('servers by question', queries, ({ query }) => ranked([query]), servers));
    rows.push(measure('servers by steps', queries, ({ steps }) => ranked(steps!), servers));
    rows.push(measure('servers, steps + question', queries, ({ query, steps }) => ranked(steps!, query), servers));
  }
}

console.log(`${'set'.padEnd(40)}     n    R@1    R@5  nDCG@10   p50 ms   p99 ms`);
for (const { label, queries, metrics, p50, p99 } of rows) {
  const numbers = [metrics.r1, metrics.r5, metrics.ndcg10].map((value) => value.toFixed(1).padStart(6));
  console.log(
    `${label.padEnd(40)} ${String(queries).padStart(5)} ${numbers.join(' ')}   ${p50.toFixed(3).padStart(7)}  ${p99.toFixed(3).padStart(7)}`,
  );
}
console.log(`\nweights chosen by replay: ${learned.join('; ')}`);
console.log(`tokens saved: ${saved.join(', ')}`);
const size = measureSize([...sets.values()]);
console.log(
  `${size.tools} tools: ${size.megabytes.toFixed(1)} MB, built in ${size.milliseconds.toFixed(0)} ms, ` +
    `p50 ${size.p50.toFixed(3)} ms, p99 ${size.p99.toFixed(3)} ms (fastest of 3: ${size.quietP99.toFixed(3)} ms)`,
);
