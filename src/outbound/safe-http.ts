/**
 * Requests to URLs that a caller, a server or an agent supplied, in the form of `fetch`: for OAuth metadata and tokens,
 * keys, Client ID Metadata Documents. Every address is checked when it is dialled (S11), the scheme is https (S9), the
 * reply has a limit in size and time, and a redirect never leads to another origin.
 */
import { type Egress, EgressRefused } from './egress.js';
import { HttpClient, HttpError, type HttpRequest, headerOf, httpTarget, type ProxyRule } from './http/index.js';

/** The part of `fetch` that libraries use. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

export interface SafeHttpOptions {
  readonly egress: Egress;
  /** Time limit for opening a connection, in milliseconds. */
  readonly connectTimeout: number;
  readonly proxy?: ProxyRule | undefined;
}

export interface SafeFetchOptions {
  /** Time limit for the whole exchange with its redirects, in milliseconds. Default: 10 seconds. */
  readonly timeout?: number;
  /** Largest body of a reply, decoded, in bytes. Default: 1 MiB. */
  readonly limit?: number;
  /**
   * The origin that the operator configured, and its client. Requests to it are not checked: it may be private, and it
   * may be http.
   */
  readonly configured?: { readonly origin: string; readonly client: HttpClient };
}

const TIMEOUT = 10_000;
const LIMIT = 1024 * 1024;
const MAX_REDIRECTS = 3;
const METHODS: ReadonlySet<string> = new Set(['GET', 'POST', 'DELETE']);
const NULL_BODY: ReadonlySet<number> = new Set([204, 205, 304]);
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** The connection writes these headers by itself. */
const OWN_HEADERS: ReadonlySet<string> = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'te']);

interface Reply {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: Buffer;
}

export class SafeHttp {
  readonly egress: Egress;
  /** The client that checks each address that it dials. */
  readonly client: HttpClient;
  readonly proxy: ProxyRule | undefined;

  constructor({ egress, connectTimeout, proxy }: SafeHttpOptions) {
    this.egress = egress;
    this.proxy = proxy;
    this.client = new HttpClient({ connectTimeout, egress, proxy });
  }

  /** `fetch` with the default limits. Rejects with `EgressRefused` or `HttpError`, never with a `TypeError`. */
  readonly fetch: Fetch = this.fetchWith();

  /** A `fetch` with its own limits. */
  fetchWith(options: SafeFetchOptions = {}): Fetch {
    return (input, init) => this.run(input, init, options);
  }

  /** Checks a URL without DNS and without a request, for example when it is registered. Throws `EgressRefused`. */
  check(url: string): URL {
    return this.egress.checkSecureUrl(url);
  }

  close(): Promise<void> {
    return this.client.close();
  }

  private async run(
    input: string | URL | Request,
    init: RequestInit | undefined,
    { timeout = TIMEOUT, limit = LIMIT, configured }: SafeFetchOptions,
  ): Promise<Response> {
    const text = input instanceof Request ? input.url : String(input);
    // The URL is checked before `Request` reads it, because errors of `Request` repeat the whole URL.
    this.place(text, configured);
    const request = new Request(input, init);
    const { method, redirect } = request;
    if (!METHODS.has(method)) throw new HttpError('HTTP_UNSENDABLE', `the method ${method} is not supported`);
    const body = request.body === null ? undefined : Buffer.from(await request.arrayBuffer());
    const headers = [...request.headers].flatMap(([name, value]) => (OWN_HEADERS.has(name) ? [] : [name, value]));
    const sent: HttpRequest = { method: method as HttpRequest['method'], headers, ...(body && { body }) };
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeout)]);
    for (let url = new URL(text), redirects = 0; ; redirects++) {
      const reply = await exchange(this.place(url.href, configured), url, sent, limit, signal);
      const location = REDIRECTS.has(reply.status) ? headerOf(reply.headers, 'location') : undefined;
      if (location === undefined || redirect === 'manual') return responseOf(reply, url, redirects > 0);
      url = redirected(url, location, method, redirect === 'error' ? MAX_REDIRECTS : redirects);
    }
  }

  /** The client for a URL. Throws `EgressRefused`. */
  private place(text: string, configured: SafeFetchOptions['configured']): HttpClient {
    if (configured !== undefined && URL.canParse(text)) {
      const { origin, username, password } = new URL(text);
      if (origin === configured.origin && username === '' && password === '') return configured.client;
    }
    try {
      this.egress.checkSecureUrl(text);
    } catch (error) {
      if (error instanceof EgressRefused) throw new EgressRefused(`${originOf(text)} ${error.message}`);
      throw error;
    }
    return this.client;
  }
}

/** The part of a URL for messages: paths and queries may hold secrets. */
const originOf = (text: string): string => {
  const origin = URL.canParse(text) ? new URL(text).origin : 'null';
  return origin === 'null' ? 'the URL' : origin;
};

function redirected(from: URL, location: string, method: string, redirects: number): URL {
  if (method !== 'GET' || redirects >= MAX_REDIRECTS)
    throw new EgressRefused(`${from.origin} answered with a redirect, which is not followed`);
  const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (to?.origin !== from.origin || to.username !== '' || to.password !== '')
    throw new EgressRefused(`${from.origin} redirects to another origin, which is not followed`);
  return to;
}

function exchange(
  client: HttpClient,
  url: URL,
  request: HttpRequest,
  limit: number,
  signal: AbortSignal,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let status = 0;
    let headers: readonly string[] = [];
    const settle = (finish: () => void): void => {
      signal.removeEventListener('abort', stop);
      finish();
    };
    const stop = (): void => {
      running.abort();
      const { reason } = signal;
      const late = (reason as { name?: unknown } | undefined)?.name === 'TimeoutError';
      settle(() => reject(late ? new HttpError('ETIMEDOUT', `${url.origin} gave no complete reply in time`) : reason));
    };
    const running = client.request(httpTarget(url), request, {
      start: (given, replied) => {
        status = given;
        headers = replied;
      },
      data: (chunk) => {
        size += chunk.length;
        // An exception fails the exchange and closes the connection.
        if (size > limit)
          throw new HttpError('HTTP_INVALID', `the reply of ${url.origin} is longer than ${limit} bytes`);
        chunks.push(chunk);
      },
      end: () => settle(() => resolve({ status, headers, body: Buffer.concat(chunks) })),
      fail: ({ error }) =>
        settle(() =>
          reject(error instanceof EgressRefused ? new EgressRefused(`${url.origin} ${error.message}`) : error),
        ),
    });
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

function responseOf({ status, headers, body }: Reply, url: URL, followed: boolean): Response {
  if (status < 200 || status > 599)
    throw new HttpError('HTTP_INVALID', `${url.origin} answered with the status ${status}`);
  const replied = new Headers();
  for (let i = 0; i < headers.length; i += 2) replied.append(headers[i]!, headers[i + 1]!);
  const response = new Response(NULL_BODY.has(status) ? null : new Uint8Array(body), { status, headers: replied });
  Object.defineProperties(response, { url: { value: url.href }, redirected: { value: followed } });
  return response;
}
