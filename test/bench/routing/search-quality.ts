/** Recall, latency and tokens of the search over one set. */

import { META_TOOLS } from '../../../src/core/search/meta-tool-schemas.js';
import type { LearnedScores } from '../../../src/core/search/tool-key.js';
import { ToolRanking } from '../../../src/core/search/tool-ranking.js';
import { type Metrics, meanOf, metricsOf, percentile } from './metrics.js';
import { documentsOf, type Query, type RoutingSet } from './sets.js';
import type { SetVectors } from './vectors.js';

export interface Row {
  readonly label: string;
  readonly queries: number;
  readonly metrics: Metrics;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

export function indexOf(set: RoutingSet): ToolRanking {
  const index = new ToolRanking();
  for (const [server, documents] of documentsOf(set)) index.set(server, documents);
  return index;
}

export async function measure(
  label: string,
  queries: readonly Query[],
  rank: (query: Query) => readonly string[] | Promise<readonly string[]>,
  slots: (query: Query) => readonly (readonly string[])[] = ({ relevant }) => relevant,
): Promise<Row> {
  // The first queries are not measured: they let the engine compile the code, as in a running gateway.
  for (const query of queries.slice(0, 100)) await rank(query);
  const times: number[] = [];
  const metrics: Metrics[] = [];
  for (const query of queries) {
    const began = performance.now();
    const given = rank(query);
    const ranked = given instanceof Promise ? await given : given;
    times.push(performance.now() - began);
    metrics.push(metricsOf(ranked, slots(query)));
  }
  return {
    label,
    queries: queries.length,
    metrics: meanOf(metrics),
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
  };
}

export const byWords =
  (index: ToolRanking, learned?: LearnedScores) =>
  ({ query }: Query): string[] =>
    index.search(query, { limit: 10, learned }).map(({ name }) => name);

export const byVectors =
  (index: ToolRanking, vectors: SetVectors, learned?: LearnedScores) =>
  async ({ query }: Query): Promise<string[]> => {
    const similar = await vectors.similar(query);
    return index.search(query, { limit: 10, learned, similar }).map(({ name }) => name);
  };

/** Four characters of JSON are about one token. */
const tokens = (value: unknown): number => JSON.stringify(value).length / 4;

/** The share of tokens that search mode saves against listing every tool, with one search of five results. */
export function tokensSaved(set: RoutingSet, index: ToolRanking, queries: readonly Query[]): number {
  const listed = new Map(
    set.tools.map(({ id, name, description, parameters }) => [
      id,
      tokens({ name, description, inputSchema: parameters }),
    ]),
  );
  const all = [...listed.values()].reduce((sum, count) => sum + count, 0);
  const own = tokens(META_TOOLS);
  const shares = queries.map(({ query }) => {
    const hits = index.search(query, { limit: 5 });
    const answer = hits.reduce((sum, { name }) => sum + listed.get(name)!, 0);
    return 1 - (own + answer) / all;
  });
  return (100 * shares.reduce((sum, share) => sum + share, 0)) / shares.length;
}
