/** The only place that opens an HTTP connection. */

import { type Abortable, HttpError, type HttpReply, type HttpRequest, type HttpTarget } from './client-types.js';
import { type ConnectOptions, Connector } from './connector.js';
import { type Route, routeTo } from './origin-route.js';
import type { ProxyRule } from './proxy.js';
import { Exchange } from './undici-exchange.js';

export interface HttpClientOptions extends ConnectOptions {
  /** Chooses the proxy for each origin. If absent, no proxy is used. */
  readonly proxy?: ProxyRule | undefined;
}

/** Maximum number of connection pools. Callers and cards may name any number of origins. */
const MAX_POOLS = 256;
/** Interval of removing unused pools. */
const SWEEP_EVERY = 60_000;

/**
 * An HTTP client with keep-alive connections per origin, without pipelining or retries. The caller limits time and
 * size.
 */
export class HttpClient {
  private readonly routes = new Map<string, Route>();
  private readonly connector: Connector;
  private sweeping: NodeJS.Timeout | undefined;
  private closed = false;
  private answered = 0;

  constructor(readonly options: HttpClientOptions) {
    this.connector = new Connector(options);
  }

  request(target: HttpTarget, request: HttpRequest, reply: HttpReply): Abortable {
    const exchange = new Exchange(request, reply, this.count);
    try {
      const key = target.lane === undefined ? target.origin : `${target.origin} ${target.lane}`;
      exchange.start(this.routes.get(key) ?? this.route(target.origin, key), target.path);
    } catch (error) {
      exchange.onError(error as Error);
    }
    return exchange;
  }

  /** Number of replies whose head arrived. */
  get answers(): number {
    return this.answered;
  }

  private readonly count = (): void => {
    this.answered++;
  };

  /** Number of connection pools, one per origin and lane. */
  get origins(): number {
    return this.routes.size;
  }

  private route(origin: string, key: string): Route {
    if (this.closed) throw new HttpError('ECONNRESET', 'the client is closed');
    const { proxy, egress } = this.options;
    const route = routeTo(origin, this.connector, proxy?.(origin), egress !== undefined);
    if ((egress || key !== origin) && this.routes.size >= MAX_POOLS) this.retire();
    this.routes.set(key, route);
    this.sweeping ??= setInterval(() => this.sweep(), SWEEP_EVERY).unref();
    return route;
  }

  /** Closes the oldest unused pool. */
  private retire(): void {
    for (const [origin, route] of this.routes) {
      if (route.pool.stats.size > 0) continue;
      this.drop(origin, route);
      return;
    }
  }

  /**
   * Drops idle pools, to free memory: a pool keeps an object for each connection that was ever open at the same time.
   */
  private sweep(): void {
    for (const [origin, route] of this.routes) {
      const { size, connected } = route.pool.stats;
      if (size === 0 && connected === 0) this.drop(origin, route);
    }
  }

  private drop(origin: string, { pool }: Route): void {
    this.routes.delete(origin);
    void pool.destroy();
  }

  /** Closes all connections. Requests under way fail. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.sweeping);
    const routes = [...this.routes.values()];
    this.routes.clear();
    this.connector.close();
    await Promise.all(routes.map(({ pool }) => pool.destroy()));
  }
}
