/** Metrics of a ranking. The first id of a slot satisfies the slot; further ids of it do not count. */
export interface Metrics {
  readonly r1: number;
  readonly r5: number;
  readonly ndcg10: number;
}

export function metricsOf(ranked: readonly string[], slots: readonly (readonly string[])[]): Metrics {
  const open = slots.map((slot) => new Set(slot));
  const hits: number[] = [];
  for (const [index, id] of ranked.slice(0, 10).entries()) {
    const slot = open.findIndex((ids) => ids.has(id));
    if (slot < 0) continue;
    open.splice(slot, 1);
    hits.push(index + 1);
  }
  const recall = (most: number): number => hits.filter((rank) => rank <= most).length / slots.length;
  const gain = (ranks: readonly number[]): number => ranks.reduce((sum, rank) => sum + 1 / Math.log2(rank + 1), 0);
  const ideal = Array.from({ length: Math.min(slots.length, 10) }, (_, index) => index + 1);
  return { r1: recall(1), r5: recall(5), ndcg10: gain(hits) / gain(ideal) };
}

/** In percent. */
export function meanOf(all: readonly Metrics[]): Metrics {
  const mean = (read: (metrics: Metrics) => number): number =>
    (100 * all.reduce((sum, metrics) => sum + read(metrics), 0)) / Math.max(all.length, 1);
  return { r1: mean(({ r1 }) => r1), r5: mean(({ r5 }) => r5), ndcg10: mean(({ ndcg10 }) => ndcg10) };
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}
