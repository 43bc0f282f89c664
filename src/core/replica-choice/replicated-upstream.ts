import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import {
  type ClientCapabilities,
  isListMethod,
  LIST_KINDS,
  type ListKind,
  type ServerDescription,
  type SubscriptionFilter,
  TASK_METHODS,
} from '../../protocol/mcp/model.js';
import { refusalIn } from '../../protocol/mcp/recognised-upstream-errors.js';
import type { Log } from '../../telemetry/log.js';
import type { Caller } from '../caller.js';
import { complete, failed, type Outcome, type ParkedCall } from '../gateway.js';
import { RecentMap } from '../recent-map.js';
import type { ListNews, RawRequest, Upstream, UpstreamCall, UpstreamHealth, Watch, WatchEvent } from '../upstream.js';
import type { ChoiceLog } from './choice-log.js';
import { isUnsent, judged } from './judged-outcome.js';
import { RawSessions } from './raw-sessions.js';
import type { Replica } from './replica.js';
import { type ReplicaChoice, ReplicaChooser } from './replica-chooser.js';
import { groupHealth, type ReplicaCounts } from './replica-health.js';
import { bind, unbind } from './replica-in-value.js';
import { ReplicaWatches } from './replica-watches.js';
import { type QualitySource, rewardOf } from './reward.js';
import { ToolComparison } from './tool-comparison.js';

export interface ReplicatedUpstreamOptions {
  readonly name: string;
  /** At least one replica. All replicas use the same credentials. */
  readonly replicas: readonly Replica[];
  /** The latency objective in milliseconds. A call with this latency has half the reward. */
  readonly objective: number;
  readonly quality?: QualitySource | undefined;
  readonly choices?: ChoiceLog | undefined;
  readonly log: Log;
  readonly chooser?: ReplicaChooser;
}

/** The most sessions and elicitations whose replica is remembered. */
const MOST_SESSIONS = 20_000;
const MOST_ELICITATIONS = 2_000;

/**
 * Presents several equivalent servers as one server. Sessions, tasks, parked calls, cursors, request states and
 * subscriptions stay with their replica; every other call goes to a replica that `ReplicaChooser` chooses. A call moves
 * to another replica only if nothing of it was sent. Lists and descriptions come from one replica, the lead, so that
 * they do not change from call to call.
 */
export class ReplicatedUpstream implements Upstream {
  readonly name: string;
  readonly personal: boolean;
  private readonly replicas: readonly Replica[];
  private readonly byId: ReadonlyMap<string, Replica>;
  private readonly chooser: ReplicaChooser;
  private readonly comparison: ToolComparison;
  private readonly watches: ReplicaWatches;
  private readonly raws: RawSessions;
  private readonly sessions = new RecentMap<Replica>(MOST_SESSIONS);
  private readonly elicitations = new RecentMap<Replica>(MOST_ELICITATIONS);
  private readonly counts = new Map<string, ReplicaCounts>();
  private readonly wrapped = new WeakMap<ParkedCall, ParkedCall>();
  /** The choices that belong to the sample and are recorded. */
  private readonly sampled = new WeakSet<ReplicaChoice>();
  private readonly listeners: ((event: WatchEvent) => void)[] = [];
  private first: Replica;

  constructor(private readonly options: ReplicatedUpstreamOptions) {
    const { name, replicas, objective, log } = options;
    this.name = name;
    this.replicas = replicas;
    this.first = replicas[0]!;
    this.personal = this.first.upstream.personal === true;
    this.byId = new Map(replicas.map((replica) => [replica.id, replica]));
    this.chooser = options.chooser ?? new ReplicaChooser({ replicas: [...this.byId.keys()], objective });
    this.comparison = new ToolComparison({ server: name, replicas, lead: () => this.first, log });
    this.watches = new ReplicaWatches((given, open) => this.atFirst(given, open));
    this.raws = new RawSessions();
    void this.recall();
  }

  private get pool(): string {
    return `server:${this.name}`;
  }

  /** Learns from the choices that an earlier process recorded. */
  private async recall(): Promise<void> {
    try {
      for (const { chosen, requestClass, reward } of (await this.options.choices?.latest(this.pool)) ?? [])
        this.chooser.learn(chosen, requestClass, reward);
    } catch (error) {
      this.options.log.debug({ err: error, server: this.name }, 'cannot read the recorded choices of replicas');
    }
  }

  describe(caller?: Caller): Promise<ServerDescription> {
    return this.atLead((replica) => replica.upstream.describe(caller)).then((description) => {
      if (!this.personal) void this.comparison.refresh();
      return description;
    });
  }

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    try {
      const bound = this.boundTo(call);
      if (bound && !isTaught(call)) return await this.pass(bound.replica, caller, bound.call);
      if (bound) return await this.send(bound.replica, caller, bound.call, true);
      if (isListMethod(call.method)) return await this.list(caller, call);
      return await this.sendFreely(caller, call);
    } catch (error) {
      if (error instanceof ProtocolError) return failed(error);
      throw error;
    }
  }

  /** If the call has an opaque value of a replica: that replica, and the call with the replica's own value. */
  private boundTo(call: UpstreamCall): { readonly replica: Replica; readonly call: UpstreamCall } | undefined {
    const { method, params, after } = call;
    const isTask = TASK_METHODS.includes(method);
    const member = isListMethod(method) ? 'cursor' : isTask ? 'taskId' : 'requestState';
    const given = params.has(member) ? params.get(member) : undefined;
    const bound = typeof given === 'string' ? unbind(given) : undefined;
    if (bound) {
      const replica = this.byId.get(bound.replica);
      if (!replica) throw this.gone(member);
      return { replica, call: { ...call, params: params.edit({ [member]: JSON.stringify(bound.value) }) } };
    }
    const asked = after && this.elicitations.get(after[0] ?? '');
    if (asked) return { replica: asked, call };
    return isTask ? { replica: this.lead(), call } : undefined;
  }

  private gone(member: string): ProtocolError {
    const message = `The replica of server "${this.name}" that this ${member} belongs to is no longer configured`;
    return new ProtocolError('upstream_unavailable', message, { outcome: 'not_executed', data: { server: this.name } });
  }

  private async sendFreely(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const { session } = caller;
    const kept = session === undefined ? undefined : this.sessions.get(session);
    const tried = new Set<string>();
    let next: Replica | undefined = kept;
    for (;;) {
      const choice = next ? undefined : this.chosen(call, tried);
      const replica = next ?? this.byId.get(choice!.replica)!;
      tried.add(replica.id);
      if (session !== undefined) this.sessions.set(session, replica);
      const outcome = await this.send(replica, caller, call, next !== undefined, choice);
      const movable = outcome.kind === 'error' && isUnsent(outcome.error) && !call.cancellation.cancelled;
      // If following a task fails, the outcome does not say whether the task was created.
      if (!movable || call.tasks === 'follow' || tried.size >= this.replicas.length) return outcome;
      next = undefined;
    }
  }

  private chosen(call: UpstreamCall, tried: ReadonlySet<string>): ReplicaChoice {
    const tool = call.method === 'tools/call' ? call.params.get('name') : undefined;
    const fits = (id: string): boolean => typeof tool !== 'string' || this.comparison.fits(id, tool);
    const left = this.replicas.filter(({ id }) => !tried.has(id));
    const fitting = left.filter(({ id }) => fits(id));
    const usable = new Set((fitting.length > 0 ? fitting : left).map(({ id }) => id));
    const wanted = this.options.choices?.wants(this.pool) === true;
    const choice = this.chooser.choose(this.classOf(call), performance.now(), (id) => usable.has(id));
    if (wanted) this.sampled.add(choice);
    return choice;
  }

  /**
   * Calls of one tool form a class. Callers can invent names of unknown tools, so unknown tools share one class with
   * all other calls.
   */
  private classOf({ method, params }: UpstreamCall): string {
    if (method !== 'tools/call') return '';
    const name = params.get('name');
    return typeof name === 'string' && this.comparison.knows(name) ? name.slice(0, 128) : '';
  }

  private async send(
    replica: Replica,
    caller: Caller,
    call: UpstreamCall,
    pinned: boolean,
    choice = this.chooser.assign(replica.id, this.classOf(call), performance.now()),
  ): Promise<Outcome> {
    const began = performance.now();
    let outcome: Outcome | undefined;
    try {
      outcome = await replica.upstream.request(caller, call);
    } finally {
      this.chooser.ended(choice);
      if (!outcome) this.chooser.released(choice);
    }
    this.settle(replica, choice, outcome, performance.now() - began, pinned);
    return this.bound(replica, outcome);
  }

  /**
   * Sends a request without changing the estimates, because lists and requests about tasks are not comparable with
   * other calls.
   */
  private async pass(replica: Replica, caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const outcome = this.bound(replica, await replica.upstream.request(caller, call));
    if (outcome.kind !== 'complete' || !isListMethod(call.method)) return outcome;
    const next = outcome.result.get('nextCursor');
    if (typeof next !== 'string') return outcome;
    return complete(outcome.result.edit({ nextCursor: JSON.stringify(bind(replica.id, next)) }));
  }

  private settle(replica: Replica, choice: ReplicaChoice, outcome: Outcome, latency: number, pinned: boolean): void {
    const found = judged(outcome);
    const count = this.counts.get(replica.id) ?? { calls: 0, failures: 0 };
    this.counts.set(replica.id, {
      calls: count.calls + 1,
      failures: count.failures + (found?.success === false ? 1 : 0),
    });
    // Errors that a replica answers to a bound caller do not count. Otherwise a caller could keep other callers away
    // from the replica by sending wrong arguments.
    if (!found || (pinned && found.answered)) {
      this.chooser.released(choice);
      return;
    }
    const { objective, quality, choices } = this.options;
    const score = quality?.(this.name, replica.position);
    const result = { ...found, latency, ...(score !== undefined && { quality: score }) };
    this.chooser.settled(choice, result, performance.now());
    const { propensity, requestClass, among } = choice;
    if (propensity === undefined || among.length < 2 || !this.sampled.has(choice)) return;
    choices?.record({
      ...{ at: Date.now(), pool: this.pool, requestClass, among, chosen: replica.id, propensity },
      ...{ success: found.success, latency, reward: rewardOf(result, objective) },
    });
  }

  /** Marks the opaque values of an outcome with their replica. */
  private bound(replica: Replica, outcome: Outcome): Outcome {
    const { id } = replica;
    switch (outcome.kind) {
      case 'task': {
        const taskId = outcome.result.get('taskId');
        if (typeof taskId !== 'string') return outcome;
        return { kind: 'task', result: outcome.result.edit({ taskId: JSON.stringify(bind(id, taskId)) }) };
      }
      case 'input_required': {
        const { requestState, parked } = outcome;
        return {
          ...outcome,
          ...(requestState !== undefined && { requestState: bind(id, requestState) }),
          ...(parked && { parked: this.parked(replica, parked) }),
        };
      }
      case 'error': {
        if (isUnsent(outcome.error)) this.unreached(replica);
        const refusal = refusalIn(outcome.error);
        if (refusal?.reason === 'url_elicitation_required')
          for (const elicitation of refusal.ids.slice(0, 10)) this.elicitations.set(elicitation, replica);
        return outcome;
      }
      case 'complete':
        return outcome;
    }
  }

  private parked(replica: Replica, call: ParkedCall): ParkedCall {
    const known = this.wrapped.get(call);
    if (known) return known;
    const { portable } = call;
    const wrapper: ParkedCall = {
      over: call.over,
      resume: async (from, answers) => this.bound(replica, await call.resume(from, answers)),
      abandon: (reason) => call.abandon(reason),
      ...(portable && {
        portable: () => {
          const data = portable.call(call);
          return data === undefined ? undefined : { replica: replica.id, call: data };
        },
      }),
    };
    this.wrapped.set(call, wrapper);
    return wrapper;
  }

  adopt(data: JsonValue, caller: Caller): ParkedCall | undefined {
    const marked = isObject(data) && typeof data['replica'] === 'string' ? data : undefined;
    const replica = marked ? this.byId.get(String(marked['replica'])) : this.lead();
    const call = replica?.upstream.adopt?.((marked ? marked['call'] : data) as JsonValue, caller);
    return call && this.parked(replica!, call);
  }

  abandon(caller: Caller, state: string): void {
    const found = unbind(state);
    const { upstream } = (found && this.byId.get(found.replica)) ?? this.lead();
    upstream.abandon?.(caller, found?.value ?? state);
  }

  private async list(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    try {
      return await this.atLead(async (replica) => {
        const outcome = await this.pass(replica, caller, call);
        if (outcome.kind === 'error' && isUnsent(outcome.error)) throw outcome.error;
        return outcome;
      });
    } catch (error) {
      if (isUnsent(error)) return failed(error as ProtocolError);
      throw error;
    }
  }

  /** The replica whose lists callers see. It stays the same until it is down. */
  private lead(): Replica {
    if (isDown(this.first)) {
      const other = this.replicas.find((replica) => !isDown(replica));
      if (other) this.becomeLead(other);
    }
    return this.first;
  }

  private becomeLead(replica: Replica): void {
    if (this.first === replica) return;
    this.first = replica;
    this.options.log.debug({ server: this.name, replica: replica.place }, 'the lists now come from another replica');
    for (const kind of LIST_KINDS) for (const deliver of this.listeners) deliver({ kind });
  }

  private async atLead<T>(work: (replica: Replica) => Promise<T>): Promise<T> {
    const lead = this.lead();
    const others = this.replicas.filter((replica) => replica !== lead);
    const { value, replica } = await this.atFirst([lead, ...others], work);
    this.becomeLead(replica);
    return value;
  }

  /** Does the work at the first replica that can be reached. */
  private async atFirst<T>(
    replicas: readonly Replica[],
    work: (replica: Replica) => Promise<T>,
  ): Promise<{ readonly value: T; readonly replica: Replica }> {
    let unsent: unknown;
    for (const replica of replicas) {
      try {
        return { value: await work(replica), replica };
      } catch (error) {
        if (!isUnsent(error)) throw error;
        unsent ??= error;
      }
    }
    throw unsent;
  }

  /** Moves the subscriptions of a replica that cannot be reached. */
  private unreached(replica: Replica): void {
    void this.watches.moveFrom(
      replica,
      this.replicas.filter((other) => other !== replica && !isDown(other)),
    );
  }

  watch(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void, caller?: Caller): Promise<Watch> {
    const first = (caller?.session !== undefined && this.sessions.get(caller.session)) || this.lead();
    const others = this.replicas.filter((replica) => replica !== first);
    return this.watches.open([first, ...others], filter, deliver, caller);
  }

  keepWatching(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<unknown> {
    this.listeners.push(deliver);
    const heard = (replica: Replica, event: WatchEvent): void => {
      if (event.kind === 'toolsListChanged' && !event.lapsed) this.comparison.changed(replica);
      // Callers do not see the lists of the other replicas.
      if (replica === this.first) deliver(event);
    };
    return Promise.all(
      this.replicas.map((replica) => replica.upstream.keepWatching(filter, (event) => heard(replica, event))),
    );
  }

  listNews(kind: ListKind, capabilities: ClientCapabilities): ListNews {
    return this.first.upstream.listNews(kind, capabilities);
  }

  rootsChanged(session: string): void {
    for (const { upstream } of this.replicas) upstream.rootsChanged(session);
  }

  release(session: string): void {
    this.sessions.delete(session);
    for (const { upstream } of this.replicas) upstream.release(session);
  }

  revisionFor(caller: Caller): string | undefined {
    const kept = caller.session === undefined ? undefined : this.sessions.get(caller.session);
    return (kept ?? this.first).upstream.revisionFor?.(caller);
  }

  get raw(): Upstream['raw'] {
    if (!this.first.upstream.raw) return undefined;
    return async (caller: Caller, request: RawRequest) => {
      const replica = this.byId.get(this.raws.replicaOf(caller, request) ?? '') ?? this.lead();
      await replica.upstream.raw!(caller, this.raws.noting(caller, request, replica.id));
    };
  }

  readonly checkHealth = async (interval?: number): Promise<void> => {
    await Promise.all(this.replicas.map(({ upstream }) => upstream.checkHealth?.(interval)));
    for (const replica of this.replicas) if (isDown(replica)) this.unreached(replica);
    this.lead();
    if (!this.personal) await this.comparison.refresh();
  };

  health(): UpstreamHealth {
    return groupHealth({
      replicas: this.replicas,
      lead: this.first,
      states: this.chooser.states(performance.now()),
      counts: this.counts,
      difference: (replica) => this.comparison.difference(replica),
    });
  }

  async close(): Promise<void> {
    this.comparison.close();
    await Promise.all(this.replicas.map(({ upstream }) => upstream.close()));
  }
}

const isTaught = ({ method }: UpstreamCall): boolean => !isListMethod(method) && !TASK_METHODS.includes(method);
const isDown = ({ upstream }: Replica): boolean => upstream.health().status === 'down';
