import type { MetricSpec } from './metric-types.js';

/** Durations of calls, in seconds: from a local tool to the longest call. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

const spec = (
  name: string,
  help: string,
  labels: readonly string[] = [],
  more: Pick<MetricSpec, 'buckets' | 'most'> = {},
): MetricSpec => ({ name: `parley_${name}`, help, labels, ...more });

/** Every metric of the gateway. Dashboards, alert rules and docs/telemetry.md use these names; a test compares them. */
export const METRICS = {
  calls: spec('calls_total', 'Calls of clients by their outcome.', ['protocol', 'method', 'upstream', 'outcome'], {
    most: 4_000,
  }),
  duration: spec(
    'call_duration_seconds',
    'Time from the arrival of a call to its result, for a stream to its end.',
    ['protocol', 'method', 'upstream'],
    { buckets: SECONDS, most: 1_000 },
  ),
  inFlight: spec('calls_in_flight', 'Calls of clients that have not ended.', ['protocol']),
  tools: spec('tool_calls_total', 'Calls of tools by their outcome.', ['upstream', 'tool', 'outcome'], { most: 2_000 }),
  errors: spec('errors_total', 'Errors of calls and requests by their reason.', ['protocol', 'reason'], { most: 300 }),
  violations: spec('protocol_violations_total', 'Messages that break their protocol, by the side that sent them.', [
    'side',
    'kind',
  ]),
  upstreamViolations: spec(
    'upstream_violations_total',
    'Violations of the protocol in sampled results of a server or agent.',
    ['upstream', 'kind'],
    { most: 2_000 },
  ),
  limits: spec(
    'limit_refusals_total',
    'Calls, requests and connections that a limit of the gateway refused or closed.',
    ['limit'],
  ),
  clientRevisions: spec('client_revision_calls_total', 'Calls by the revision or version of the client.', [
    'protocol',
    'revision',
  ]),
  upstreamRevisions: spec('upstream_revision_calls_total', 'Calls by the revision of the server.', [
    'protocol',
    'revision',
  ]),
  resultBytes: spec('result_bytes_total', 'Bytes of results of MCP calls.', ['protocol']),
  sessions: spec('sessions', 'Open sessions of legacy MCP clients.'),
  streams: spec('streams', 'Open streams that wait for events.', ['kind']),
  unread: spec('unread_bytes', 'Bytes of responses that wait for slow clients.'),
  parked: spec('parked_calls', 'Calls that wait for an answer of their caller.'),
  tasks: spec('tasks', 'Tasks that run or are followed in this process.', ['protocol']),
  outbox: spec('outbox_messages', 'Webhook messages by their state, of all replicas.', ['state']),
  outboxAge: spec('outbox_oldest_age_seconds', 'Age of the oldest webhook message that waits.'),
  upstreamUp: spec('upstream_up', 'Whether the server or agent is reachable.', ['kind', 'upstream']),
  breaker: spec('upstream_breaker_state', 'State of the circuit breaker: 0 closed, 1 half open, 2 open.', [
    'kind',
    'upstream',
  ]),
  replicaUp: spec('replica_up', 'Whether one of several equivalent servers is reachable.', ['upstream', 'replica'], {
    most: 1_000,
  }),
  replicaBreaker: spec(
    'replica_breaker_state',
    'State of the circuit breaker of one of several equivalent servers: 0 closed, 1 half open, 2 open.',
    ['upstream', 'replica'],
    { most: 1_000 },
  ),
  replicaCalls: spec(
    'replica_calls_total',
    'Calls to one of several equivalent servers by their outcome.',
    ['upstream', 'replica', 'outcome'],
    { most: 2_000 },
  ),
  replicas: spec('replicas', 'Replicas that this replica knows, including itself.'),
  storageUp: spec('storage_up', 'Whether the database and the bus answer.', ['part']),
  commitSize: spec('db_commit_transactions', 'Transactions that shared one commit of the embedded database.', [], {
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
  }),
  auditWaiting: spec('audit_records_waiting', 'Audit records that wait for the database.'),
  auditLost: spec('audit_records_lost_total', 'Audit records that were lost.'),
  pluginRuns: spec('plugin_runs_total', 'Runs of hooks of plugins by their outcome.', ['plugin', 'hook', 'outcome']),
  pluginSeconds: spec('plugin_seconds_total', 'Time of hooks of plugins.', ['plugin', 'hook']),
  pluginDisabled: spec('plugin_disabled', 'Whether a plugin is disabled because it blocked or ended its thread.', [
    'plugin',
  ]),
  tailFollowers: spec('tail_followers', 'Open followers of the live tail.'),
  tailDropped: spec('tail_dropped_total', 'Lines of the live tail that a slow follower missed.'),
  evaluations: spec(
    'evaluations_total',
    'Calls at evaluators by the result of the evaluation.',
    ['evaluator', 'result'],
    {
      most: 200,
    },
  ),
  scores: spec('evaluation_score', 'Scores of evaluators, from 0 to 1.', ['evaluator', 'upstream'], {
    buckets: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1],
    most: 500,
  }),
  evaluationsWaiting: spec('evaluations_waiting', 'Calls that wait for evaluators.'),
  loopDelay: spec('event_loop_delay_seconds', 'Delay of the event loop since the last reading.', ['statistic']),
  overloaded: spec('overloaded', 'Whether the gateway refuses calls because it cannot keep up.'),
  build: spec('build_info', 'Version of the gateway and of Node.', ['version', 'node']),
  residentMemory: { name: 'process_resident_memory_bytes', help: 'Resident memory.', labels: [] },
  cpu: { name: 'process_cpu_seconds_total', help: 'User and system time of the processor.', labels: [] },
  started: { name: 'process_start_time_seconds', help: 'Start of the process since 1970.', labels: [] },
  heapUsed: { name: 'nodejs_heap_size_used_bytes', help: 'Used part of the heap.', labels: [] },
  heapLimit: { name: 'nodejs_heap_size_limit_bytes', help: 'Limit of the heap.', labels: [] },
} as const satisfies Record<string, MetricSpec>;
