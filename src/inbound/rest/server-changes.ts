import { type Admission, serverTarget, visible } from '../../core/admission.js';
import { actorOf } from '../../core/audit-trail.js';
import type { UpstreamEntry, UpstreamRegistry } from '../../core/upstream-registry.js';
import { ofWholeGateway } from '../../core/whole-admin.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Method, RequestContext, Route } from '../http/route.js';
import { rowOf } from './litellm-servers.js';
import { REST_ERRORS } from './rest-errors.js';
import { type BodyLimits, readBody, requiredText, restCaller, send } from './rest-request.js';
import { serverOf } from './routeiq.js';
import { newServerId, readServerBody, type ServerBody, withoutRemovals } from './server-body.js';
import type { ServerFacts, ServerFactsReader } from './server-facts.js';

export interface ServerChangesOptions {
  readonly registry: UpstreamRegistry;
  readonly facts: ServerFactsReader;
  readonly admission: Pick<Admission, 'sees'>;
  readonly limits: BodyLimits;
}

/**
 * The routes with which clients of LiteLLM and RouteIQ change servers. The registry checks, stores and audits the
 * changes.
 */
export class ServerChanges {
  constructor(private readonly options: ServerChangesOptions) {}

  routes(): Route[] {
    const route = (method: Method, path: string, description: string, handle: Route['handle']): Route => ({
      method,
      path,
      access: 'admin',
      errors: REST_ERRORS,
      description,
      handle,
    });
    const [own, other] = ['/v1/mcp/server', '/llmrouter/mcp/servers'];
    return [
      route('POST', own, 'Registers an MCP server', async (context) => {
        send(context, rowOf(await this.create(context)), 201);
      }),
      route('PUT', own, 'Changes an MCP server (`server_id`); other settings stay', async (context) => {
        const body = await readBody(context, this.options.limits);
        const id = requiredText(body, 'server_id');
        send(context, rowOf(await this.change(context, id, readServerBody(body.value()))), 202);
      }),
      route('DELETE', `${own}/{id}`, 'Removes an MCP server', async (context) => {
        send(context, { server_id: await this.remove(context) }, 202);
      }),
      route('POST', '/v1/mcp/make_public', 'Not supported: the policy decides who sees a server', () => {
        throw new ProtocolError(
          'unsupported_operation',
          'No server is public at this gateway: rules of the policy decide which callers see it',
        );
      }),
      route('POST', other, 'Registers an MCP server', async (context) => {
        send(context, { status: 'registered', server_id: (await this.create(context)).name });
      }),
      route('PUT', `${other}/{id}`, 'Changes an MCP server; other settings stay', async (context) => {
        const body = await readBody(context, this.options.limits);
        const changed = await this.change(context, context.params['id']!, readServerBody(body.value()));
        send(context, { status: 'updated', server_id: changed.name, server: serverOf(changed) });
      }),
      route('DELETE', `${other}/{id}`, 'Removes an MCP server', async (context) => {
        send(context, { status: 'unregistered', server_id: await this.remove(context) });
      }),
      route('POST', `${other}/{id}/tools`, 'Not supported: servers themselves list their tools', () => {
        throw new ProtocolError(
          'unsupported_operation',
          'Tools cannot be registered: the gateway asks each server for its tools',
        );
      }),
    ];
  }

  private async create(context: RequestContext): Promise<ServerFacts> {
    ofWholeGateway(context.principal);
    const { registry, limits } = this.options;
    const { id = newServerId(), settings, meta } = readServerBody((await readBody(context, limits)).value());
    const name = registry.check('server', id, withoutRemovals(settings));
    await this.permit(context, name);
    const given = { settings: withoutRemovals(settings), meta, by: byOf(context) };
    return this.shown(context, await registry.create('server', name, given));
  }

  /** Members that the body does not have stay unchanged. The change is checked before it is stored. */
  private async change(context: RequestContext, id: string, body: ServerBody): Promise<ServerFacts> {
    ofWholeGateway(context.principal);
    const { registry, facts } = this.options;
    const { name, meta } = await facts.entry(context, id);
    if (body.id !== undefined && body.id.toLowerCase() !== name)
      throw new ProtocolError('invalid_params', 'A server keeps its name; register it again under the new one');
    const given = { settings: body.settings, meta: { ...meta, ...body.meta }, by: byOf(context) };
    return this.shown(context, await registry.patch('server', name, given));
  }

  private async remove(context: RequestContext): Promise<string> {
    ofWholeGateway(context.principal);
    const { registry, facts } = this.options;
    const { name } = await facts.entry(context, context.params['id']!);
    await registry.remove('server', name, { by: byOf(context) });
    return name;
  }

  /** The credential of an administrator may be for some servers only. */
  private async permit(context: RequestContext, name: string): Promise<void> {
    const [seen] = await visible(this.options.admission, restCaller(context), [name], serverTarget);
    if (seen === undefined)
      throw new ProtocolError('forbidden', `This credential may not change a server with the name "${name}"`);
  }

  private async shown(context: RequestContext, entry: UpstreamEntry): Promise<ServerFacts> {
    return this.options.facts.describeAlone(context, entry);
  }
}

const byOf = ({ principal, req }: RequestContext) => actorOf(principal, req.clientAddress);
