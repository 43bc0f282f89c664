import type { Log } from '../../telemetry/log.js';
import type { Child, ChildEvents, ChildOptions, ExitInfo, StdioCommand } from './child-process.js';
import type { RestartOptions } from './restart-policy.js';

export interface StartOptions {
  /** The end of this child does not fail the opening. `open` may then start another child with a new time limit. */
  readonly expendable?: boolean;
}

/** Starts a child with `events` as its listener. A session has one child at a time. */
export type Start = (events: ChildEvents, options?: StartOptions) => Child;

/**
 * Starts a child and opens a session on it. A rejection counts as a failed start. `key` is the key of the request;
 * sessions of different keys never share a child. `signal` fires when the time limit is over. `become` changes the key
 * of the session, if the right key becomes known only during the opening.
 */
export type Open<S> = (
  start: Start,
  context: { key: string; signal: AbortSignal; become(key: string): void },
) => Promise<S>;

export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Starts a timer and returns a function that cancels it. A `background` timer does not keep the process running. */
  after(ms: number, run: () => void, background?: boolean): () => void;
}

export interface SupervisorOptions<S> {
  name: string;
  command: StdioCommand;
  open: Open<S>;
  child: Omit<ChildOptions, 'log' | 'output'>;
  /** Maximum number of processes. If there may be several, exclusive leases leave one process for shared use. */
  max?: number | undefined;
  /** Maximum number of exclusive leases, if it is lower than `max` allows. */
  maxExclusive?: number | undefined;
  /** An unused child is stopped after this time. 0 means never. */
  idleMs?: number | undefined;
  /** Number of unused children that are kept running. */
  keep?: number | undefined;
  /** Time limit of `open`. The first start of an npx server includes its download. */
  openMs?: number | undefined;
  restart?: Partial<RestartOptions> | undefined;
  clock?: Clock | undefined;
  random?: (() => number) | undefined;
  log?: Log | undefined;
}

export interface AcquireOptions {
  key?: string | undefined;
  /** Whether no other lease shares the child. */
  exclusive?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

export interface Lease<S> {
  readonly session: S;
  readonly child: Child;
  /** Returns the child, which keeps running. Further calls do nothing. */
  release(): void;
  /** Returns the child as unusable. The child is stopped, and the next lease gets another child. */
  discard(): void;
}

export interface SupervisorHealth {
  state: 'idle' | 'starting' | 'running' | 'backoff' | 'failed';
  /** The pid of the child started last, while it runs. */
  pid: number | undefined;
  children: number;
  leases: number;
  waiting: number;
  /** Number of starts after a child had ended on its own. */
  restarts: number;
  lastExit: ExitInfo | undefined;
  lastError: string | undefined;
  /** The same error in a text that callers may read. */
  lastSummary: string | undefined;
  /** In the states `backoff` and `failed`: time until the next start is allowed. */
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
