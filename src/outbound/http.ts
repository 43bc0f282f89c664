/** The only place that opens a connection. */
import type { LookupFunction } from 'node:net';
import { buildConnector, type Dispatcher, Pool } from 'undici';
import type { Egress } from './egress.js';

export interface HttpClientOptions {
  /** Milliseconds a connection may take, TLS included. */
  readonly connectTimeout: number;
  /** Checks every address before it is dialled: for URLs that are a caller's or an agent's word. */
  readonly egress?: Egress;
  /** Milliseconds that one exchange may take from beginning to end. */
  readonly timeout?: number;
  /** Bytes that one reply may have. */
  readonly maxReply?: number;
}

export interface HttpTarget {
  readonly origin: string;
  readonly path: string;
}

export function httpTarget(url: string | URL): HttpTarget {
  const parsed = new URL(url);
  return { origin: parsed.origin, path: `${parsed.pathname}${parsed.search}` };
}

/** The headers of a reply as they came: names and values in turn. Few are asked for, so none becomes a string before. */
export type HttpHeaders = readonly Buffer[];

/** A header that stands once; of several the first counts. `name` is in lower case. */
export function headerOf(headers: HttpHeaders, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    const key = headers[i]!;
    if (key.length === name.length && key.toString('latin1').toLowerCase() === name)
      return headers[i + 1]!.toString('latin1');
  }
  return undefined;
}

export interface HttpFailure {
  /** Whether a byte of the request may have reached the server. */
  readonly sent: boolean;
  readonly error: Error;
}

/** Hears of one exchange. `end` or `fail` comes last, exactly once, unless the exchange was aborted. */
export interface HttpReply {
  start(status: number, headers: HttpHeaders): void;
  data(chunk: Buffer): void;
  end(): void;
  fail(failure: HttpFailure): void;
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Flat name/value pairs. */
  readonly headers: readonly string[];
  readonly body?: Buffer;
}

/** One request and its reply on the wire. */
class Exchange implements Dispatcher.DispatchHandler {
  private stop: ((error: Error) => void) | undefined;
  private aborted = false;
  private held = false;
  private again: (() => void) | undefined;

  constructor(private readonly reply: HttpReply) {}

  get sent(): boolean {
    return this.stop !== undefined;
  }

  pause(): void {
    this.held = true;
  }

  resume(): void {
    if (!this.held) return;
    this.held = false;
    this.again?.();
  }

  abort(): void {
    if (this.aborted) return;
    this.aborted = true;
    this.stop?.(ABORTED);
  }

  onConnect(stop: (error?: Error) => void): void {
    this.stop = stop;
    if (this.aborted) stop(ABORTED);
  }

  onHeaders(status: number, headers: Buffer[], again: () => void): boolean {
    this.again = again;
    if (status >= 200 && !this.aborted) this.reply.start(status, headers);
    return !this.held;
  }

  onData(chunk: Buffer): boolean {
    if (!this.aborted) this.reply.data(chunk);
    return !this.held;
  }

  onComplete(): void {
    if (!this.aborted) this.reply.end();
  }

  onError(error: Error): void {
    if (!this.aborted) this.reply.fail({ sent: this.sent, error });
  }
}

const ABORTED = new Error('aborted');

export interface Abortable {
  abort(): void;
  /** No more of the reply is read until `resume`, so that whoever writes it has to wait. */
  pause?(): void;
  resume?(): void;
}

/** A reply that went beyond what the client allows. */
export class HttpLimit extends Error {
  override readonly name = 'HttpLimit';
  readonly code = 'HTTP_LIMIT';
}

/** An exchange within the bounds of its client. */
class Bounded implements HttpReply, Abortable {
  exchange: Exchange | undefined;
  private timer: NodeJS.Timeout | undefined;
  private size = 0;
  private over = false;

  constructor(
    private readonly reply: HttpReply,
    { timeout }: HttpClientOptions,
    private readonly most: number,
  ) {
    if (timeout !== undefined) this.timer = setTimeout(() => this.exceed('takes too long'), timeout);
  }

  private finish(): boolean {
    if (this.over) return false;
    this.over = true;
    clearTimeout(this.timer);
    return true;
  }

  private exceed(why: string): void {
    const sent = this.exchange?.sent ?? false;
    if (!this.finish()) return;
    this.exchange?.abort();
    this.reply.fail({ sent, error: new HttpLimit(why) });
  }

  abort(): void {
    if (this.finish()) this.exchange?.abort();
  }

  pause(): void {
    this.exchange?.pause();
  }

  resume(): void {
    this.exchange?.resume();
  }

  start(status: number, headers: HttpHeaders): void {
    if (!this.over) this.reply.start(status, headers);
  }

  data(chunk: Buffer): void {
    this.size += chunk.length;
    if (this.size > this.most) this.exceed('is too large');
    else if (!this.over) this.reply.data(chunk);
  }

  end(): void {
    if (this.finish()) this.reply.end();
  }

  fail(failure: HttpFailure): void {
    if (this.finish()) this.reply.fail(failure);
  }
}

/** Of origins that strangers name no more than so many are kept open. */
const MOST_ORIGINS = 256;

/** Keep-alive pools per origin; no redirects; what is bounded in time is bounded by the caller's deadline. */
export class HttpClient {
  private readonly pools = new Map<string, Pool>();
  private readonly connect: buildConnector.connector | buildConnector.BuildOptions;

  constructor(private readonly options: HttpClientOptions) {
    this.connect = this.connector();
  }

  private pool(origin: string): Pool {
    let pool = this.pools.get(origin);
    if (!pool) {
      pool = new Pool(origin, {
        connect: this.connect,
        headersTimeout: 0,
        bodyTimeout: 0,
        keepAliveTimeout: 30_000,
        pipelining: 1,
        allowH2: false,
      });
      if (this.options.egress && this.pools.size >= MOST_ORIGINS) this.retire();
      this.pools.set(origin, pool);
    }
    return pool;
  }

  /** Connections are made here and nowhere else; guarded ones go where they were checked to go. */
  private connector(): buildConnector.connector | buildConnector.BuildOptions {
    const { egress } = this.options;
    const options = { timeout: this.options.connectTimeout };
    if (!egress) return options;
    const dial = buildConnector({ ...options, allowH2: false, lookup: egress.lookup as LookupFunction });
    return (to, done) => {
      try {
        egress.checkAuthority(to.hostname, Number(to.port || (to.protocol === 'https:' ? 443 : 80)));
      } catch (error) {
        done(error as Error, null);
        return;
      }
      dial(to, done);
    };
  }

  /** How many origins connections are kept to. */
  get origins(): number {
    return this.pools.size;
  }

  /** Closes the oldest pool that nobody uses. */
  private retire(): void {
    for (const [origin, pool] of this.pools) {
      if (pool.stats.size > 0) continue;
      this.pools.delete(origin);
      void pool.close();
      return;
    }
  }

  request(target: HttpTarget, request: HttpRequest, reply: HttpReply): Abortable {
    const { timeout, maxReply } = this.options;
    const bounded =
      timeout === undefined && maxReply === undefined
        ? undefined
        : new Bounded(reply, this.options, maxReply ?? Number.POSITIVE_INFINITY);
    const exchange = new Exchange(bounded ?? reply);
    if (bounded) bounded.exchange = exchange;
    this.pool(target.origin).dispatch(
      {
        path: target.path,
        method: request.method,
        headers: request.headers as string[],
        body: request.body ?? null,
      },
      exchange,
    );
    return bounded ?? exchange;
  }

  async close(): Promise<void> {
    const pools = [...this.pools.values()];
    this.pools.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }
}
