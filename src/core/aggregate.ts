import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { quoted } from '../protocol/jsonrpc/pieces.js';
import { type JsonObject, type JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import { paramMismatch } from '../protocol/mcp/headers.js';
import {
  isListMethod,
  isObject,
  LIST_CHANGED,
  LIST_KINDS,
  type ListKind,
  type Notification,
  type ServerCapabilities,
  type SubscriptionFilter,
  TASKS_EXTENSION,
} from '../protocol/mcp/model.js';
import { detailedTask } from '../protocol/mcp/project/task.js';
import { DISCOVER_VERSIONS } from '../protocol/mcp/revisions/index.js';
import { refusalIn } from '../protocol/mcp/upstream-error.js';
import type { Admission } from './admission.js';
import { type BridgeSwitches, passingExtensions } from './bridge/relay.js';
import type { HostedTasks, TaskRecord } from './bridge/tasks.js';
import type { Caller } from './caller.js';
import type { CapabilitySet } from './catalog/capability-set.js';
import { type Catalog, unionOf } from './catalog/catalog.js';
import type { Item } from './catalog/listing.js';
import { MISSING, type Pages } from './catalog/pages.js';
import type { Missing } from './catalog/server.js';
import { answeredWithin } from './catalog/waiting.js';
import type { Forwarder, Route } from './forward.js';
import { type Call, complete, failed, type Gateway, type Outcome, type Subscription, type View } from './gateway.js';
import type { Watch } from './upstream.js';

export interface AggregateParts {
  readonly catalog: Catalog;
  readonly pages: Pages;
  readonly admission: Admission;
  readonly forwarder: Forwarder;
  readonly tasks: HostedTasks;
  readonly bridge: BridgeSwitches;
}

const INSTRUCTIONS_LIMIT = 8_192;
const DISCOVER_TTL = 60_000;

/** How long a subscription to everything waits for one server to confirm its part. */
const LIST_PATIENCE = 1_000;
const RESOURCE_PATIENCE = 5_000;

/** What a view offers. */
export interface Description {
  readonly capabilities: ServerCapabilities;
  readonly instructions: string | undefined;
  /** The servers that have not answered yet. */
  readonly missing: readonly Missing[];
}

/** Many servers as one: finds the server a request is for and hands it on. */
export class Aggregate implements Gateway {
  constructor(private readonly parts: AggregateParts) {}

  async call(caller: Caller, call: Call): Promise<Outcome> {
    try {
      return await this.dispatch(caller, call);
    } catch (error) {
      if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return failed(error);
      throw error;
    }
  }

  private dispatch(caller: Caller, call: Call): Promise<Outcome> {
    const { method } = call;
    if (method === 'tools/call') return this.callTool(caller, call);
    if (isListMethod(method)) return this.list(caller, call);
    switch (method) {
      case 'resources/read':
        return this.readResource(caller, call);
      case 'prompts/get':
        return this.getPrompt(caller, call);
      case 'completion/complete':
        return this.completion(caller, call);
      case 'server/discover':
        return this.discover(call.view);
      case 'tasks/get':
      case 'tasks/update':
      case 'tasks/cancel':
        return this.parts.forwarder.task(caller, call);
      default:
        return this.parts.forwarder.unknown(caller, call);
    }
  }

  private async list(caller: Caller, call: Call): Promise<Outcome> {
    if (!isListMethod(call.method)) throw new ProtocolError('method_not_found', `Method not found: ${call.method}`);
    const cursor = call.params.get('cursor');
    if (cursor !== undefined && typeof cursor !== 'string')
      throw new ProtocolError('invalid_cursor', 'A cursor is a string');
    return complete(await this.parts.pages.page(caller, call.view, call.method, cursor, call.whole));
  }

  private async discover(view: View): Promise<Outcome> {
    const { capabilities, instructions, missing } = await this.describe(view);
    return complete(
      RawObject.from({
        supportedVersions: DISCOVER_VERSIONS,
        capabilities,
        ...(instructions !== undefined && { instructions }),
        // What is missing now may be there at the next moment.
        ttlMs: missing.length > 0 ? 0 : DISCOVER_TTL,
        cacheScope: 'private',
        ...metaOf(missing),
      }),
    );
  }

  /** What the view offers, in the modern vocabulary. */
  async describe(view: View): Promise<Description> {
    const { known, missing } = await this.parts.catalog.describe(view);
    const capabilities = unionOf(known.map(({ description }) => description));
    if (!this.parts.bridge.logging) delete capabilities.logging;
    // The gateway keeps tasks itself, whatever its servers can do.
    capabilities.extensions = {
      ...passingExtensions(capabilities.extensions, view.server !== undefined),
      [TASKS_EXTENSION]: {},
    };
    if (view.server === undefined) {
      // The gateway's own lists change with its configuration, and a server that is away now may bring anything.
      for (const name of ['tools', 'prompts', 'resources'] as const) {
        if (capabilities[name] || missing.length > 0 || name === 'tools')
          capabilities[name] = { ...capabilities[name], listChanged: true };
      }
    }
    return { capabilities, instructions: mergeInstructions(known, view), missing };
  }

  private async callTool(caller: Caller, call: Call): Promise<Outcome> {
    const { catalog } = this.parts;
    const name = stringParam(call, 'name');
    const args = call.params.get('arguments');
    if (args !== undefined && !isObject(args))
      throw new ProtocolError('invalid_params', '"arguments" must be an object');
    const set = catalog.setOf(caller, call.view);
    const resolved = catalog.resolve(call.view, name, 'tools/list', set);
    const { server, name: offered } = resolved instanceof Promise ? await resolved : resolved;
    const item = catalog.knownTool(server, offered, set) ?? (await this.findTool(caller, server, offered, set));
    const own = item?.own ?? catalog.ownTool(server, offered);
    if (item && call.header && item.mirrored.length > 0) {
      const problem = paramMismatch(item.mirrored, args, call.header);
      if (problem) throw new ProtocolError('header_mismatch', problem);
    }
    const route: Route = {
      target: { server, kind: 'tool', name: own },
      edits: own === name ? {} : { name: quoted(own) },
      item,
    };
    const outcome = await this.parts.forwarder.forward(caller, call, route);
    // The server saw other mirrored arguments than we know of: learn its list anew and try once more. It refused, so
    // nothing was executed (BR-23).
    if (outcome.kind !== 'error' || refusalIn(outcome.error)?.reason !== 'header_mismatch') return outcome;
    await catalog.refreshTools(server, set);
    return this.parts.forwarder.forward(caller, call, { ...route, item: catalog.knownTool(server, offered, set) });
  }

  /** A tool that the caller may not know of is unknown to it, whatever it could do with more capabilities. */
  private async findTool(caller: Caller, server: string, name: string, set: CapabilitySet): Promise<Item | undefined> {
    const { catalog, admission } = this.parts;
    if (admission.sees(caller, { server, kind: 'tool', name })) return catalog.tool(server, name, set);
    throw new ProtocolError('tool_not_found', `Unknown tool: ${name}`, { data: { name, server } });
  }

  private async getPrompt(caller: Caller, call: Call): Promise<Outcome> {
    const name = stringParam(call, 'name');
    const { catalog } = this.parts;
    const set = catalog.setOf(caller, call.view);
    const { server, name: own } = await catalog.resolve(call.view, name, 'prompts/list', set);
    return this.parts.forwarder.forward(caller, call, {
      target: { server, kind: 'prompt', name: own },
      edits: own === name ? {} : { name: JSON.stringify(own) },
    });
  }

  private async readResource(caller: Caller, call: Call): Promise<Outcome> {
    const uri = stringParam(call, 'uri');
    const { catalog } = this.parts;
    const server = await catalog.ownerOf(call.view, uri, catalog.setOf(caller, call.view));
    return this.parts.forwarder.forward(caller, call, { target: { server, kind: 'resource', name: uri }, edits: {} });
  }

  private async completion(caller: Caller, call: Call): Promise<Outcome> {
    const { catalog } = this.parts;
    const set = catalog.setOf(caller, call.view);
    const ref = call.params.get('ref');
    if (!isObject(ref)) throw new ProtocolError('invalid_params', '"ref" must be an object');
    if (ref['type'] === 'ref/prompt' && typeof ref['name'] === 'string') {
      const { server, name: own } = await catalog.resolve(call.view, ref['name'], 'prompts/list', set);
      return this.parts.forwarder.forward(caller, call, {
        target: { server, kind: 'prompt', name: own },
        edits: { ref: JSON.stringify({ ...ref, name: own }) },
      });
    }
    if (ref['type'] === 'ref/resource' && typeof ref['uri'] === 'string') {
      const server = await catalog.ownerOf(call.view, ref['uri'], set);
      return this.parts.forwarder.forward(caller, call, {
        target: { server, kind: 'resource', name: ref['uri'] },
        edits: {},
      });
    }
    throw new ProtocolError('invalid_params', '"ref" must name a prompt or a resource template');
  }

  async listen(
    caller: Caller,
    view: View,
    filter: SubscriptionFilter,
    deliver: (notification: Notification) => void,
  ): Promise<Subscription> {
    const { catalog } = this.parts;
    const upstreams = catalog.inView(view);
    if (view.server !== undefined && upstreams.length === 0)
      throw new ProtocolError('not_found', `There is no server "${view.server}"`);
    const wanted = LIST_KINDS.filter((kind) => filter[kind]);
    const byServer = await this.subscriptionsByServer(caller, view, filter.resourceSubscriptions ?? []);
    const taskIds = await this.parts.forwarder.ownedTasks(caller, filter.taskIds ?? []);
    const stopTasks = this.parts.tasks.onChange((record: TaskRecord) => {
      if (taskIds.includes(record.taskId)) deliver({ method: 'notifications/tasks', params: taskNotice(record) });
    });
    const own = catalog.setOf(caller, view);
    const stop = catalog.onChange((kind, server, set) => {
      if (filter[kind] && (view.server === undefined || view.server === server) && (set === undefined || set === own))
        deliver({ method: LIST_CHANGED[kind], params: {} });
    });
    const watches: Watch[] = [];
    let closed = false;
    await Promise.all(
      upstreams.map(async (upstream) => {
        const uris = byServer.get(upstream.name) ?? [];
        const part: SubscriptionFilter = {
          ...Object.fromEntries(wanted.map((kind) => [kind, true])),
          ...(uris.length > 0 && { resourceSubscriptions: uris }),
        };
        if (wanted.length === 0 && uris.length === 0) return;
        const watching = upstream
          .watch(
            part,
            (event) => {
              if (event.kind === 'resourceUpdated')
                deliver({ method: 'notifications/resources/updated', params: { uri: event.uri } });
            },
            caller,
          )
          .then(
            (watch) => void (closed ? watch.close() : watches.push(watch)),
            // A server that is away is watched by the catalogue when it comes back; its resources are not confirmed.
            () => {},
          );
        if (view.server !== undefined) await watching;
        // Of all servers' lists the catalogue tells, so no server that is slow to confirm holds up the others.
        else if (uris.length > 0) await answeredWithin(watching, RESOURCE_PATIENCE);
        else if (catalog.hasAnswered(upstream.name)) await answeredWithin(watching, LIST_PATIENCE);
      }),
    );
    return {
      honoured: { ...this.honoured(view, wanted, filter, watches), ...(taskIds.length > 0 && { taskIds }) },
      close: () => {
        closed = true;
        stop();
        stopTasks();
        for (const watch of watches) watch.close();
      },
    };
  }

  private async subscriptionsByServer(
    caller: Caller,
    view: View,
    uris: readonly string[],
  ): Promise<Map<string, string[]>> {
    const byServer = new Map<string, string[]>();
    const { catalog } = this.parts;
    const set = catalog.setOf(caller, view);
    for (const uri of uris) {
      try {
        const server = await catalog.ownerOf(view, uri, set);
        if (!this.parts.admission.sees(caller, { server, kind: 'resource', name: uri })) continue;
        byServer.set(server, [...(byServer.get(server) ?? []), uri]);
      } catch (error) {
        // Not honoured, and so not acknowledged (BR-21).
        if (!(error instanceof ProtocolError)) throw error;
      }
    }
    return byServer;
  }

  private honoured(
    view: View,
    wanted: readonly ListKind[],
    filter: SubscriptionFilter,
    watches: readonly Watch[],
  ): SubscriptionFilter {
    const honoured: SubscriptionFilter = {};
    // The union's lists change with the gateway's own configuration too, which it always knows of.
    for (const kind of wanted)
      if (view.server === undefined || watches.some((watch) => watch.honoured[kind])) honoured[kind] = true;
    const confirmed = new Set(watches.flatMap((watch) => watch.honoured.resourceSubscriptions ?? []));
    const uris = (filter.resourceSubscriptions ?? []).filter((uri) => confirmed.has(uri));
    if (uris.length > 0) honoured.resourceSubscriptions = uris;
    return honoured;
  }
}

/** What a subscriber is told of a task: all that `tasks/get` would say. */
function taskNotice(record: TaskRecord): Notification['params'] {
  const { resultType: _, ...task } = detailedTask(record);
  return task;
}

/** How an answer says which servers are not in it. */
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
    return [view.server === undefined ? `[${server}] ${bounded}` : bounded];
  });
  return texts.length > 0 ? texts.join('\n\n') : undefined;
}
