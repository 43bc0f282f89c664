/**
 * Exports spans over OTLP (protobuf over HTTP). The OpenTelemetry SDK is loaded only if an endpoint is set. The spans
 * are plain objects that are made when a call has ended, so an unsampled call costs two random ids.
 */
import type { Attributes, SpanContext } from '@opentelemetry/api';
import type { BatchSpanProcessor, ReadableSpan } from '@opentelemetry/sdk-trace-base';
import { SCOPE } from './names.js';
import { isSampled, samplingOf } from './sampling.js';
import type { FinishedSpan, Tracing } from './spans.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** Whether the environment asks for traces. */
export function wantsTraces(env: Environment): boolean {
  const set = (name: string): boolean => (env[name] ?? '').trim() !== '';
  if (/^true$/i.test(env['OTEL_SDK_DISABLED'] ?? '') || env['OTEL_TRACES_EXPORTER'] === 'none') return false;
  return set('OTEL_EXPORTER_OTLP_ENDPOINT') || set('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT');
}

export interface TracingOptions {
  readonly version: string;
  readonly samplePercent: number;
  readonly exportErrors: boolean;
  readonly env: Environment;
}

export interface OtlpTracing extends Tracing {
  /** Sends the spans that wait, and stops. */
  close(): Promise<void>;
}

/** Milliseconds for the last spans when the gateway stops. */
const LAST_EXPORT = 2_000;

export async function startTracing({
  version,
  samplePercent,
  exportErrors,
  env,
}: TracingOptions): Promise<OtlpTracing> {
  const sampling = samplingOf(env, samplePercent);
  const [api, sdk, { OTLPTraceExporter }, resources] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace-base'),
    import('@opentelemetry/exporter-trace-otlp-proto'),
    import('@opentelemetry/resources'),
  ]);
  const resource = resources
    .defaultResource()
    .merge(resources.resourceFromAttributes({ 'service.name': 'parley', 'service.version': version }))
    .merge(resources.detectResources({ detectors: [resources.envDetector] }));
  const processor: BatchSpanProcessor = new sdk.BatchSpanProcessor(new OTLPTraceExporter());
  const scope = { name: SCOPE, version };
  const { SpanKind, SpanStatusCode, TraceFlags, createTraceState } = api;

  const readable = (span: FinishedSpan): ReadableSpan => {
    const { name, traceId, spanId, state, parent, attributes, error } = span;
    const contextOf = (trace: string, id: string, isRemote = false): SpanContext => ({
      traceId: trace,
      spanId: id,
      traceFlags: TraceFlags.SAMPLED,
      isRemote,
      ...(state !== undefined && { traceState: createTraceState(state) }),
    });
    const own = contextOf(traceId, spanId);
    const startTime = hrTime(span.began);
    const endTime = hrTime(span.ended);
    return {
      name,
      kind: span.kind === 'server' ? SpanKind.SERVER : SpanKind.CLIENT,
      spanContext: () => own,
      ...(parent !== undefined && { parentSpanContext: contextOf(traceId, parent, span.remoteParent) }),
      startTime,
      endTime,
      duration: [endTime[0] - startTime[0], endTime[1] - startTime[1]],
      status: error === undefined ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: error },
      attributes: attributes as Attributes,
      links: span.links.map((link) => ({ context: contextOf(link.traceId, link.spanId, true) })),
      events: [],
      ended: true,
      resource,
      instrumentationScope: scope,
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    };
  };
  return {
    exportErrors,
    sampled: (traceId, parentSampled) => isSampled(sampling, traceId, parentSampled),
    finished: (span) => processor.onEnd(readable(span)),
    close: async () => {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(() => resolve(), LAST_EXPORT);
        timer.unref();
      });
      await Promise.race([processor.shutdown().catch(() => {}), late]);
      clearTimeout(timer);
    },
  };
}

/** Seconds and nanoseconds since 1970. */
function hrTime(at: number): [seconds: number, nanoseconds: number] {
  const ms = performance.timeOrigin + at;
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)];
}
