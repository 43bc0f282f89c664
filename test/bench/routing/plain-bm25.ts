/**
 * The baseline: BM25 without stems, stop words, fields or synonyms, as the description of the sets defines it. Its
 * figures are known, so a run shows that the sets and the metrics are read as they are meant.
 */
import type { RoutingSet, Tool } from './sets.js';

const K1 = 1.2;
const B = 0.75;

const tokensOf = (text: string): string[] =>
  text
    .replace(/([a-z0-9])(?=[A-Z])/g, '$1 ')
    .toLowerCase()
    .match(/[a-z0-9]+|[\u4e00-\u9fff]/g) ?? [];

interface Counted {
  readonly tool: Tool;
  readonly counts: ReadonlyMap<string, number>;
  readonly length: number;
}

export class PlainBm25 {
  private readonly documents: readonly Counted[];
  private readonly frequencies = new Map<string, number>();
  private readonly mean: number;

  constructor({ tools }: RoutingSet) {
    this.documents = tools.map((tool) => {
      const tokens = tokensOf(textOf(tool));
      const counts = new Map<string, number>();
      for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
      for (const token of counts.keys()) this.frequencies.set(token, (this.frequencies.get(token) ?? 0) + 1);
      return { tool, counts, length: tokens.length };
    });
    this.mean = this.documents.reduce((sum, { length }) => sum + length, 0) / Math.max(this.documents.length, 1);
  }

  /** The identifiers of tools, best first. */
  search(query: string): string[] {
    return ranked(new Map(this.scores(query).map(({ tool, score }) => [tool.id, score])));
  }

  /**
   * A server has the score of its best tool. With several needs, the scores of each need are divided by their maximum,
   * and the largest one counts.
   */
  servers(needs: readonly string[]): string[] {
    const found = new Map<string, number>();
    // Equal scores stay in the order of the file.
    for (const { tool } of this.documents) found.set(tool.server ?? '', 0);
    for (const need of needs) {
      const scores = this.scores(need);
      const highest = Math.max(0, ...scores.map(({ score }) => score));
      for (const { tool, score } of scores) {
        const server = tool.server ?? '';
        found.set(server, Math.max(found.get(server)!, score / highest));
      }
    }
    return ranked(found).filter((server) => found.get(server)! > 0);
  }

  private scores(query: string): { tool: Tool; score: number }[] {
    const tokens = new Set(tokensOf(query));
    const count = this.documents.length;
    return this.documents.flatMap(({ tool, counts, length }) => {
      let score = 0;
      for (const token of tokens) {
        const tf = counts.get(token);
        if (tf === undefined) continue;
        const df = this.frequencies.get(token)!;
        const idf = Math.log(1 + (count - df + 0.5) / (df + 0.5));
        score += (idf * tf * (K1 + 1)) / (tf + K1 * (1 - B + (B * length) / this.mean));
      }
      return score > 0 ? [{ tool, score }] : [];
    });
  }
}

const ranked = (scores: ReadonlyMap<string, number>): string[] =>
  [...scores].sort(([, a], [, b]) => b - a).map(([name]) => name);

/** The name, the description, and name and description of each parameter. */
function textOf({ name, description, parameters }: Tool): string {
  const listed = Array.isArray(parameters)
    ? parameters.map((entry: { name?: unknown; description?: unknown }) => [entry.name, entry.description])
    : Object.entries(
        (parameters as { properties?: Record<string, { description?: unknown } | null> } | undefined)?.properties ?? {},
      ).map(([key, value]) => [key, value?.description]);
  const parts = [name, description, ...listed.flat()];
  return parts.filter((part) => typeof part === 'string').join(' ');
}
