import { Quota, type Release } from '../count-and-byte-limit.js';
import { backoff } from '../timing.js';
import { type EvaluatedCall, type Evaluation, EvaluationFailure, type Evaluator } from './evaluator.js';

/** What happened to a call at an evaluator. `dropped`: the queue was full, or the evaluator pauses after failures. */
export type EvaluationResult = 'scored' | 'skipped' | 'failed' | 'dropped';

export interface EvaluationQueueOptions {
  readonly evaluator: Evaluator;
  /** Calls that are evaluated at the same time. */
  readonly concurrency: number;
  /** The quota of all evaluators together. */
  readonly within: Quota;
  /** Takes each evaluation, with its duration in milliseconds. Must not throw. */
  done(call: EvaluatedCall, evaluation: Evaluation, ms: number): void;
  /** Counts each call by its result. */
  counted(result: EvaluationResult): void;
  /** Takes the reason of a failure that should be logged. */
  failed(reason: string): void;
}

/** The most calls that wait for one evaluator. */
const MOST_WAITING = { count: 500, bytes: 16 * 1024 * 1024 } as const;
/** The part of the queue that one caller may fill. */
const MOST_PER_CALLER = MOST_WAITING.count / 4;
/** The number of failures in a row after which the evaluator gets no calls for a while. */
const FAILURES = 5;
const PAUSE = { first: 1_000, longest: 60_000 } as const;

interface Waiting {
  readonly call: EvaluatedCall;
  readonly release: Release;
}

/** The calls for one evaluator, limited in number and bytes: a slow evaluator misses calls and delays no call. */
export class EvaluationQueue {
  private readonly waiting: Waiting[] = [];
  private readonly byCaller = new Map<string, number>();
  private readonly quota: Quota;
  private running = 0;
  private failures = 0;
  private pausedUntil = 0;
  private closed = false;
  private idle: (() => void) | undefined;

  constructor(private readonly options: EvaluationQueueOptions) {
    this.quota = new Quota(MOST_WAITING, options.within);
  }

  /** Calls that wait or are being evaluated. */
  get size(): number {
    return this.quota.used;
  }

  /** Whether there is room for a call of this caller. Otherwise the call counts as dropped, before it is copied. */
  accepts(caller: string): boolean {
    const held = this.byCaller.get(caller) ?? 0;
    const room = this.quota.used < MOST_WAITING.count && held < MOST_PER_CALLER;
    const accepted = room && !this.closed && performance.now() >= this.pausedUntil;
    if (!accepted) this.options.counted('dropped');
    return accepted;
  }

  /** Adds a call for which `accepts` returned true. */
  add(call: EvaluatedCall): void {
    const release = this.closed ? undefined : this.quota.take(call.json.length);
    if (!release) {
      this.options.counted('dropped');
      return;
    }
    this.byCaller.set(call.caller, (this.byCaller.get(call.caller) ?? 0) + 1);
    this.waiting.push({ call, release });
    this.next();
  }

  /** Drops the calls that wait, and resolves when none is being evaluated. */
  async close(): Promise<void> {
    this.closed = true;
    for (const { call, release } of this.waiting.splice(0)) {
      this.over(call, release);
      this.options.counted('dropped');
    }
    if (this.running > 0) await new Promise<void>((resolve) => (this.idle = resolve));
  }

  private next(): void {
    while (this.running < this.options.concurrency) {
      const job = this.waiting.shift();
      if (!job) return;
      this.running++;
      void this.run(job.call).finally(() => {
        this.running--;
        this.over(job.call, job.release);
        if (this.running === 0) this.idle?.();
        this.next();
      });
    }
  }

  private over({ caller }: EvaluatedCall, release: Release): void {
    release();
    const held = (this.byCaller.get(caller) ?? 1) - 1;
    if (held > 0) this.byCaller.set(caller, held);
    else this.byCaller.delete(caller);
  }

  private async run(call: EvaluatedCall): Promise<void> {
    const { evaluator, counted, done, failed } = this.options;
    // The evaluation must not delay the event-loop turn that ends the call.
    await new Promise<void>((resolve) => setImmediate(resolve));
    const began = performance.now();
    try {
      const evaluation = await evaluator.evaluate(call);
      this.failures = 0;
      counted(evaluation.score === null ? 'skipped' : 'scored');
      done(call, evaluation, performance.now() - began);
    } catch (error) {
      this.failures++;
      counted('failed');
      if (this.failures >= FAILURES)
        this.pausedUntil = performance.now() + backoff(this.failures - FAILURES + 1, PAUSE);
      // The message of any other error may contain words of the call.
      failed(error instanceof EvaluationFailure ? error.message : ((error as Error | undefined)?.name ?? 'unknown'));
    }
  }
}
