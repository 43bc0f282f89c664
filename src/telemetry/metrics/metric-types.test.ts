import { describe, expect, test } from 'vitest';
import { METRICS } from './all-metrics.js';
import { MetricRegistry } from './metric-types.js';
import { prometheusText } from './prometheus-text.js';

describe('the text of metrics', () => {
  test('has counters, histograms and gauges with their labels', async () => {
    const registry = new MetricRegistry();
    registry
      .counter({ name: 'a_total', help: 'A.', labels: ['x', 'y'] })
      .of('1', 'q"\\\n')
      .add(2);
    registry.counter({ name: 'plain_total', help: 'Plain.', labels: [] });
    const series = registry.histogram({ name: 'b', help: 'B.', labels: ['x'], buckets: [1, 2] }).of('z');
    for (const value of [0.5, 1, 1.5, 9]) series.observe(value);
    registry.gauge({ name: 'c', help: 'C.', labels: [] }, () => 3);
    registry.gauge({ name: 'd', help: 'D.', labels: ['k'] }, async () => [[['v'], 4]]);
    expect(prometheusText(await registry.read())).toBe(
      [
        ...['# HELP a_total A.', '# TYPE a_total counter', 'a_total{x="1",y="q\\"\\\\\\n"} 2'],
        ...['# HELP plain_total Plain.', '# TYPE plain_total counter', 'plain_total 0'],
        ...['# HELP b B.', '# TYPE b histogram', 'b_bucket{x="z",le="1"} 2', 'b_bucket{x="z",le="2"} 3'],
        ...['b_bucket{x="z",le="+Inf"} 4', 'b_sum{x="z"} 12', 'b_count{x="z"} 4'],
        ...['# HELP c C.', '# TYPE c gauge', 'c 3', '# HELP d D.', '# TYPE d gauge', 'd{k="v"} 4', ''],
      ].join('\n'),
    );
  });

  test('leaves out a gauge that cannot be read', async () => {
    const registry = new MetricRegistry();
    registry.gauge({ name: 'away', help: 'Away.', labels: [] }, () => Promise.reject(new Error('no database')));
    registry.gauge({ name: 'there', help: 'There.', labels: [] }, () => 1);
    const text = prometheusText(await registry.read());
    expect(text).not.toMatch(/^away /m);
    expect(text).toContain('\nthere 1\n');
  });

  test('bounds the series of a metric: further combinations of labels share one series', async () => {
    const registry = new MetricRegistry();
    const counter = registry.counter({ name: 'many_total', help: 'Many.', labels: ['name'], most: 3 });
    for (let index = 0; index < 1_000; index++) counter.of(`n${index}`).add();
    const lines = prometheusText(await registry.read())
      .split('\n')
      .filter((line) => line.startsWith('many_total'));
    expect(lines).toEqual([
      'many_total{name="n0"} 1',
      'many_total{name="n1"} 1',
      'many_total{name="n2"} 1',
      'many_total{name="other"} 997',
    ]);
  });

  test('every metric has a unique name that Prometheus accepts', () => {
    const names = Object.values(METRICS).map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^[a-z]+(_[a-z]+)+$/);
  });
});
