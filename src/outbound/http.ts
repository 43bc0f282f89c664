/** The only place that opens a connection. */
import { type Dispatcher, Pool } from 'undici';

export interface HttpClientOptions {
  /** Milliseconds a connection may take, TLS included. */
  readonly connectTimeout: number;
}

export interface HttpTarget {
  readonly origin: string;
  readonly path: string;
}

export function httpTarget(url: string | URL): HttpTarget {
  const parsed = new URL(url);
  return { origin: parsed.origin, path: `${parsed.pathname}${parsed.search}` };
}

export type HttpHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** A header that stands once; of several the first counts. */
export function headerOf(headers: HttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
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
  private controller: Dispatcher.DispatchController | undefined;
  private aborted = false;

  constructor(private readonly reply: HttpReply) {}

  abort(): void {
    if (this.aborted) return;
    this.aborted = true;
    this.controller?.abort(ABORTED);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    if (this.aborted) controller.abort(ABORTED);
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: HttpHeaders): void {
    if (status >= 200 && !this.aborted) this.reply.start(status, headers);
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.aborted) this.reply.data(chunk);
  }

  onResponseEnd(): void {
    if (!this.aborted) this.reply.end();
  }

  onResponseError(_: Dispatcher.DispatchController | undefined, error: Error): void {
    if (!this.aborted) this.reply.fail({ sent: this.controller !== undefined, error });
  }
}

const ABORTED = new Error('aborted');

export interface Abortable {
  abort(): void;
}

/** Keep-alive pools per origin; no redirects; what is bounded in time is bounded by the caller's deadline. */
export class HttpClient {
  private readonly pools = new Map<string, Pool>();

  constructor(private readonly options: HttpClientOptions) {}

  private pool(origin: string): Pool {
    let pool = this.pools.get(origin);
    if (!pool) {
      pool = new Pool(origin, {
        connect: { timeout: this.options.connectTimeout },
        headersTimeout: 0,
        bodyTimeout: 0,
        keepAliveTimeout: 30_000,
        pipelining: 1,
        allowH2: false,
      });
      this.pools.set(origin, pool);
    }
    return pool;
  }

  request(target: HttpTarget, request: HttpRequest, reply: HttpReply): Abortable {
    const exchange = new Exchange(reply);
    this.pool(target.origin).dispatch(
      {
        path: target.path,
        method: request.method,
        headers: request.headers as string[],
        body: request.body ?? null,
      },
      exchange,
    );
    return exchange;
  }

  async close(): Promise<void> {
    const pools = [...this.pools.values()];
    this.pools.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }
}
