import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { type Edits, type JsonObject, RawObject } from '../protocol/jsonrpc/raw.js';
import { paramMismatch } from '../protocol/mcp/headers.js';
import {
  type ClientCapabilities,
  type InputRequests,
  type InputResponses,
  isListMethod,
  isObject,
  LIST_CHANGED,
  LIST_KINDS,
  type ListKind,
  type Notification,
  type ServerCapabilities,
  type SubscriptionFilter,
} from '../protocol/mcp/model.js';
import { declares, requiredCapability } from '../protocol/mcp/project/input.js';
import { MODERN } from '../protocol/mcp/revisions/index.js';
import type { Admission, Target } from './admission.js';
import type { Parking } from './bridge/parking.js';
import { type BridgeSwitches, relayable } from './bridge/relay.js';
import type { State, States } from './bridge/states.js';
import type { Caller } from './caller.js';
import { type Catalog, unionOf } from './catalog/catalog.js';
import type { Item } from './catalog/listing.js';
import type { Pages } from './catalog/pages.js';
import { type Call, complete, failed, type Gateway, type Outcome, type Subscription, type View } from './gateway.js';
import type { UpstreamCall, Watch } from './upstream.js';

export interface AggregateParts {
  readonly catalog: Catalog;
  readonly pages: Pages;
  readonly admission: Admission;
  readonly parking: Parking;
  readonly states: States;
  readonly bridge: BridgeSwitches;
}

/** Where a call goes: a server, and what the call's parameters are called there. */
interface Route {
  readonly target: Target;
  readonly edits: Edits;
  readonly item?: Item | undefined;
}

const MODERN_DATES = MODERN.map((revision) => revision.date);
const INSTRUCTIONS_LIMIT = 8_192;
const DISCOVER_TTL = 60_000;

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
      default:
        throw new ProtocolError('method_not_found', `Method not found: ${method}`);
    }
  }

  private async list(caller: Caller, call: Call): Promise<Outcome> {
    if (!isListMethod(call.method)) throw new ProtocolError('method_not_found', `Method not found: ${call.method}`);
    const cursor = call.params.get('cursor');
    if (cursor !== undefined && typeof cursor !== 'string')
      throw new ProtocolError('invalid_cursor', 'A cursor is a string');
    return complete(await this.parts.pages.page(caller, call.view, call.method, cursor));
  }

  private async discover(view: View): Promise<Outcome> {
    const { capabilities, instructions } = await this.describe(view);
    return complete(
      RawObject.from({
        supportedVersions: MODERN_DATES,
        capabilities,
        ...(instructions !== undefined && { instructions }),
        ttlMs: DISCOVER_TTL,
        cacheScope: 'private',
      }),
    );
  }

  /** What the view offers, in the modern vocabulary. */
  async describe(view: View): Promise<{ capabilities: ServerCapabilities; instructions: string | undefined }> {
    const { known, missing } = await this.parts.catalog.describe(view);
    const capabilities = unionOf(known.map(({ description }) => description));
    if (!this.parts.bridge.logging) delete capabilities.logging;
    if (view.server === undefined) {
      // The gateway's own lists change with its configuration, and a server that is away now may bring anything.
      for (const name of ['tools', 'prompts', 'resources'] as const) {
        if (capabilities[name] || missing.length > 0 || name === 'tools')
          capabilities[name] = { ...capabilities[name], listChanged: true };
      }
    }
    return { capabilities, instructions: mergeInstructions(known, view) };
  }

  private async callTool(caller: Caller, call: Call): Promise<Outcome> {
    const { catalog } = this.parts;
    const name = stringParam(call, 'name');
    const args = call.params.get('arguments');
    if (args !== undefined && !isObject(args))
      throw new ProtocolError('invalid_params', '"arguments" must be an object');
    const { server, own } = await catalog.resolve(call.view, name, 'tools/list');
    const item = catalog.knownTool(server, own) ?? (await catalog.tool(server, own));
    if (item && call.header && item.mirrored.length > 0) {
      const problem = paramMismatch(item.mirrored, args, call.header);
      if (problem) throw new ProtocolError('header_mismatch', problem);
    }
    const route: Route = {
      target: { server, kind: 'tool', name: own },
      edits: own === name ? {} : { name: JSON.stringify(own) },
      item,
    };
    const outcome = await this.forward(caller, call, route);
    // The server saw other mirrored arguments than we know of: learn its list anew and try once more. It refused, so
    // nothing was executed (BR-23).
    if (outcome.kind !== 'error' || !(outcome.error instanceof UpstreamRpcError) || outcome.error.code !== -32020)
      return outcome;
    await catalog.refresh(server, 'tools/list');
    return this.forward(caller, call, { ...route, item: catalog.knownTool(server, own) });
  }

  private async getPrompt(caller: Caller, call: Call): Promise<Outcome> {
    const name = stringParam(call, 'name');
    const { server, own } = await this.parts.catalog.resolve(call.view, name, 'prompts/list');
    return this.forward(caller, call, {
      target: { server, kind: 'prompt', name: own },
      edits: own === name ? {} : { name: JSON.stringify(own) },
    });
  }

  private async readResource(caller: Caller, call: Call): Promise<Outcome> {
    const uri = stringParam(call, 'uri');
    const server = await this.parts.catalog.ownerOf(call.view, uri);
    return this.forward(caller, call, { target: { server, kind: 'resource', name: uri }, edits: {} });
  }

  private async completion(caller: Caller, call: Call): Promise<Outcome> {
    const ref = call.params.get('ref');
    if (!isObject(ref)) throw new ProtocolError('invalid_params', '"ref" must be an object');
    if (ref['type'] === 'ref/prompt' && typeof ref['name'] === 'string') {
      const { server, own } = await this.parts.catalog.resolve(call.view, ref['name'], 'prompts/list');
      return this.forward(caller, call, {
        target: { server, kind: 'prompt', name: own },
        edits: { ref: JSON.stringify({ ...ref, name: own }) },
      });
    }
    if (ref['type'] === 'ref/resource' && typeof ref['uri'] === 'string') {
      const server = await this.parts.catalog.ownerOf(call.view, ref['uri']);
      return this.forward(caller, call, { target: { server, kind: 'resource', name: ref['uri'] }, edits: {} });
    }
    throw new ProtocolError('invalid_params', '"ref" must name a prompt or a resource template');
  }

  /** Hands a call to its server, or an answer to the call that waits for it. */
  private async forward(caller: Caller, call: Call, route: Route): Promise<Outcome> {
    const { catalog, admission, bridge, states } = this.parts;
    const { target } = route;
    admission.admit(caller, target);
    const upstream = catalog.upstream(target.server);
    if (!upstream) throw new ProtocolError('not_found', `There is no server "${target.server}"`);
    const sealed = call.params.get('requestState');
    const state = typeof sealed === 'string' ? states.open(caller, call.method, call.params, sealed) : undefined;
    if (state && state.kind !== 'approval' && state.server !== target.server) {
      throw new ProtocolError('invalid_state', 'The request state belongs to another request');
    }
    if (state?.kind === 'parked') return this.resume(caller, call, target.server, state);
    const onBehalf: Caller = {
      ...caller,
      capabilities: relayable(caller.capabilities, bridge, call.view.server !== undefined),
    };
    const outcome = await upstream.request(onBehalf, this.toUpstream(call, route, state));
    return this.bridged(caller, onBehalf.capabilities, call, target.server, outcome);
  }

  private toUpstream(call: Call, route: Route, state: State | undefined): UpstreamCall {
    const edits: Record<string, string | Buffer | undefined> = { ...route.edits };
    if (state) {
      edits['requestState'] =
        state.kind === 'relay' && state.state !== undefined ? JSON.stringify(state.state) : undefined;
      // What was answered to the gateway is not for the server.
      if (state.kind !== 'relay') edits['inputResponses'] = undefined;
    }
    return {
      method: call.method,
      params: call.params.edit(edits),
      wantsProgress: call.wantsProgress,
      logLevel: this.parts.bridge.logging ? call.logLevel : undefined,
      cancellation: call.cancellation,
      mirrored: route.item?.mirrored ?? [],
      notify: (notification) => call.notify(notification),
    };
  }

  private async resume(
    caller: Caller,
    call: Call,
    server: string,
    state: State & { kind: 'parked' },
  ): Promise<Outcome> {
    const answers = call.params.get('inputResponses') ?? {};
    if (!isObject(answers) || !Object.values(answers).every(isObject)) {
      throw new ProtocolError('invalid_params', '"inputResponses" must be an object of answers');
    }
    const { outcome, next } = await this.parts.parking.resume(
      state.ticket,
      caller.principal.name,
      call,
      answers as InputResponses,
    );
    if (outcome.kind !== 'input_required' || !next)
      return this.bridged(caller, caller.capabilities, call, server, outcome);
    return this.asking(caller, call, outcome.inputRequests, { kind: 'parked', server, ticket: next });
  }

  /** What a server said, as something this caller can be told. */
  private bridged(
    caller: Caller,
    capabilities: ClientCapabilities,
    call: Call,
    server: string,
    outcome: Outcome,
  ): Outcome {
    if (outcome.kind === 'input_required') {
      const asked = outcome.inputRequests ?? {};
      const lacking = Object.values(asked).find((request) => !declares(capabilities, requiredCapability(request)));
      if (lacking) {
        outcome.parked?.abandon('The client did not declare the capability');
        throw lacksCapability(server, requiredCapability(lacking));
      }
      if (outcome.parked) {
        const ticket = this.parts.parking.park(caller.principal.name, server, outcome.parked);
        return this.asking(caller, call, asked, { kind: 'parked', server, ticket });
      }
      const state: State = {
        kind: 'relay',
        server,
        ...(outcome.requestState !== undefined && { state: outcome.requestState }),
      };
      return this.asking(caller, call, outcome.inputRequests, state);
    }
    if (outcome.kind === 'error' && outcome.error instanceof UpstreamRpcError)
      return this.bridgedError(caller, capabilities, call, server, outcome.error);
    return outcome;
  }

  private asking(caller: Caller, call: Call, inputRequests: InputRequests | undefined, state: State): Outcome {
    return {
      kind: 'input_required',
      inputRequests,
      requestState: this.parts.states.close(caller, call.method, call.params, state),
    };
  }

  /** Errors that describe the hop to the server are the gateway's to act on; the caller hears what follows for it (GW-07). */
  private bridgedError(
    caller: Caller,
    capabilities: ClientCapabilities,
    call: Call,
    server: string,
    error: UpstreamRpcError,
  ): Outcome {
    switch (error.code) {
      case -32021: {
        const required = isObject(error.data) ? error.data['requiredCapabilities'] : undefined;
        if (isObject(required) && !declares(capabilities, required)) throw lacksCapability(server, required);
        break;
      }
      case -32042: {
        const asked = urlElicitations(error);
        if (!asked) break;
        if (!caller.revision.expresses.inputRequired) return failed(error);
        if (!declares(capabilities, { elicitation: { url: {} } }))
          throw lacksCapability(server, { elicitation: { url: {} } });
        return this.asking(caller, call, asked, { kind: 'again', server });
      }
    }
    return failed(error);
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
    const watches: Watch[] = [];
    await Promise.all(
      upstreams.map(async (upstream) => {
        const uris = byServer.get(upstream.name) ?? [];
        const part: SubscriptionFilter = {
          ...Object.fromEntries(wanted.map((kind) => [kind, true])),
          ...(uris.length > 0 && { resourceSubscriptions: uris }),
        };
        if (wanted.length === 0 && uris.length === 0) return;
        try {
          watches.push(
            await upstream.watch(part, (event) => {
              if (event.kind === 'resourceUpdated')
                deliver({ method: 'notifications/resources/updated', params: { uri: event.uri } });
            }),
          );
        } catch {
          // A server that is away is watched by the catalogue when it comes back; its resources are not confirmed.
        }
      }),
    );
    const stop = catalog.onChange((kind: ListKind, server) => {
      if (filter[kind] && (view.server === undefined || view.server === server))
        deliver({ method: LIST_CHANGED[kind], params: {} });
    });
    return {
      honoured: this.honoured(view, wanted, filter, watches),
      close: () => {
        stop();
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
    for (const uri of uris) {
      try {
        const server = await this.parts.catalog.ownerOf(view, uri);
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

function stringParam(call: Call, key: string): string {
  const value = call.params.get(key);
  if (typeof value === 'string') return value;
  throw new ProtocolError('invalid_params', `"${key}" must be a string`);
}

function lacksCapability(server: string, requiredCapabilities: ClientCapabilities): ProtocolError {
  const names = Object.entries(requiredCapabilities).flatMap(([name, parts]) => {
    const modes = isObject(parts) ? Object.keys(parts) : [];
    return modes.length > 0 ? modes.map((mode) => `${name}.${mode}`) : [name];
  });
  return new ProtocolError(
    'missing_capability',
    `Server "${server}" needs a client that declares ${names.join(' and ')}`,
    {
      data: { requiredCapabilities, server },
    },
  );
}

/** The questions in a `-32042` error: nothing was processed, so the call is made again after they are answered (mcp.md 4.5). */
function urlElicitations(error: UpstreamRpcError): InputRequests | undefined {
  const listed = isObject(error.data) ? error.data['elicitations'] : undefined;
  if (!Array.isArray(listed) || listed.length === 0) return undefined;
  const requests: InputRequests = {};
  for (const [index, item] of listed.entries()) {
    if (!isObject(item)) return undefined;
    const { elicitationId: _, ...params } = item;
    requests[`elicitation/create-${index + 1}`] = {
      method: 'elicitation/create',
      params: { ...params, mode: 'url' } as JsonObject,
    };
  }
  return requests;
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
