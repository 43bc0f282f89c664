import { type Admission, agentTarget, unknownAgent, visible } from '../../core/admission.js';
import { actorOf } from '../../core/audit-trail.js';
import type { UpstreamRegistry } from '../../core/upstream-registry.js';
import { ofWholeGateway } from '../../core/whole-admin.js';
import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { ErrorFormat, Method, RequestContext, Route } from '../http/route.js';
import { REST_ERRORS } from './rest-errors.js';
import { type BodyLimits, readBody, restCaller, send } from './rest-request.js';

export interface AgentChangesOptions {
  readonly registry: UpstreamRegistry;
  readonly admission: Pick<Admission, 'sees'>;
  readonly limits: BodyLimits;
  /** The errors of `/a2a/agents`, whose other methods belong to A2A. */
  readonly a2aErrors: ErrorFormat;
  /** An agent as LiteLLM shows it. */
  row(context: RequestContext, name: string): Promise<object>;
}

/**
 * The routes with which clients of LiteLLM and RouteIQ change agents. The registry checks, stores and audits the
 * changes.
 */
export class AgentChanges {
  constructor(private readonly options: AgentChangesOptions) {}

  routes(): Route[] {
    const route = (method: Method, path: string, description: string, handle: Route['handle']): Route => ({
      method,
      path,
      access: 'admin',
      errors: REST_ERRORS,
      description,
      handle,
    });
    const { a2aErrors } = this.options;
    const change = (context: RequestContext): Promise<void> => this.change(context);
    const remove = async (context: RequestContext): Promise<void> => {
      const name = await this.remove(context);
      send(context, { status: 'unregistered', agent_id: name, message: `Agent ${name} deleted successfully` });
    };
    return [
      route('POST', '/v1/agents', 'Registers an A2A agent', async (context) => {
        send(context, await this.options.row(context, await this.create(context)));
      }),
      route('PUT', '/v1/agents/{id}', 'Changes an A2A agent; other settings stay', change),
      route('PATCH', '/v1/agents/{id}', 'Changes an A2A agent; other settings stay', change),
      route('DELETE', '/v1/agents/{id}', 'Removes an A2A agent', remove),
      route('POST', '/v1/agents/make_public', 'Not supported: the policy decides who sees an agent', notPublic),
      route('POST', '/v1/agents/{id}/make_public', 'Not supported: the policy decides who sees an agent', notPublic),
      {
        ...route('POST', '/a2a/agents', 'Registers an A2A agent', async (context) => {
          const name = await this.create(context);
          send(context, { status: 'registered', agent_id: name, agent_name: name });
        }),
        errors: a2aErrors,
      },
      { ...route('DELETE', '/a2a/agents/{id}', 'Removes an A2A agent', remove), errors: a2aErrors },
    ];
  }

  private async create(context: RequestContext): Promise<string> {
    ofWholeGateway(context.principal);
    const { registry, admission, limits } = this.options;
    const { name: given, settings, meta } = readAgentBody((await readBody(context, limits)).value());
    if (given === undefined) throw new ProtocolError('missing_parameter', 'agent_name is required in request body');
    const name = registry.check('agent', given, settings);
    const [seen] = await visible(admission, restCaller(context), [name], agentTarget);
    if (seen === undefined)
      throw new ProtocolError('forbidden', `This credential may not change an agent with the name "${name}"`);
    await registry.create('agent', name, { settings, meta, by: byOf(context) });
    return name;
  }

  private async change(context: RequestContext): Promise<void> {
    ofWholeGateway(context.principal);
    const { registry, limits, row } = this.options;
    const name = await this.named(context);
    const body = readAgentBody((await readBody(context, limits)).value());
    if (body.name !== undefined && body.name.toLowerCase() !== name)
      throw new ProtocolError('invalid_params', 'An agent keeps its name; register it again under the new one');
    const meta = { ...registry.get('agent', name)?.meta, ...body.meta };
    await registry.patch('agent', name, { settings: body.settings, meta, by: byOf(context) });
    send(context, await row(context, name));
  }

  private async remove(context: RequestContext): Promise<string> {
    ofWholeGateway(context.principal);
    const name = await this.named(context);
    await this.options.registry.remove('agent', name, { by: byOf(context) });
    return name;
  }

  /** The agent of the path, also if it is switched off. Throws `agent_not_found`. */
  private async named(context: RequestContext): Promise<string> {
    const { registry, admission } = this.options;
    const id = context.params['id']!;
    const name = registry.get('agent', id)?.name;
    const [found] = name === undefined ? [] : await visible(admission, restCaller(context), [name], agentTarget);
    if (found === undefined) throw unknownAgent(id);
    return found;
  }
}

const byOf = ({ principal, req }: RequestContext) => actorOf(principal, req.clientAddress);

function notPublic(): never {
  throw new ProtocolError(
    'unsupported_operation',
    'Agents are not made public one by one: rules of the policy decide which callers see them',
  );
}

interface AgentBody {
  readonly name: string | undefined;
  readonly settings: JsonObject;
  readonly meta: JsonObject;
}

/** Members that describe an agent. The gateway reads the rest of a card from the agent itself. */
const UNDERSTOOD = new Set([
  ...['agent_id', 'agent_name', 'name', 'url', 'description', 'capabilities', 'metadata'],
  ...['agent_card_params', 'litellm_params', 'static_headers', 'extra_headers'],
]);

/** Reads the bodies of LiteLLM (`agent_name`, `agent_card_params`) and of RouteIQ (`agent_id`, `name`, `url`). */
export function readAgentBody(body: JsonObject): AgentBody {
  for (const [name, value] of Object.entries(body))
    if (!UNDERSTOOD.has(name) && value !== null && value !== undefined)
      throw new ProtocolError('invalid_params', `"${name}" is not supported by this gateway; leave it out`);
  const card = objectIn(body, 'agent_card_params');
  const [parameter] = Object.entries(objectIn(body, 'litellm_params')).filter(([, value]) => value && value !== null);
  if (parameter)
    throw new ProtocolError('invalid_params', `"litellm_params.${parameter[0]}" is not supported by this gateway`);
  const name = textIn(body, 'agent_id') ?? textIn(body, 'agent_name') ?? textIn(body, 'name');
  const url = textIn(body, 'url') ?? textIn(card, 'url');
  const description = textIn(body, 'description') ?? textIn(card, 'description');
  const headers = objectIn(body, 'static_headers');
  const forwarded = Array.isArray(body['extra_headers']) ? body['extra_headers'].map(String) : [];
  return {
    name,
    settings: {
      ...(url !== undefined && { url }),
      ...(description !== undefined && { description }),
      ...(Object.keys(headers).length > 0 && { headers }),
      ...(forwarded.length > 0 && { forwardHeaders: Object.fromEntries(forwarded.map((each) => [each, each])) }),
    },
    meta: {},
  };
}

function textIn(body: JsonObject, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw new ProtocolError('invalid_params', `"${name}" must be a string`);
  return value;
}

function objectIn(body: JsonObject, name: string): JsonObject {
  const value = body[name];
  if (value === undefined || value === null) return {};
  if (!isObject(value)) throw new ProtocolError('invalid_params', `"${name}" must be an object`);
  return value;
}
