import type { Route } from '../inbound/http/route.js';
import { McpRest } from '../inbound/rest/mcp-rest.js';
import { ServerLookup } from '../inbound/rest/server-lookup.js';
import { ProtocolError } from '../protocol/errors.js';
import type { Runtime } from './runtime.js';

/** The REST routes over the call pipeline: the surfaces that clients of other gateways expect. */
export function restRoutes({ config, info, mcp }: Runtime): Route[] {
  const { limits } = config;
  const servers = new ServerLookup(mcp.catalog, mcp.admission);
  const shared = { gateway: mcp.gateway, servers, info, limits };
  const routes = new McpRest(shared).routes();
  return config.mcp.enabled ? routes : routes.map((route) => ({ ...route, handle: mcpOff }));
}

const mcpOff = (): never => {
  throw new ProtocolError('mcp_gateway_disabled', 'MCP is disabled ("mcp.enabled")');
};
