/** Metrics, traces and live tail of the running gateway: composes their parts, and reads the gauges from the other parts. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import type { Config } from '../config/schema.js';
import { AgentUpstream } from '../core/a2a/protocol-bridge/agent-upstream.js';
import type { Agents } from '../core/a2a/routing/agent-directory.js';
import type { AuditTrail } from '../core/audit-trail.js';
import type { Catalog } from '../core/catalog/catalog.js';
import type { Cluster } from '../core/cluster.js';
import { LiveTail } from '../core/live-tail.js';
import type { UpstreamHealth } from '../core/upstream.js';
import { type Authenticator, anyOf } from '../identity/authenticator.js';
import { TokenAuthenticator } from '../identity/token-authenticator.js';
import { MetricsEndpoint } from '../inbound/admin/metrics-endpoint.js';
import type { ErrorFormat, Route } from '../inbound/http/route.js';
import { lineOf } from '../interceptors/call-log.js';
import { CallMetrics } from '../interceptors/call-metrics.js';
import type { CallObserver } from '../interceptors/observed-calls.js';
import { ProtocolError } from '../protocol/errors.js';
import { type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { METRICS } from '../telemetry/metrics/names.js';
import { MetricRegistry, type Sample } from '../telemetry/metrics/registry.js';
import { type OtlpTracing, startTracing, wantsTraces } from '../telemetry/tracing/otlp.js';
import type { Overload } from './overload.js';
import { VERSION } from './product-info.js';
import type { Replica } from './replica.js';

/** Interval of the measurements of the event loop, in milliseconds. */
const LOOP_RESOLUTION = 20;
/** How long the depth of the outbox is cached: a scan of a long queue takes time. */
const OUTBOX_AGE = 5_000;

const BREAKER_STATES = { closed: 0, half_open: 1, open: 2 } as const;

/** Loads the exporter of traces if the environment asks for traces. */
export async function tracingOf({ tracing }: Config, log: Log): Promise<OtlpTracing | undefined> {
  const { env } = process;
  if (!tracing.enabled || !wantsTraces(env)) return undefined;
  const { samplePercent, exportErrors } = tracing;
  const started = await startTracing({ version: VERSION, samplePercent, exportErrors, env });
  log.info({}, 'exporting traces over OTLP');
  return started;
}

/** The inbound adapters that metrics describe. */
export interface MeasuredEndpoints {
  readonly mcp: { readonly sessions: number; readonly streams: number };
}

/** The parts of the gateway that metrics describe. */
export interface MeasuredRuntime {
  readonly state: Pick<State, 'db' | 'outbox' | 'health'>;
  readonly replica: Pick<Replica, 'replicas'>;
  readonly audit: Pick<AuditTrail, 'status'>;
  readonly overload: Pick<Overload, 'refusal'>;
  readonly mcp: {
    readonly catalog: Pick<Catalog, 'servers' | 'upstream'>;
    readonly parking: { readonly size: number };
    readonly tasks: { readonly size: number };
  };
  readonly a2a: {
    readonly directory: Pick<Agents, 'names' | 'get'>;
    readonly dispatcher: { readonly streams: number; readonly tasks: number };
  };
}

export class Telemetry {
  readonly tail: LiveTail;
  private readonly registry: MetricRegistry | undefined;
  private calls: CallMetrics | undefined;
  private delay: ReturnType<typeof monitorEventLoopDelay> | undefined;

  constructor(
    private readonly config: Pick<Config, 'metrics'>,
    cluster: Cluster,
    /** Takes the spans of calls; undefined without traces. */
    readonly tracing: OtlpTracing | undefined,
    /** The program that started the gateway is its only caller, and there is no HTTP. */
    alone: boolean,
  ) {
    this.tail = new LiveTail(cluster);
    this.registry = config.metrics.enabled && !alone ? new MetricRegistry() : undefined;
  }

  /** The observers of every call. */
  observers(catalog: Catalog): readonly (CallObserver | undefined)[] {
    const { registry, tail, config } = this;
    if (registry) this.calls = new CallMetrics({ registry, catalog, names: config.metrics.access !== 'public' });
    const followers: CallObserver = {
      active: () => tail.active(),
      ended: (call) => tail.publish(lineOf(call, catalog)),
    };
    return [this.calls, followers];
  }

  /** Counts an error that a request gets before or instead of a call. */
  readonly refused = (error: unknown, protocol: 'mcp' | 'a2a' | 'http' = 'http'): void => {
    if (error instanceof ProtocolError) this.calls?.failed(error, protocol);
  };

  routes(errors: ErrorFormat, authenticator: Authenticator): Route[] {
    const { registry } = this;
    if (!registry) return [];
    const { access, token } = this.config.metrics;
    // The token is an administrator at this path only. Without authentication everybody on this machine is one.
    const known =
      token === undefined || !authenticator.enabled
        ? undefined
        : anyOf([new TokenAuthenticator([{ name: 'metrics', token, admin: true }]), authenticator]);
    return new MetricsEndpoint({ registry, everybody: access === 'public', authenticator: known }).routes(errors);
  }

  /** Begins to read the gauges from the parts of the gateway. */
  measure(runtime: MeasuredRuntime, { mcp }: MeasuredEndpoints): void {
    const { registry, tail } = this;
    if (!registry) return;
    const { state, replica, audit, overload } = runtime;
    this.delay = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION });
    this.delay.enable();
    const sizes = registry.histogram(METRICS.commitSize).of();
    state.db.committed = (transactions) => sizes.observe(transactions);
    registry.gauge(METRICS.sessions, () => mcp.sessions);
    registry.gauge(METRICS.streams, () => [
      [['mcp'], mcp.streams],
      [['a2a'], runtime.a2a.dispatcher.streams],
      [['tail'], tail.size],
    ]);
    registry.gauge(METRICS.parked, () => runtime.mcp.parking.size);
    registry.gauge(METRICS.tasks, () => [
      [['mcp'], runtime.mcp.tasks.size],
      [['a2a'], runtime.a2a.dispatcher.tasks],
    ]);
    const depth = cached(OUTBOX_AGE, () => state.outbox.depth());
    registry.gauge(METRICS.outbox, async () => {
      const { waiting, dead } = await depth();
      return [
        [['waiting'], waiting],
        [['dead'], dead],
      ];
    });
    registry.gauge(METRICS.outboxAge, async () => {
      const { oldestAt } = await depth();
      return oldestAt === null ? 0 : Math.max(0, wallMs() - oldestAt) / 1_000;
    });
    registry.gauge(METRICS.upstreamUp, () => this.upstreams(runtime, ({ status }) => (status === 'up' ? 1 : 0)));
    registry.gauge(METRICS.breaker, () =>
      this.upstreams(runtime, ({ breaker }) => BREAKER_STATES[breaker?.state ?? 'closed']),
    );
    registry.gauge(METRICS.replicas, () => replica.replicas());
    registry.gauge(METRICS.storageUp, async () => {
      const { db, bus } = await state.health();
      return [
        [['database'], db.ok ? 1 : 0],
        [['bus'], bus.ok ? 1 : 0],
      ];
    });
    registry.gauge(METRICS.auditWaiting, () => audit.status().waiting);
    registry.counted(METRICS.auditLost, () => audit.status().lost);
    registry.gauge(METRICS.tailFollowers, () => tail.size);
    registry.counted(METRICS.tailDropped, () => tail.droppedInAll);
    registry.gauge(METRICS.overloaded, () => (overload.refusal() ? 1 : 0));
    this.measureProcess(registry);
  }

  private measureProcess(registry: MetricRegistry): void {
    registry.gauge(METRICS.loopDelay, () => this.loopDelay());
    registry.gauge(METRICS.build, () => [[[VERSION, process.versions.node], 1]]);
    registry.gauge(METRICS.residentMemory, () => process.memoryUsage.rss());
    registry.counted(METRICS.cpu, () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    });
    registry.gauge(METRICS.started, () => performance.timeOrigin / 1_000);
    registry.gauge(METRICS.heapUsed, () => getHeapStatistics().used_heap_size);
    registry.gauge(METRICS.heapLimit, () => getHeapStatistics().heap_size_limit);
  }

  /** The delay since the last reading, without the interval of the measurement itself. */
  private loopDelay(): Sample[] {
    const { delay } = this;
    if (!delay || delay.count === 0) return [];
    const seconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - LOOP_RESOLUTION / 1e3);
    const samples: Sample[] = [
      [['0.5'], seconds(delay.percentile(50))],
      [['0.99'], seconds(delay.percentile(99))],
      [['1'], seconds(delay.max)],
    ];
    delay.reset();
    return samples;
  }

  private upstreams(
    { mcp: { catalog }, a2a: { directory } }: MeasuredRuntime,
    value: (health: Pick<UpstreamHealth, 'breaker'> & { readonly status: string }) => number | undefined,
  ): Sample[] {
    const samples: Sample[] = [];
    const add = (kind: string, name: string, measured: number | undefined): void => {
      if (measured !== undefined) samples.push([[kind, this.calls?.upstream(name) ?? name], measured]);
    };
    for (const name of catalog.servers) {
      const upstream = catalog.upstream(name);
      // An agent has a series of its own, although its skills are in the catalog as tools.
      if (upstream && !(upstream instanceof AgentUpstream)) add('server', name, value(upstream.health()));
    }
    for (const name of directory.names()) {
      const agent = directory.get(name);
      if (agent) add('agent', name, value(agent.health()));
    }
    return merged(samples);
  }

  async close(): Promise<void> {
    this.delay?.disable();
    this.tail.close();
    await this.tracing?.close();
  }
}

/** One sample per combination of labels: hidden names, and names beyond the limit, share one; the smallest counts. */
function merged(samples: readonly Sample[]): Sample[] {
  const found = new Map<string, Sample>();
  for (const sample of samples) {
    const key = sample[0].join('\n');
    const before = found.get(key);
    if (!before || sample[1] < before[1]) found.set(key, sample);
  }
  return [...found.values()];
}

function cached<T>(ms: number, read: () => Promise<T>): () => Promise<T> {
  let known: { readonly at: number; readonly value: Promise<T> } | undefined;
  return () => {
    const now = performance.now();
    if (!known || now - known.at > ms) known = { at: now, value: read() };
    return known.value;
  };
}
