import type { Catalog } from '../../core/catalog/catalog.js';
import { oneServer, type ServerGateway } from '../../core/gateway.js';
import type { RawRequest, ReplyFlow } from '../../core/upstream.js';
import { ProtocolError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { InboundRequest } from '../http/request.js';
import type { InboundResponse } from '../http/response.js';
import type { RequestContext, Route } from '../http/route.js';
import { REST_ERRORS } from './rest-errors.js';
import { restCall, restCaller } from './rest-request.js';
import type { ServerLookup } from './server-lookup.js';

export interface RawProxyOptions {
  readonly gateway: ServerGateway;
  readonly servers: ServerLookup;
  readonly catalog: Pick<Catalog, 'upstream'>;
  /** Whether the configuration allows calls to the tools of a server. */
  isCallable(server: string): boolean;
  readonly limits: { readonly body: number };
}

const ROOT = '/mcp-proxy/';
const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const;

/**
 * The headers of a request that are passed on. No other header is passed on, because it may be a credential of the
 * caller.
 */
const SENT_ON = [
  ...['accept', 'accept-language', 'content-type', 'if-match', 'if-modified-since', 'if-none-match', 'last-event-id'],
  ...['mcp-method', 'mcp-name', 'mcp-protocol-version', 'mcp-session-id', 'traceparent', 'tracestate'],
];

/**
 * The headers of a reply that are passed back. Cookies and challenges are not passed back, because they are meant for
 * the gateway.
 */
const PASSED_BACK = new Set([
  ...['allow', 'cache-control', 'content-language', 'content-type', 'etag', 'last-modified', 'location', 'retry-after'],
  ...['mcp-protocol-version', 'mcp-session-id', 'x-accel-buffering', 'x-trace-id'],
]);

/** A page that a server returns gets none of the rights of the gateway's own pages. */
const PROTECTION = ['X-Content-Type-Options', 'nosniff', 'Content-Security-Policy', "sandbox; default-src 'none'"];

/** Passes requests on to servers unchanged, for administrators who examine a server. */
export class RawProxy {
  constructor(private readonly options: RawProxyOptions) {}

  routes(): Route[] {
    return [`${ROOT}{id}`, `${ROOT}{id}/{path*}`].flatMap((path) =>
      METHODS.map(
        (method): Route => ({
          method,
          path,
          access: 'admin',
          errors: REST_ERRORS,
          description: 'Passes a request on to a server (`mcp.rawProxy`)',
          handle: (context) => this.pass(context, method),
        }),
      ),
    );
  }

  private async pass(context: RequestContext, method: RawRequest['method']): Promise<void> {
    const { gateway, servers, catalog, isCallable, limits } = this.options;
    const { req, principal } = context;
    const server = await servers.named(context, context.params['id']!);
    // The request may call any tool of the server, so a credential for some tools only is refused.
    if ((principal.restriction?.tools.length ?? 0) > 0)
      throw new ProtocolError('forbidden', 'This credential is for some tools only, and the path leads to all tools');
    // The server sees only the credential of the gateway, so it cannot keep tenants apart.
    if (principal.tenant !== undefined)
      throw new ProtocolError('forbidden', 'This needs an administrator without a tenant');
    if (!isCallable(server))
      throw new ProtocolError('tool_invocation_disabled', `Calls to tools of server "${server}" are disabled`);
    const path = pathIn(context);
    const body = method === 'GET' ? undefined : await req.read(limits.body);
    const call = restCall(context, `proxy/${method}`, RawObject.from({ path }), oneServer(server));
    await gateway.atServer(restCaller(context), call, server, async () => {
      const upstream = catalog.upstream(server);
      if (!upstream?.raw)
        throw new ProtocolError('invalid_request', `Server "${server}" has no URL`, { outcome: 'not_executed' });
      const { cancellation } = call;
      const reply = new PassedReply(context);
      const passing = upstream.raw(restCaller(context), {
        ...{ method, path, query: queryIn(req), headers: headersIn(req), cancellation },
        body: body && body.length > 0 ? body : undefined,
        start: (status, headers, flow) => {
          reply.start(status, headers, flow);
          if (req.method === 'HEAD') cancellation.cancel('the caller wants only the head');
        },
        data: (chunk) => reply.data(chunk),
      });
      await passing.catch((error: unknown) => {
        // A regular end of the response would make an incomplete reply look complete.
        if (context.res.begun) context.res.destroy();
        throw error;
      });
      context.res.end();
    });
  }
}

/**
 * The reply of a server on its way to the caller. If the caller reads slowly, the gateway reads from the server slowly
 * too.
 */
class PassedReply {
  private readonly res: InboundResponse;
  private flow: ReplyFlow | undefined;

  constructor(private readonly context: RequestContext) {
    this.res = context.res;
  }

  start(status: number, headers: readonly string[], flow: ReplyFlow): void {
    // Do not pass 401 on, because the caller would look for a fault in its own credential.
    if (status === 401 || status === 407)
      throw new ProtocolError('upstream_unauthorized', 'The server refused the credential of the gateway');
    this.flow = flow;
    const passed: string[] = [];
    for (let i = 0; i < headers.length; i += 2)
      if (PASSED_BACK.has(headers[i]!.toLowerCase())) passed.push(headers[i]!, headers[i + 1]!);
    this.res.open(status, [...this.context.headers, ...passed, ...PROTECTION]);
  }

  data(chunk: Buffer): void {
    const { res, flow } = this;
    res.write([chunk]);
    if (!res.full) return;
    flow?.pause();
    const drained = (): void => {
      res.offDrain(drained);
      flow?.resume();
    };
    res.onDrain(drained);
  }
}

/** The rest of the path after the server, as the caller wrote it. */
function pathIn({ path }: RequestContext): string {
  const after = path.indexOf('/', ROOT.length);
  return after < 0 ? '' : path.slice(after + 1);
}

function queryIn({ target }: InboundRequest): string {
  const mark = target.indexOf('?');
  return mark < 0 ? '' : target.slice(mark + 1);
}

function headersIn(req: InboundRequest): string[] {
  return SENT_ON.flatMap((name) => {
    const value = req.header(name);
    return value === undefined ? [] : [name, value];
  });
}
