import { ANONYMOUS, isAdmin, type Principal } from '../../core/caller.js';
import type { Refusals } from '../../identity/audited-refusals.js';
import { type Authenticated, type Authenticator, admitted, Challenge } from '../../identity/authenticator.js';
import { ProtocolError } from '../../protocol/errors.js';
import { Addresses } from './connection-limits.js';
import type { TrustedProxies } from './forwarded.js';
import { type Origins, preflight } from './host-and-origin.js';
import { OpenExchanges, type WatchedExchange } from './open-exchanges.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';
import type { Access, Params, Query, RequestContext, Route } from './route.js';
import type { Match, RouteTable } from './route-table.js';
import { sendEmpty } from './send-body.js';

export interface RequestChecksOptions {
  /** Authenticates the caller of every request. */
  readonly authenticator: Authenticator;
  /** Receives requests whose caller is unknown, or whose caller may not use the route. */
  readonly refusals?: Refusals;
  /** Examines the credentials of open exchanges again; absent if credentials never become invalid. */
  readonly recheck?: Authenticator | undefined;
  readonly origins: Origins;
  readonly routes: RouteTable;
  /** The refusal of calls while the gateway is overloaded. Public and administrative routes are served in any case. */
  readonly overloaded?: () => ProtocolError | undefined;
  /** Receives every error with which the gateway answers a request without making a call, for the metrics. */
  readonly refused?: (error: ProtocolError) => void;
  /**
   * Called after a failure in the gateway. `path` and the id are those of the failed request. Both are absent if
   * accepting a connection failed.
   */
  failed(error: unknown, path?: string, requestId?: string): void;
}

/** Every request passes the same checks in the same order before a route gets it (S2). */
export class RequestChecks {
  /** The open requests of each client behind trusted proxies, since many clients share a proxy's connections. */
  private readonly proxied: Addresses;
  private readonly exchanges: OpenExchanges | undefined;

  constructor(
    private readonly options: RequestChecksOptions,
    private readonly proxies: TrustedProxies,
    requestsPerAddress: number,
  ) {
    this.exchanges = options.recheck && new OpenExchanges(options.recheck);
    this.proxied = new Addresses(requestsPerAddress);
  }

  /** Checks a request, then gives it to its route. */
  check(req: InboundRequest, res: InboundResponse): void {
    const { origins, routes } = this.options;
    const origin = req.header('origin');
    const context = contextOf(req, res);
    const match = routes.match(context.path);
    try {
      if (req.source.trusted) this.behindProxy(req, res);
      if (!origins.allowsHost(req.header('host')))
        throw new ProtocolError('forbidden', 'The gateway does not serve this Host; add it to "hosts" to allow it');
      if (!origins.allowsOrigin(origin))
        throw new ProtocolError('forbidden', 'This Origin is not allowed; add it to "origins" to allow it');
      context.headers = [...origins.headersFor(origin), ...context.headers];
      if (req.method === 'OPTIONS') allow(context, match);
      else this.authenticate(context, match);
    } catch (error) {
      this.broken(context, error, match);
    }
  }

  /** Authenticates the caller. Stays synchronous if the authenticator is. */
  private authenticate(context: MutableRequestContext, match: Match): void {
    const { resource } = match;
    const route = resource.methods.get(context.req.method);
    const access = route?.access ?? resource.access;
    const refusal = access === 'user' ? this.options.overloaded?.() : undefined;
    if (refusal) throw refusal;
    const authenticator = resource.authenticator ?? this.options.authenticator;
    let given: Authenticated | Promise<Authenticated>;
    try {
      given = authenticator.authenticate(context.req);
    } catch (error) {
      given = this.unauthenticated(context, access, error);
    }
    if (!(given instanceof Promise)) {
      this.serve(context, match, route, this.principal(context, access, given));
      return;
    }
    given
      .catch((error: unknown) => this.unauthenticated(context, access, error))
      .then((known) => this.serve(context, match, route, this.principal(context, access, known)))
      .catch((error: unknown) => this.broken(context, error, match));
  }

  private principal({ req }: RequestContext, access: Access, given: Authenticated): Principal {
    try {
      return principalFor(access, given);
    } catch (error) {
      this.options.refusals?.refused(req, error, given instanceof Challenge ? undefined : given);
      throw error;
    }
  }

  /** The authenticator itself failed. A public route is served all the same. */
  private unauthenticated({ path, req }: RequestContext, access: Access, error: unknown): Principal {
    if (access !== 'public') {
      this.options.refusals?.refused(req, error);
      throw error;
    }
    if (!(error instanceof ProtocolError)) this.options.failed(error, path, req.id);
    return ANONYMOUS;
  }

  /** The caller may use the route. Checks the rest of the route table, and calls the route. */
  private serve(context: MutableRequestContext, match: Match, route: Route | undefined, principal: Principal): void {
    const { path } = context;
    const { missing } = match.resource;
    context.principal = principal;
    if (principal.credential !== undefined) this.watch(context);
    if (missing) throw missing(path);
    const params = this.options.routes.resolve(match, path, principal);
    if (params instanceof Promise)
      params
        .then((known) => this.handle(context, match, route, known))
        .catch((error: unknown) => this.broken(context, error, match));
    else this.handle(context, match, route, params);
  }

  /** Ends the exchange when its credential is revoked. */
  private watch({ req, res, principal }: RequestContext): void {
    const { exchanges } = this;
    if (!exchanges) return;
    const exchange = exchanges.add(new HttpExchange(req, res, principal));
    res.onClose(() => exchanges.remove(exchange));
  }

  private handle(context: MutableRequestContext, match: Match, route: Route | undefined, params: Params): void {
    const { req } = context;
    context.params = params;
    if (!route)
      throw new ProtocolError('http_method_not_allowed', `HTTP method ${req.method} not allowed`, {
        headers: { Allow: match.resource.allow },
      });
    const coding = req.header('content-encoding');
    if (coding !== undefined && coding.trim().toLowerCase() !== 'identity') throw compressed(coding);
    route.handle(context)?.catch((error: unknown) => this.broken(context, error, match));
  }

  /** Reads a trusted proxy's headers about its client, and limits the requests of that client. */
  private behindProxy(req: InboundRequest, res: InboundResponse): void {
    const forwarded = this.proxies.read((name) => req.header(name));
    if (!forwarded) return;
    const { host } = forwarded;
    req.forwarded =
      host !== undefined && !this.options.origins.allowsHost(host) ? { ...forwarded, host: undefined } : forwarded;
    const address = req.clientAddress;
    if (!this.proxied.enter(address)) {
      throw new ProtocolError('rate_limited', `Too many concurrent requests from ${address}`, {
        headers: { 'Retry-After': '1' },
      });
    }
    res.onClose(() => this.proxied.leave(address));
  }

  private broken(context: RequestContext, error: unknown, { resource }: Match): void {
    const known = error instanceof ProtocolError;
    if (known) this.options.refused?.(error);
    else this.options.failed(error, context.path, context.req.id);
    try {
      resource.errors.write(context, known ? error : new ProtocolError('internal', 'Internal error'));
    } catch (unsaid) {
      this.options.failed(unsaid, context.path, context.req.id);
      context.res.destroy();
    }
  }

  /** Answers a request that the listener refused. */
  refuse(req: InboundRequest, res: InboundResponse, error: unknown): void {
    const context = contextOf(req, res);
    this.broken(context, error, this.options.routes.match(context.path));
  }

  /** Whether a WebSocket may be opened at this target. */
  upgrades(target: string): boolean {
    return this.options.routes.match(pathOf(target)).resource.methods.get('GET')?.webSocket === true;
  }

  close(): void {
    this.exchanges?.close();
  }
}

/**
 * A class, because V8 makes a new hidden class for each object literal with a getter, which costs much time per
 * request.
 */
class HttpExchange implements WatchedExchange {
  constructor(
    readonly request: InboundRequest,
    private readonly response: InboundResponse,
    readonly principal: Principal,
  ) {}

  get listens(): boolean {
    return this.request.upgrade?.listens ?? this.request.listens;
  }

  end(): void {
    this.response.destroy();
  }
}

/** RFC 7694: the refusal names the accepted codings. */
const compressed = (coding: string): ProtocolError =>
  new ProtocolError(
    'unsupported_media_type',
    `A request body with the content coding ${JSON.stringify(coding)} is not supported`,
    {
      headers: { 'Accept-Encoding': 'identity' },
    },
  );

/** Responds to OPTIONS without authentication, because a browser sends a preflight without credentials. */
function allow({ res, headers, path }: RequestContext, { resource }: Match): void {
  if (resource.missing) throw resource.missing(path);
  sendEmpty(res, 200, [...headers, 'Allow', resource.allow, ...preflight(resource.corsMethods)]);
}

/** The caller for a route with this access. Throws if the caller may not use the route. */
function principalFor(access: Access, given: Authenticated): Principal {
  if (access === 'public' && given instanceof Challenge) return ANONYMOUS;
  const principal = admitted(given);
  if (access === 'admin' && !isAdmin(principal))
    throw new ProtocolError('forbidden', 'This is for administrators: callers with the role "admin"');
  return principal;
}

type MutableRequestContext = { -readonly [key in keyof RequestContext]: RequestContext[key] };

/** A context whose headers, parameters and caller are set as soon as they are known. */
function contextOf(req: InboundRequest, res: InboundResponse): MutableRequestContext {
  const { target } = req;
  const path = pathOf(target);
  return {
    req,
    res,
    path,
    query: path === target ? NO_QUERY : new URLSearchParams(target.slice(path.length + 1)),
    // With this id an operator finds the line of the log for the error that a client reports.
    headers: ['X-Request-Id', req.id],
    params: NO_PARAMS,
    principal: ANONYMOUS,
  };
}

/** The path without the query. */
function pathOf(target: string): string {
  const mark = target.indexOf('?');
  return mark < 0 ? target : target.slice(0, mark);
}

const NO_PARAMS: Params = {};
const NO_QUERY: Query = new URLSearchParams();
