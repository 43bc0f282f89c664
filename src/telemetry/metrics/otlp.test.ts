import { describe, expect, test } from 'vitest';
import { SILENT } from '../log.js';
import { MetricRegistry } from './metric-types.js';
import { metricsOf, startMetricsPush, wantsMetrics } from './otlp.js';

describe('metrics over OTLP', () => {
  test('are exported if an endpoint for them is set', () => {
    expect(wantsMetrics({})).toBe(false);
    expect(wantsMetrics({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318' })).toBe(true);
    expect(wantsMetrics({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://localhost:4318/v1/metrics' })).toBe(true);
    expect(wantsMetrics({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://localhost:4318/v1/traces' })).toBe(false);
    expect(wantsMetrics({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318', OTEL_METRICS_EXPORTER: 'none' })).toBe(
      false,
    );
    expect(wantsMetrics({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318', OTEL_SDK_DISABLED: 'true' })).toBe(
      false,
    );
  });

  test('leave out a metric without a value', async () => {
    const registry = new MetricRegistry();
    registry.gauge({ name: 'away', help: 'Away.', labels: [] }, () => undefined);
    registry.counter({ name: 'none_total', help: 'None.', labels: ['x'] });
    registry.gauge({ name: 'there_seconds', help: 'There.', labels: ['x'] }, () => [[['y'], 2]]);
    const metrics = metricsOf(await registry.read(), [0, 0], [1, 0]);
    expect(metrics).toMatchObject([
      { descriptor: { name: 'there_seconds', unit: 's' }, dataPoints: [{ attributes: { x: 'y' }, value: 2 }] },
    ]);
  });

  test('stop within a limited time if no collector answers, and log the failure once', async () => {
    const warned: unknown[] = [];
    const before = process.env['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT'];
    process.env['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT'] = 'http://127.0.0.1:9/v1/metrics';
    try {
      const push = await startMetricsPush(new MetricRegistry(), {
        version: '1',
        env: {},
        log: { ...SILENT, warn: (fields) => warned.push(fields) },
      });
      await push.close();
    } finally {
      if (before === undefined) delete process.env['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT'];
      else process.env['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT'] = before;
    }
    expect(warned.length).toBeLessThanOrEqual(1);
  });
});
