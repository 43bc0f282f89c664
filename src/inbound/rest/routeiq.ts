import type { ServerGateway } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import { baseFor } from '../http/base-url.js';
import type { Method, RequestContext, Route } from '../http/route.js';
import { REST_ERRORS } from './rest-errors.js';
import {
  type BodyLimits,
  NO_PARAMS,
  readBody,
  requiredText,
  restCall,
  restCaller,
  send,
  sendBytes,
} from './rest-request.js';
import { selectedView } from './selected-view.js';
import type { ServerEntry, ServerFacts, ServerFactsReader, Transport } from './server-facts.js';
import { argumentsIn, callTool, plainResult, type ToolCall } from './tool-call.js';

export interface RouteIqOptions {
  readonly gateway: ServerGateway;
  readonly facts: ServerFactsReader;
  readonly info: Implementation;
  readonly publicUrl: string | undefined;
  readonly limits: BodyLimits;
}

/** A tool, and the names under which callers may call it. */
interface KnownTool {
  readonly server: string;
  readonly tool: JsonObject;
  readonly name: string;
}

/** The routes of RouteIQ for MCP servers and their tools. */
export class RouteIqServers {
  constructor(private readonly options: RouteIqOptions) {}

  routes(): Route[] {
    const route = (method: Method, path: string, description: string, handle: Route['handle']): Route => ({
      method,
      path,
      access: 'user',
      errors: REST_ERRORS,
      description,
      handle,
    });
    const get = (path: string, description: string, handle: Route['handle']): Route =>
      route('GET', path, description, handle);
    const [own, v1] = ['/llmrouter/mcp', '/v1/llmrouter/mcp'];
    return [
      get(`${own}/servers`, 'The MCP servers that the caller may use', (context) => this.servers(context)),
      get(`${own}/servers/{id}`, 'One MCP server', (context) => this.server(context)),
      get(`${own}/tools`, 'The names of all tools, with their servers', (context) => this.toolNames(context)),
      get(`${own}/tools/list`, 'All tools, with their schemas', (context) => this.toolList(context)),
      get(`${own}/tools/{tool}`, 'One tool', (context) => this.tool(context)),
      route('POST', `${own}/tools/call`, 'Calls a tool: `tool_name`, `arguments`', (context) => this.call(context)),
      get(`${own}/resources`, 'The resources of all MCP servers', (context) => this.resources(context)),
      get(`${v1}/server/health`, 'Health of all MCP servers', (context) => this.healthOfAll(context)),
      get(`${v1}/server/{id}/health`, 'Health of one MCP server', (context) => this.health(context)),
      get(`${v1}/registry.json`, 'The MCP servers as a registry (`access_groups`)', (context) =>
        this.registry(context),
      ),
      get(`${v1}/access_groups`, 'The groups of MCP servers', (context) => this.groups(context)),
    ];
  }

  private async servers(context: RequestContext): Promise<void> {
    send(context, { servers: (await this.all(context)).map(serverOf) });
  }

  private async server(context: RequestContext): Promise<void> {
    const found = await this.one(context);
    const { description } = found.meta;
    const metadata = { ...(typeof description === 'string' && { description }) };
    send(context, { ...serverOf(found), auth_type: found.authType, metadata });
  }

  private async toolNames(context: RequestContext): Promise<void> {
    const tools = await this.tools(context);
    send(context, { tools: tools.map(({ server, name }) => ({ server_id: server, server_name: server, tool: name })) });
  }

  private async toolList(context: RequestContext): Promise<void> {
    const tools = (await this.tools(context)).map(toolOf);
    send(context, { tools, count: tools.length });
  }

  private async tool(context: RequestContext): Promise<void> {
    send(context, toolOf(await this.named(context, context.params['tool']!)));
  }

  private async call(context: RequestContext): Promise<void> {
    const { gateway, limits, info } = this.options;
    const body = await readBody(context, limits);
    const { server, name } = await this.named(context, requiredText(body, 'tool_name'));
    const call: ToolCall = { server, tool: name, arguments: argumentsIn(body) };
    const result = await callTool(gateway, context, call);
    const failed = result.is('isError', 'true');
    const answer = RawObject.build([
      ['status', Buffer.from(failed ? '"error"' : '"success"')],
      ['tool_name', Buffer.from(JSON.stringify(name))],
      ['server_id', Buffer.from(JSON.stringify(server))],
      ['result', Buffer.concat(plainResult(result, info))],
    ]);
    sendBytes(context, [answer.bytes()]);
  }

  private async resources(context: RequestContext): Promise<void> {
    const found = await this.all(context);
    const resources = found.flatMap(({ name, resources: items }) =>
      items.map(({ uri }) => ({ server_id: name, server_name: name, resource: uri })),
    );
    send(context, { resources });
  }

  private async healthOfAll(context: RequestContext): Promise<void> {
    const servers = (await this.all(context)).map(healthOf);
    const count = (wanted: string): number => servers.filter(({ status }) => status === wanted).length;
    const summary = { total: servers.length, healthy: count('healthy'), unhealthy: count('unhealthy') };
    send(context, { servers, summary });
  }

  private async health(context: RequestContext): Promise<void> {
    send(context, healthOf(await this.one(context)));
  }

  private async registry(context: RequestContext): Promise<void> {
    const { facts, publicUrl } = this.options;
    const base = baseFor(publicUrl, context.req.reachedUrl);
    const wanted = context.query.get('access_groups')?.split(',');
    const inGroups = (entry: ServerEntry): boolean =>
      wanted === undefined || facts.groupsOf(entry).some((group) => wanted.includes(group));
    const found = await facts.read(context, (await facts.entries(context)).filter(inGroups));
    const servers = found.map((each) => {
      const { server_id: id, ...rest } = serverOf(each);
      // Clients reach every server over HTTP, even if the server is a program that the gateway starts.
      return { ...rest, id, url: `${base}/mcp/${each.name}`, transport: 'streamable_http', auth_type: each.authType };
    });
    send(context, { version: '1.0', servers, server_count: servers.length });
  }

  private async groups(context: RequestContext): Promise<void> {
    const { facts } = this.options;
    const groups = facts.groups(await facts.entries(context));
    send(context, { access_groups: groups, count: groups.length });
  }

  private async all(context: RequestContext): Promise<ServerFacts[]> {
    const { facts } = this.options;
    return facts.read(context, await facts.entries(context));
  }

  private async one(context: RequestContext): Promise<ServerFacts> {
    const { facts } = this.options;
    const [found] = await facts.read(context, [await facts.entry(context, context.params['id']!)]);
    return found!;
  }

  private async tools(context: RequestContext): Promise<KnownTool[]> {
    const call = restCall(context, 'tools/list', NO_PARAMS, selectedView(context.req));
    const { lists } = await this.options.gateway.listByServer(restCaller(context), call);
    return lists.flatMap(({ server, items }) => items.map((tool) => ({ server, tool, name: String(tool['name']) })));
  }

  /**
   * The tool of a name: its own name if only one server has it, otherwise `server.tool`. The server is chosen only
   * here, and the call goes to this server.
   */
  private async named(context: RequestContext, name: string): Promise<KnownTool> {
    const tools = await this.tools(context);
    const full = tools.filter(
      (known) => `${known.server}.${known.name}` === name || `${known.server}__${known.name}` === name,
    );
    const found = full.length > 0 ? full : tools.filter((known) => known.name === name);
    const [only, ...others] = found;
    if (!only) throw new ProtocolError('tool_not_found', `Unknown tool: ${name}`, { outcome: 'not_executed' });
    if (others.length === 0) return only;
    const candidates = found.map(({ server, name: own }) => `${server}.${own}`).join(', ');
    throw new ProtocolError('ambiguous_name', `Several servers have the tool "${name}": name one of ${candidates}`, {
      outcome: 'not_executed',
    });
  }
}

const TRANSPORTS: Readonly<Record<Transport, string>> = { http: 'streamable_http', sse: 'sse', stdio: 'stdio' };

/** A server in RouteIQ's form. */
export const serverOf = ({ name, url, transport, tools, resources }: ServerFacts) => ({
  server_id: name,
  name,
  url,
  transport: TRANSPORTS[transport],
  tools: tools.map((tool) => tool['name']),
  resources: resources.map(({ uri }) => uri),
});

const toolOf = ({ server, name, tool }: KnownTool): object => ({
  name,
  server_id: server,
  server_name: server,
  ...(tool['description'] !== undefined && { description: tool['description'] }),
  ...(tool['inputSchema'] !== undefined && { input_schema: tool['inputSchema'] }),
});

const healthOf = ({ name, url, status, latency, transport, tools, resources }: ServerFacts) => ({
  server_id: name,
  name,
  url,
  status,
  latency_ms: latency,
  transport: TRANSPORTS[transport],
  tool_count: tools.length,
  resource_count: resources.length,
});
