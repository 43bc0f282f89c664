import { isErrorOfCall, ProtocolError } from '../protocol/errors.js';
import { quoted } from '../protocol/jsonrpc/json-pieces.js';
import { type JsonObject, type JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import { paramMismatch } from '../protocol/mcp/mirrored-headers.js';
import {
  isListMethod,
  isObject,
  LIST_MEMBER,
  type ListMethod,
  type SubscriptionFilter,
  TASKS_EXTENSION,
} from '../protocol/mcp/model.js';
import { DISCOVER_VERSIONS } from '../protocol/mcp/revisions/index.js';
import { type Admission, type CatalogTarget, type ItemTarget, sees, serverTarget, type Target } from './admission.js';
import type { CallNotes } from './audit-trail.js';
import { McpContext, type McpResult, type McpRoute } from './call.js';
import type { Caller } from './caller.js';
import type { CapabilitySet } from './catalog/capability-set.js';
import { type Catalog, unionOf } from './catalog/catalog.js';
import { listByServer } from './catalog/list-by-server.js';
import { type Resolved, Resolver } from './catalog/owner-resolver.js';
import { MISSING, type Pages } from './catalog/pages.js';
import type { Item } from './catalog/server-list-cache.js';
import type { HostedTasks } from './era-bridge/hosted-tasks.js';
import { type BridgeSwitches, passingExtensions } from './era-bridge/relayed-capabilities.js';
import { type Forwarder, ServerRoute } from './forward.js';
import {
  type Call,
  complete,
  type Deliver,
  type Description,
  failed,
  type ListByServer,
  type Missing,
  type Outcome,
  type ServerGateway,
  type Subscription,
  type View,
} from './gateway.js';
import type { Pipeline } from './pipeline.js';
import type { Exposure } from './search/exposure.js';
import { SEARCH_TOOLS } from './search/meta-tool-schemas.js';
import { Subscriptions } from './subscriptions.js';

export interface McpDispatcherOptions {
  readonly catalog: Catalog;
  readonly pages: Pages;
  readonly admission: Admission;
  readonly forwarder: Forwarder;
  readonly tasks: HostedTasks;
  readonly bridge: BridgeSwitches;
  readonly pipeline: Pipeline;
  /** Absent if every list shows all tools. */
  readonly exposure?: Exposure;
  /** URI schemes of resources that an interceptor answers; no server is asked for them. */
  readonly ownSchemes?: readonly string[];
}

const INSTRUCTIONS_LIMIT = 8_192;
const DISCOVER_TTL = 60_000;

/**
 * Presents many servers as one. Resolves each request once to a route; the request passes the interceptors and then
 * takes the route.
 */
export class McpDispatcher implements ServerGateway {
  private readonly resolver: Resolver;
  private readonly subscriptions: Subscriptions;

  constructor(private readonly options: McpDispatcherOptions) {
    this.resolver = new Resolver(options.catalog);
    this.subscriptions = new Subscriptions({ ...options, resolver: this.resolver });
  }

  async call(caller: Caller, call: Call): Promise<Outcome> {
    const began = performance.now();
    try {
      const { call: real, route } = this.unwrapped(caller, call);
      return (await this.run(caller, real, began, route)) as Outcome;
    } catch (error) {
      if (isErrorOfCall(error)) return failed(error);
      throw error;
    }
  }

  describe(caller: Caller, call: Call): Promise<Description> {
    return this.provide(caller, call, () => this.described(caller, call.view));
  }

  listen(caller: Caller, call: Call, filter: SubscriptionFilter, deliver: Deliver): Promise<Subscription> {
    return this.provide(caller, call, (context) => this.subscriptions.open(context, filter, deliver));
  }

  async onTask<T>(caller: Caller, call: Call, taskId: string | undefined, work: () => Promise<T>): Promise<T> {
    if (taskId === undefined) return this.provide(caller, call, work);
    const hosted = this.options.forwarder.hosted(caller, taskId, call.view);
    const route = hosted.then(({ target }) => providing(target, work));
    return provided<T>(await this.run(caller, call, performance.now(), route));
  }

  listByServer(caller: Caller, call: Call): Promise<ListByServer> {
    const { method } = call;
    if (!isListMethod(method)) throw new Error(`${method} is not the method of a list`);
    return this.provide(caller, call, () => listByServer(this.options.catalog, caller, call.view, method));
  }

  async atServer<T>(caller: Caller, call: Call, server: string, work: () => Promise<T>): Promise<T> {
    const route = providing({ server, kind: 'method', name: call.method }, work);
    return provided<T>(await this.run(caller, call, performance.now(), route));
  }

  /** Answers a request from the gateway's own knowledge. */
  private async provide<T>(caller: Caller, call: Call, work: (context: McpContext) => Promise<T>): Promise<T> {
    const route = providing(catalogTarget(call), work);
    return provided<T>(await this.run(caller, call, performance.now(), route));
  }

  /**
   * Sends a request through the interceptors and along its route. A request that cannot be resolved also passes the
   * interceptors, so that it is logged and limited like any other; its `forward` then fails with the reason.
   */
  private run(
    caller: Caller,
    call: Call,
    began: number,
    route: McpRoute | Promise<McpRoute>,
  ): McpResult | Promise<McpResult> {
    const { pipeline } = this.options;
    // A route without a promise adds no event-loop turn.
    const contextOf = (found: McpRoute): McpContext =>
      new McpContext(caller, call, found, began, found.target ? undefined : this.hidingNotes(caller, call));
    if (!(route instanceof Promise)) return pipeline.run(contextOf(route));
    return route.catch(unresolved).then((found) => pipeline.run(contextOf(found)));
  }

  /** The rule that hides the requested item from the caller, if one does, for the audit trail (S24). */
  private hidingNotes(caller: Caller, { method, params, view }: Call): CallNotes | undefined {
    const { admission, catalog } = this.options;
    const isTool = method === 'tools/call';
    if (!admission.hiddenBy || (!isTool && method !== 'prompts/get')) return undefined;
    const name = params.get('name');
    const owner =
      typeof name === 'string' ? this.resolver.named(view, name, isTool ? 'tools/list' : 'prompts/list') : undefined;
    if (!owner) return undefined;
    const { server } = owner;
    const item: ItemTarget = isTool
      ? { server, kind: 'tool', name: catalog.ownTool(server, owner.name) }
      : { server, kind: 'prompt', name: owner.name };
    const rule = admission.hiddenBy(caller, serverTarget(server)) ?? admission.hiddenBy(caller, item);
    return rule === undefined ? undefined : { decision: { decision: 'denied', rule } };
  }

  private resolved(caller: Caller, call: Call): McpRoute | Promise<McpRoute> {
    try {
      return this.resolve(caller, call);
    } catch (error) {
      return unresolved(error);
    }
  }

  /**
   * The call and its route. `call_tool` becomes a call of the real tool before its target is resolved, so that every
   * interceptor sees that tool.
   */
  private unwrapped(caller: Caller, call: Call): { call: Call; route: McpRoute | Promise<McpRoute> } {
    try {
      const real = this.options.exposure?.unwrapped(call) ?? call;
      return { call: real, route: real === call ? this.resolved(caller, call) : this.resolvedByName(caller, real) };
    } catch (error) {
      return { call, route: unresolved(error) };
    }
  }

  /** The route of a tool that `call_tool` names. The error for an unknown name lists the nearest names. */
  private async resolvedByName(caller: Caller, call: Call): Promise<McpRoute> {
    try {
      return await this.tool(caller, call);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      throw await this.options.exposure!.withNearest(caller, call.view, stringParam(call, 'name'), error);
    }
  }

  private resolve(caller: Caller, call: Call): McpRoute | Promise<McpRoute> {
    const { method } = call;
    const { exposure } = this.options;
    if (exposure?.isSearch(call)) {
      const target = { ...catalogTarget(call), name: SEARCH_TOOLS };
      return { target, forward: async (context) => complete(await exposure.search(context.caller, context.call)) };
    }
    if (method === 'tools/call') return this.tool(caller, call);
    if (isListMethod(method)) return { target: catalogTarget(call), forward: (context) => this.list(context, method) };
    switch (method) {
      case 'resources/read':
        return this.resource(caller, call);
      case 'prompts/get':
        return this.prompt(caller, call);
      case 'completion/complete':
        return this.completion(caller, call).catch((error: unknown) => this.unlessUndeclared(caller, call, error));
      case 'server/discover':
        return { target: catalogTarget(call), forward: (context) => this.discover(context) };
      case 'tasks/get':
      case 'tasks/update':
      case 'tasks/cancel':
        return this.options.forwarder.task(caller, call);
      default:
        return this.options.forwarder.unknown(call);
    }
  }

  private async list({ caller, call }: McpContext, method: ListMethod): Promise<Outcome> {
    const cursor = call.params.get('cursor');
    if (cursor !== undefined && typeof cursor !== 'string')
      throw new ProtocolError('invalid_cursor', '"cursor" must be a string');
    const exposed = method === 'tools/list' ? await this.options.exposure?.list(caller, call) : undefined;
    if (exposed) return complete(exposed);
    const page = this.options.pages.page(caller, call.view, method, cursor, call.whole);
    return complete(await (this.hasOwn(method) ? page.catch((error) => emptyIfNone(error, method)) : page));
  }

  /** Whether the gateway itself offers the capability of this list. */
  private hasOwn(method: ListMethod): boolean {
    return method.startsWith('resources/') && (this.options.ownSchemes ?? []).length > 0;
  }

  private async discover({ caller, call }: McpContext): Promise<Outcome> {
    const { capabilities, instructions, missing } = await this.described(caller, call.view);
    return complete(
      RawObject.from({
        supportedVersions: DISCOVER_VERSIONS,
        capabilities,
        ...(instructions !== undefined && { instructions }),
        // A missing server may answer at any moment, so clients must not cache this result.
        ttlMs: missing.length > 0 ? 0 : DISCOVER_TTL,
        cacheScope: 'private',
        ...metaOf(missing),
      }),
    );
  }

  private async described(caller: Caller, view: View): Promise<Description> {
    const { known, missing } = await this.options.catalog.describe(caller, view);
    const capabilities = unionOf(known.map(({ description }) => description));
    if (!this.options.bridge.logging) delete capabilities.logging;
    if (this.hasOwn('resources/list')) capabilities.resources ??= {};
    // The gateway hosts tasks itself, whether or not its servers support them.
    capabilities.extensions = {
      ...passingExtensions(capabilities.extensions, view.only !== undefined),
      [TASKS_EXTENSION]: {},
    };
    if (view.only === undefined) {
      // The merged lists change with the configuration, and an absent server may add any kind of item when it answers.
      for (const name of ['tools', 'prompts', 'resources'] as const) {
        if (capabilities[name] || missing.length > 0 || name === 'tools')
          capabilities[name] = { ...capabilities[name], listChanged: true };
      }
    }
    return { capabilities, instructions: mergeInstructions(known, view), missing };
  }

  private tool(caller: Caller, call: Call): McpRoute | Promise<McpRoute> {
    const { catalog } = this.options;
    const name = stringParam(call, 'name');
    const args = call.params.get('arguments');
    if (args !== undefined && !isObject(args))
      throw new ProtocolError('invalid_params', '"arguments" must be an object');
    const set = catalog.setOf(caller, call.view);
    const resolved = this.resolver.resolve(caller, call.view, name, 'tools/list', set);
    return resolved instanceof Promise
      ? resolved.then((found) => this.toolOf(caller, call, name, args, found, set))
      : this.toolOf(caller, call, name, args, resolved, set);
  }

  private toolOf(
    caller: Caller,
    call: Call,
    asked: string,
    args: JsonObject | undefined,
    resolved: Resolved,
    set: CapabilitySet,
  ): McpRoute | Promise<McpRoute> {
    const { server, name } = resolved;
    const known = this.options.catalog.knownTool(caller, server, name, set);
    if (known && this.options.catalog.showsAll(caller)) return this.toolRoute(call, asked, args, resolved, set, known);
    return this.findTool(caller, server, name, set, known).then((item) =>
      this.toolRoute(call, asked, args, resolved, set, item),
    );
  }

  private toolRoute(
    call: Call,
    asked: string,
    args: JsonObject | undefined,
    { server, name: offered }: Resolved,
    set: CapabilitySet,
    item: Item | undefined,
  ): McpRoute {
    const { catalog, forwarder } = this.options;
    const own = item?.own ?? catalog.ownTool(server, offered);
    if (item && call.header && item.mirrored.length > 0) {
      const problem = paramMismatch(item.mirrored, args, call.header);
      if (problem) throw new ProtocolError('header_mismatch', problem);
    }
    const target: ItemTarget =
      own === offered ? { server, kind: 'tool', name: own } : { server, kind: 'tool', name: own, offered };
    const edits = own === asked ? {} : { name: quoted(own) };
    return new ServerRoute(forwarder, target, edits, item, set);
  }

  /**
   * Throws `tool_not_found` for a hidden tool. This check comes before those of capabilities and headers: their errors
   * would reveal the tool and its parameters.
   */
  private async findTool(
    caller: Caller,
    server: string,
    name: string,
    set: CapabilitySet,
    known: Item | undefined,
  ): Promise<Item | undefined> {
    const { catalog, admission } = this.options;
    const own = known?.own ?? catalog.ownTool(server, name);
    const target: ItemTarget = { server, kind: 'tool', name: own };
    const shown = (item: Item | undefined): boolean | Promise<boolean> =>
      sees(admission, caller, item ? { ...target, definition: item.value } : target);
    if (known || (await shown(undefined))) {
      const item = known ?? (await catalog.tool(caller, server, name, set));
      if (await shown(item)) return item;
    }
    throw new ProtocolError('tool_not_found', `Unknown tool: ${name}`, { data: { name, server } });
  }

  private async prompt(caller: Caller, call: Call): Promise<McpRoute> {
    const name = stringParam(call, 'name');
    const { catalog, forwarder } = this.options;
    const set = catalog.setOf(caller, call.view);
    const { server, name: own } = await this.resolver.prompt(caller, call.view, name, set);
    const edits = own === name ? {} : { name: JSON.stringify(own) };
    return new ServerRoute(forwarder, { server, kind: 'prompt', name: own }, edits);
  }

  private async resource(caller: Caller, call: Call): Promise<McpRoute> {
    const uri = stringParam(call, 'uri');
    const { catalog, forwarder, ownSchemes = [] } = this.options;
    if (ownSchemes.some((scheme) => uri.startsWith(`${scheme}:`))) return ownResource(call, uri);
    const server = await this.resolver.ownerOf(caller, call.view, uri, catalog.setOf(caller, call.view));
    return new ServerRoute(forwarder, { server, kind: 'resource', name: uri }, {});
  }

  /**
   * BASE-20: if no server declares completions, the method does not exist. Servers of the oldest revision answer
   * completions without declaring them, so a reference whose server is known is sent to that server.
   */
  private async unlessUndeclared(caller: Caller, call: Call, error: unknown): Promise<never> {
    const { capabilities, missing } = await this.described(caller, call.view);
    if (capabilities.completions || missing.length > 0) throw error;
    throw new ProtocolError('method_not_found', `Method not found: ${call.method}`);
  }

  private async completion(caller: Caller, call: Call): Promise<McpRoute> {
    const { catalog, forwarder } = this.options;
    const set = catalog.setOf(caller, call.view);
    const ref = call.params.get('ref');
    if (!isObject(ref)) throw new ProtocolError('invalid_params', '"ref" must be an object');
    if (ref['type'] === 'ref/prompt' && typeof ref['name'] === 'string') {
      const { server, name: own } = await this.resolver.prompt(caller, call.view, ref['name'], set);
      const edits = { ref: JSON.stringify({ ...ref, name: own }) };
      return new ServerRoute(forwarder, { server, kind: 'prompt', name: own }, edits);
    }
    if (ref['type'] === 'ref/resource' && typeof ref['uri'] === 'string') {
      const server = await this.resolver.ownerOf(caller, call.view, ref['uri'], set);
      return new ServerRoute(forwarder, { server, kind: 'resource', name: ref['uri'] }, {});
    }
    throw new ProtocolError('invalid_params', '"ref" must name a prompt or a resource template');
  }
}

/** The route of a request whose target does not exist or is hidden: `forward` fails with the reason. */
function unresolved(error: unknown): McpRoute {
  if (!isErrorOfCall(error)) throw error;
  return { target: undefined, forward: () => Promise.reject(error) };
}

const providing = (target: Target, work: (context: McpContext) => Promise<unknown>): McpRoute => ({
  target,
  forward: async (context) => ({ kind: 'value', value: await work(context) }),
});

/**
 * The empty list, for a capability that only the gateway itself offers. The resources of the gateway are in no list.
 */
function emptyIfNone(error: unknown, method: ListMethod): RawObject {
  if (!(error instanceof ProtocolError) || error.reason !== 'method_not_found') throw error;
  return RawObject.from({ [LIST_MEMBER[method]]: [], ttlMs: 0, cacheScope: 'private' });
}

/**
 * The route of a resource of the gateway itself. An interceptor answers the request, so `forward` runs only if none
 * does.
 */
const ownResource = (call: Call, uri: string): McpRoute => ({
  target: catalogTarget(call),
  forward: () =>
    Promise.reject(new ProtocolError('resource_not_found', `Resource not found: ${uri}`, { data: { uri } })),
});

const catalogTarget = ({ view, method }: Call): CatalogTarget => ({
  kind: 'catalog',
  server: view.only,
  name: method,
});

/** The value that `providing` returned, unless an interceptor replaced it with an error. */
function provided<T>(result: McpResult): T {
  if (result.kind === 'value') return result.value as T;
  if (result.kind === 'error') throw result.error;
  throw new ProtocolError(
    'internal',
    `An interceptor returned "${result.kind}" for a request whose result must be a value or an error`,
  );
}

/** The `_meta` member that names the servers whose part is missing from a result. */
export const metaOf = (missing: readonly Missing[]): JsonObject =>
  missing.length > 0 ? { _meta: { [MISSING]: missing as unknown as JsonValue } } : {};

function stringParam(call: Call, key: string): string {
  const value = call.params.get(key);
  if (typeof value === 'string') return value;
  throw new ProtocolError('invalid_params', `"${key}" must be a string`);
}

function mergeInstructions(
  known: readonly { readonly server: string; readonly description: { readonly instructions?: string } }[],
  view: View,
): string | undefined {
  const texts = known.flatMap(({ server, description: { instructions } }) => {
    if (!instructions) return [];
    const bounded =
      instructions.length > INSTRUCTIONS_LIMIT ? `${instructions.slice(0, INSTRUCTIONS_LIMIT)} …` : instructions;
    return [view.only === undefined ? `[${server}] ${bounded}` : bounded];
  });
  return texts.length > 0 ? texts.join('\n\n') : undefined;
}
