/**
 * Pushes the metrics over OTLP (protobuf over HTTP). Of OpenTelemetry only the encoding and the transport are used, and
 * both are loaded only if an endpoint is set: the registry is the only place that counts.
 */
import type { HrTime } from '@opentelemetry/api';
import type { ISerializer } from '@opentelemetry/otlp-transformer';
import type { Log } from '../log.js';
import { type Environment, exportsTo, LAST_EXPORT, positive, resourceOf } from '../otlp-settings.js';
import { SCOPE } from '../tracing/names.js';
import type { MetricRegistry, ReadMetric } from './metric-types.js';

/**
 * Milliseconds between two exports, as OpenTelemetry defines, and the shortest interval: an export reads the database.
 */
const INTERVAL = 60_000;
const SHORTEST = 100;

type ResourceMetrics = Parameters<
  typeof import('@opentelemetry/otlp-transformer')['ProtobufMetricsSerializer']['serializeRequest']
>[0];
type MetricData = ResourceMetrics['scopeMetrics'][number]['metrics'][number];

/** Whether the environment asks for metrics over OTLP. */
export const wantsMetrics = (env: Environment): boolean => exportsTo(env, 'METRICS');

export interface MetricsPushOptions {
  readonly version: string;
  readonly env: Environment;
  readonly log: Log;
}

export interface MetricsPush {
  /** Sends the metrics once more, and stops. */
  close(): Promise<void>;
}

/**
 * Starts the export. While a collector is away, exports are lost but no memory is used: the next export has the current
 * values.
 */
export async function startMetricsPush(
  registry: Pick<MetricRegistry, 'read'>,
  { version, env, log }: MetricsPushOptions,
): Promise<MetricsPush> {
  const [http, transformer] = await Promise.all([
    import('@opentelemetry/otlp-exporter-base/node-http'),
    import('@opentelemetry/otlp-transformer'),
  ]);
  const serializer: ISerializer<ResourceMetrics, unknown> = transformer.ProtobufMetricsSerializer;
  const settings = http.convertLegacyHttpOptions({}, 'METRICS', 'v1/metrics', {
    'Content-Type': 'application/x-protobuf',
  });
  const exporter = http.createOtlpHttpExportDelegate(
    settings,
    serializer,
    'otlp_http_metric_exporter',
    transformer.MetricsExporterMetricsHelper,
    undefined,
  );
  const resource = resourceOf(env, version) as ResourceMetrics['resource'];
  const startTime = hrTime(performance.timeOrigin);
  let sending: Promise<void> | undefined;
  let failed = false;

  const send = async (): Promise<void> => {
    const metrics = metricsOf(await registry.read(), startTime, hrTime(Date.now()));
    const request = { resource, scopeMetrics: [{ scope: { name: SCOPE, version }, metrics }] };
    const error = await new Promise<unknown>((done) =>
      exporter.export(request, ({ code, error: reason }) => done(code === 0 ? undefined : (reason ?? 'unknown'))),
    );
    // Logged once per outage, without the message of the transport, which could contain the answer of the collector.
    if (error !== undefined && !failed)
      log.warn(
        { code: (error as { code?: unknown }).code },
        'failed to export metrics over OTLP; the next export tries again',
      );
    failed = error !== undefined;
  };
  const push = (): Promise<void> => {
    sending ??= send().finally(() => {
      sending = undefined;
    });
    return sending;
  };
  const timer = setInterval(
    () => void push(),
    Math.max(SHORTEST, positive(env['OTEL_METRIC_EXPORT_INTERVAL']) ?? INTERVAL),
  ).unref();
  return {
    close: async () => {
      clearInterval(timer);
      let late: NodeJS.Timeout | undefined;
      const limit = new Promise<void>((resolve) => {
        late = setTimeout(() => resolve(), LAST_EXPORT).unref();
      });
      const last = async (): Promise<void> => {
        await sending;
        await push();
        await exporter.shutdown();
      };
      await Promise.race([last().catch(() => {}), limit]);
      clearTimeout(late);
    },
  };
}

/** Seconds and nanoseconds since 1970. */
const hrTime = (ms: number): HrTime => [Math.floor(ms / 1_000), Math.round((ms % 1_000) * 1e6)];

/** The numbers of the SDK's enumerations, copied so that the SDK need not be loaded for them. */
const DOUBLE = 1;
const CUMULATIVE = 1;
const HISTOGRAM = 0;
const GAUGE = 2;
const SUM = 3;

/** The metrics in the form that the encoder reads. Counters count from the start of the process. */
export function metricsOf(read: readonly ReadMetric[], startTime: HrTime, endTime: HrTime): MetricData[] {
  return read.flatMap((metric): MetricData[] => {
    const { name, help, labels } = metric.spec;
    const unit = /_seconds(_total)?$/.test(name) ? 's' : /_bytes(_total)?$/.test(name) ? 'By' : '';
    const common = {
      descriptor: { name, description: help, unit, valueType: DOUBLE },
      aggregationTemporality: CUMULATIVE,
    };
    const times = { startTime, endTime };
    const attributes = (values: readonly string[]): Record<string, string> =>
      Object.fromEntries(labels.map((label, at) => [label, values[at] ?? '']));
    if (metric.type === 'histogram') {
      const dataPoints = metric.series.map(({ labels: values, series: { counts, sum, bounds } }) => ({
        ...{ ...times, attributes: attributes(values) },
        value: {
          buckets: { boundaries: [...bounds], counts: [...counts] },
          ...{ sum, count: counts.reduce((total, count) => total + count, 0) },
        },
      }));
      return dataPoints.length === 0 ? [] : [{ ...common, dataPointType: HISTOGRAM, dataPoints }];
    }
    const dataPoints = metric.samples.map(([values, value]) => ({ ...times, attributes: attributes(values), value }));
    if (dataPoints.length === 0) return [];
    return metric.type === 'counter'
      ? [{ ...common, dataPointType: SUM, isMonotonic: true, dataPoints }]
      : [{ ...common, dataPointType: GAUGE, dataPoints }];
  });
}
