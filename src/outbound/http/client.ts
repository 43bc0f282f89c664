/** The only place that opens an HTTP connection. */
import { Pool } from 'undici';
import { type ConnectOptions, Connector } from './connect.js';
import { Connection } from './connection.js';
import { Exchange } from './dispatch.js';
import { type Abortable, HttpError, type HttpReply, type HttpRequest, type HttpTarget } from './exchange.js';

export type HttpClientOptions = ConnectOptions;

/** Milliseconds an idle connection is kept, unless the server names a longer time: many servers close after 5 s. */
const KEEP_ALIVE = 4_000;
const KEEP_ALIVE_MAX = 600_000;
/** Longer heads are refused, so that nobody can make us collect one without end. */
const HEAD_LIMIT = 32 * 1024;
/** Pools that are kept open for origins which callers and cards name. */
const MOST_ORIGINS = 256;
/** How often connections that were needed once are forgotten. */
const SWEEP_EVERY = 60_000;

/** Keep-alive connections per origin; no pipelining, no retries. Time and size are bounded by the caller. */
export class HttpClient {
  private readonly pools = new Map<string, Pool>();
  private readonly connector: Connector;
  private sweeping: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(private readonly options: HttpClientOptions) {
    this.connector = new Connector(options);
  }

  request(target: HttpTarget, request: HttpRequest, reply: HttpReply): Abortable {
    const exchange = new Exchange(request, reply);
    try {
      exchange.start(this.pool(target.origin), target.path);
    } catch (error) {
      exchange.onError(error as Error);
    }
    return exchange;
  }

  /** How many origins connections are kept to. */
  get origins(): number {
    return this.pools.size;
  }

  private pool(origin: string): Pool {
    if (this.closed) throw new HttpError('ECONNRESET', 'the client is closed');
    let pool = this.pools.get(origin);
    if (!pool) {
      if (!/^https?:\/\//.test(origin)) throw new HttpError('HTTP_UNSENDABLE', 'the URL is neither http nor https');
      pool = new Pool(origin, {
        connect: this.connector.connect,
        factory: (url, options) => new Connection(url, options),
        pipelining: 1,
        keepAliveTimeout: KEEP_ALIVE,
        keepAliveMaxTimeout: KEEP_ALIVE_MAX,
        maxHeaderSize: HEAD_LIMIT,
        headersTimeout: 0,
        bodyTimeout: 0,
      });
      if (this.options.egress && this.pools.size >= MOST_ORIGINS) this.retire();
      this.pools.set(origin, pool);
      this.sweeping ??= setInterval(() => this.sweep(), SWEEP_EVERY).unref();
    }
    return pool;
  }

  /** Closes the oldest pool that nobody uses. */
  private retire(): void {
    for (const [origin, pool] of this.pools) {
      if (pool.stats.size > 0) continue;
      this.drop(origin, pool);
      return;
    }
  }

  /** A pool remembers as many connections as were ever open at once. */
  private sweep(): void {
    for (const [origin, pool] of this.pools)
      if (pool.stats.size === 0 && pool.stats.connected === 0) this.drop(origin, pool);
  }

  private drop(origin: string, pool: Pool): void {
    this.pools.delete(origin);
    void pool.destroy();
  }

  /** Whatever is under way fails. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.sweeping);
    const pools = [...this.pools.values()];
    this.pools.clear();
    this.connector.close();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }
}
