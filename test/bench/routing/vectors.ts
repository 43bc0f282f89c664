/**
 * Search with vectors, through the code of the gateway. The user of the benchmark runs the endpoint that makes the
 * vectors.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { searchVectors } from '../../../src/app/search-vectors.js';
import type { EmbeddedTool, Similarities, ToolVectors } from '../../../src/core/search/tool-vectors.js';
import { SILENT } from '../../../src/telemetry/log.js';
import { documentsOf, type RoutingSet } from './sets.js';

export interface VectorEndpoint {
  readonly url: string;
  readonly model: string;
  /** The share of vectors in a score, in percent. */
  readonly weight: number;
}

/** Slow machines need minutes to embed the tools of a set. */
const TIMEOUT = 60_000;
const ATTEMPTS = 20_000;

export class SetVectors {
  private constructor(
    private readonly vectors: ToolVectors,
    private readonly tools: readonly EmbeddedTool[],
    readonly close: () => Promise<void>,
  ) {}

  /** Waits until every tool of the set has a vector. */
  static async of(set: RoutingSet, { url, model, weight }: VectorEndpoint): Promise<SetVectors> {
    const found = searchVectors({ url, model, key: undefined, weight, timeout: TIMEOUT }, TIMEOUT, SILENT);
    if (!found) throw new Error('--weight must be above 0');
    const own = new Map(set.tools.map((tool) => [tool.id, tool]));
    const tools = [...documentsOf(set)].flatMap(([server, documents]) =>
      documents.map(({ key, name, description }): EmbeddedTool => {
        const item = {
          key: name,
          own: own.get(key!)!.name,
          value: { name, ...(description !== undefined && { description }) },
          mirrored: [],
        };
        return { server: server.name, name: key!, item, ...(server.title !== undefined && { about: server.title }) };
      }),
    );
    const made = new SetVectors(found.tools, tools, found.close);
    await made.similar('ready');
    return made;
  }

  /** Repeats a query after a failure, because a row with vectors must not contain rankings by words alone. */
  async similar(query: string): Promise<Similarities> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const found = await this.vectors.similarities(query, this.tools);
      if (found) return found;
      await pause(100);
    }
    throw new Error('the endpoint gives no vectors');
  }
}
