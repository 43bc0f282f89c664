/**
 * Exports spans over OTLP (protobuf over HTTP). The OpenTelemetry SDK is loaded only if an endpoint is set. The spans
 * are plain objects that are made when a call has ended, so an unsampled call costs two random ids and two short
 * records.
 */
import type { Attributes, SpanContext } from '@opentelemetry/api';
import type { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import type { Log } from '../log.js';
import { type Environment, exportsTo, LAST_EXPORT, positive, resourceOf } from '../otlp-settings.js';
import { ThrottledLog } from '../throttled-log.js';
import type { FinishedSpan, Tracing } from './finished-span.js';
import { SCOPE } from './names.js';
import { isSampled, samplingOf } from './sampling.js';

type ReadableSpan = Parameters<OTLPTraceExporter['export']>[0][number];

/** Whether the environment asks for traces. */
export const wantsTraces = (env: Environment): boolean => exportsTo(env, 'TRACES');

export interface TracingOptions {
  readonly version: string;
  readonly samplePercent: number;
  readonly exportErrors: boolean;
  readonly env: Environment;
  readonly log: Log;
}

export interface OtlpTracing extends Tracing {
  /** Sends the spans that wait, and stops. */
  close(): Promise<void>;
}

export async function startTracing({
  version,
  samplePercent,
  exportErrors,
  env,
  log,
}: TracingOptions): Promise<OtlpTracing> {
  const sampling = samplingOf(env, samplePercent);
  const [api, exporters] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/exporter-trace-otlp-proto'),
  ]);
  const resource = resourceOf(env, version);
  const scope = { name: SCOPE, version };
  const { SpanKind, SpanStatusCode, TraceFlags, createTraceState } = api;
  const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;

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
      kind: kinds[span.kind],
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
  const exporter = new exporters.OTLPTraceExporter();
  const delay = positive(env['OTEL_BSP_SCHEDULE_DELAY']) ?? DELAY;
  const queue = new SpanQueue(exporter, readable, delay, log);
  return {
    exportErrors,
    sampled: (traceId, parentSampled) => isSampled(sampling, traceId, parentSampled),
    finished: (span) => queue.add(span),
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

/** How many milliseconds a span waits for others, and limits on the spans of one request and of the queue. */
const DELAY = 5_000;
const MOST_SENT = 512;
const MOST_WAITING = 2_048;

/**
 * Spans that wait for the exporter. While a collector is slow or away, spans are lost, but calls are not delayed and
 * memory stays bounded.
 */
class SpanQueue {
  private waiting: FinishedSpan[] = [];
  private timer: NodeJS.Timeout | undefined;
  private sending: Promise<void> | undefined;
  /** Spans that were lost since the last export that succeeded. */
  private lost = 0;
  private away = false;
  private readonly throttled: ThrottledLog;

  constructor(
    private readonly exporter: OTLPTraceExporter,
    /** Converts a span only when it is sent, because the form of the exporter takes several times the memory. */
    private readonly readable: (span: FinishedSpan) => ReadableSpan,
    private readonly delay: number,
    private readonly log: Log,
  ) {
    this.throttled = new ThrottledLog(log);
  }

  add(span: FinishedSpan): void {
    if (this.waiting.length >= MOST_WAITING) {
      this.lost++;
      return;
    }
    this.waiting.push(span);
    if (this.waiting.length >= MOST_SENT) this.send();
    else this.timer ??= setTimeout(() => this.send(), this.delay).unref();
  }

  private send(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.sending || this.waiting.length === 0) return;
    const batch = this.waiting.splice(0, MOST_SENT).map(this.readable);
    this.sending = this.exported(batch).finally(() => {
      this.sending = undefined;
      if (this.waiting.length >= MOST_SENT) this.send();
      else if (this.waiting.length > 0) this.timer ??= setTimeout(() => this.send(), this.delay).unref();
    });
  }

  private async exported(batch: ReadableSpan[]): Promise<void> {
    const error = await new Promise<unknown>((done) =>
      this.exporter.export(batch, ({ code, error: reason }) => done(code === 0 ? undefined : (reason ?? 'unknown'))),
    ).catch((reason: unknown) => reason ?? 'unknown');
    // Logged once per outage, without the message of the transport, which could contain the answer of the collector.
    if (error === undefined) {
      if (this.lost > 0)
        this.throttled.warn('lost', { spans: this.lost }, 'lost spans, because the collector was away or slow');
      this.lost = 0;
      this.away = false;
      return;
    }
    const { code } = error as { code?: unknown };
    if (!this.away) this.log.warn({ code }, 'failed to export traces over OTLP; spans are lost until it succeeds');
    this.away = true;
    this.lost += batch.length;
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
