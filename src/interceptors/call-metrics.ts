import type { CallContext } from '../core/call.js';
import type { Catalog } from '../core/catalog/catalog.js';
import { ProtocolError, type Reason, UpstreamRpcError } from '../protocol/errors.js';
import { MODERN_METHODS, SESSION_METHODS } from '../protocol/mcp/methods.js';
import { METRICS } from '../telemetry/metrics/all-metrics.js';
import {
  type Counter,
  type CounterSeries,
  type Histogram,
  type HistogramSeries,
  type MetricRegistry,
  OTHER,
} from '../telemetry/metrics/metric-types.js';
import { TOOL_ERROR } from '../telemetry/tracing/names.js';
import type { CallObserver, EndedCall } from './observed-calls.js';
import { isToolError } from './tool-error.js';

type Protocol = 'mcp' | 'a2a' | 'http';

/** Reasons that mean that a message broke its protocol, with the side that sent the message. */
const VIOLATIONS: Readonly<Partial<Record<Reason, 'client' | 'upstream'>>> = {
  parse_error: 'client',
  invalid_request: 'client',
  batch_not_allowed: 'client',
  invalid_envelope: 'client',
  invalid_params: 'client',
  header_mismatch: 'client',
  missing_capability: 'client',
  unsupported_version: 'client',
  version_negotiation: 'client',
  session_required: 'client',
  unsupported_media_type: 'client',
  not_acceptable: 'client',
  content_type_not_supported: 'client',
  upstream_invalid: 'upstream',
  invalid_agent_response: 'upstream',
};

/** Reasons that mean that a limit of the gateway was reached. */
const LIMITS: ReadonlySet<Reason> = new Set<Reason>([
  'rate_limited',
  'overloaded',
  'body_too_large',
  'headers_too_large',
  'request_timeout',
]);

const METHODS: ReadonlySet<string> = new Set([...MODERN_METHODS, ...SESSION_METHODS]);

/** The label of calls without a server or agent, or whose server or agent is not known. */
const NO_UPSTREAM = 'none';
/** The label in place of every name, if anybody may read the metrics. */
const HIDDEN = 'hidden';
/** Maximum number of servers and agents, and of tools, that have their own label. */
const MOST_UPSTREAMS = 200;
const MOST_TOOLS = 500;

export interface CallMetricsOptions {
  readonly registry: MetricRegistry;
  readonly catalog: Pick<Catalog, 'upstream'>;
  /** Whether the labels contain the names of servers, agents and tools. */
  readonly names: boolean;
}

/** The counters of calls by their outcome. */
type Outcomes = Map<string, CounterSeries>;

/** The series of calls with the same protocol, method and upstream. */
interface Row {
  readonly duration: HistogramSeries;
  readonly outcomes: Outcomes;
  /** The series of each tool, by the tool's name. */
  readonly tools: Map<string, Outcomes>;
}

/**
 * Counts every call of both protocols. The number of series is bounded: methods and reasons come from fixed lists, and
 * names of upstreams and tools beyond a limit become `other`.
 */
export class CallMetrics implements CallObserver {
  private readonly calls: Counter;
  private readonly durations: Histogram;
  private readonly tools: Counter;
  private readonly errors: Counter;
  private readonly violations: Counter;
  private readonly limits: Counter;
  private readonly clientRevisions: Counter;
  private readonly upstreamRevisions: Counter;
  private readonly resultBytes: CounterSeries;
  /** The series by upstream and method. */
  private readonly rows = new Map<string | undefined, Map<string, Row>>();
  private rowCount = 0;
  /** The series by revision; the protocol layer takes revisions from a fixed list. */
  private readonly clientsOfRevision = new Map<string, CounterSeries>();
  private readonly upstreamsOfRevision = new Map<string, CounterSeries>();
  private readonly upstreams = new Set<string>();
  private readonly toolNames = new Set<string>();
  private readonly inFlight = { mcp: 0, a2a: 0 };
  /**
   * Errors that were counted at the end of their call. The adapter that writes such an error to the client reports it a
   * second time.
   */
  private readonly counted = new WeakSet<object>();

  constructor(private readonly options: CallMetricsOptions) {
    const { registry } = options;
    this.calls = registry.counter(METRICS.calls);
    this.durations = registry.histogram(METRICS.duration);
    this.tools = registry.counter(METRICS.tools);
    this.errors = registry.counter(METRICS.errors);
    this.violations = registry.counter(METRICS.violations);
    this.limits = registry.counter(METRICS.limits);
    this.clientRevisions = registry.counter(METRICS.clientRevisions);
    this.upstreamRevisions = registry.counter(METRICS.upstreamRevisions);
    this.resultBytes = registry.counter(METRICS.resultBytes).of('mcp');
    registry.gauge(METRICS.inFlight, () => Object.entries(this.inFlight).map(([name, count]) => [[name], count]));
  }

  active(): boolean {
    return true;
  }

  began({ protocol }: CallContext): void {
    this.inFlight[protocol]++;
  }

  ended(call: EndedCall): void {
    const { context, outcome } = call;
    const { protocol, target } = context;
    this.inFlight[protocol]--;
    const server = target?.server;
    const row = this.row(protocol, context.method, server);
    row.duration.observe(call.ms / 1_000);
    let series = row.outcomes.get(outcome);
    if (!series) {
      series = this.calls.of(protocol, this.method(context), this.upstream(server), outcome);
      row.outcomes.set(outcome, series);
    }
    series.add();
    if (target?.kind === 'tool') this.toolSeries(row, target.server, target.name, outcome).add();
    if (outcome === 'error') this.failed(call.error, protocol);
    else if (isToolError(context, call.result)) this.errors.of(protocol, TOOL_ERROR).add();
    if (context.protocol === 'mcp') {
      countRevision(this.clientsOfRevision, this.clientRevisions, context.caller.revision.date);
      const revision =
        server === undefined ? undefined : this.options.catalog.upstream(server)?.revisionFor?.(context.caller);
      if (revision !== undefined) countRevision(this.upstreamsOfRevision, this.upstreamRevisions, revision);
      this.resultBytes.add(call.bytes ?? 0);
    } else this.clientRevisions.of('a2a', context.call.dialect).add();
  }

  /** Counts an error once: either at the end of its call, or when an inbound adapter refuses a request. */
  failed(error: unknown, protocol: Protocol): void {
    if (!(error instanceof ProtocolError)) {
      this.errors.of(protocol, error instanceof UpstreamRpcError ? 'upstream_rpc_error' : 'internal').add();
      return;
    }
    if (this.counted.has(error)) return;
    this.counted.add(error);
    const { reason } = error;
    this.errors.of(protocol, reason).add();
    const side = VIOLATIONS[reason];
    if (side !== undefined) this.violations.of(side, reason).add();
    if (LIMITS.has(reason)) this.limits.of(reason).add();
  }

  /** Counts connections that a limit of the configuration refused or closed. */
  limited(limit: string, count: number): void {
    this.limits.of(limit).add(count);
  }

  private row(protocol: 'mcp' | 'a2a', method: string, server: string | undefined): Row {
    const known = METHODS.has(method) || protocol === 'a2a' ? method : OTHER;
    const row = this.rows.get(server)?.get(known);
    if (row) return row;
    // The map is emptied when it is full, because servers are added and removed while the gateway runs.
    if (this.rowCount >= MOST_ROWS) {
      this.rows.clear();
      this.rowCount = 0;
    }
    let ofServer = this.rows.get(server);
    if (!ofServer) {
      ofServer = new Map();
      this.rows.set(server, ofServer);
    }
    const duration = this.durations.of(protocol, known, this.upstream(server));
    const made: Row = { duration, outcomes: new Map(), tools: new Map() };
    ofServer.set(known, made);
    this.rowCount++;
    return made;
  }

  private toolSeries({ tools }: Row, server: string, name: string, outcome: string): CounterSeries {
    let outcomes = tools.get(name);
    if (!outcomes) {
      outcomes = new Map();
      // The map is emptied when it is full, because servers add and remove tools.
      if (tools.size >= MOST_TOOLS) tools.clear();
      tools.set(name, outcomes);
    }
    let series = outcomes.get(outcome);
    if (!series) {
      series = this.tools.of(...this.tool(server, name), outcome);
      outcomes.set(outcome, series);
    }
    return series;
  }

  private method({ protocol, method }: CallContext): string {
    return METHODS.has(method) || protocol === 'a2a' ? method : OTHER;
  }

  /** The label of a server or agent. */
  upstream(name: string | undefined): string {
    if (name === undefined) return NO_UPSTREAM;
    return this.options.names ? within(this.upstreams, name, MOST_UPSTREAMS) : HIDDEN;
  }

  private tool(server: string, name: string): [upstream: string, tool: string] {
    if (!this.options.names) return [HIDDEN, HIDDEN];
    const key = `${server} ${name}`;
    return within(this.toolNames, key, MOST_TOOLS) === key
      ? [this.upstream(server), name.slice(0, MOST_NAME)]
      : [OTHER, OTHER];
  }
}

const MOST_ROWS = 10_000;
const MOST_NAME = 128;

function countRevision(known: Map<string, CounterSeries>, counter: Counter, revision: string): void {
  let series = known.get(revision);
  if (!series) {
    series = counter.of('mcp', revision);
    known.set(revision, series);
  }
  series.add();
}

/** The name; `other` if the set is full and does not contain the name. */
function within(known: Set<string>, name: string, most: number): string {
  if (known.has(name)) return name;
  if (known.size >= most) return OTHER;
  known.add(name);
  return name;
}
