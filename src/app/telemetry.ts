/**
 * Metrics, traces and live tail of the running gateway: composes their parts, and reads the gauges from the other
 * parts.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import type { Config } from '../config/schema.js';
import { AgentUpstream } from '../core/a2a/protocol-bridge/agent-upstream.js';
import type { Agents } from '../core/a2a/routing/agent-directory.js';
import type { AuditTrail } from '../core/audit-trail.js';
import { CallRecordings } from '../core/call-recording.js';
import type { Catalog } from '../core/catalog/catalog.js';
import type { Cluster } from '../core/cluster.js';
import { LiveTail } from '../core/live-tail.js';
import type { ReplicaHealth, UpstreamHealth } from '../core/upstream.js';
import { type Authenticator, anyOf } from '../identity/authenticator.js';
import { TokenAuthenticator } from '../identity/token-authenticator.js';
import { MetricsEndpoint } from '../inbound/admin/metrics-endpoint.js';
import { MOST_RECORDED } from '../inbound/admin/recording-endpoint.js';
import type { ErrorFormat, Route } from '../inbound/http/route.js';
import { argumentsText, resultText } from '../interceptors/call-contents.js';
import { lineOf } from '../interceptors/call-log.js';
import { CallMetrics } from '../interceptors/call-metrics.js';
import type { CallObserver } from '../interceptors/observed-calls.js';
import { SampledViolations } from '../interceptors/sampled-violations.js';
import type { ActivePlugin } from '../plugins/active-plugin.js';
import { ProtocolError } from '../protocol/errors.js';
import { type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { METRICS } from '../telemetry/metrics/all-metrics.js';
import { MetricRegistry, type Sample } from '../telemetry/metrics/metric-types.js';
import { type MetricsPush, startMetricsPush, wantsMetrics } from '../telemetry/metrics/otlp.js';
import { type OtlpTracing, startTracing, wantsTraces } from '../telemetry/tracing/otlp.js';
import type { Evaluators } from './evaluators.js';
import type { Replica } from './join-replicas.js';
import type { Overload } from './overload.js';
import type { Plugins } from './plugin-loader.js';
import { VERSION } from './product-info.js';

/** Interval of the measurements of the event loop, in milliseconds. */
const LOOP_RESOLUTION = 20;
/** How long the depth of the outbox is cached: a scan of a long queue takes time. */
const OUTBOX_AGE = 5_000;

/** Limit on the series of each metric of equivalent servers. */
const MOST_EQUIVALENTS = 2_000;

const BREAKER_STATES = { closed: 0, half_open: 1, open: 2 } as const;

/** Loads the exporter of traces if the environment asks for traces. */
export async function tracingOf({ tracing }: Config, log: Log): Promise<OtlpTracing | undefined> {
  const { env } = process;
  if (!tracing.enabled || !wantsTraces(env)) return undefined;
  const { samplePercent, exportErrors } = tracing;
  const started = await startTracing({ version: VERSION, samplePercent, exportErrors, env, log });
  log.info({}, 'exporting traces over OTLP');
  return started;
}

/** The inbound adapters that metrics describe. */
export interface MeasuredEndpoints {
  readonly mcp: { readonly sessions: number; readonly streams: number };
  /** Bytes of responses that wait for slow clients. */
  unread(): number;
}

/** The parts of the gateway that metrics describe. */
export interface MeasuredRuntime {
  readonly state: Pick<State, 'db' | 'outbox' | 'health'>;
  readonly replica: Pick<Replica, 'replicas'>;
  readonly audit: Pick<AuditTrail, 'status'>;
  readonly overload: Pick<Overload, 'refusal'>;
  readonly plugins: Pick<Plugins, 'all'>;
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
  readonly recordings = new CallRecordings();
  private readonly registry: MetricRegistry | undefined;
  private calls: CallMetrics | undefined;
  private push: MetricsPush | undefined;
  /** The violations in sampled calls; undefined without samples. */
  readonly violations: SampledViolations | undefined;
  private delay: ReturnType<typeof monitorEventLoopDelay> | undefined;
  /** The last samples. A reading uses them again if there was no new measurement since. */
  private delays: Sample[] = [];

  constructor(
    private readonly config: Pick<Config, 'metrics' | 'assess'>,
    cluster: Cluster,
    /** Receives the spans of calls; undefined without traces. */
    readonly tracing: OtlpTracing | undefined,
    /** Over stdio, the program that started the gateway is the only caller, and there is no HTTP. */
    alone: boolean,
    /** Evaluators of finished calls. */
    readonly evaluators: Evaluators,
  ) {
    this.tail = new LiveTail(cluster);
    this.registry = config.metrics.enabled && !alone ? new MetricRegistry() : undefined;
    const { samplePercent: percent } = config.assess;
    const counter = this.registry?.counter(METRICS.upstreamViolations);
    const counted = (upstream: string, kind: string): void =>
      counter?.of(this.calls?.upstream(upstream) ?? upstream, kind).add();
    this.violations = percent > 0 ? new SampledViolations({ percent, counted }) : undefined;
  }

  /** The observers of every call. */
  observers(catalog: Catalog): readonly (CallObserver | undefined)[] {
    const { registry, tail, config, evaluators } = this;
    if (registry) {
      const calls = new CallMetrics({ registry, catalog, names: config.metrics.access !== 'public' });
      this.calls = calls;
      evaluators.measure(registry, (upstream) => calls.upstream(upstream));
    }
    const followers: CallObserver = {
      active: () => tail.active(),
      ended: (call) => tail.publish(lineOf(call, catalog)),
    };
    const { recordings } = this;
    const recorders: CallObserver = {
      active: () => recordings.active(),
      ended: (call) =>
        recordings.publish(lineOf(call, catalog), {
          arguments: () => argumentsText(call.context),
          result: () => resultText(call, MOST_RECORDED),
        }),
    };
    return [this.calls, followers, recorders, evaluators.observer(catalog), this.violations];
  }

  /** Counts an error with which the gateway answers a request without making a call. */
  readonly refused = (error: unknown, protocol: 'mcp' | 'a2a' | 'http' = 'http'): void => {
    if (error instanceof ProtocolError) this.calls?.failed(error, protocol);
  };

  /** Counts connections that a limit of the configuration refused or closed. */
  readonly limited = (limit: string, count: number): void => this.calls?.limited(limit, count);

  routes(errors: ErrorFormat, authenticator: Authenticator): Route[] {
    const { registry } = this;
    if (!registry) return [];
    const { access, token } = this.config.metrics;
    // The token gives the role of an administrator at this path only. Without authentication every program on this
    // machine has that role.
    const known =
      token === undefined || !authenticator.enabled
        ? undefined
        : anyOf([new TokenAuthenticator([{ name: 'metrics', token, admin: true }]), authenticator]);
    return new MetricsEndpoint({ registry, everybody: access === 'public', authenticator: known }).routes(errors);
  }

  /** Begins to read the gauges from the parts of the gateway. */
  measure(runtime: MeasuredRuntime, { mcp, unread }: MeasuredEndpoints): void {
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
    registry.gauge(METRICS.unread, unread);
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
    registry.gauge(METRICS.upstreamUp, () =>
      this.upstreams(runtime, ({ status }) => (status === 'up' ? 1 : status === 'down' ? 0 : undefined)),
    );
    registry.gauge(METRICS.breaker, () =>
      this.upstreams(runtime, ({ breaker }) => BREAKER_STATES[breaker?.state ?? 'closed']),
    );
    registry.gauge(METRICS.replicaUp, () =>
      this.equivalents(runtime, ({ status }) => [[[], status === 'up' ? 1 : 0]], Math.min),
    );
    registry.gauge(METRICS.replicaBreaker, () =>
      this.equivalents(runtime, ({ breaker }) => [[[], BREAKER_STATES[breaker?.state ?? 'closed']]], Math.max),
    );
    registry.counted(METRICS.replicaCalls, () =>
      this.equivalents(
        runtime,
        ({ calls, failures }) => [
          [['ok'], calls - failures],
          [['failed'], failures],
        ],
        (one, other) => one + other,
      ),
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
    const { all } = runtime.plugins;
    const perHook = (values: (plugin: ActivePlugin) => ReadonlyMap<string, number>) => (): Sample[] =>
      all.flatMap((plugin) =>
        [...values(plugin)].map(([key, value]): Sample => [[plugin.name, ...key.split(' ')], value]),
      );
    registry.counted(
      METRICS.pluginRuns,
      perHook(({ runs }) => runs),
    );
    registry.counted(
      METRICS.pluginSeconds,
      perHook(({ seconds }) => seconds),
    );
    registry.gauge(METRICS.pluginDisabled, () => all.map(({ name, disabled }) => [[name], disabled ? 1 : 0]));
    registry.gauge(METRICS.overloaded, () => (overload.refusal() ? 1 : 0));
    this.measureProcess(registry);
  }

  /** Begins to push the metrics over OTLP if the environment asks for it. */
  async startPush(log: Log): Promise<void> {
    const { env } = process;
    if (!this.registry || !wantsMetrics(env)) return;
    this.push = await startMetricsPush(this.registry, { version: VERSION, env, log });
    log.info({}, 'exporting metrics over OTLP');
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

  /** The delay of the event loop since the last reading. The interval of the measurement itself is subtracted. */
  private loopDelay(): Sample[] {
    const { delay } = this;
    if (!delay || delay.count === 0) return this.delays;
    const seconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - LOOP_RESOLUTION / 1e3);
    this.delays = [
      [['p50'], seconds(delay.percentile(50))],
      [['p99'], seconds(delay.percentile(99))],
      [['max'], seconds(delay.max)],
    ];
    delay.reset();
    return this.delays;
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
      // The skills of an agent are in the catalog as tools, but the agent has a series of its own.
      if (upstream && !(upstream instanceof AgentUpstream)) add('server', name, value(upstream.health()));
    }
    for (const name of directory.names()) {
      const agent = directory.get(name);
      if (agent) add('agent', name, value(agent.health()));
    }
    return merged(samples);
  }

  /** Samples of the servers behind one name, by their positions in the configuration. */
  private equivalents(
    { mcp: { catalog } }: MeasuredRuntime,
    read: (replica: ReplicaHealth) => readonly Sample[],
    combine: (one: number, other: number) => number,
  ): Sample[] {
    const found = new Map<string, Sample>();
    for (const name of catalog.servers) {
      for (const replica of catalog.upstream(name)?.health().replicas ?? []) {
        for (const [more, value] of read(replica)) {
          const labels = [this.calls?.upstream(name) ?? name, String(replica.position), ...more];
          const before = found.get(labels.join('\n'));
          found.set(labels.join('\n'), [labels, before ? combine(before[1], value) : value]);
        }
      }
    }
    return [...found.values()].slice(0, MOST_EQUIVALENTS);
  }

  async close(): Promise<void> {
    this.tail.close();
    await Promise.all([this.tracing?.close(), this.push?.close()]);
    this.delay?.disable();
  }
}

/**
 * One sample for each combination of labels. Hidden names, and names beyond the limit, have the same label; the
 * smallest of their values becomes the sample.
 */
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
