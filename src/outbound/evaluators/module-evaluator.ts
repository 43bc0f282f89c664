import { Worker } from 'node:worker_threads';
import {
  type EvaluatedCall,
  type Evaluation,
  EvaluationFailure,
  type Evaluator,
  evaluationOf,
} from '../../core/evaluation/evaluator.js';
import { threadProgram } from '../../core/thread-program.js';
import type { FromModule, ModuleThreadData, ToModule } from './module-messages.js';

export interface ModuleEvaluatorOptions {
  /** The configured module, or a module that ships with the gateway. The module exports a function `evaluate`. */
  readonly module: URL;
  /** Milliseconds for one evaluation. A thread that takes longer is ended. */
  readonly timeout: number;
}

/** Milliseconds for a thread to start and load the module. */
const START = 30_000;
const MOST_HEAP_MB = 256;

interface Waiting {
  timer: NodeJS.Timeout;
  resolve(evaluation: Evaluation): void;
  reject(error: EvaluationFailure): void;
}

/**
 * An evaluator in a thread of this process. A module that blocks, crashes or fills its heap ends its thread. The next
 * call starts another thread.
 */
export class ModuleEvaluator implements Evaluator {
  private thread: Worker | undefined;
  private ready = false;
  private readonly waiting = new Map<number, Waiting>();
  private lastId = 0;

  constructor(private readonly options: ModuleEvaluatorOptions) {}

  evaluate({ json }: EvaluatedCall): Promise<Evaluation> {
    const thread = this.thread ?? this.start();
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { timer: this.limit(this.ready ? this.options.timeout : START), resolve, reject });
      thread.postMessage({ id, json } satisfies ToModule);
    });
  }

  async close(): Promise<void> {
    const { thread } = this;
    this.stop('the gateway is stopping');
    await thread?.terminate();
  }

  private limit(milliseconds: number): NodeJS.Timeout {
    return setTimeout(() => this.stop('no answer in time'), milliseconds).unref();
  }

  private start(): Worker {
    const { file, execArgv } = threadProgram('module-thread', import.meta.url);
    const thread = new Worker(file, {
      execArgv,
      workerData: { module: this.options.module.href } satisfies ModuleThreadData,
      resourceLimits: { maxOldGenerationSizeMb: MOST_HEAP_MB },
      // The output of the module is ignored: it could contain parts of calls, and stdout of the gateway may carry MCP
      // messages.
      stdout: true,
      stderr: true,
    });
    thread.stdout.resume();
    thread.stderr.resume();
    thread.unref();
    const ended = (reason: string): void => {
      if (this.thread === thread) this.stop(reason);
    };
    thread.on('message', (message: FromModule) => {
      if (this.thread === thread) this.received(message);
    });
    thread.on('error', () => ended('its thread failed'));
    thread.on('exit', () => ended('its thread ended'));
    this.thread = thread;
    this.ready = false;
    return thread;
  }

  private received(message: FromModule): void {
    if ('unusable' in message) {
      this.stop(message.unusable);
      return;
    }
    if ('ready' in message) {
      this.ready = true;
      for (const job of this.waiting.values()) {
        clearTimeout(job.timer);
        job.timer = this.limit(this.options.timeout);
      }
      return;
    }
    const job = this.waiting.get(message.id);
    if (!job) return;
    this.waiting.delete(message.id);
    clearTimeout(job.timer);
    try {
      if ('error' in message) throw new EvaluationFailure(message.error);
      job.resolve(evaluationOf(message));
    } catch (error) {
      job.reject(error as EvaluationFailure);
    }
  }

  /** Ends the thread. The evaluations under way fail. */
  private stop(reason: string): void {
    const { thread } = this;
    this.thread = undefined;
    for (const { timer, reject } of this.waiting.values()) {
      clearTimeout(timer);
      reject(new EvaluationFailure(reason));
    }
    this.waiting.clear();
    void thread?.terminate();
  }
}
