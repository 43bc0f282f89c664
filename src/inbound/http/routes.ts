import type { Catalog } from '../../core/catalog/catalog.js';
import { ALL_SERVERS, type View } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import { isA2aPath } from '../a2a/paths.js';
import type { HttpDoor } from '../mcp/http-door.js';
import type { SseDoor } from '../mcp/sse-door.js';
import type { Health } from './health.js';
import type { Route, Router } from './server.js';

export interface Doors {
  readonly mcp: HttpDoor | 'off';
  readonly sse: SseDoor | undefined;
  readonly health: Health;
  readonly catalog: Catalog;
  readonly a2a?: AgentDoors | 'off';
  /** Routes of administrators. */
  readonly admin?: Router;
}

/** The doors of A2A: cards and the catalogue of agents, callbacks of agents, and the agents themselves. */
export interface AgentDoors {
  readonly cards?: Router;
  readonly push?: Router;
  readonly agents: Router;
}

/** S1-58: what is switched off says so. */
const off = (reason: 'a2a_gateway_disabled' | 'mcp_gateway_disabled', message: string): Route => ({
  open: true,
  handle: () => {
    throw new ProtocolError(reason, message);
  },
});
const A2A_OFF = off('a2a_gateway_disabled', 'A2A is switched off here ("a2a.enabled")');
const MCP_OFF = off('mcp_gateway_disabled', 'MCP is switched off here ("mcp.enabled")');

function agentRoute(a2a: AgentDoors | 'off' | undefined, path: string): Route | undefined {
  if (a2a === undefined) return undefined;
  if (a2a === 'off') return isA2aPath(path) ? A2A_OFF : undefined;
  return a2a.cards?.(path) ?? a2a.push?.(path) ?? a2a.agents(path);
}

/** Every path the gateway serves, in one place. */
export function routes({ mcp, sse, health, catalog, a2a, admin }: Doors): Router {
  const endpoint = (view: View): Route =>
    mcp === 'off'
      ? MCP_OFF
      : { handle: ({ req, res, headers }, principal) => mcp.handle(req, res, view, principal, headers) };
  const stream = (door: SseDoor, view: View, messages: string): Route => ({
    handle: ({ req, res, headers, query }, principal) =>
      door.open(req, res, view, principal, headers, messages, query.get('view') === 'catalog'),
  });
  const messages = (door: SseDoor): Route => ({
    handle: ({ req, res, headers, query }, principal) =>
      door.post(req, res, principal, headers, query.get('sessionId')),
  });
  const fixed = new Map<string, Route>([
    ['/', endpoint(ALL_SERVERS)],
    ['/mcp', endpoint(ALL_SERVERS)],
    ['/health', health.summary],
    ['/_health/live', health.live],
    ['/_health/ready', health.ready],
  ]);
  if (sse) {
    fixed.set('/sse', stream(sse, ALL_SERVERS, '/messages'));
    fixed.set('/messages', messages(sse));
    fixed.set('/mcp/sse', stream(sse, ALL_SERVERS, '/mcp/messages'));
    fixed.set('/mcp/messages', messages(sse));
  }
  return (given) => {
    const path = given.length > 1 && given.endsWith('/') ? given.slice(0, -1) : given;
    const known = fixed.get(path) ?? admin?.(path);
    if (known) return known;
    const match = /^\/mcp\/([^/]+)(\/sse|\/messages)?$/.exec(path) ?? /^\/([^/]+)\/mcp$/.exec(path);
    const server = match?.[1]?.toLowerCase();
    if (server === undefined || !catalog.upstream(server)) return agentRoute(a2a, path);
    const view: View = { server };
    if (match?.[2] === undefined) return endpoint(view);
    if (!sse) return undefined;
    return match[2] === '/sse' ? stream(sse, view, `/mcp/${server}/messages`) : messages(sse);
  };
}
