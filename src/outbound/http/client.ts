/** The only place that opens an HTTP connection. */
import type { LookupFunction } from 'node:net';
import type { Egress } from '../egress.js';
import { Bounded, type Bounds } from './bounded.js';
import { Exchange } from './connection.js';
import { type Abortable, HttpError, type HttpReply, type HttpRequest, type HttpTarget } from './exchange.js';
import { Pool, type PoolOptions } from './pool.js';
import { requestHead } from './request.js';

export interface HttpClientOptions extends Bounds {
  /** Milliseconds a connection may take, TLS included. */
  readonly connectTimeout: number;
  /** Checks every address before it is dialled: for URLs that are a caller's or an agent's word. */
  readonly egress?: Egress;
}

/** Of origins that strangers name no more than so many are kept open. */
const MOST_ORIGINS = 256;
const SWEEP_EVERY = 5_000;

/** Keep-alive connections per origin; no redirects; what is not bounded here is bounded by the caller's deadline. */
export class HttpClient {
  private readonly pools = new Map<string, Pool>();
  private readonly pooled: PoolOptions;
  private sweeping: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(private readonly options: HttpClientOptions) {
    const { connectTimeout, egress } = options;
    this.pooled = {
      connectTimeout,
      ...(egress && {
        lookup: egress.lookup as LookupFunction,
        check: (host, port) => egress.checkAuthority(host, port),
      }),
    };
  }

  private pool(origin: string): Pool {
    let pool = this.pools.get(origin);
    if (!pool) {
      pool = new Pool(origin, this.pooled);
      if (this.options.egress && this.pools.size >= MOST_ORIGINS) this.retire();
      this.pools.set(origin, pool);
      this.sweeping ??= setInterval(() => this.sweep(), SWEEP_EVERY).unref();
    }
    return pool;
  }

  /** How many origins connections are kept to. */
  get origins(): number {
    return this.pools.size;
  }

  /** Closes the oldest pool that nobody uses. */
  private retire(): void {
    for (const [origin, pool] of this.pools) {
      if (!pool.idle) continue;
      this.pools.delete(origin);
      pool.close();
      return;
    }
  }

  private sweep(): void {
    const now = performance.now();
    for (const pool of this.pools.values()) pool.sweep(now);
  }

  request(target: HttpTarget, request: HttpRequest, reply: HttpReply): Abortable {
    const { timeout, maxReply } = this.options;
    const bounded = timeout === undefined && maxReply === undefined ? undefined : new Bounded(reply, this.options);
    let exchange: Exchange;
    try {
      if (this.closed) throw new HttpError('ECONNRESET', 'the client is closed');
      const pool = this.pool(target.origin);
      exchange = new Exchange(requestHead(target.path, pool.authority, request), request.body, bounded ?? reply);
      pool.send(exchange);
    } catch (error) {
      exchange = new Exchange('', undefined, bounded ?? reply);
      queueMicrotask(() => exchange.fail(error as Error));
    }
    if (!bounded) return exchange;
    bounded.exchange = exchange;
    return bounded;
  }

  /** What still runs fails. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.sweeping);
    for (const pool of this.pools.values()) pool.close();
    this.pools.clear();
  }
}
