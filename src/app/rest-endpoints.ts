import type { Route } from '../inbound/http/route.js';
import { LiteLlmAgents } from '../inbound/rest/litellm-agents.js';
import { LiteLlmServers } from '../inbound/rest/litellm-servers.js';
import { McpRest } from '../inbound/rest/mcp-rest.js';
import { RawProxy } from '../inbound/rest/raw-proxy.js';
import { RouteIqServers } from '../inbound/rest/routeiq.js';
import { ServerFactsReader } from '../inbound/rest/server-facts.js';
import { ServerLookup } from '../inbound/rest/server-lookup.js';
import { ProtocolError, type Reason } from '../protocol/errors.js';
import type { Runtime } from './runtime.js';

/** The REST routes over the call pipeline: the surfaces that clients of other gateways expect. */
export function restRoutes(runtime: Runtime): Route[] {
  const { mcp, a2a } = runtime.config;
  return [
    ...unlessOff(serverRoutes(runtime), mcp.enabled, 'mcp_gateway_disabled', 'MCP is disabled ("mcp.enabled")'),
    ...unlessOff(agentRoutes(runtime), a2a.enabled, 'a2a_gateway_disabled', 'A2A is disabled ("a2a.enabled")'),
  ];
}

function serverRoutes({ config, info, mcp }: Runtime): Route[] {
  const { limits, publicUrl } = config;
  const { gateway, catalog, admission } = mcp;
  const facts = new ServerFactsReader({
    gateway,
    catalog,
    admission,
    entries: () => Object.entries(mcp.servers.all).map(([name, settings]) => ({ name, settings, meta: {} })),
  });
  const shared = { gateway, facts, info, publicUrl, limits };
  const servers = new ServerLookup(catalog, admission);
  const isCallable = (name: string): boolean => mcp.servers.get(name)?.invocation !== false;
  return [
    ...new McpRest({ ...shared, servers }).routes(),
    ...new LiteLlmServers(shared).routes(),
    ...new RouteIqServers(shared).routes(),
    ...(config.mcp.rawProxy ? new RawProxy({ gateway, servers, catalog, isCallable, limits }).routes() : []),
  ];
}

function agentRoutes({ a2a }: Runtime): Route[] {
  const { dispatcher, cards } = a2a;
  return new LiteLlmAgents({ gateway: dispatcher, cards, entry: (name) => ({ name }) }).routes();
}

/** S1-58: a disabled protocol reports so. */
function unlessOff(routes: readonly Route[], enabled: boolean, reason: Reason, message: string): readonly Route[] {
  const handle = (): never => {
    throw new ProtocolError(reason, message);
  };
  return enabled ? routes : routes.map((route) => ({ ...route, handle }));
}
