import { restErrors } from '../inbound/a2a/error-response.js';
import type { Route } from '../inbound/http/route.js';
import { AgentChanges } from '../inbound/rest/agent-changes.js';
import { LiteLlmAgents } from '../inbound/rest/litellm-agents.js';
import { LiteLlmOAuth } from '../inbound/rest/litellm-oauth.js';
import { LiteLlmServers } from '../inbound/rest/litellm-servers.js';
import { McpRest } from '../inbound/rest/mcp-rest.js';
import { RawProxy } from '../inbound/rest/raw-proxy.js';
import { RouteIqServers } from '../inbound/rest/routeiq.js';
import { ServerChanges } from '../inbound/rest/server-changes.js';
import { ServerFactsReader } from '../inbound/rest/server-facts.js';
import { ServerLookup } from '../inbound/rest/server-lookup.js';
import { ServerTrial } from '../inbound/rest/server-trial.js';
import { ProtocolError, type Reason } from '../protocol/errors.js';
import type { Runtime } from './runtime.js';
import { toolsOfTrial } from './server-trial.js';

/** The REST routes over the call pipeline: the surfaces that clients of other gateways expect. */
export function restRoutes(runtime: Runtime): Route[] {
  const { mcp, a2a } = runtime.config;
  return [
    ...unlessOff(serverRoutes(runtime), mcp.enabled, 'mcp_gateway_disabled', 'MCP is disabled ("mcp.enabled")'),
    ...unlessOff(agentRoutes(runtime), a2a.enabled, 'a2a_gateway_disabled', 'A2A is disabled ("a2a.enabled")'),
  ];
}

function serverRoutes({ config, info, mcp, registry, upstreamLogins }: Runtime): Route[] {
  const { limits, publicUrl } = config;
  const { gateway, catalog, admission } = mcp;
  const facts = new ServerFactsReader({
    gateway,
    catalog,
    admission,
    entries: () => registry.list('server'),
    entry: (name) => registry.get('server', name),
  });
  const shared = { gateway, facts, info, publicUrl, limits };
  const servers = new ServerLookup(catalog, admission);
  const isCallable = (name: string): boolean => mcp.servers.get(name)?.invocation !== false;
  return [
    ...new McpRest({ ...shared, servers }).routes(),
    ...new LiteLlmServers(shared).routes(),
    ...new RouteIqServers(shared).routes(),
    ...new ServerChanges({ registry, facts, admission, limits }).routes(),
    ...new ServerTrial({
      gateway,
      registry,
      limits,
      toolsOf: async (caller, name, settings) => toolsOfTrial(mcp.trial(name, settings), caller),
    }).routes(),
    ...new LiteLlmOAuth({
      servers,
      logins: upstreamLogins.logins,
      links: upstreamLogins.links,
      base: () => upstreamLogins.base,
    }).routes(),
    ...(config.mcp.rawProxy ? new RawProxy({ gateway, servers, catalog, isCallable, limits }).routes() : []),
  ];
}

function agentRoutes({ config, mcp, a2a, registry }: Runtime): Route[] {
  const { dispatcher, cards } = a2a;
  const agents = new LiteLlmAgents({ gateway: dispatcher, cards, entry: (name) => registry.get('agent', name) });
  const changes = new AgentChanges({
    registry,
    admission: mcp.admission,
    limits: config.limits,
    a2aErrors: restErrors(config.a2a.errorProfile),
    row: (context, name) => agents.row(context, name),
  });
  return [...agents.routes(), ...(config.a2a.enabled ? changes.routes() : [])];
}

/** S1-58: if a protocol is disabled, its routes answer that it is disabled. */
function unlessOff(routes: readonly Route[], enabled: boolean, reason: Reason, message: string): readonly Route[] {
  const handle = (): never => {
    throw new ProtocolError(reason, message);
  };
  return enabled ? routes : routes.map((route) => ({ ...route, handle }));
}
