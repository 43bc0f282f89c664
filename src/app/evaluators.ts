/** Evaluators of the configuration: builds them, and passes their scores to metrics, spans, the store and routing. */
import { pathToFileURL } from 'node:url';
import type { Config } from '../config/schema.js';
import type { Catalog } from '../core/catalog/catalog.js';
import { Quota } from '../core/count-and-byte-limit.js';
import { EvaluationQueue } from '../core/evaluation/evaluation-queue.js';
import { type ScoreReader, Scores } from '../core/evaluation/evaluation-scores.js';
import type { Evaluator } from '../core/evaluation/evaluator.js';
import { latencyEvaluator } from '../core/evaluation/latency-evaluator.js';
import { evaluation, evaluationSpan, type ScopedEvaluator } from '../interceptors/evaluation.js';
import type { CallObserver } from '../interceptors/observed-calls.js';
import { HttpEvaluator } from '../outbound/evaluators/http-evaluator.js';
import { ModuleEvaluator } from '../outbound/evaluators/module-evaluator.js';
import { HttpClient, proxyRule } from '../outbound/http/index.js';
import { type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { METRICS } from '../telemetry/metrics/all-metrics.js';
import type { MetricRegistry } from '../telemetry/metrics/metric-types.js';
import { ThrottledLog } from '../telemetry/throttled-log.js';
import type { Tracing } from '../telemetry/tracing/finished-span.js';

type EvaluatorConfig = Config['evaluators'][string];

/** Limit on the calls that wait for an evaluation, for all evaluators together. */
const MOST_WAITING = { count: 2_000, bytes: 64 * 1024 * 1024 } as const;
/** Number of calls that one evaluator evaluates at the same time. */
const CONCURRENCY = 4;
/** Limit on the rows with scores of all replicas that one reading returns. */
const MOST_READ = 10_000;

const SCHEMA_MODULE = new URL('../interceptors/schema-evaluator.js', import.meta.url);

export interface EvaluatorsOptions {
  readonly config: Pick<Config, 'evaluators' | 'timeouts'>;
  readonly state: Pick<State, 'scores'>;
  /** Receives the spans of evaluations; undefined without traces. */
  readonly tracing: Tracing | undefined;
  readonly log: Log;
}

export class Evaluators {
  private readonly board: Scores;
  private readonly log: ThrottledLog;
  private readonly within = new Quota(MOST_WAITING);
  private readonly running: { readonly queue: EvaluationQueue; readonly evaluator: Evaluator }[] = [];
  private readonly scoped: ScopedEvaluator[] = [];
  private client: HttpClient | undefined;
  private counted: (evaluator: string, result: string) => void = () => {};
  private observed: (evaluator: string, upstream: string, score: number) => void = () => {};

  constructor(private readonly options: EvaluatorsOptions) {
    const { config, state, log } = options;
    this.log = new ThrottledLog(log);
    const records = {
      add: state.scores.add.bind(state.scores),
      recent: (since: number) => state.scores.list({ since, limit: MOST_READ }),
    };
    const failed = (error: unknown): void => this.log.warn('scores', { err: error }, 'failed to store or read scores');
    this.board = new Scores({ records, now: wallMs, failed });
    for (const [name, settings] of Object.entries(config.evaluators)) this.add(name, settings);
  }

  /** The scores of all replicas, for routing. */
  get scores(): ScoreReader {
    return this.board;
  }

  async start(): Promise<void> {
    if (this.running.length > 0) await this.board.start();
  }

  /** The observer that passes calls to the evaluators; undefined if there are no evaluators. */
  observer(catalog: Pick<Catalog, 'upstream'>): CallObserver | undefined {
    return evaluation(this.scoped, catalog);
  }

  /** Begins to count evaluations. `upstreamLabel` bounds the names of servers and agents, or hides them. */
  measure(registry: MetricRegistry, upstreamLabel: (name: string) => string): void {
    const results = registry.counter(METRICS.evaluations);
    const scores = registry.histogram(METRICS.scores);
    registry.gauge(METRICS.evaluationsWaiting, () => this.within.used);
    this.counted = (evaluator, result) => results.of(evaluator, result).add();
    this.observed = (evaluator, upstream, score) => scores.of(evaluator, upstreamLabel(upstream)).observe(score);
  }

  /** Drops the calls that wait for an evaluation, and stores the scores. */
  async close(): Promise<void> {
    const drained = this.running.map(({ queue }) => queue.close());
    // Ends the running evaluations, because a service may take long to answer.
    await Promise.all([this.client?.close(), ...this.running.map(({ evaluator }) => evaluator.close?.())]);
    await Promise.all(drained);
    if (this.running.length > 0) await this.board.close();
  }

  private add(name: string, settings: EvaluatorConfig): void {
    const { servers, tools, samplePercent, contents, builtin } = settings;
    const evaluator = this.evaluatorOf(settings);
    const queue = new EvaluationQueue({
      evaluator,
      concurrency: CONCURRENCY,
      within: this.within,
      counted: (result) => this.counted(name, result),
      failed: (reason) =>
        this.log.warn(name, { evaluator: name, reason }, 'an evaluator failed; calls are not affected'),
      done: (call, given, ms) => {
        evaluationSpan(this.options.tracing, name, call, given, ms);
        const { score } = given;
        if (score === null) return;
        const { upstream, target, requestId } = call;
        this.observed(name, upstream, score);
        this.board.add({ evaluator: name, upstream, target, score, requestId });
      },
    });
    this.running.push({ queue, evaluator });
    this.scoped.push({
      ...{ servers, tools, sample: samplePercent / 100 },
      contents: builtin === undefined ? contents : builtin === 'schema',
      accepts: (caller) => queue.accepts(caller),
      add: (call) => queue.add(call),
    });
  }

  private evaluatorOf({ builtin, module, url, token, timeout, objective }: EvaluatorConfig): Evaluator {
    if (builtin === 'latency') return latencyEvaluator(objective);
    if (url !== undefined) {
      const { connect } = this.options.config.timeouts;
      this.client ??= new HttpClient({ connectTimeout: connect, proxy: proxyRule(undefined) });
      return new HttpEvaluator({ client: this.client, url, token, timeout });
    }
    return new ModuleEvaluator({ module: module === undefined ? SCHEMA_MODULE : pathToFileURL(module), timeout });
  }
}
