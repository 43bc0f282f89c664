import type { Log } from '../../telemetry/log.js';
import type { Child, ChildEvents, ChildOptions, ExitInfo, StdioCommand } from './process.js';
import type { RestartOptions } from './restart-policy.js';

export interface StartOptions {
  /** The opening goes on when this child ends, and may start another one, which has as much time. */
  readonly expendable?: boolean;
}

/** Starts the child whose output goes to `events`. A session has one at a time. */
export type Start = (events: ChildEvents, options?: StartOptions) => Child;

/**
 * Makes a session out of a child: starts it, does the handshake. Its rejection counts as a failed start. `key` is what
 * the session was asked for with; sessions of different keys never share a child. `signal` fires when it takes too long.
 * `become` changes the key once the session is open, where it could not be known before.
 */
export type Open<S> = (
  start: Start,
  context: { key: string; signal: AbortSignal; become(key: string): void },
) => Promise<S>;

export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Runs once, later; returns what cancels it. A `background` timer keeps no process running. */
  after(ms: number, run: () => void, background?: boolean): () => void;
}

export interface SupervisorOptions<S> {
  name: string;
  command: StdioCommand;
  open: Open<S>;
  child: Omit<ChildOptions, 'log' | 'output'>;
  /** Processes of this command at most. Exclusive leases leave one of them to shared use, if there is more than one. */
  max?: number | undefined;
  /** Exclusive leases at most, where that is less than `max` leaves. */
  maxExclusive?: number | undefined;
  /** A child nobody uses is stopped after this time; 0 keeps it. */
  idleMs?: number | undefined;
  /** So many unused children stay all the same. */
  keep?: number | undefined;
  /** Time for `open`. The first start of an npx server downloads it. */
  openMs?: number | undefined;
  restart?: Partial<RestartOptions> | undefined;
  clock?: Clock | undefined;
  random?: (() => number) | undefined;
  log?: Log | undefined;
}

export interface AcquireOptions {
  key?: string | undefined;
  /** Nobody else uses the child until the lease is released. */
  exclusive?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

export interface Lease<S> {
  readonly session: S;
  readonly child: Child;
  /** Gives the child back; it stays warm. Further calls do nothing. */
  release(): void;
  /** Gives it back as unusable: it is stopped, and the next lease gets another one. */
  discard(): void;
}

export interface SupervisorHealth {
  state: 'idle' | 'starting' | 'running' | 'backoff' | 'failed';
  /** Of the child started last, while it runs. */
  pid: number | undefined;
  children: number;
  leases: number;
  waiting: number;
  /** Starts that replaced a child which had ended on its own. */
  restarts: number;
  lastExit: ExitInfo | undefined;
  lastError: string | undefined;
  /** The same in words that callers may read. */
  lastSummary: string | undefined;
  /** In `backoff` and `failed`: time until the next attempt is allowed. */
  retryInMs: number | undefined;
  badLines: number;
  stderrTail: string;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, run, background = false) {
    const timer = setTimeout(run, ms);
    if (background) timer.unref();
    return () => clearTimeout(timer);
  },
};
