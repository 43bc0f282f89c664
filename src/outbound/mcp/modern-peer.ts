import { type Caller, GATEWAY } from '../../core/caller.js';
import { failed, type Outcome } from '../../core/gateway.js';
import type { UpstreamCall, WatchEvent } from '../../core/upstream.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import {
  type ClientCapabilities,
  type Implementation,
  isObject,
  LIST_CHANGED,
  LIST_KINDS,
  META,
  type Notification,
  type ServerDescription,
  type SubscriptionFilter,
  TASKS_EXTENSION,
} from '../../protocol/mcp/model.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { decodeServerCapabilities, encodeClientCapabilities } from '../../protocol/mcp/translate/capabilities.js';
import { gatewayCall } from './gateway-call.js';
import { ModernTask, type Send } from './modern-task.js';
import type { OpenWatch, Peer } from './peer.js';
import { invalidReply } from './server-errors.js';

/** The transport of modern requests: HTTP, or the pipes of a process. */
export interface ModernWire {
  readonly name: string;
  readonly place?: string | undefined;
  readonly revision: Revision;
  /** Sends a request. Over HTTP, the request carries the credential of the caller. */
  send(capabilities: ClientCapabilities, call: UpstreamCall, caller: Caller): Promise<Outcome>;
  listen(
    filter: SubscriptionFilter,
    deliver: (notification: Notification) => void,
    lost: (why: string) => void,
    caller: Caller,
    key?: string,
  ): Promise<OpenWatch>;
  close(): Promise<void>;
}

/** A modern server. */
export class ModernPeer implements Peer {
  private known: { description: ServerDescription; until: number } | undefined;

  constructor(private readonly wire: ModernWire) {}

  request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const declared = encodeClientCapabilities(caller.capabilities, this.wire.revision);
    return call.tasks === 'none'
      ? this.wire.send(declared, call, caller)
      : this.requestWithTasks(caller, declared, call);
  }

  private async requestWithTasks(caller: Caller, declared: ClientCapabilities, call: UpstreamCall): Promise<Outcome> {
    const capabilities = withTasks(declared);
    const outcome = await this.wire.send(capabilities, call, caller);
    if (outcome.kind !== 'task' || call.tasks === 'relay') return outcome;
    const send: Send = (declared, own) => this.wire.send(declared, own, caller);
    const task = ModernTask.of(this.wire.name, send, capabilities, call, outcome.result);
    return task?.follow() ?? failed(invalidReply(this.wire, 'answered with a task that cannot be read'));
  }

  async describe(caller?: Caller): Promise<ServerDescription> {
    // The description for one caller must not reach another caller.
    if (!caller && this.known && this.known.until > performance.now()) return this.known.description;
    const outcome = await this.wire.send({}, gatewayCall('server/discover'), caller ?? GATEWAY);
    if (outcome.kind === 'error') throw outcome.error;
    if (outcome.kind !== 'complete')
      throw invalidReply(this.wire, 'answered server/discover with a result that is no server description');
    return this.learn(outcome.result.value(), caller === undefined);
  }

  private learn(result: JsonObject, keep: boolean): ServerDescription {
    const { instructions, ttlMs } = result;
    const meta = result['_meta'];
    const serverInfo = isObject(meta) ? meta[META.serverInfo] : result['serverInfo'];
    const description: ServerDescription = {
      capabilities: decodeServerCapabilities(result['capabilities'], this.wire.revision),
      ...(isObject(serverInfo) && { serverInfo: serverInfo as Implementation }),
      ...(typeof instructions === 'string' && { instructions }),
    };
    if (!keep) return description;
    // The features of a server change rarely. Even for a server that allows no caching, not every call causes a
    // discover request.
    const ttl = typeof ttlMs === 'number' && ttlMs > 0 ? ttlMs : 0;
    this.known = { description, until: performance.now() + Math.max(ttl, LEAST_TTL) };
    return description;
  }

  async listen(
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    lost: (why: string) => void,
    caller: Caller,
    key?: string,
  ): Promise<OpenWatch> {
    return this.wire.listen(filter, (notification) => deliverAs(notification, deliver), lost, caller, key);
  }

  close(): Promise<void> {
    return this.wire.close();
  }
}

const LEAST_TTL = 30_000;

const withTasks = (capabilities: ClientCapabilities): ClientCapabilities => ({
  ...capabilities,
  extensions: { ...capabilities.extensions, [TASKS_EXTENSION]: {} },
});

function deliverAs({ method, params }: Notification, deliver: (event: WatchEvent) => void): void {
  const kind = LIST_KINDS.find((list) => LIST_CHANGED[list] === method);
  if (kind) deliver({ kind });
  else if (method === 'notifications/resources/updated' && typeof params['uri'] === 'string') {
    deliver({ kind: 'resourceUpdated', uri: params['uri'] });
  } else if (method === 'notifications/tasks') deliver({ kind: 'task', params });
}
