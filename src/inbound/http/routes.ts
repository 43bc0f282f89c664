import { type Admission, serverTarget } from '../../core/admission.js';
import type { Principal } from '../../core/caller.js';
import type { Catalog } from '../../core/catalog/catalog.js';
import { oneServer, type View } from '../../core/gateway.js';
import { ERROR_PROFILES } from '../../protocol/a2a/dialect.js';
import { ProtocolError, type Reason } from '../../protocol/errors.js';
import { A2A_RPC_ERRORS, restErrors } from '../a2a/error-response.js';
import { BASES, ROOTS, RPC_PATHS, RPC_STREAM_PATH } from '../a2a/paths.js';
import type { McpHttpEndpoint } from '../mcp/http-endpoint.js';
import { MCP_ERRORS } from '../mcp/mcp-errors.js';
import type { SseEndpoint } from '../mcp/sse-endpoint.js';
import type { WebSocketEndpoint } from '../mcp/websocket/websocket-endpoint.js';
import { selectedView } from '../rest/selected-view.js';
import { namedParameter } from './named-parameter.js';
import type { ErrorFormat, Fallback, Method, Parameter, RequestContext, Route } from './route.js';
import { RouteTable } from './route-table.js';

/** The endpoints that the gateway serves over HTTP. */
export interface Endpoints {
  readonly mcp: McpHttpEndpoint | 'off';
  /** The endpoint, or the reason for its absence; undefined if MCP is off. */
  readonly sse: SseEndpoint | SseOff | undefined;
  readonly webSocket?: WebSocketEndpoint | undefined;
  readonly catalog: Pick<Catalog, 'upstream'>;
  /** The configured views, which have paths like servers. */
  readonly views: ViewDirectory;
  /** A server that a caller may not see has no endpoint for that caller. */
  readonly admission: Pick<Admission, 'sees'>;
  readonly a2a: AgentEndpoints | 'off';
  /** Routes outside of both protocols: health, administration. */
  readonly others: readonly Route[];
  /** The error format below `/api/v1`. */
  readonly apiErrors: ErrorFormat;
  /** The documents with which OAuth clients find their authorization server. */
  readonly wellKnown: Pick<AgentEndpoints, 'routes' | 'fallbacks'>;
}

/** The routes of A2A. */
export interface AgentEndpoints {
  readonly routes: readonly Route[];
  readonly fallbacks: readonly Fallback[];
  /** The parameter `agent`. */
  readonly agent: Parameter;
}

const MCP_PATHS: readonly string[] = ['/', '/mcp', '/mcp/{server}', '/{server}/mcp'];
/** The streams of HTTP+SSE, and the paths to which their clients post. */
const SSE_PATHS: readonly (readonly [stream: string, messages: string])[] = [
  ['/sse', '/messages'],
  ['/mcp/sse', '/mcp/messages'],
  ['/mcp/{server}/sse', '/mcp/{server}/messages'],
];

/** The reasons for the absence of HTTP+SSE, and the keys of the configuration behind them. */
export type SseOff = Extract<Reason, 'sse_transport_disabled' | 'sse_legacy_mode'>;
const SSE_KEYS: Readonly<Record<SseOff, string>> = {
  sse_transport_disabled: 'mcp.sse',
  sse_legacy_mode: 'mcp.legacyMode',
};

const WEBSOCKET_PATHS: readonly string[] = ['/ws', '/ws/{server}'];

/** The configured views. */
export interface ViewDirectory {
  get(name: string): View | undefined;
  /** Whether the caller may know that the view exists. */
  sees(principal: Principal, view: View): boolean | Promise<boolean>;
}

/** The part of the catalog that a path serves. */
const viewOf =
  (views: ViewDirectory) =>
  ({ params, req }: RequestContext): View => {
    const name = params['server'];
    return name === undefined ? selectedView(req) : (views.get(name) ?? oneServer(name));
  };

/** The name of a view or, if there is no such view, of a server. */
const viewOrServer =
  (views: ViewDirectory, server: Parameter): Parameter =>
  (value, path, principal) => {
    const name = value.toLowerCase();
    const view = views.get(name);
    if (!view) return server(value, path, principal);
    const answer = (seen: boolean): string => {
      if (seen) return name;
      throw nothing(path);
    };
    const seen = views.sees(principal, view);
    return seen instanceof Promise ? seen.then(answer) : answer(seen);
  };

/** S1-58: every caller is told that a protocol is disabled. */
const off = (reason: Reason, message: string) => (): never => {
  throw new ProtocolError(reason, message);
};
const a2aOff = off('a2a_gateway_disabled', 'A2A is disabled ("a2a.enabled")');
const mcpOff = off('mcp_gateway_disabled', 'MCP is disabled ("mcp.enabled")');

const A2A_OFF: Pick<AgentEndpoints, 'routes' | 'fallbacks'> = {
  routes: BASES.flatMap((base) => [...RPC_PATHS, RPC_STREAM_PATH].map((path) => base + path)).map((path) => ({
    method: 'POST',
    path,
    access: 'public',
    errors: A2A_RPC_ERRORS,
    description: 'A2A is disabled',
    handle: a2aOff,
  })),
  fallbacks: [
    ...ROOTS,
    '/.well-known/agent.json',
    '/.well-known/agent-card.json',
    '/.well-known/agent-card-http.json',
    '/.well-known/agents',
    '/.well-known/api-catalog',
  ].map((below) => ({ below, access: 'public', errors: restErrors(ERROR_PROFILES[0]), missing: a2aOff })),
};

const MCP_OFF: readonly Route[] = MCP_PATHS.flatMap((path) =>
  (['GET', 'POST', 'DELETE'] satisfies Method[]).map((method) => ({
    method,
    path,
    access: 'public' as const,
    errors: MCP_ERRORS,
    description: 'MCP is disabled',
    handle: mcpOff,
  })),
);

/** S1-31: if HTTP+SSE is switched off, its clients learn the reason, and fall back to Streamable HTTP. */
const sseOff = (reason: SseOff): Route[] =>
  SSE_PATHS.flatMap(([stream, messages]) =>
    (
      [
        ['GET', stream],
        ['POST', messages],
      ] as const
    ).map(([method, path]) => ({
      method,
      path,
      access: 'public' as const,
      errors: MCP_ERRORS,
      description: 'HTTP+SSE is disabled',
      handle: off(reason, `HTTP+SSE is disabled ("${SSE_KEYS[reason]}"); use Streamable HTTP at /mcp`),
    })),
  );

const nothing = (path: string): ProtocolError => new ProtocolError('not_found', `Nothing is served at ${path}`);

/** Every path that the gateway serves. */
export function routeTable({
  mcp,
  sse,
  webSocket,
  catalog,
  views,
  admission,
  a2a,
  others,
  apiErrors,
  wellKnown,
}: Endpoints): RouteTable {
  const server = namedParameter({
    find: (name) => (catalog.upstream(name.toLowerCase()) ? name.toLowerCase() : undefined),
    targetOf: serverTarget,
    missing: nothing,
    admission,
  });
  const found = viewOf(views);
  const agents = a2a === 'off' ? A2A_OFF : a2a;
  return new RouteTable({
    routes: [
      ...others,
      ...wellKnown.routes,
      ...(mcp === 'off' ? MCP_OFF : MCP_PATHS.flatMap((path) => mcp.routes(path, found))),
      ...(typeof sse === 'string'
        ? sseOff(sse)
        : SSE_PATHS.flatMap(([stream, messages]) => sse?.routes(stream, messages, found) ?? [])),
      ...(webSocket ? WEBSOCKET_PATHS.flatMap((path) => webSocket.routes(path, found)) : []),
      ...agents.routes,
    ],
    parameters: { server: viewOrServer(views, server), ...(a2a !== 'off' && { agent: a2a.agent }) },
    fallbacks: [
      { below: '/api/v1', access: 'user', errors: apiErrors, missing: nothing },
      ...wellKnown.fallbacks,
      ...agents.fallbacks,
    ],
    errors: MCP_ERRORS,
  });
}
