import type { ServerGateway } from '../../core/gateway.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import { baseFor } from '../http/base-url.js';
import type { RequestContext, Route } from '../http/route.js';
import { REST_ERRORS } from './rest-errors.js';
import { NO_PARAMS, restCall, restCaller, send } from './rest-request.js';
import { selectedView } from './selected-view.js';
import type { ServerFacts, ServerFactsReader } from './server-facts.js';
import { failureOf } from './tool-call.js';

export interface LiteLlmServersOptions {
  readonly gateway: Pick<ServerGateway, 'call'>;
  readonly facts: ServerFactsReader;
  readonly info: Implementation;
  readonly publicUrl: string | undefined;
}

/** The routes with which clients of LiteLLM read about MCP servers. */
export class LiteLlmServers {
  constructor(private readonly options: LiteLlmServersOptions) {}

  routes(): Route[] {
    const route = (path: string, description: string, handle: Route['handle']): Route => ({
      method: 'GET',
      path: `/v1/mcp${path}`,
      access: 'user',
      errors: REST_ERRORS,
      description,
      handle,
    });
    return [
      route('/server', 'The MCP servers that the caller may use', (context) => this.list(context)),
      route('/server/{id}', 'One MCP server', (context) => this.one(context)),
      route('/server/health', 'Health of MCP servers (`server_ids`)', (context) => this.health(context)),
      route('/tools', 'The tools of all MCP servers, with the names of /mcp', (context) => this.tools(context)),
      route('/access_groups', 'The groups of MCP servers', (context) => this.groups(context)),
      route('/registry.json', 'The MCP servers as a registry, with their URLs at this gateway', (context) =>
        this.registry(context),
      ),
    ];
  }

  private async list(context: RequestContext): Promise<void> {
    const { facts } = this.options;
    send(context, (await facts.read(context, await facts.entries(context))).map(rowOf));
  }

  private async one(context: RequestContext): Promise<void> {
    const { facts } = this.options;
    const [found] = await facts.read(context, [await facts.entry(context, context.params['id']!)]);
    send(context, rowOf(found!));
  }

  private async health(context: RequestContext): Promise<void> {
    const { facts } = this.options;
    const entries = await facts.entries(context);
    const wanted = context.query.getAll('server_ids').flatMap((ids) => ids.toLowerCase().split(','));
    const chosen = wanted.length === 0 ? entries : entries.filter(({ name }) => wanted.includes(name));
    send(
      context,
      chosen.map((entry) => {
        const { status, problem } = facts.status(entry);
        return { server_id: entry.name, status, health_check_error: problem ?? null };
      }),
    );
  }

  private async tools(context: RequestContext): Promise<void> {
    const call = restCall(context, 'tools/list', NO_PARAMS, selectedView(context.req));
    const outcome = await this.options.gateway.call(restCaller(context), { ...call, whole: true });
    if (outcome.kind === 'error') throw failureOf(outcome.error);
    const { tools } = outcome.kind === 'complete' ? outcome.result.value() : {};
    send(context, { tools: tools ?? [] });
  }

  private async groups(context: RequestContext): Promise<void> {
    const { facts } = this.options;
    send(context, { access_groups: facts.groups(await facts.entries(context)) });
  }

  private async registry(context: RequestContext): Promise<void> {
    const { facts, info, publicUrl } = this.options;
    const base = baseFor(publicUrl, context.req.reachedUrl);
    const entries = await facts.entries(context);
    const published = (name: string, description: string, path: string): object => ({
      server: {
        name,
        title: name,
        description,
        version: '1.0.0',
        remotes: [{ type: 'streamable-http', url: `${base}${path}` }],
      },
    });
    send(context, {
      servers: [
        published(info.name, 'All MCP servers of this gateway', '/mcp'),
        ...entries.map(({ name, meta }) =>
          published(name, textOf(meta['description']) ?? `The MCP server ${name}`, `/${name}/mcp`),
        ),
      ],
    });
  }
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
const timeOf = (value: number | undefined): string | null =>
  value === undefined ? null : new Date(value).toISOString();

/** A server in LiteLLM's form, without credentials. */
export function rowOf(facts: ServerFacts): object {
  const { name, meta } = facts;
  return {
    server_id: name,
    server_name: textOf(meta['server_name']) ?? name,
    alias: name,
    description: textOf(meta['description']) ?? null,
    url: facts.url,
    transport: facts.transport,
    auth_type: facts.authType,
    tools: facts.tools.map((tool) => tool['name']),
    resources: facts.resources.map((resource) => resource['uri']),
    mcp_access_groups: facts.groups,
    mcp_info: { ...(meta['mcp_info'] as object | undefined), server_name: name },
    teams: [],
    status: facts.status,
    last_health_check: timeOf(facts.probedAt),
    health_check_error: facts.problem ?? null,
    created_at: timeOf(facts.createdAt),
    created_by: facts.createdBy ?? null,
    updated_at: timeOf(facts.updatedAt),
    updated_by: facts.updatedBy ?? null,
  };
}
