import { randomUUID } from 'node:crypto';
import { readFault, readOutcome, writeFault, writeOutcome } from '../core/bridge/outcome-text.js';
import type { Caller } from '../core/caller.js';
import { type Asked, type Cluster, ReplicaGone } from '../core/cluster.js';
import { failed, type Outcome, type ParkedCall } from '../core/gateway.js';
import type { Upstream, UpstreamCall, UpstreamHealth, Watch, WatchEvent } from '../core/upstream.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { type JsonObject, type JsonValue, RawObject } from '../protocol/jsonrpc/raw.js';
import type { InputResponses, Notification, ServerDescription, SubscriptionFilter } from '../protocol/mcp/model.js';
import { revisionOf } from '../protocol/mcp/revisions/index.js';
import type { Bus } from '../state/bus.js';
import { PRESENCE } from './presence.js';

/** Who owns a server's processes is looked up again after so long. */
const LOOK = 500;

/**
 * A server that is a process: one replica owns it, the others reach it there. When the owner dies the next one that
 * needs the server takes it over, with a new process; what was under way ends with an error and is not run again.
 */
export class OwnedUpstream implements Upstream {
  readonly name: string;
  private owner: { readonly replica: string; readonly at: number } | undefined;
  private renewal: NodeJS.Timeout | undefined;
  private readonly parked = new Map<string, ParkedCall>();
  private readonly watches = new Map<string, Watch>();
  private readonly listeners = new Set<(event: WatchEvent) => void>();

  constructor(
    private readonly local: Upstream,
    private readonly cluster: Cluster,
    private readonly bus: Bus,
  ) {
    this.name = local.name;
    cluster.onTold(this.subject('event'), (payload) => {
      for (const listener of [...this.listeners]) listener(payload as unknown as WatchEvent);
    });
    cluster.handle(this.subject('describe'), async () => {
      try {
        return { description: (await local.describe()) as unknown as JsonValue };
      } catch (error) {
        return { fault: faultOf(error) };
      }
    });
    cluster.handle(this.subject('request'), (payload, asked) => this.serve(payload as JsonObject, asked));
    cluster.handle(this.subject('resume'), (payload, asked) => this.serveResume(payload as JsonObject, asked));
    cluster.handle(this.subject('abandon'), async (payload) => {
      const { id, reason } = payload as JsonObject;
      this.parked.get(String(id))?.abandon(String(reason));
      return null;
    });
    cluster.handle(this.subject('watch'), async (payload) => this.serveWatch(payload as JsonObject));
    cluster.handle(this.subject('unwatch'), async (payload) => {
      this.watches.get(String(payload))?.close();
      this.watches.delete(String(payload));
      return null;
    });
    void local.keepWatching({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }, (event) =>
      this.spread(event),
    );
  }

  private subject(what: string): string {
    return `server:${this.name}:${what}`;
  }

  private get lease(): string {
    return `stdio:${this.name}`;
  }

  /** The replica that owns the processes; this one, if nobody does. */
  private async ownedBy(): Promise<string> {
    const now = Date.now();
    if (this.owner && now - this.owner.at < LOOK) return this.owner.replica;
    const held = await this.bus.holder(this.lease);
    if (held && (held.owner === this.cluster.self || (await this.cluster.alive(held.owner)))) {
      this.owner = { replica: held.owner, at: now };
      return held.owner;
    }
    const fence = await this.bus.lease(this.lease, this.cluster.self, PRESENCE.lease);
    if (fence === undefined) return (await this.bus.holder(this.lease))?.owner ?? this.cluster.self;
    this.keep();
    this.owner = { replica: this.cluster.self, at: now };
    // A new process may offer something else.
    for (const kind of ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged'] as const)
      this.spread({ kind });
    return this.cluster.self;
  }

  private keep(): void {
    clearInterval(this.renewal);
    this.renewal = setInterval(() => {
      this.bus
        .renew(this.lease, this.cluster.self, PRESENCE.lease)
        .then((held) => {
          if (!held) clearInterval(this.renewal);
        })
        .catch(() => {});
    }, PRESENCE.renew);
    this.renewal.unref();
  }

  private spread(event: WatchEvent): void {
    for (const listener of [...this.listeners]) listener(event);
    this.cluster.tell(this.subject('event'), event as unknown as JsonValue);
  }

  async describe(): Promise<ServerDescription> {
    const owner = await this.ownedBy();
    if (owner === this.cluster.self) return this.local.describe();
    const { description, fault } = (await this.cluster.ask(owner, this.subject('describe'), null)) as JsonObject;
    if (fault) throw readFault(fault as JsonObject);
    return description as unknown as ServerDescription;
  }

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    let owner: string;
    try {
      owner = await this.ownedBy();
    } catch {
      return failed(
        new ProtocolError('overloaded', `Server "${this.name}" cannot be located at the moment`, {
          outcome: 'not_executed',
        }),
      );
    }
    if (owner === this.cluster.self) return this.local.request(caller, call);
    const { ask: _, revision, ...who } = caller;
    const payload = {
      caller: { ...who, revision: revision.date },
      call: {
        method: call.method,
        params: call.params.bytes().toString('utf8'),
        wantsProgress: call.wantsProgress,
        logLevel: call.logLevel ?? null,
        tasks: call.tasks,
        ...(call.timeouts && { timeouts: call.timeouts }),
        ...(call.after && { after: [...call.after] }),
      },
    };
    return this.asked(owner, 'request', payload as unknown as JsonValue, call);
  }

  private async asked(
    owner: string,
    what: string,
    payload: JsonValue,
    call: Pick<UpstreamCall, 'notify' | 'cancellation'>,
  ): Promise<Outcome> {
    try {
      const answer = await this.cluster.ask(owner, this.subject(what), payload, {
        cancellation: call.cancellation,
        onEvent: (event) => call.notify(event as unknown as Notification),
      });
      const { outcome, parked } = readOutcome(answer as JsonObject);
      return outcome.kind === 'input_required' && parked !== undefined
        ? { ...outcome, parked: this.remote(owner, parked) }
        : outcome;
    } catch (error) {
      if (!(error instanceof ReplicaGone)) throw error;
      this.owner = undefined;
      return failed(
        new ProtocolError('upstream_error', `The replica that ran server "${this.name}" is gone`, {
          outcome: 'unknown',
          data: { server: this.name },
        }),
      );
    }
  }

  private remote(owner: string, id: string): ParkedCall {
    return {
      over: Promise.resolve(),
      resume: (call, answers) => this.asked(owner, 'resume', { id, answers }, call),
      abandon: (reason) => void this.cluster.ask(owner, this.subject('abandon'), { id, reason }).catch(() => {}),
    };
  }

  private async serve({ caller, call }: JsonObject, asked: Asked): Promise<JsonValue> {
    const who = caller as unknown as Omit<Caller, 'revision'> & { revision: string };
    const what = call as unknown as Omit<UpstreamCall, 'params' | 'logLevel'> & {
      params: string;
      logLevel: UpstreamCall['logLevel'] | null;
    };
    const revision = revisionOf(who.revision);
    if (!revision) throw new ProtocolError('internal', 'The replicas do not know the same revisions');
    const outcome = await this.local.request(
      { ...who, revision },
      {
        ...what,
        params: RawObject.at(Buffer.from(what.params)),
        logLevel: what.logLevel ?? undefined,
        mirrored: [],
        cancellation: asked.cancellation,
        notify: (notification) => asked.emit(notification as unknown as JsonValue),
      },
    );
    return this.kept(outcome);
  }

  private async serveResume({ id, answers }: JsonObject, asked: Asked): Promise<JsonValue> {
    const parked = this.parked.get(String(id));
    if (!parked) return writeOutcome(failed(new ProtocolError('invalid_state', 'The call this belongs to is over')));
    const sinks = {
      cancellation: asked.cancellation,
      notify: (notification: Notification) => asked.emit(notification as unknown as JsonValue),
    };
    return this.kept(await parked.resume(sinks, answers as InputResponses), String(id));
  }

  private kept(outcome: Outcome, before?: string): JsonObject {
    if (outcome.kind !== 'input_required' || !outcome.parked) {
      if (before !== undefined) this.parked.delete(before);
      return writeOutcome(outcome);
    }
    const id = before ?? randomUUID();
    this.parked.set(id, outcome.parked);
    void outcome.parked.over.then(() => this.parked.delete(id));
    return writeOutcome(outcome, id);
  }

  private async serveWatch(filter: JsonObject): Promise<JsonValue> {
    try {
      const watch = await this.local.watch(filter as SubscriptionFilter, (event) => {
        if (event.kind === 'resourceUpdated') this.spread(event);
      });
      const id = randomUUID();
      this.watches.set(id, watch);
      return { id, honoured: watch.honoured };
    } catch (error) {
      return { fault: faultOf(error) };
    }
  }

  async watch(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<Watch> {
    const owner = await this.ownedBy();
    if (owner === this.cluster.self) return this.local.watch(filter, deliver);
    const answer = (await this.cluster.ask(owner, this.subject('watch'), filter)) as JsonObject;
    if (answer['fault']) throw readFault(answer['fault'] as JsonObject);
    const listener = (event: WatchEvent): void => {
      if (
        event.kind === 'resourceUpdated'
          ? filter.resourceSubscriptions?.some((uri) => event.uri.startsWith(uri))
          : event.kind !== 'task' && filter[event.kind]
      )
        deliver(event);
    };
    this.listeners.add(listener);
    return {
      honoured: answer['honoured'] as SubscriptionFilter,
      close: () => {
        this.listeners.delete(listener);
        void this.cluster.ask(owner, this.subject('unwatch'), String(answer['id'])).catch(() => {});
      },
    };
  }

  async keepWatching(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<void> {
    this.listeners.add((event) => {
      if (event.kind !== 'resourceUpdated' && event.kind !== 'task' && filter[event.kind]) deliver(event);
    });
  }

  rootsChanged(session: string): void {
    this.local.rootsChanged(session);
  }

  release(session: string): void {
    this.local.release(session);
  }

  health(): UpstreamHealth {
    return this.local.health();
  }

  async close(): Promise<void> {
    clearInterval(this.renewal);
    await this.bus.release(this.lease, this.cluster.self).catch(() => {});
    await this.local.close();
  }
}

function faultOf(error: unknown): JsonObject {
  if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return writeFault(error);
  return writeFault(new ProtocolError('internal', 'The other replica failed'));
}
