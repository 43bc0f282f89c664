import type { ServerGateway } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import type { RequestContext, Route } from '../http/route.js';
import { REST_ERRORS } from './rest-errors.js';
import { type BodyLimits, NO_PARAMS, readBody, requiredText, restCall, restCaller, send } from './rest-request.js';
import type { ServerLookup } from './server-lookup.js';
import { argumentsIn, callTool, sendToolResult } from './tool-call.js';

export interface McpRestOptions {
  readonly gateway: ServerGateway;
  readonly servers: ServerLookup;
  readonly info: Implementation;
  readonly limits: BodyLimits;
}

/** Query parameters of other gateways for which this gateway has no equivalent. */
const UNKNOWN_HERE = ['toolset_name', 'include_disabled_tools'];

/** MCP over REST: tools as plain JSON for programs without an MCP client. Tools have the names of their own server. */
export class McpRest {
  constructor(private readonly options: McpRestOptions) {}

  routes(): Route[] {
    const route = { access: 'user', errors: REST_ERRORS } as const;
    return [
      {
        ...route,
        method: 'GET',
        path: '/mcp-rest/tools/list',
        description: 'The tools of all servers, or of one (`server_id`)',
        handle: (context) => this.list(context),
      },
      {
        ...route,
        method: 'POST',
        path: '/mcp-rest/tools/call',
        description: 'Calls a tool: `server_id`, `name`, `arguments`',
        handle: (context) => this.call(context),
      },
    ];
  }

  private async list(context: RequestContext): Promise<void> {
    const { gateway, servers } = this.options;
    const { query } = context;
    for (const name of UNKNOWN_HERE)
      if (query.has(name))
        throw new ProtocolError('unsupported_operation', `The parameter ${name} is not supported; leave it out`);
    const view = await servers.view(context, query.get('server_id') ?? query.get('mcp_server_name'));
    const call = restCall(context, 'tools/list', NO_PARAMS, view);
    const { lists, missing } = await gateway.listByServer(restCaller(context), call);
    const tools = lists.flatMap(({ server, items }) =>
      items.map((tool) => ({ ...tool, mcp_info: { server_name: server, server_id: server, alias: server } })),
    );
    const message = missing.map(({ server, reason }) => `${server}: ${reason}`).join('; ');
    send(context, {
      tools,
      error: missing.length > 0 ? 'partial_failure' : null,
      message: missing.length > 0 ? message : 'Successfully retrieved tools',
    });
  }

  private async call(context: RequestContext): Promise<void> {
    const { gateway, servers, info, limits } = this.options;
    const body = await readBody(context, limits);
    const server = await servers.named(context, requiredText(body, 'server_id'));
    const call = { server, tool: requiredText(body, 'name'), arguments: argumentsIn(body) };
    sendToolResult(context, info, call, await callTool(gateway, context, call));
  }
}
