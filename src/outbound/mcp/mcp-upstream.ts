import { type Caller, GATEWAY } from '../../core/caller.js';
import { type BreakerSettings, CircuitBreaker } from '../../core/circuit-breaker.js';
import { ALONE } from '../../core/cluster.js';
import { failed, type Outcome, type ParkedCall } from '../../core/gateway.js';
import type {
  ListNews,
  ServerOutput,
  Upstream,
  UpstreamCall,
  UpstreamHealth,
  UpstreamStatus,
  Watch,
  WatchEvent,
} from '../../core/upstream.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, ListKind, ServerDescription, SubscriptionFilter } from '../../protocol/mcp/model.js';
import { revisionOf } from '../../protocol/mcp/revisions/index.js';
import {
  contradictsModern,
  erasFor,
  LEGACY_VERDICT_TTL,
  type RevisionSetting,
  spoken,
  type Verdict,
} from '../../protocol/mcp/server-version.js';
import type { Log } from '../../telemetry/log.js';
import type { Link, OpenWatch, Peer } from './peer.js';
import { rejectOnCancel } from './reject-on-cancel.js';
import { CredentialError, CredentialRefused, invalidReply, unavailable, withoutCredential } from './server-errors.js';
import { HandshakeRefused } from './session/session-errors.js';
import { WatchHub } from './watch-hub.js';

/** Stores detected eras across restarts of the gateway. */
export interface VerdictMemory {
  recall(): Verdict | undefined;
  remember(verdict: Verdict): void;
}

export interface McpUpstreamOptions {
  readonly name: string;
  readonly link: Link;
  readonly setting: RevisionSetting;
  readonly memory: VerdictMemory;
  /** See `Upstream.personal`. */
  readonly personal?: boolean;
  readonly breaker?: BreakerSettings | undefined;
  readonly log: Log;
}

/** Milliseconds after a failed probe during which callers get the same failure instead of a new probe. */
const PROBE_PAUSE = 1_000;

/**
 * Milliseconds. A server that answered within this time is not probed. The time is half of the probe interval if that
 * is shorter.
 */
const PROBE_AFTER_CONTACT = 10_000;

/** One configured MCP server. Detects the server's eras once and serves each caller in the caller's era if possible. */
export class McpUpstream implements Upstream {
  readonly name: string;
  readonly personal: boolean;
  private verdict: Verdict | undefined;
  /** The probes under way. All callers share one probe; at a personal server each caller has its own. */
  private readonly probing = new Map<string, Promise<Verdict>>();
  private modernPeer: Peer | undefined;
  private legacyPeer: Peer | undefined;
  /** The watches of the gateway itself and of callers with the same credential. */
  private readonly hub: WatchHub;
  /** The watches of callers with other credentials, by credential key. */
  private readonly hubs = new Map<string, { readonly hub: WatchHub; readonly callers: Caller[] }>();
  private readonly overhearing: ((event: WatchEvent) => void)[] = [];
  private status: UpstreamStatus = 'unknown';
  private problem: string | undefined;
  /** The revision of the last handshake. */
  private agreed: string | undefined;
  private readonly breaker: CircuitBreaker;
  /** The last failure to reach the server. Calls that wait for one probe share its failure, which counts once. */
  private lastFailure: unknown;
  /** The last contact that showed the server's state, and the last probe. */
  private contactAt = 0;
  private probed: UpstreamHealth['probed'];

  constructor(private readonly options: McpUpstreamOptions) {
    this.name = options.name;
    this.personal = options.personal === true;
    this.breaker = new CircuitBreaker(options.breaker);
    this.verdict = options.setting.fixed ?? options.memory.recall();
    this.hub = this.hubOf(GATEWAY, async (listen) => listen(GATEWAY));
    const overheard = (event: WatchEvent): void => {
      for (const deliver of this.overhearing) deliver(event);
    };
    options.link.overhear(overheard);
    // A modern server sends changes only to subscriptions, so the events of this hub are the only source.
    this.hub.overhear((event) => {
      if (this.verdict?.modern && options.link.watchCosts) overheard(event);
    });
  }

  /** `as` chooses the caller whose credential is used, each time a watch is opened. */
  private hubOf(
    prober: Caller,
    as: (listen: (caller: Caller, key?: string) => Promise<OpenWatch>) => Promise<OpenWatch>,
  ): WatchHub {
    return new WatchHub(
      this.options.name,
      async (filter, deliver, lost) => {
        const peer = await this.primary(prober);
        return as((caller, key) => peer.listen(filter, deliver, lost, caller, key));
      },
      this.options.log,
    );
  }

  /** The latest of these callers whose credential has the key. */
  private async holderAmong(callers: readonly Caller[], key: string): Promise<Caller> {
    for (const caller of [...callers].reverse()) {
      try {
        if ((await this.options.link.credentialKey?.(caller)) === key) return caller;
      } catch {
        // This caller has no credential at the moment. The next caller may have a credential.
      }
    }
    throw withoutCredential(this, undefined);
  }

  async describe(caller?: Caller): Promise<ServerDescription> {
    const ask = async (): Promise<ServerDescription> => (await this.primary(caller ?? GATEWAY)).describe(caller);
    const description = await this.noting(() => this.withCredential(caller ?? GATEWAY, ask), true, caller);
    this.agreed = description.revision;
    return description;
  }

  revisionFor(caller: Caller): string | undefined {
    const { verdict } = this;
    if (!verdict) return undefined;
    return erasFor(caller.revision, verdict)[0] === 'modern' && verdict.modern ? verdict.modern : this.agreed;
  }

  /** The error for callers while the breaker is open; undefined if the call may pass. */
  private resting(): ProtocolError | undefined {
    const refusal = this.breaker.enter();
    if (!refusal) return undefined;
    const { name } = this;
    const { state, nextTrialMs } = refusal;
    const problem = this.problem ?? unavailable({ name }, 'several attempts to reach it failed').message;
    return new ProtocolError('upstream_unavailable', problem, {
      outcome: 'not_executed',
      data: { server: name, breaker: state, nextTrialMs },
    });
  }

  /**
   * Whether the server answered recently. A server that answers calls needs no probes. The time is shorter than the
   * probe interval, so that the answer to the last probe does not prevent the next probe.
   */
  private usedWithin(interval: number): boolean {
    const quiet = Math.min(PROBE_AFTER_CONTACT, interval / 2);
    return this.status === 'up' && performance.now() - this.contactAt < quiet;
  }

  /**
   * Sends `server/discover`, which needs no session. A legacy server answers with an error, and that error also shows
   * that the server answers. A process is not probed: its state is known, and a probe would start it.
   */
  readonly checkHealth = async (interval = Number.POSITIVE_INFINITY): Promise<void> => {
    const { link, setting } = this.options;
    if (this.personal || link.watchCosts || this.usedWithin(interval)) return;
    const began = performance.now();
    try {
      const { answers } = link;
      await link.probe(setting.modernOffer, GATEWAY);
      if (link.answers > answers) this.up(GATEWAY);
    } catch (error) {
      // A legacy server may ignore an unknown request; only a failed connection shows that the server is down.
      const known = this.explained(error, true);
      const unreached = known instanceof ProtocolError && known.reason === 'upstream_unavailable';
      if (this.verdict?.modern || unreached) this.note(error, true);
      else if (this.status === 'down' && !(known instanceof ProtocolError && isDown(known))) this.up(GATEWAY);
    }
    this.probed = { at: Date.now(), took: Math.round(performance.now() - began) };
  };

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    let verdict: Verdict;
    const resting = this.resting();
    if (resting) return failed(resting);
    try {
      const probe = (): Promise<Verdict> => rejectOnCancel(this.probe(caller), call.cancellation);
      verdict = this.verdict ?? (await this.withCredential(caller, probe));
    } catch (error) {
      return failed(this.note(error, true));
    }
    if (!this.personal) {
      // Looks for another credential only after a refusal, because most calls need no second lookup.
      const outcome = await this.attempt(caller, call, verdict);
      const refused =
        outcome.kind === 'error' && outcome.error instanceof CredentialRefused ? outcome.error : undefined;
      try {
        const again = refused !== undefined && (await this.hasAnother(caller, refused));
        return this.observe(again ? await this.attempt(caller, call, verdict) : outcome, caller);
      } catch (error) {
        return failed(this.note(error));
      }
    }
    try {
      const attempt = async (): Promise<Outcome> => {
        const outcome = await this.attempt(caller, call, this.verdict ?? verdict);
        if (outcome.kind === 'error' && outcome.error instanceof CredentialRefused) throw outcome.error;
        return outcome;
      };
      return this.observe(await this.withCredential(caller, attempt), caller);
    } catch (error) {
      return failed(this.note(error));
    }
  }

  /**
   * Runs a request. If the server refuses the credential of the caller, and the caller then has another credential,
   * runs the request once more. A server that refuses a credential has executed nothing.
   */
  private async withCredential<T>(caller: Caller, run: () => Promise<T>): Promise<T> {
    const used = this.personal ? await this.options.link.credential?.(caller) : undefined;
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof CredentialRefused)) throw error;
      if (!(await this.hasAnother(this.personal ? caller : GATEWAY, error, used))) throw error;
      this.probing.delete(this.proberKey(caller));
      return run();
    }
  }

  /**
   * Whether there is another credential after a refusal. `used` is the refused credential. If absent, the current
   * credential of the caller is the refused one.
   */
  private async hasAnother(caller: Caller, { refusal }: CredentialRefused, used?: Credential): Promise<boolean> {
    try {
      const credential = used ?? (await this.options.link.credential?.(caller));
      return (await credential?.refused?.(refusal)) ?? false;
    } catch (problem) {
      throw withoutCredential(this, problem);
    }
  }

  private async attempt(caller: Caller, call: UpstreamCall, verdict: Verdict): Promise<Outcome> {
    let outcome: Outcome | undefined;
    for (const era of erasFor(caller.revision, verdict)) {
      outcome = await this.peer(era).request(caller, call);
      // The server refused the handshake. Nothing was executed, so the call may be sent in the modern era.
      if (era === 'legacy' && verdict.modern && outcome.kind === 'error' && outcome.error instanceof HandshakeRefused) {
        this.settle({ ...verdict, legacy: false, at: Date.now() });
        continue;
      }
      if (era === 'legacy' && verdict.legacy === undefined && outcome.kind !== 'error')
        this.settle({ ...verdict, legacy: true, at: Date.now() });
      break;
    }
    return outcome ?? failed(invalidReply(this, 'supports no protocol version that this gateway supports'));
  }

  async watch(
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    caller: Caller = GATEWAY,
  ): Promise<Watch> {
    return this.noting(
      async () => {
        const { link } = this.options;
        const key = await link.credentialKey?.(caller);
        if (!this.personal && key === (await link.credentialKey?.(GATEWAY))) return this.hub.watch(filter, deliver);
        return this.watchAs(caller, key ?? '', filter, deliver);
      },
      false,
      caller,
    );
  }

  /** Opens a watch with a caller's own credential. */
  private async watchAs(
    caller: Caller,
    key: string,
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
  ): Promise<Watch> {
    const shared = this.hubs.get(key) ?? this.sharedHub(key, caller);
    this.hubs.set(key, shared);
    const { callers } = shared;
    callers.push(caller);
    const leave = (): void => {
      callers.splice(callers.indexOf(caller), 1);
      if (callers.length > 0 || this.hubs.get(key) !== shared) return;
      this.hubs.delete(key);
      shared.hub.close();
    };
    const watch = await shared.hub.watch(filter, deliver).catch((error: unknown) => {
      leave();
      throw error;
    });
    let closed = false;
    return {
      get honoured() {
        return watch.honoured;
      },
      close: () => {
        if (closed) return;
        closed = true;
        // Removes this caller first: the hub reopens the watch of the other callers with one of their credentials.
        leave();
        watch.close();
      },
    };
  }

  private sharedHub(key: string, first: Caller): { readonly hub: WatchHub; readonly callers: Caller[] } {
    const callers: Caller[] = [];
    return { hub: this.hubOf(first, async (listen) => listen(await this.holderAmong(callers, key), key)), callers };
  }

  /** Opens a watch that keeps a cache fresh. Reports no failure and keeps no process running. */
  keepWatching(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<unknown> {
    if (this.personal) return Promise.resolve();
    this.overhearing.push(deliver);
    if (this.options.link.watchCosts) return Promise.resolve();
    return this.hub.watch(filter, (event) => deliver(this.verdict?.modern ? event : onCanonical(event)), true);
  }

  listNews(kind: ListKind, capabilities: ClientCapabilities): ListNews {
    // At a personal server the gateway has no session of its own, so it receives no notifications of changes.
    if (this.personal) return 'polled';
    if (this.verdict?.modern && this.hub.hears(kind)) return 'pushed';
    return this.options.link.listNews(this.verdict?.modern ? 'modern' : 'legacy', capabilities);
  }

  adopt(call: JsonValue, caller: Caller): ParkedCall | undefined {
    return this.peer('legacy').adopt?.(call, caller);
  }

  rootsChanged(session: string): void {
    this.options.link.rootsChanged?.(session);
  }

  release(session: string): void {
    this.options.link.release?.(session);
  }

  health(): UpstreamHealth {
    const { detail: found, cause, down } = this.options.link.health();
    const detail = this.problem ?? found;
    const speaks = this.verdict ? spoken(this.verdict) : [];
    const status = this.personal && this.status === 'unknown' ? 'login_required' : this.status;
    const breaker = this.breaker.health();
    return {
      status: down ? 'down' : status,
      speaks,
      ...(detail && { detail }),
      ...(cause && { cause }),
      ...(breaker.state !== 'closed' && { breaker }),
      ...(this.probed && { probed: this.probed }),
    };
  }

  get raw(): Upstream['raw'] {
    const { link } = this.options;
    return link.raw && ((caller, request) => link.raw!(caller, request));
  }

  output(): Promise<ServerOutput> | undefined {
    const output = this.options.link.output?.();
    return output && Promise.resolve({ replica: ALONE.self, ...output });
  }

  async close(): Promise<void> {
    this.hub.close();
    for (const { hub } of this.hubs.values()) hub.close();
    this.hubs.clear();
    await Promise.all([this.modernPeer?.close(), this.legacyPeer?.close()]);
    await this.options.link.close();
  }

  /** The peer for requests of the gateway itself: that of the newest era of the server. */
  private async primary(caller: Caller): Promise<Peer> {
    const verdict = this.verdict ?? (await this.probe(caller));
    return this.peer(verdict.modern ? 'modern' : 'legacy');
  }

  private peer(era: 'modern' | 'legacy'): Peer {
    const { link, setting } = this.options;
    if (era === 'legacy') {
      this.legacyPeer ??= link.legacy(setting.legacyOffer);
      return this.legacyPeer;
    }
    this.modernPeer ??= link.modern(revisionOf(this.verdict?.modern || '') ?? setting.modernOffer);
    return this.modernPeer;
  }

  private proberKey(caller: Caller): string {
    return this.personal ? caller.principal.key : '';
  }

  private probe(caller: Caller): Promise<Verdict> {
    const key = this.proberKey(caller);
    const known = this.probing.get(key);
    if (known) return known;
    const probing = this.ask(this.personal ? caller : GATEWAY);
    this.probing.set(key, probing);
    const done = (): void => {
      if (this.probing.get(key) === probing) this.probing.delete(key);
    };
    probing.then(done, (error: unknown) => {
      // A caller may sign in at any moment, so this failure is not remembered.
      if (error instanceof CredentialError) done();
      else setTimeout(done, PROBE_PAUSE).unref();
    });
    return probing;
  }

  private async ask(caller: Caller): Promise<Verdict> {
    const { link, setting, log } = this.options;
    const evidence = await link.probe(setting.modernOffer, caller);
    switch (evidence.kind) {
      case 'modern':
        return this.settle({ modern: evidence.revision.date, legacy: undefined, at: Date.now() });
      case 'legacy':
        return this.settle({ modern: false, legacy: true, at: Date.now() });
      case 'foreign':
        throw invalidReply(
          this,
          `speaks only protocol versions this gateway does not know: ${evidence.versions.join(', ')}`,
        );
      case 'none':
        log.debug({ server: this.name }, 'cannot detect the protocol version of the server');
        throw unavailable(this, 'its protocol version cannot be detected');
    }
  }

  private settle(verdict: Verdict): Verdict {
    this.verdict = verdict;
    this.options.memory.remember(verdict);
    return verdict;
  }

  private observe(outcome: Outcome, caller: Caller): Outcome {
    if (outcome.kind !== 'error') {
      this.up(caller);
      return outcome;
    }
    const error = this.note(outcome.error);
    if (!this.options.setting.fixed && this.verdict?.modern && contradictsModern(outcome.error))
      this.verdict = undefined;
    return failed(error);
  }

  private up(caller: Caller): void {
    this.breaker.answered();
    this.contactAt = performance.now();
    this.status = 'up';
    this.problem = undefined;
    const { verdict } = this;
    if (verdict && !verdict.modern && !this.options.setting.fixed && Date.now() - verdict.at > LEGACY_VERDICT_TTL) {
      // The new probe runs in the background. Calls continue with the known era.
      this.verdict = { ...verdict, at: Date.now() };
      this.probe(caller).catch(() => {});
    }
  }

  /**
   * `contact` is true if the gateway only tried to reach the server. Any failure then means that the server is down.
   */
  private note(error: unknown, contact = false): ProtocolError | UpstreamRpcError {
    if (error instanceof CredentialError && (!contact || this.personal)) {
      this.breaker.inconclusive();
      return error;
    }
    // A cancelled call does not change the health of the server.
    if (error instanceof ProtocolError && error.reason === 'cancelled') {
      this.breaker.inconclusive();
      return error;
    }
    const known = this.explained(error, contact);
    const unreached = known instanceof ProtocolError && known.reason === 'upstream_unavailable';
    if (!unreached) this.breaker.answered();
    else if (error === this.lastFailure) this.breaker.inconclusive();
    else {
      this.lastFailure = error;
      this.breaker.failed();
    }
    // One caller's credential says nothing about the server.
    const personal = this.personal && known instanceof CredentialRefused;
    if (known instanceof ProtocolError && !personal && (contact || isDown(known))) {
      this.status = 'down';
      this.problem = known.message;
    } else {
      this.status = 'up';
      this.problem = undefined;
    }
    return known;
  }

  private explained(error: unknown, contact: boolean): ProtocolError | UpstreamRpcError {
    if (error instanceof HandshakeRefused && error.refusal) {
      // No MCP server answered at this address, so its era must be detected again.
      if (!this.options.setting.fixed) this.verdict = undefined;
      return error.refusal;
    }
    if (error instanceof ProtocolError) return error;
    if (!(error instanceof UpstreamRpcError))
      return unavailable(this, error instanceof Error ? error.message : 'the connection failed');
    if (!contact) return error;
    const { code, message } = error;
    return new ProtocolError('upstream_error', `Server "${this.name}" refused the handshake: ${message} (${code})`, {
      outcome: 'not_executed',
      data: { server: this.name, code },
    });
  }

  private async noting<T>(run: () => Promise<T>, contact = false, caller: Caller = GATEWAY): Promise<T> {
    const resting = this.resting();
    if (resting) throw resting;
    const { link } = this.options;
    const { answers } = link;
    try {
      const value = await run();
      // What is known from before says nothing about the state of the server now.
      if (link.answers > answers) this.up(caller);
      else this.breaker.inconclusive();
      return value;
    } catch (error) {
      throw this.note(error, contact);
    }
  }
}

/**
 * Marks an event of a legacy watch. The event comes from a session without client capabilities and concerns the lists
 * of that session.
 */
const onCanonical = (event: WatchEvent): WatchEvent =>
  event.kind === 'resourceUpdated' || event.kind === 'task' ? event : { ...event, for: {} };

/** Whether an error means that the server is down. An HTTP error status without an MCP answer counts too. */
const isDown = ({ reason, detail }: ProtocolError): boolean =>
  DOWN.includes(reason) || (reason === 'upstream_error' && detail.data?.['status'] !== undefined);

const DOWN: readonly string[] = [
  'upstream_unavailable',
  'upstream_timeout',
  'upstream_unauthorized',
  'upstream_invalid',
];
