import { createHash } from 'node:crypto';
import { type Caller, Cancellation } from '../../core/caller.js';
import { type Asked, type Cluster, ReplicaGone } from '../../core/cluster.js';
import { readFault, readOutcome, writeFault } from '../../core/era-bridge/outcome-json.js';
import { failed, type Outcome, type ParkedCall } from '../../core/gateway.js';
import { sleep } from '../../core/timing.js';
import type {
  ListNews,
  ServerOutput,
  Upstream,
  UpstreamCall,
  UpstreamHealth,
  Watch,
  WatchEvent,
} from '../../core/upstream.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import {
  type ClientCapabilities,
  type InputResponses,
  LIST_KINDS,
  type ListKind,
  type Notification,
  type ServerDescription,
  type SubscriptionFilter,
} from '../../protocol/mcp/model.js';
import type { Bus } from '../../state/bus.js';
import { MEMBERSHIP_TIMES, type MembershipTimes } from '../membership.js';
import { limiterTo, readCall, type Sinks, sinksOf, writeCall } from './call-json.js';
import { HeldCalls } from './held-calls.js';
import { OwnerLease } from './owner-lease.js';
import { type Placed, SharedProcessWatch } from './watch.js';

/** The answer of a replica that no longer owns the server. That replica has executed nothing. */
const MOVED = { moved: true };
const isMoved = (answer: JsonValue): boolean => (answer as JsonObject | null)?.['moved'] === true;
const ATTEMPTS = 3;
const MOVED_PAUSE = 100;
const LOOK_AFTER = 1_000;
/**
 * Number of attempts to tell the replica that owns the process that a parked call is abandoned. If all fail, that replica
 * drops the call at the end of the call's lifetime.
 */
const ABANDON_ATTEMPTS = 30;
const ABANDON_PAUSE = 2_000;
/** Longer than the time limit of any caller for an answer. */
const HELD_FOR = 2 * 60 * 60 * 1000;

export interface SharedProcessUpstreamOptions {
  /** Creates the upstream that runs the process. Called again each time this replica loses ownership. */
  readonly build: () => Upstream;
  readonly cluster: Cluster;
  readonly bus: Bus;
  /** The settings of the process. Two replicas share a process only if their settings are equal. */
  readonly settings?: string;
  /** The longest time a caller at another replica may take to answer a question of the process. */
  readonly heldFor?: number;
  /** The duration of the lease on the process, and its renewal interval. */
  readonly times?: MembershipTimes;
}

/**
 * A server that runs as a process of one replica, its owner. The other replicas send their calls to the owner. When the
 * owner dies, the next replica that needs the server becomes the owner and starts a new process. Calls in progress end
 * with an error and are not repeated.
 */
export class SharedProcessUpstream implements Upstream {
  readonly name: string;
  private local: Upstream;
  private readonly ownership: OwnerLease;
  private readonly held: HeldCalls;
  private readonly build: () => Upstream;
  private readonly cluster: Cluster;
  private readonly settings: string;
  private readonly watches = new Set<SharedProcessWatch>();
  private readonly served = new Set<() => void>();
  private readonly listeners = new Set<(event: WatchEvent) => void>();
  private readonly stops: (() => void)[];
  private description: ServerDescription | undefined;
  private reached: UpstreamHealth['status'] = 'unknown';
  private readonly sweeper: NodeJS.Timeout;
  private closed = false;

  constructor({
    build,
    cluster,
    bus,
    settings = '',
    heldFor = HELD_FOR,
    times = MEMBERSHIP_TIMES,
  }: SharedProcessUpstreamOptions) {
    this.build = build;
    this.cluster = cluster;
    this.settings = settings;
    this.held = new HeldCalls(heldFor);
    this.local = this.made();
    this.name = this.local.name;
    const events = { taken: () => this.announce(), lost: () => this.lost() };
    this.ownership = new OwnerLease(this.subject('owner'), cluster, bus, events, times);
    this.stops = [
      cluster.onTold(this.subject('event'), (payload) => this.hear(payload as unknown as WatchEvent)),
      cluster.handle(this.subject('describe'), () => this.serveDescribe()),
      cluster.handle(this.subject('request'), (payload, asked) => this.serve(payload as JsonObject, asked)),
      cluster.handle(this.subject('resume'), (payload, asked) => this.serveResume(payload as JsonObject, asked)),
      cluster.handle(this.subject('abandon'), async (payload) => {
        const { id, reason } = payload as JsonObject;
        this.held.abandon(String(id), String(reason));
        return null;
      }),
      cluster.handle(this.subject('output'), async () => (await this.outputHere()) as unknown as JsonValue),
      cluster.handle(this.subject('watch'), (payload, asked) => this.serveWatch(payload as JsonObject, asked)),
    ];
    this.sweeper = setInterval(
      () => void this.held.sweep((replica) => cluster.alive(replica).catch(() => true)),
      LOOK_AFTER,
    ).unref();
  }

  private subject(what: string): string {
    return `server:${this.name}:${createHash('sha256').update(this.settings).digest('base64url').slice(0, 12)}:${what}`;
  }

  private made(): Upstream {
    const local = this.build();
    const filter = Object.fromEntries(LIST_KINDS.map((kind) => [kind, true])) as SubscriptionFilter;
    void local.keepWatching(filter, (event) => {
      if (this.local === local) this.spread(event);
    });
    return local;
  }

  /** Announces changes of all lists, because a new process may offer other tools, prompts and resources. */
  private announce(): void {
    for (const kind of LIST_KINDS) this.spread({ kind });
    for (const watch of [...this.watches]) watch.move();
  }

  /** Ends the process of this replica and its calls, because another replica may soon start its own process. */
  private lost(): void {
    const { local } = this;
    this.local = this.made();
    void local.close().catch(() => {});
    this.held.clear();
    for (const end of [...this.served]) end();
    for (const watch of [...this.watches]) watch.move();
  }

  private spread(event: WatchEvent): void {
    this.hear(event);
    this.cluster.tell(this.subject('event'), event as unknown as JsonValue).catch(() => {});
  }

  private hear(event: WatchEvent): void {
    if (event.kind !== 'resourceUpdated' && event.kind !== 'task') this.description = undefined;
    for (const listener of [...this.listeners]) listener(event);
  }

  /** Runs here or asks the owner. If ownership moved before the owner executed anything, asks the new owner. */
  private async atOwner<T>(here: () => Promise<T>, there: (owner: string) => Promise<T | undefined>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const owner = await this.ownership.owner();
      if (owner === this.cluster.self) return here();
      try {
        const answer = await there(owner);
        if (answer !== undefined) {
          this.reached = 'up';
          return answer;
        }
      } catch (error) {
        const nothingDone =
          error instanceof ReplicaGone ? !error.sent : error instanceof ProtocolError && error.reason === 'not_found';
        if (!nothingDone || attempt === ATTEMPTS) throw error;
      }
      this.ownership.forget();
      if (attempt === ATTEMPTS) throw this.gone('not_executed');
      await sleep(MOVED_PAUSE);
    }
  }

  /** Adds a check to the call: when the process becomes free for the call, this replica must still be the owner. */
  private owned(call: UpstreamCall): UpstreamCall {
    return {
      ...call,
      permit: () => {
        if (this.ownership.held) return;
        throw new ProtocolError('overloaded', `Server "${this.name}" moves to another replica; try again`, {
          outcome: 'not_executed',
          data: { server: this.name },
          headers: { 'Retry-After': '1' },
        });
      },
    };
  }

  private gone(outcome: 'unknown' | 'not_executed'): ProtocolError {
    return new ProtocolError('upstream_error', `The replica that ran server "${this.name}" is gone`, {
      outcome,
      data: { server: this.name },
    });
  }

  async describe(): Promise<ServerDescription> {
    if (this.description && !this.ownership.held) return this.description;
    return this.atOwner(
      () => this.local.describe(),
      async (owner) => {
        const answer = (await this.cluster.ask(owner, this.subject('describe'), null)) as JsonObject;
        if (isMoved(answer)) return undefined;
        if (answer['fault']) throw readFault(answer['fault'] as JsonObject);
        this.description = answer['description'] as unknown as ServerDescription;
        return this.description;
      },
    );
  }

  private async serveDescribe(): Promise<JsonValue> {
    if (!this.ownership.held) return MOVED;
    try {
      return { description: (await this.local.describe()) as unknown as JsonValue };
    } catch (error) {
      return { fault: faultOf(error) };
    }
  }

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    try {
      return await this.atOwner(
        () => this.local.request(caller, this.owned(call)),
        (owner) => this.asked(owner, 'request', writeCall(caller, call), call),
      );
    } catch (error) {
      if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return failed(error);
      throw error;
    }
  }

  private async asked(owner: string, what: string, payload: JsonValue, call: Sinks): Promise<Outcome | undefined> {
    try {
      const answer = await this.cluster.ask(owner, this.subject(what), payload, {
        cancellation: call.cancellation,
        onEvent: (event) => call.notify(event as unknown as Notification),
      });
      if (isMoved(answer)) return undefined;
      const { outcome, parked } = readOutcome(answer as JsonObject);
      return outcome.kind === 'input_required' && parked !== undefined
        ? { ...outcome, parked: this.remote(owner, parked) }
        : outcome;
    } catch (error) {
      if (!(error instanceof ReplicaGone) || !error.sent) throw error;
      this.ownership.forget();
      return failed(this.gone('unknown'));
    }
  }

  private remote(owner: string, id: string): ParkedCall {
    return {
      over: Promise.resolve(),
      resume: async (call, answers) => {
        try {
          const outcome = await this.asked(owner, 'resume', { id, answers }, call);
          return outcome ?? failed(this.gone('unknown'));
        } catch (error) {
          if (error instanceof ReplicaGone) return failed(this.gone('unknown'));
          if (error instanceof ProtocolError) return failed(error);
          throw error;
        }
      },
      abandon: (reason) => void this.abandonAt(owner, id, reason),
    };
  }

  private async abandonAt(owner: string, id: string, reason: string): Promise<void> {
    for (let attempt = 1; attempt <= ABANDON_ATTEMPTS && !this.closed; attempt++) {
      try {
        await this.cluster.ask(owner, this.subject('abandon'), { id, reason });
        return;
      } catch (error) {
        if (!(error instanceof ProtocolError && error.reason === 'overloaded')) return;
      }
      await sleep(ABANDON_PAUSE, { ref: false });
    }
  }

  /** The number of calls that this replica holds for callers at other replicas. */
  get heldCalls(): number {
    return this.held.size;
  }

  private async serve(payload: JsonObject, asked: Asked): Promise<JsonValue> {
    if (!this.ownership.held) return MOVED;
    const limiter = limiterTo(asked);
    const { caller, call } = readCall(payload, limiter);
    const outcome = limiter.settle(await this.local.request(caller, this.owned(call)));
    return this.held.begin(outcome, asked.from, call.params.size);
  }

  private async serveResume({ id, answers }: JsonObject, asked: Asked): Promise<JsonValue> {
    const limiter = limiterTo(asked);
    const outcome = await this.held.resume(String(id), sinksOf(limiter), answers as InputResponses);
    return this.held.settle(String(id), limiter.settle(outcome), asked.from);
  }

  /** Lasts until the asking replica cancels, or this replica loses ownership of the process. */
  private async serveWatch(filter: JsonObject, asked: Asked): Promise<JsonValue> {
    if (!this.ownership.held) return MOVED;
    let watch: Watch;
    try {
      watch = await this.local.watch(filter as SubscriptionFilter, (event) =>
        asked.emit({ event: event as unknown as JsonValue }),
      );
    } catch (error) {
      return { fault: faultOf(error) };
    }
    asked.emit({ honoured: watch.honoured as JsonObject });
    await new Promise<void>((resolve) => {
      const end = (): void => {
        this.served.delete(end);
        resolve();
      };
      this.served.add(end);
      asked.cancellation.onCancel(end);
    });
    watch.close();
    return MOVED;
  }

  async watch(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<Watch> {
    const watch = new SharedProcessWatch(
      filter,
      deliver,
      (wanted, tell) =>
        this.atOwner(
          () => this.placedHere(wanted, tell),
          (owner) => this.placedAt(owner, wanted, tell),
        ),
      () => this.watches.delete(watch),
    );
    await watch.open();
    this.watches.add(watch);
    return watch;
  }

  private async placedHere(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<Placed> {
    const watch = await this.local.watch(filter, deliver);
    return {
      get honoured() {
        return watch.honoured;
      },
      over: new Promise(() => {}),
      close: () => watch.close(),
    };
  }

  private async placedAt(
    owner: string,
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
  ): Promise<Placed | undefined> {
    const cancellation = new Cancellation();
    let honour: (honoured: SubscriptionFilter) => void = () => {};
    const honoured = new Promise<SubscriptionFilter>((resolve) => {
      honour = resolve;
    });
    const over = this.cluster.ask(owner, this.subject('watch'), filter, {
      cancellation,
      onEvent: (value) => {
        const { honoured: confirmed, event } = value as JsonObject;
        if (confirmed) honour(confirmed as SubscriptionFilter);
        else if (!cancellation.cancelled) deliver(event as unknown as WatchEvent);
      },
    });
    const first = await Promise.race([honoured.then((confirmed) => ({ confirmed })), over]);
    if (!('confirmed' in (first as object))) {
      const fault = (first as JsonObject)['fault'];
      if (fault) throw readFault(fault as JsonObject);
      return undefined;
    }
    over.catch(() => this.ownership.forget());
    const { confirmed } = first as { confirmed: SubscriptionFilter };
    return { honoured: confirmed, over, close: () => cancellation.cancel() };
  }

  async keepWatching(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<void> {
    this.listeners.add((event) => {
      if (event.kind !== 'resourceUpdated' && event.kind !== 'task' && filter[event.kind]) deliver(event);
    });
  }

  /** Replicas without the process get list changes pushed, because the owner forwards all of them. */
  listNews(kind: ListKind, capabilities: ClientCapabilities): ListNews {
    return this.ownership.held ? this.local.listNews(kind, capabilities) : 'pushed';
  }

  rootsChanged(session: string): void {
    this.local.rootsChanged(session);
  }

  release(session: string): void {
    this.local.release(session);
  }

  health(): UpstreamHealth {
    const health = this.local.health();
    return this.ownership.held ? health : { status: this.reached, speaks: health.speaks };
  }

  /** The output of the process, from its owner. If no replica owns the process, the output known to this replica. */
  async output(): Promise<ServerOutput> {
    const owner = await this.ownership.holder();
    if (owner === undefined || owner === this.cluster.self) return this.outputHere();
    try {
      return (await this.cluster.ask(owner, this.subject('output'), null)) as unknown as ServerOutput;
    } catch (error) {
      throw error instanceof ReplicaGone ? this.gone('not_executed') : error;
    }
  }

  private async outputHere(): Promise<ServerOutput> {
    const output = await this.local.output?.();
    return { state: 'idle', lines: [], ...output, replica: this.cluster.self };
  }

  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.sweeper);
    this.held.clear();
    for (const stop of this.stops) stop();
    for (const end of [...this.served]) end();
    for (const watch of [...this.watches]) watch.close();
    await this.ownership.close();
    await this.local.close();
  }
}

function faultOf(error: unknown): JsonObject {
  if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return writeFault(error);
  return writeFault(new ProtocolError('internal', 'The other replica failed'));
}
