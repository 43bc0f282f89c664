/** Writes metrics in the text format of Prometheus. */
import type { HistogramSeries, MetricSpec, ReadMetric } from './metric-types.js';

export function prometheusText(metrics: readonly ReadMetric[]): string {
  const lines: string[] = [];
  for (const metric of metrics) {
    const { spec } = metric;
    head(lines, spec, metric.type);
    if (metric.type === 'histogram')
      for (const { labels, series } of metric.series) histogramLines(lines, spec, labels, series);
    else for (const [labels, value] of metric.samples) line(lines, spec.name, spec.labels, labels, value);
  }
  return `${lines.join('\n')}\n`;
}

function head(lines: string[], { name, help }: MetricSpec, type: string): void {
  lines.push(`# HELP ${name} ${help.replace(/\\/g, '\\\\').replace(/\n/g, '\\n')}`, `# TYPE ${name} ${type}`);
}

function line(
  lines: string[],
  name: string,
  labels: readonly string[],
  values: readonly string[],
  value: number,
  more = '',
): void {
  const pairs = labels.map((label, at) => `${label}="${escaped(values[at] ?? '')}"`);
  if (more !== '') pairs.push(more);
  lines.push(`${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${numberText(value)}`);
}

function histogramLines(
  lines: string[],
  { name, labels, buckets = [] }: MetricSpec,
  values: readonly string[],
  { counts, sum }: HistogramSeries,
): void {
  let total = 0;
  buckets.forEach((bound, at) => {
    total += counts[at]!;
    line(lines, `${name}_bucket`, labels, values, total, `le="${bound}"`);
  });
  total += counts[buckets.length]!;
  line(lines, `${name}_bucket`, labels, values, total, 'le="+Inf"');
  line(lines, `${name}_sum`, labels, values, sum);
  line(lines, `${name}_count`, labels, values, total);
}

const escaped = (value: string): string => value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');

const numberText = (value: number): string =>
  Number.isFinite(value) ? String(value) : Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
