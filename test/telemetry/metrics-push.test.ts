/** Metrics of a real gateway, pushed to an OTLP collector in this process. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ModernClient } from '../era-bridge/support/clients.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { type Collector, startCollector } from './otlp-collector.js';

const UNITS = {
  command: process.execPath,
  args: [path.join(fileURLToPath(new URL('../..', import.meta.url)), 'examples/units.mjs')],
};

let collector: Collector;
let gateway: RunningGateway;

beforeAll(async () => {
  collector = await startCollector();
  gateway = await startGateway(
    { servers: { units: UNITS } },
    { env: { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${collector.url}/v1/metrics`, OTEL_METRIC_EXPORT_INTERVAL: '100' } },
  );
});
afterAll(async () => {
  await gateway?.close();
  await collector?.close();
});

const calls = (): number =>
  collector.metrics
    .get('parley_tool_calls_total')
    ?.points.find(({ attributes }) => attributes['tool'] === 'convert' && attributes['outcome'] === 'ok')?.value ?? 0;

test('pushes counters, histograms and gauges, as /metrics has them', async () => {
  const client = new ModernClient(`${gateway.url}/mcp`);
  for (let i = 0; i < 3; i++) await client.call('units__convert', { value: 1, from: 'km', to: 'm' });
  await expect.poll(calls, { timeout: 20_000 }).toBe(3);
  const { metrics } = collector;
  expect(metrics.get('parley_tool_calls_total')).toMatchObject({ type: 'sum', counter: true });
  const durations = metrics.get('parley_call_duration_seconds')!;
  expect(durations).toMatchObject({ type: 'histogram', unit: 's' });
  const ofCalls = durations.points.find(({ attributes }) => attributes['method'] === 'tools/call')!;
  expect(ofCalls.value).toBe(3);
  expect(ofCalls.counts.reduce((sum, count) => sum + count)).toBe(3);
  expect(ofCalls.sum).toBeGreaterThan(0);
  expect(metrics.get('parley_upstream_up')).toMatchObject({ type: 'gauge', points: [{ value: 1 }] });
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  const served = [...text.matchAll(/^(\w+?)(?:_bucket|_sum|_count)?(?:\{| )/gm)].map(([, name]) => name!);
  expect([...metrics.keys()].sort()).toEqual([...new Set(served)].sort());
  // An endpoint for metrics only makes no spans.
  expect(collector.spans).toEqual([]);
});

test('pushes the last values when the gateway stops', async () => {
  await new ModernClient(`${gateway.url}/mcp`).call('units__convert', { value: 1, from: 'km', to: 'm' });
  await gateway.close();
  expect(calls()).toBe(4);
});
