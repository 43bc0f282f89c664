/** Memory, build time and latency of an index of 10,000 tools. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ToolRanking } from '../../../src/core/search/tool-ranking.js';
import type { SearchDocument } from '../../../src/core/search/weighted-fields.js';
import { percentile } from './metrics.js';
import { documentsOf, type RoutingSet } from './sets.js';

const TOOLS = 10_000;
const SERVERS = 100;
const QUERIES = 2_000;
const ROUNDS = 3;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function memory(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

export interface Size {
  readonly tools: number;
  readonly megabytes: number;
  readonly milliseconds: number;
  readonly p50: number;
  readonly p99: number;
  /** The 99th percentile of the fastest of three rounds of each query: without the pauses of a busy machine. */
  readonly quietP99: number;
}

/** All tools of the sets in 100 servers; copies under other names fill up to 10,000. */
export function measureSize(sets: readonly RoutingSet[]): Size {
  const pool = sets.flatMap((set) => [...documentsOf(set).values()].flat());
  const parts: SearchDocument[][] = Array.from({ length: SERVERS }, () => []);
  for (let number = 0; number < TOOLS; number += 1) {
    const document = pool[number % pool.length]!;
    const key = `${document.key}~${number}`;
    const name = number < pool.length ? document.name : `${document.name}_v${number}`;
    parts[number % SERVERS]!.push({ ...document, key, name });
  }
  const index = new ToolRanking();
  const before = memory();
  const began = performance.now();
  for (const [number, documents] of parts.entries()) index.set({ name: `server-${number}` }, documents);
  const milliseconds = performance.now() - began;
  const megabytes = (memory() - before) / 2 ** 20;
  const queries = sets.flatMap((set) => set.queries);
  const step = Math.max(1, Math.floor(queries.length / QUERIES));
  const chosen = queries.filter((_, number) => number % step === 0);
  for (const { query } of chosen.slice(0, 300)) index.search(query, { limit: 5 });
  const times: number[] = [];
  const fastest = chosen.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [number, { query }] of chosen.entries()) {
      const start = performance.now();
      index.search(query, { limit: 5 });
      const time = performance.now() - start;
      times.push(time);
      fastest[number] = Math.min(fastest[number]!, time);
    }
  }
  return {
    tools: index.size,
    megabytes,
    milliseconds,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    quietP99: percentile(fastest, 0.99),
  };
}
