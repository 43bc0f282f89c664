import type { OutputLine } from '../../core/upstream.js';
import type { Log } from '../../telemetry/log.js';
import { ChildOutput } from './child-output.js';
import { Child, type ChildEvents, type ExitInfo } from './child-process.js';
import { type Ending, FailureReport } from './failure-report.js';
import { RESTART, RestartPolicy } from './restart-policy.js';
import { StdioError } from './stdio-error.js';
import {
  type AcquireOptions,
  type Clock,
  type Lease,
  type Start,
  type SupervisorHealth,
  type SupervisorOptions,
  systemClock,
} from './supervisor-types.js';

interface Slot<S> {
  key: string;
  state: 'opening' | 'ready' | 'ending';
  child: Child | undefined;
  session: S | undefined;
  openedAt: number;
  usedAt: number;
  shared: number;
  exclusive: boolean;
  cancelIdle: (() => void) | undefined;
  /** Ends the wait for `open`. */
  fail(error: unknown): void;
}

interface Waiter<S> {
  key: string;
  exclusive: boolean;
  resolve(lease: Lease<S>): void;
  reject(error: unknown): void;
}

/** Pause before the next start after the process had no file descriptors left (EMFILE). */
const SCARCE_MS = 500;
/** Start failures that a retry cannot cure. */
const MISCONFIGURED: readonly string[] = ['not_found', 'not_executable', 'bad_cwd', 'invalid'];

/**
 * Manages the processes of one configured command. It starts a process on demand, hands out shared and exclusive leases
 * from a small pool, restarts a process that ends on its own after growing pauses, stops restarting for a while after
 * repeated failures, and stops unused processes. The messages to a child belong to `open` and its session,
 * which also ends the calls in flight when the process exits.
 */
export class Supervisor<S> {
  readonly name: string;
  readonly #options: SupervisorOptions<S>;
  readonly #max: number;
  readonly #idleMs: number;
  readonly #clock: Clock;
  readonly #policy: RestartPolicy;
  readonly #log: Log | undefined;
  readonly #slots = new Set<Slot<S>>();
  /** Every process that is not yet reaped, whether in the pool or not. */
  readonly #children = new Set<Child>();
  #waiters: Waiter<S>[] = [];
  /** Keys whose child ended while it was leased. Their child is restarted without a new request (STD-09). */
  readonly #wanted = new Set<string>();
  #notBefore = Number.NEGATIVE_INFINITY;
  #failed = false;
  /** The last start failure, if a retry cannot cure it. Requests are then refused at once until the pause is over. */
  #hopeless: StdioError | undefined;
  #cancelPause: (() => void) | undefined;
  #endedOnItsOwn = false;
  #restarts = 0;
  #last: Child | undefined;
  #lastExit: ExitInfo | undefined;
  #lastError: string | undefined;
  #lastSummary: string | undefined;
  readonly #report: FailureReport;
  readonly #output: ChildOutput;
  #closed = false;

  constructor(options: SupervisorOptions<S>) {
    this.name = options.name;
    this.#options = options;
    this.#max = Math.max(1, options.max ?? 4);
    this.#idleMs = options.idleMs ?? 10 * 60_000;
    this.#clock = options.clock ?? systemClock;
    this.#policy = new RestartPolicy({ ...RESTART, ...options.restart }, options.random);
    this.#log = options.log;
    this.#report = new FailureReport(options.command);
    this.#output = new ChildOutput({
      server: this.name,
      clock: this.#clock,
      log: this.#log,
      hide: (text) => this.#report.hide(text),
    });
  }

  /**
   * Leases a session on a running child. Waits while a child starts, during the pause after a failure, and while all
   * children are leased; `signal` ends the wait. Rejects with the cause when the awaited start fails. Rejects at once
   * in the state `failed`, and if the command cannot be started as configured.
   */
  acquire({ key = '', exclusive = false, signal }: AcquireOptions = {}): Promise<Lease<S>> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(this.#closedError());
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        reject(signal?.reason);
        this.#serve();
      };
      const waiter: Waiter<S> = {
        key,
        exclusive,
        resolve: (lease) => {
          signal?.removeEventListener('abort', onAbort);
          resolve(lease);
        },
        reject: (error) => {
          signal?.removeEventListener('abort', onAbort);
          reject(error);
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiters.push(waiter);
      this.#serve();
      if (this.#failing()) this.#refuse(key, this.#failedError());
      else if (this.#hopeless && this.#clock.now() < this.#notBefore) this.#refuse(key, this.#hopeless);
    });
  }

  /** Runs `use` with a separate child and stops that child afterwards: for a request that may end the process. */
  async sibling<R>(use: (start: Start) => Promise<R>): Promise<R> {
    if (this.#closed) throw this.#closedError();
    if (this.#failing()) throw this.#failedError();
    let child: Child | undefined;
    let over = false;
    try {
      return await use((events) => {
        if (over || child !== undefined) throw new Error('a sibling can be started only once');
        child = this.#startChild(events, () => true);
        return child;
      });
    } finally {
      over = true;
      // Not awaited: the result is known already.
      void child?.stop();
    }
  }

  health(): SupervisorHealth {
    const slots = [...this.#slots];
    const left = this.#notBefore - this.#clock.now();
    let state: SupervisorHealth['state'] = 'idle';
    if (slots.some((slot) => slot.state === 'ready')) state = 'running';
    else if (slots.some((slot) => slot.state === 'opening')) state = 'starting';
    else if (this.#failed) state = 'failed';
    else if (left > 0) state = 'backoff';
    return {
      state,
      pid: this.#last?.alive ? this.#last.pid : undefined,
      children: slots.filter((slot) => slot.child !== undefined).length,
      leases: slots.reduce((sum, slot) => sum + slot.shared + (slot.exclusive ? 1 : 0), 0),
      waiting: this.#waiters.length,
      restarts: this.#restarts,
      lastExit: this.#lastExit,
      lastError: this.#lastError,
      lastSummary: this.#lastSummary,
      retryInMs: left > 0 ? left : undefined,
      badLines: slots.reduce((sum, slot) => sum + (slot.child?.badLines ?? 0), 0),
      stderrTail: this.#last?.stderrTail ?? '',
    };
  }

  /** The last output lines of the processes, with secrets hidden. */
  output(): readonly OutputLine[] {
    return this.#output.lines();
  }

  /** Stops all children and rejects all present and later requests. Resolves when the last process is reaped. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelPause?.();
    this.#wanted.clear();
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter.reject(this.#closedError());
    for (const slot of this.#slots) {
      slot.cancelIdle?.();
      slot.state = 'ending';
      slot.fail(this.#closedError());
    }
    await Promise.all([...this.#children].map((child) => child.stop()));
  }

  /**
   * Leases available children to the waiters in order, and starts missing children. All decisions about leases are made
   * here.
   */
  #serve(): void {
    if (this.#closed) return;
    const waiting: Waiter<S>[] = [];
    const missing = new Map<string, { shared: boolean; exclusive: number }>();
    let behind = false;
    for (const waiter of this.#waiters) {
      const slot = behind ? undefined : this.#available(waiter);
      if (slot !== undefined) {
        waiter.resolve(this.#lease(slot, waiter.exclusive));
        continue;
      }
      waiting.push(waiter);
      // With a single child, later shared requests must not overtake an exclusive request: the exclusive request would
      // never get its turn.
      if (this.#max === 1) behind = true;
      const need = missing.get(waiter.key) ?? { shared: false, exclusive: 0 };
      if (waiter.exclusive) need.exclusive++;
      else need.shared = true;
      missing.set(waiter.key, need);
    }
    this.#waiters = waiting;
    for (const key of this.#wanted) {
      if (this.#count((slot) => slot.key === key) > 0) this.#wanted.delete(key);
      else if (!missing.has(key)) missing.set(key, { shared: true, exclusive: 0 });
    }
    for (const [key, need] of missing) {
      const free = Math.max(0, this.#exclusiveLimit() - this.#count((slot) => slot.exclusive));
      const exclusive = Math.min(need.exclusive, free);
      const starting = this.#count((slot) => slot.state === 'opening' && slot.key === key);
      for (let n = starting; n < exclusive + (need.shared ? 1 : 0); n++) this.#startIfAllowed(key);
    }
  }

  #available({ key, exclusive }: Waiter<S>): Slot<S> | undefined {
    if (exclusive && this.#count((slot) => slot.exclusive) >= this.#exclusiveLimit()) return undefined;
    let best: Slot<S> | undefined;
    for (const slot of this.#slots) {
      if (slot.state !== 'ready' || slot.key !== key || slot.exclusive || !slot.child?.alive) continue;
      if (exclusive && slot.shared > 0) continue;
      // Prefers the child with most shared leases, then the last used: other children stay free or become idle.
      if (
        best === undefined ||
        slot.shared > best.shared ||
        (slot.shared === best.shared && slot.usedAt > best.usedAt)
      ) {
        best = slot;
      }
    }
    return best;
  }

  #exclusiveLimit(): number {
    return Math.max(1, Math.min(this.#max - 1, this.#options.maxExclusive ?? this.#max));
  }

  #count(test: (slot: Slot<S>) => boolean): number {
    let count = 0;
    for (const slot of this.#slots) if (test(slot)) count++;
    return count;
  }

  #startIfAllowed(key: string): void {
    if (this.#clock.now() < this.#notBefore) return;
    // A child has just ended and its exit is not handled yet. The exit decides about the pause before the next start.
    if (this.#count((slot) => slot.state === 'ready' && !slot.child?.alive) > 0) return;
    if (this.#slots.size < this.#max) void this.#start(key);
    else if (this.#count((slot) => slot.state === 'ending') === 0) this.#makeRoom();
  }

  /** Stops the child that was unused for the longest time. */
  #makeRoom(): void {
    let oldest: Slot<S> | undefined;
    for (const slot of this.#slots) {
      if (slot.state !== 'ready' || slot.shared > 0 || slot.exclusive) continue;
      if (oldest === undefined || slot.usedAt < oldest.usedAt) oldest = slot;
    }
    if (oldest !== undefined) this.#end(oldest);
  }

  async #start(key: string): Promise<void> {
    let fail!: (error: unknown) => void;
    const failure = new Promise<never>((_, reject) => {
      fail = reject;
    });
    const slot: Slot<S> = {
      key,
      state: 'opening',
      child: undefined,
      session: undefined,
      openedAt: 0,
      usedAt: 0,
      shared: 0,
      exclusive: false,
      cancelIdle: undefined,
      fail,
    };
    this.#slots.add(slot);
    if (this.#endedOnItsOwn) this.#restarts++;
    this.#endedOnItsOwn = false;

    const abort = new AbortController();
    const openMs = this.#options.openMs ?? 60_000;
    const limit = () =>
      this.#clock.after(openMs, () => {
        const { problem, summary } = this.#report.silent(slot.child, openMs);
        fail(new StdioError('timeout', problem, { summary }));
      });
    let cancel = limit();
    const start: Start = (events, { expendable = false } = {}) => {
      if (slot.state !== 'opening') throw this.#closedError();
      if (slot.child?.alive) throw new Error('a session can have only one child at a time');
      cancel();
      cancel = limit();
      const opening = () => slot.state === 'opening';
      const child = this.#startChild(events, opening, (info) => {
        if (slot.child === child && !(expendable && opening())) this.#exited(slot, info);
      });
      slot.child = child;
      this.#last = child;
      return child;
    };
    let settled = key;
    const become = (other: string): void => {
      settled = other;
    };

    try {
      // The `async` function turns an exception of `open` into a rejection.
      const opened = (async () => this.#options.open(start, { key, signal: abort.signal, become }))();
      slot.session = await Promise.race([opened, failure]);
      if (slot.state !== 'opening') throw this.#closedError();
      if (!slot.child?.alive) throw this.#exitedError({ code: null, signal: null }, slot.child);
      slot.state = 'ready';
      slot.key = settled;
      for (const waiter of this.#waiters) if (waiter.key === key) waiter.key = settled;
      slot.openedAt = this.#clock.now();
      slot.usedAt = slot.openedAt;
      this.#failed = false;
      this.#hopeless = undefined;
      this.#lastError = undefined;
      this.#lastSummary = undefined;
      this.#wanted.delete(key);
    } catch (error) {
      abort.abort(error);
      this.#openFailed(slot, error);
    } finally {
      cancel();
    }
    this.#serve();
    if (slot.state === 'ready') this.#idle(slot);
  }

  #startChild(events: ChildEvents, starting: () => boolean, onExit?: (info: ExitInfo) => void): Child {
    const exit = (ended: ExitInfo) => {
      void child.stop().then(() => this.#children.delete(child));
      const failure = ended.expected ? undefined : this.#report.ended(child, ended, starting());
      const info = { ...ended, failure };
      this.#output.add(child.pid, 'process', `ended with ${info.signal ?? `code ${info.code ?? 'unknown'}`}`);
      try {
        events.exit(info);
      } finally {
        onExit?.(info);
      }
    };
    const wrapped: ChildEvents = { message: (line) => events.message(line), exit, drain: () => events.drain?.() };
    const child = Child.start(this.#options.command, wrapped, {
      ...this.#options.child,
      log: this.#log,
      server: this.name,
      output: (stream, line) => this.#output.add(child.pid, stream, line),
    });
    this.#children.add(child);
    this.#output.add(child.pid, 'process', `started: ${this.#report.command}`);
    this.#log?.debug({ server: this.name, pid: child.pid, restarts: this.#restarts }, 'child process started');
    return child;
  }

  #openFailed(slot: Slot<S>, error: unknown): void {
    slot.state = 'ending';
    if (slot.child?.alive) void slot.child.stop();
    else this.#slots.delete(slot);
    if (this.#closed) return;
    this.#lastError = error instanceof Error ? error.message : String(error);
    this.#lastSummary = error instanceof StdioError ? error.summary : undefined;
    const reason = error instanceof StdioError ? error.reason : undefined;
    const scarce = reason === 'resources' && ((error as StdioError).cause as NodeJS.ErrnoException)?.code === 'EMFILE';
    this.#hopeless = scarce || (reason && MISCONFIGURED.includes(reason)) ? (error as StdioError) : undefined;
    // Missing file descriptors are not a failure of this command (fault 10).
    if (scarce) this.#rest(SCARCE_MS);
    else this.#pause(0);
    this.#refuse(slot.key, error);
  }

  /** Called once for every pooled child that has ended, for any reason. */
  #exited(slot: Slot<S>, info: ExitInfo): void {
    this.#lastExit = info;
    if (slot.state === 'opening') {
      slot.fail(this.#exitedError(info, slot.child));
      return;
    }
    slot.cancelIdle?.();
    this.#slots.delete(slot);
    if (slot.state === 'ready' && !info.expected) {
      this.#lastError = info.failure?.problem;
      this.#lastSummary = info.failure?.summary;
      if (slot.shared > 0 || slot.exclusive) this.#wanted.add(slot.key);
      this.#pause(this.#clock.now() - slot.openedAt);
    }
    slot.state = 'ending';
    this.#serve();
  }

  #pause(servedMs: number): void {
    const { pauseMs, failed } = this.#policy.ended(servedMs);
    this.#endedOnItsOwn = true;
    this.#failed = failed;
    const fields = {
      server: this.name,
      failures: this.#policy.failures,
      pauseMs: Math.round(pauseMs),
      error: this.#lastError,
    };
    if (failed) {
      this.#notBefore = this.#clock.now() + pauseMs;
      this.#cancelPause?.();
      this.#log?.debug(fields, 'stdio server failed repeatedly: not restarted during the pause');
      // Only a new request after the end of the pause leaves this state.
      this.#wanted.clear();
      for (const key of new Set(this.#waiters.map((waiter) => waiter.key))) this.#refuse(key, this.#failedError());
      return;
    }
    this.#log?.debug(fields, 'stdio server ended: restarting after the pause');
    this.#rest(pauseMs);
  }

  #rest(pauseMs: number): void {
    this.#notBefore = this.#clock.now() + pauseMs;
    this.#cancelPause?.();
    this.#cancelPause = this.#clock.after(pauseMs, () => {
      this.#notBefore = Number.NEGATIVE_INFINITY;
      this.#serve();
    });
  }

  #failing(): boolean {
    return this.#failed && this.#clock.now() < this.#notBefore;
  }

  /**
   * Rejects the waiters of this key, unless a child of this key runs or starts. In that case they may still get that
   * child.
   */
  #refuse(key: string, error: unknown): void {
    if (this.#count((slot) => slot.key === key && slot.state !== 'ending') > 0) return;
    const refused = this.#waiters.filter((waiter) => waiter.key === key);
    this.#waiters = this.#waiters.filter((waiter) => waiter.key !== key);
    for (const waiter of refused) waiter.reject(error);
  }

  #lease(slot: Slot<S>, exclusive: boolean): Lease<S> {
    slot.cancelIdle?.();
    if (exclusive) slot.exclusive = true;
    else slot.shared++;
    let held = true;
    const giveBack = (): boolean => {
      if (!held) return false;
      held = false;
      if (!this.#slots.has(slot)) return false;
      if (exclusive) slot.exclusive = false;
      else slot.shared--;
      slot.usedAt = this.#clock.now();
      return true;
    };
    return {
      session: slot.session as S,
      child: slot.child as Child,
      release: () => {
        if (!giveBack()) return;
        this.#serve();
        this.#idle(slot);
      },
      discard: () => {
        if (!giveBack()) return;
        this.#end(slot);
        this.#serve();
      },
    };
  }

  #idle(slot: Slot<S>): void {
    slot.cancelIdle?.();
    if (this.#idleMs === 0 || slot.state !== 'ready' || slot.shared > 0 || slot.exclusive) return;
    const reap = () => {
      if (slot.state !== 'ready' || slot.shared > 0 || slot.exclusive) return;
      if (this.#count((other) => other.state === 'ready') <= (this.#options.keep ?? 0)) return this.#idle(slot);
      this.#log?.debug({ server: this.name, pid: slot.child?.pid }, 'stopping an unused child process');
      this.#end(slot);
    };
    slot.cancelIdle = this.#clock.after(this.#idleMs, reap, true);
  }

  #end(slot: Slot<S>): void {
    slot.cancelIdle?.();
    slot.state = 'ending';
    void slot.child?.stop();
  }

  #exitedError(info: ExitInfo | Ending, child: Child | undefined): StdioError {
    const output = child ?? { stderrTail: '', strayLines: [] };
    const failure = 'failure' in info ? info.failure : undefined;
    const { problem, summary, unrunnable } = failure ?? this.#report.ended(output, info, true);
    return new StdioError('exited', problem, { ...('at' in info && { exit: info }), summary, unrunnable });
  }

  #failedError(): StdioError {
    const retryAfterMs = Math.max(0, this.#notBefore - this.#clock.now());
    const failed = `it failed ${this.#policy.failures} times in a row and is not restarted for ${Math.ceil(retryAfterMs / 1000)} s`;
    return new StdioError('failed', `${failed}; last error: ${this.#lastError ?? 'unknown'}`, {
      exit: this.#lastExit,
      retryAfterMs,
      summary: this.#lastSummary === undefined ? failed : `${failed}; last error: ${this.#lastSummary}`,
    });
  }

  #closedError(): StdioError {
    return new StdioError('closed', `${this.#report.command} is being shut down`);
  }
}
