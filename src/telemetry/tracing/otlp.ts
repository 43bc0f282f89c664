/**
 * Exports spans over OTLP (protobuf over HTTP). The OpenTelemetry SDK is loaded only if an endpoint is set. The spans
 * are plain objects that are made when a call has ended, so an unsampled call costs two random ids.
 */
import type { Attributes, SpanContext } from '@opentelemetry/api';
import type { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { SCOPE } from './names.js';
import { isSampled, samplingOf } from './sampling.js';
import type { FinishedSpan, Tracing } from './spans.js';

type Environment = Readonly<Record<string, string | undefined>>;
type ReadableSpan = Parameters<OTLPTraceExporter['export']>[0][number];

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
  const [api, exporters] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/exporter-trace-otlp-proto'),
  ]);
  const resource = resourceOf(env, version);
  const queue = new SpanQueue(new exporters.OTLPTraceExporter(), positive(env['OTEL_BSP_SCHEDULE_DELAY']) ?? DELAY);
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
    finished: (span) => queue.add(readable(span)),
    close: async () => {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(() => resolve(), LAST_EXPORT);
        timer.unref();
      });
      await Promise.race([queue.close().catch(() => {}), late]);
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

/** Milliseconds that spans wait for others, and limits on the spans of one request and of the queue. */
const DELAY = 5_000;
const MOST_SENT = 512;
const MOST_WAITING = 2_048;

const positive = (text: string | undefined): number | undefined => (Number(text) > 0 ? Number(text) : undefined);

/** Spans that wait for the exporter. A collector that is slow or away costs spans, never memory or time of calls. */
class SpanQueue {
  private waiting: ReadableSpan[] = [];
  private timer: NodeJS.Timeout | undefined;
  private sending: Promise<void> | undefined;

  constructor(
    private readonly exporter: OTLPTraceExporter,
    private readonly delay: number,
  ) {}

  add(span: ReadableSpan): void {
    if (this.waiting.length >= MOST_WAITING) return;
    this.waiting.push(span);
    if (this.waiting.length >= MOST_SENT) this.send();
    else this.timer ??= setTimeout(() => this.send(), this.delay).unref();
  }

  private send(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.sending || this.waiting.length === 0) return;
    const batch = this.waiting.splice(0, MOST_SENT);
    this.sending = new Promise<void>((done) => this.exporter.export(batch, () => done())).finally(() => {
      this.sending = undefined;
      if (this.waiting.length >= MOST_SENT) this.send();
      else if (this.waiting.length > 0) this.timer ??= setTimeout(() => this.send(), this.delay).unref();
    });
  }

  /** Sends all spans that wait. */
  async close(): Promise<void> {
    while (this.sending || this.waiting.length > 0) {
      this.send();
      await this.sending;
    }
    await this.exporter.shutdown();
  }
}

/** The attributes of the process: those of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` win. */
function resourceOf(env: Environment, version: string): ReadableSpan['resource'] {
  const given = (env['OTEL_RESOURCE_ATTRIBUTES'] ?? '').split(',').flatMap((pair): [string, string][] => {
    const at = pair.indexOf('=');
    return at > 0 ? [[pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())]] : [];
  });
  const name = env['OTEL_SERVICE_NAME']?.trim();
  const attributes: Attributes = {
    'service.name': 'parley',
    'service.version': version,
    ...Object.fromEntries(given),
    ...(name !== undefined && name !== '' && { 'service.name': name }),
  };
  const resource: ReadableSpan['resource'] = {
    attributes,
    merge: () => resource,
    getRawAttributes: () => Object.entries(attributes),
  };
  return resource;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
