import { chmod, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { threadProgram } from '../../core/thread-program.js';
import { monotonicMs } from '../clock.js';
import type { Db, Row, Statement, Value } from '../db.js';
import { StateError } from '../errors.js';
import type { FromWorker, NumberedStatement, Reply, Request, ToWorker, WorkerOptions } from './messages.js';

export interface SqliteOptions {
  /** Time that a write waits for the lock of another process. */
  busyTimeoutMs?: number;
  /** An operation without an answer fails after this time, even if the disk is still busy. */
  answerTimeoutMs?: number;
  /** Limit on waiting operations; further ones are refused at once. */
  maxWaiting?: number;
}

interface Waiting {
  write: boolean;
  since: number;
  resolve(results: Row[][]): void;
  reject(error: StateError): void;
}

const READ = /^\s*(?:SELECT|PRAGMA|EXPLAIN)\b/i;

export class SqliteDb implements Db {
  readonly dialect = 'sqlite';
  committed: ((transactions: number) => void) | undefined;
  readonly #path: string;
  readonly #busyTimeoutMs: number;
  readonly #answerTimeoutMs: number;
  readonly #maxWaiting: number;
  readonly #waiting = new Map<number, Waiting>();
  #outgoing: Request[] = [];
  readonly #numbers = new Map<string, number>();
  #newTexts: [number, string][] = [];
  #nextId = 1;
  #worker: Worker | undefined;
  #starting: Promise<Worker> | undefined;
  #watch: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  private constructor(path: string, options: SqliteOptions) {
    this.#path = path;
    this.#busyTimeoutMs = options.busyTimeoutMs ?? 5_000;
    this.#answerTimeoutMs = options.answerTimeoutMs ?? 10_000;
    this.#maxWaiting = options.maxWaiting ?? 20_000;
  }

  /** Creates a missing folder with mode 0700. The file and its WAL have mode 0600. */
  static async open(path: string, options: SqliteOptions = {}): Promise<SqliteDb> {
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await (await open(path, 'a', 0o600)).close();
      await chmod(path, 0o600);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new StateError('unavailable', `the database file cannot be written: ${reason}`, { cause });
    }
    const db = new SqliteDb(path, options);
    await db.#start();
    return db;
  }

  async q<R extends Row = Row>(sql: string, params: readonly Value[] = []): Promise<R[]> {
    const [rows] = await this.#ask(READ.test(sql) ? 'read' : 'write', [[sql, params]]);
    return rows as R[];
  }

  tx(statements: readonly Statement[]): Promise<Row[][]> {
    if (statements.length === 0) return Promise.resolve([]);
    return this.#ask('write', statements);
  }

  /** Makes a consistent copy during concurrent reads and writes. `path` must not exist yet. */
  async backup(path: string): Promise<void> {
    await (await open(path, 'wx', 0o600)).close();
    const worker = await this.#start();
    await new Promise<Row[][]>((resolve, reject) => {
      const id = this.#wait(false, resolve, reject, Number.POSITIVE_INFINITY);
      worker.postMessage({ requests: [], backup: { id, path } } satisfies ToWorker);
    });
  }

  close(): Promise<void> {
    this.#closed ??= this.#shut();
    return this.#closed;
  }

  #ask(kind: Request['kind'], statements: readonly Statement[]): Promise<Row[][]> {
    if (this.#closed) return Promise.reject(new StateError('closed', 'the database is closed'));
    if (this.#waiting.size >= this.#maxWaiting) {
      return Promise.reject(
        new StateError('overloaded', `${this.#waiting.size} database operations are already waiting`),
      );
    }
    return new Promise((resolve, reject) => {
      const id = this.#wait(kind === 'write', resolve, reject);
      this.#outgoing.push({ id, kind, statements: statements.map((s) => this.#numbered(s)), at: monotonicMs() });
      if (this.#outgoing.length === 1) queueMicrotask(() => this.#send());
    });
  }

  #numbered([sql, params]: Statement): NumberedStatement {
    let number = this.#numbers.get(sql);
    if (number === undefined) {
      number = this.#numbers.size;
      this.#numbers.set(sql, number);
      this.#newTexts.push([number, sql]);
    }
    return [number, params];
  }

  #wait(write: boolean, resolve: Waiting['resolve'], reject: Waiting['reject'], since = monotonicMs()): number {
    const id = this.#nextId++;
    this.#waiting.set(id, { write, since, resolve, reject });
    if (this.#waiting.size === 1) {
      this.#worker?.ref();
      this.#watch ??= setInterval(() => this.#expire(), 250).unref();
    }
    return id;
  }

  #send(): void {
    const requests = this.#outgoing;
    this.#outgoing = [];
    if (this.#worker) {
      this.#post(this.#worker, requests);
      return;
    }
    this.#start().then(
      (worker) => this.#post(worker, requests),
      (error: StateError) => {
        for (const { id } of requests) this.#settle(id, undefined, error);
      },
    );
  }

  #post(worker: Worker, requests: Request[]): void {
    const message: ToWorker = { requests };
    if (this.#newTexts.length > 0) message.texts = this.#newTexts.splice(0);
    worker.postMessage(message);
  }

  /** Starts the thread. After a crash the next operation starts it again. */
  #start(): Promise<Worker> {
    if (this.#worker) return Promise.resolve(this.#worker);
    this.#starting ??= new Promise<Worker>((resolve, reject) => {
      const workerData: WorkerOptions = { path: this.#path, busyTimeoutMs: this.#busyTimeoutMs };
      const { file, execArgv } = threadProgram('database-thread', import.meta.url);
      const worker = new Worker(file, { workerData, execArgv, name: 'parley-sqlite' });
      worker.on('message', (message: FromWorker) => {
        if (message.opened) {
          this.#worker = worker;
          this.#newTexts = [...this.#numbers].map(([sql, number]) => [number, sql]);
          if (this.#waiting.size === 0) worker.unref();
          resolve(worker);
        }
        if (message.openFailure) {
          const { code, message: reason } = message.openFailure;
          reject(new StateError(code, `the database ${this.#path} cannot be opened: ${reason}`));
        }
        if (message.commits && this.committed) for (const size of message.commits) this.committed(size);
        for (const reply of message.replies) this.#deliver(reply);
      });
      worker.on('error', (cause) => this.#died(worker, reject, cause));
      worker.on('exit', () => this.#died(worker, reject));
    }).finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  #died(worker: Worker, reject: (error: StateError) => void, cause?: unknown): void {
    if (this.#worker && this.#worker !== worker) return;
    this.#worker = undefined;
    const error = new StateError('unavailable', 'the database thread stopped', { cause, outcome: 'unknown' });
    reject(error);
    for (const id of [...this.#waiting.keys()]) this.#settle(id, undefined, error);
  }

  #deliver({ id, results, failure }: Reply): void {
    const error = failure && new StateError(failure.code, failure.message);
    this.#settle(id, results as Row[][] | undefined, error);
  }

  #settle(id: number, results: Row[][] | undefined, error: StateError | undefined): void {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) {
      this.#worker?.unref();
      clearInterval(this.#watch);
      this.#watch = undefined;
    }
    if (error) waiting.reject(error);
    else waiting.resolve(results ?? []);
  }

  #expire(): void {
    const limit = monotonicMs() - this.#answerTimeoutMs;
    for (const [id, { since, write }] of this.#waiting) {
      if (since > limit) continue;
      const outcome = write ? 'unknown' : 'not_executed';
      const message = `the database did not answer within ${this.#answerTimeoutMs} ms`;
      this.#settle(id, undefined, new StateError('unavailable', message, { outcome }));
    }
  }

  async #shut(): Promise<void> {
    if (this.#outgoing.length > 0) this.#send();
    const worker = this.#worker ?? (await this.#starting?.catch(() => undefined));
    if (!worker) return;
    worker.ref();
    const gone = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
    worker.postMessage({ requests: [], close: true } satisfies ToWorker);
    const timer = setTimeout(() => void worker.terminate(), this.#answerTimeoutMs);
    await gone;
    clearTimeout(timer);
    clearInterval(this.#watch);
  }
}
