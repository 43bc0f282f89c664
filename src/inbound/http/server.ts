import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Principal } from '../../core/caller.js';
import type { Guard } from '../../identity/guard.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type Origins, PREFLIGHT } from './origin.js';
import { sendEmpty } from './reply.js';

export interface Visit {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Headers that belong on every answer. */
  readonly headers: readonly string[];
}

export interface Route {
  /** Open to everybody, known or not. */
  readonly open?: boolean;
  handle(visit: Visit, principal: Principal): Promise<void> | void;
}

/** Finds what serves a path; undefined where nothing does. */
export type Router = (path: string) => Route | undefined;

export interface HttpServerOptions {
  readonly guard: Guard;
  readonly origins: Origins;
  readonly router: Router;
  readonly maxConnections: number;
  /** Writes an error where no route did. */
  refuse(visit: Visit, error: ProtocolError): void;
  failed(error: unknown, path: string): void;
}

const REALM = 'Bearer realm="parley"';

/** The listener. Every request passes the same checks in the same order before any route sees it (S2). */
export class HttpServer {
  private readonly server: Server;
  private leaving = false;

  constructor(private readonly options: HttpServerOptions) {
    this.server = createServer(
      {
        // Slow headers are noticed within a second of the limit, not at Node's next half minute (fault 8).
        connectionsCheckingInterval: 1_000,
        headersTimeout: 5_000,
        requestTimeout: 30_000,
        keepAliveTimeout: 65_000,
        maxHeaderSize: 16_384,
        insecureHTTPParser: false,
        requireHostHeader: true,
      },
      (req, res) => this.visit(req, res),
    );
    this.server.maxConnections = options.maxConnections;
    // Node would drop what exceeds a count without a word; it is counted in `checkHeaders` instead.
    this.server.maxHeadersCount = 0;
  }

  private visit(req: IncomingMessage, res: ServerResponse): void {
    if (this.leaving) res.shouldKeepAlive = false;
    const url = req.url ?? '/';
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    const { origins, guard, router } = this.options;
    const origin = req.headers.origin;
    const visit: { -readonly [key in keyof Visit]: Visit[key] } = {
      req,
      res,
      path,
      query: mark < 0 ? NO_QUERY : new URLSearchParams(url.slice(mark + 1)),
      headers: [],
    };
    try {
      checkHeaders(req.rawHeaders);
      if (!origins.allowsHost(req.headers.host))
        throw new ProtocolError('forbidden', 'This Host is not served here; add it to "hosts" if it should be');
      if (!origins.allowsOrigin(origin))
        throw new ProtocolError('forbidden', 'This Origin is not allowed; add it to "origins" if it should be');
      visit.headers = origins.headersFor(origin);
      if (req.method === 'OPTIONS') {
        sendEmpty(res, 200, [...visit.headers, ...PREFLIGHT]);
        return;
      }
      const route = router(path);
      const principal = guard.identify(req.headers.authorization);
      if (!principal && !route?.open) {
        throw new ProtocolError('unauthorized', 'Unauthorized: Invalid or missing API key', {
          headers: { 'WWW-Authenticate': REALM },
        });
      }
      if (!route) throw new ProtocolError('not_found', `Nothing is served at ${path}`);
      route.handle(visit, principal ?? NOBODY)?.catch((error: unknown) => this.broken(visit, error));
    } catch (error) {
      this.broken(visit, error);
    }
  }

  private broken(visit: Visit, error: unknown): void {
    if (error instanceof ProtocolError) this.options.refuse(visit, error);
    else {
      this.options.failed(error, visit.path);
      this.options.refuse(visit, new ProtocolError('internal', 'Internal error'));
    }
  }

  listen(host: string, port: number): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen({ host, port, backlog: 1_024 }, () => {
        this.server.off('error', reject);
        resolve(this.server.address() as AddressInfo);
      });
    });
  }

  /**
   * Whoever sends requests here needs a moment to hear that it should not: so long they are served, each as the last one
   * of its connection, and no connection is closed under a request that is on its way (fault 26).
   */
  async leave(milliseconds: number): Promise<void> {
    this.leaving = true;
    const open = await new Promise<number>((resolve) => this.server.getConnections((_, count) => resolve(count)));
    if (open > 0) await new Promise((resolve) => setTimeout(resolve, milliseconds));
  }

  /** No new connections; those that are idle go, the others when their request is done or `force` says so. */
  async close(force: Promise<unknown>): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.server.closeIdleConnections();
    // Those that were kept open before it was known that they would not be needed.
    const idle = setInterval(() => this.server.closeIdleConnections(), 50);
    void force.then(() => this.server.closeAllConnections());
    await closed;
    clearInterval(idle);
  }
}

const MOST_HEADERS = 128;
/** Of these a proxy may read the last where Node reads the first, so they stand once (fault 11). */
const SINGLE: ReadonlySet<string> = new Set(['host', 'authorization', 'content-type']);

function checkHeaders(raw: readonly string[]): void {
  const headers = { Connection: 'close' };
  if (raw.length > MOST_HEADERS * 2)
    throw new ProtocolError('headers_too_large', `A request has at most ${MOST_HEADERS} headers`, { headers });
  let seen = '';
  for (let i = 0; i < raw.length; i += 2) {
    const { length } = raw[i]!;
    if (length !== 4 && length !== 12 && length !== 13) continue;
    const name = raw[i]!.toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen.includes(`${name};`))
      throw new ProtocolError('invalid_request', `The ${name} header stands twice`, { headers });
    seen += `${name};`;
  }
}

const NO_QUERY = new URLSearchParams();
const NOBODY: Principal = { name: '', admin: false };
