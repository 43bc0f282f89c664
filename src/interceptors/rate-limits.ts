import { type CallContext, isPartOfSameAgent } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import type { Release } from '../core/count-and-byte-limit.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import { type SharedCounter, SharedRateCounts } from '../core/shared-rate-counts.js';
import { ProtocolError } from '../protocol/errors.js';
import { releasing } from './concurrent-call-limits.js';

export type Dimension = 'caller' | 'tool' | 'server' | 'session';

export interface RateLimit {
  /** Each combination of these values has its own count. */
  readonly per: readonly Dimension[];
  readonly requests?: number | undefined;
  /** In milliseconds. */
  readonly interval: number;
  readonly concurrent?: number | undefined;
  /** Whether the limit counts a call. If absent, the limit counts every call. */
  readonly applies?: (context: CallContext) => boolean;
}

export interface RateLimitsOptions {
  readonly limits: readonly RateLimit[];
  readonly counter: SharedCounter;
  /** The clock that all replicas share. */
  readonly now: () => number;
  /** The number of replicas. */
  readonly replicas: () => number;
  /** Called when the shared counter is unavailable. */
  readonly away: (error: unknown) => void;
  /** The refusal of every call while the gateway is overloaded. */
  readonly overloaded: () => ProtocolError | undefined;
}

/** Limits the rate of calls and the concurrent calls, and refuses calls while the gateway is overloaded (S23). */
export function rateLimits(options: RateLimitsOptions): Interceptor {
  const counts = options.limits.map((limit) => new Count(limit, options));
  return (context, next) => {
    const { caller, call } = context;
    if (caller.principal === GATEWAY.principal) return next(context);
    // A call within another call counts with the outer call. Only the limits of the server that it reaches count it
    // again.
    if (isPartOfSameAgent(context)) return next(context);
    if (!call.nested) {
      const refusal = options.overloaded();
      if (refusal) throw refusal;
    }
    return counts.length === 0 ? next(context) : taking(counts, 0, context, next);
  };
}

/** Counts the call in each limit in order, then continues. Waits only if a shared counter must be asked. */
function taking(counts: readonly Count[], at: number, context: CallContext, next: Next): ReturnType<Next> {
  const count = counts[at];
  if (!count) return next(context);
  const key = count.keyOf(context);
  if (key === undefined) return taking(counts, at + 1, context, next);
  const release = count.enter(key);
  const further: Next = (given) => taking(counts, at + 1, given, next);
  const begin: Next = (given) => {
    const wait = count.windows?.take(key) ?? 0;
    if (!(wait instanceof Promise)) return count.allowed(wait, given, further);
    return wait.then((known) => count.allowed(known, given, further));
  };
  return release ? releasing(release, context, begin) : begin(context);
}

class Count {
  readonly windows: SharedRateCounts | undefined;
  private readonly running = new Map<string, number>();

  constructor(
    private readonly limit: RateLimit,
    private readonly options: RateLimitsOptions,
  ) {
    const { per, requests, interval } = limit;
    if (requests === undefined) return;
    const index = options.limits.indexOf(limit);
    // Replicas with the same configuration share the counter. The limit is part of the counter's name, so that a
    // changed limit starts a new count.
    const name = `${index}:${per.join('+')}:${requests}/${interval}`;
    this.windows = new SharedRateCounts({ ...options, name, limit: requests, interval });
  }

  /** The key of this call's count; undefined if the limit does not concern the call. */
  keyOf(context: CallContext): string | undefined {
    const { per, applies } = this.limit;
    const nested = context.call.nested === true;
    const parts: string[] = [];
    for (const dimension of per) {
      if (nested && (dimension === 'caller' || dimension === 'session')) return undefined;
      const part = partOf(context, dimension);
      if (part === undefined) return undefined;
      parts.push(part.length > MOST_PART ? part.slice(0, MOST_PART) : part);
    }
    return applies && !applies(context) ? undefined : parts.join('\n');
  }

  /** Counts a concurrent call; undefined if the limit has no number of concurrent calls. */
  enter(key: string): Release | undefined {
    const { concurrent } = this.limit;
    if (concurrent === undefined) return undefined;
    const { running } = this;
    const count = running.get(key) ?? 0;
    if (count >= Math.ceil(concurrent / Math.max(1, this.options.replicas()))) throw this.refusal('concurrent', 1_000);
    running.set(key, count + 1);
    return () => {
      const left = (running.get(key) ?? 1) - 1;
      if (left > 0) running.set(key, left);
      else running.delete(key);
    };
  }

  allowed(wait: number, context: CallContext, next: Next): ReturnType<Next> {
    if (wait > 0) throw this.refusal('requests', wait);
    return next(context);
  }

  private refusal(kind: 'requests' | 'concurrent', wait: number): ProtocolError {
    const { per, requests, interval, concurrent } = this.limit;
    const each = per.length > 0 ? ` per ${per.join(' and ')}` : '';
    const most =
      kind === 'requests'
        ? `${requests} calls in ${interval / 1_000} s${each}`
        : `${concurrent} concurrent calls${each}`;
    const seconds = Math.ceil(wait / 1_000);
    return new ProtocolError('rate_limited', `Too many calls: at most ${most}; try again in ${seconds} s`, {
      outcome: 'not_executed',
      data: { limit: kind === 'requests' ? requests : concurrent, per, retryAfterMs: Math.ceil(wait) },
      headers: { 'Retry-After': String(seconds) },
    });
  }
}

const MOST_PART = 300;

function partOf({ caller, session, target }: CallContext, dimension: Dimension): string | undefined {
  switch (dimension) {
    case 'caller':
      return caller.principal.key;
    case 'session':
      return session;
    case 'server':
      return target?.server;
    case 'tool':
      return target?.kind === 'tool' ? `${target.server} ${target.name}` : undefined;
  }
}
