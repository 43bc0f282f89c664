import { type Caller, GATEWAY } from '../../../core/caller.js';
import { failed, type Outcome, type ParkedCall } from '../../../core/gateway.js';
import type { UpstreamCall, WatchEvent } from '../../../core/upstream.js';
import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import { isEmpty, type JsonValue } from '../../../protocol/jsonrpc/raw.js';
import {
  type ClientCapabilities,
  INTERACTIVE_METHODS,
  isListMethod,
  LIST_KINDS,
  type ListKind,
  type ServerDescription,
  type SubscriptionFilter,
} from '../../../protocol/mcp/model.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';
import { capabilityFingerprint, sharedCapabilities } from '../../../protocol/mcp/translate/capabilities.js';
import { isInteractive } from '../../../protocol/mcp/translate/questions.js';
import { httpTarget } from '../../http/index.js';
import type { OpenWatch, Peer } from '../peer.js';
import { rejectOnCancel } from '../reject-on-cancel.js';
import { type CredentialHolder, credentialOf } from '../server-credential.js';
import { CredentialError, resting, withoutCredential } from '../server-errors.js';
import type { UpstreamContext } from '../upstream-context.js';
import { HttpChannel } from './http-channel.js';
import { LeasePool } from './lease-pool.js';
import { LegacySession } from './legacy-session.js';
import { readPortable } from './portable-call.js';
import { SessionExpired } from './session-errors.js';
import type { SessionEvents } from './session-options.js';
import { SessionWatch } from './session-watch.js';
import { SseChannel } from './sse-channel.js';

export interface HttpSessionsOptions {
  readonly context: UpstreamContext;
  readonly url: string;
  readonly offer: Revision;
  /** The transport to use. If undefined, the first connection detects it. */
  readonly transport: 'http' | 'sse' | undefined;
  /** Maximum number of sessions for interactive calls, if messages do not show the request that they belong to. */
  readonly pool: number;
  readonly idle: number;
  found(transport: 'http' | 'sse'): void;
  /** A list changed. `event.for` holds the client capabilities for which it changed. */
  overheard(event: WatchEvent): void;
}

const listingKey = (capabilities: ClientCapabilities, credential: string): string =>
  `lists|${capabilityFingerprint(capabilities)}|${credential}`;

/** The session without capabilities that all callers with one credential share. */
const CANONICAL = 'canonical||';
const canonicalKey = (credential: string): string => `${CANONICAL}${credential}`;

/** The credential key of a shared session; undefined for other sessions. */
const sharedBy = (key: string): string | undefined =>
  key.startsWith(CANONICAL) ? key.slice(CANONICAL.length) : undefined;

/** Maximum number of calls that wait, per session of a pool. */
const MOST_WAITING = 100;

/**
 * Maximum number of sessions of one caller that has no session with the gateway, and of pools of one credential. Each
 * set of client capabilities needs a session or pool of its own, and a caller may declare another set in each request.
 */
const MOST_SETS = 32;
/** Maximum number of characters of capabilities that are kept with a session. Real clients declare a few hundred. */
const MOST_CAPABILITIES = 16 * 1024;
/**
 * Milliseconds. A session that was used within this time is not closed to make room: its caller may send the next
 * request at any moment.
 */
const JUST_USED = 1_000;

/** A session, or the promise of one that is being opened. A call on an open session needs no await. */
type Kept = LegacySession | Promise<LegacySession>;

const QUIET: SessionEvents = { changed: () => {}, gap: () => {}, ended: () => {} };

/** The sessions with one legacy server over HTTP. */
export class HttpSessions implements Peer {
  private transport: 'http' | 'sse' | undefined;
  private readonly sessions = new Map<string, Kept>();
  private readonly pools = new Map<string, LeasePool>();
  /** The watches on the shared session of each credential. */
  private readonly watching = new Map<string, SessionWatch>();
  /** The key of the gateway's own credential, once it is known. */
  private own: string | undefined;
  /** The open sessions that fetch lists for clients with capabilities. */
  private readonly listing = new Map<string, LegacySession>();
  private readonly sweeper: NodeJS.Timeout;

  constructor(private readonly options: HttpSessionsOptions) {
    this.transport = options.transport;
    this.sweeper = setInterval(() => this.sweep(), Math.min(options.idle, 60_000));
    this.sweeper.unref();
  }

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    try {
      const first = await this.requestOnce(caller, call);
      if (first.kind !== 'error' || !(first.error instanceof SessionExpired)) return first;
      // The server did not accept the request, so it may be sent again on a new session (HLC-02).
      return await this.requestOnce(caller, call);
    } catch (error) {
      if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return failed(error);
      throw error;
    }
  }

  private requestOnce(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const holder = this.holder(caller);
    if (!(holder instanceof Promise)) return this.requestAs(holder, call);
    return rejectOnCancel(holder, call.cancellation).then((known) => this.requestAs(known, call));
  }

  private requestAs(holder: CredentialHolder, call: UpstreamCall): Promise<Outcome> {
    const interactive = isInteractive(holder.caller.capabilities) && INTERACTIVE_METHODS.includes(call.method);
    if (!interactive) return requestOn(this.shared(holder, call.method), holder, call);
    if (this.transport !== undefined) return this.interactive(holder, call);
    const found = Promise.resolve(this.canonical(holder));
    return rejectOnCancel(found, call.cancellation).then(() => this.interactive(holder, call));
  }

  private interactive(holder: CredentialHolder, call: UpstreamCall): Promise<Outcome> {
    return this.transport === 'sse' ? this.lease(holder, call) : requestOn(this.dedicated(holder), holder, call);
  }

  /** The caller with the key of its credential. A session is used with one credential only. */
  private holder(caller: Caller): CredentialHolder | Promise<CredentialHolder> {
    const { context } = this.options;
    const given = credentialOf(context, caller);
    if (!(given instanceof Promise)) return { caller, key: given.key };
    return given.then(
      ({ key }) => ({ caller, key }),
      (error: unknown) => Promise.reject(withoutCredential(context, error)),
    );
  }

  private lease(holder: CredentialHolder, call: UpstreamCall): Promise<Outcome> {
    const { caller } = holder;
    const capabilities = sharedCapabilities(caller.capabilities);
    const key = `${this.fingerprint(capabilities)}|${holder.key}`;
    let pool = this.pools.get(key);
    if (!pool) {
      this.makeRoomForPool(holder);
      const { name, timeouts } = this.options.context;
      pool = new LeasePool({
        name,
        max: this.options.pool,
        maxWaiting: MOST_WAITING * this.options.pool,
        patience: Math.max(timeouts.connect, timeouts.call),
      });
      this.pools.set(key, pool);
    }
    // Opens with the credential of this call: an earlier caller may have changed its credential since.
    const open = (): Promise<LegacySession> => this.open(holder, capabilities, false, QUIET);
    return pool.use(call.cancellation, open, async (session) => {
      session.admit(caller);
      const value = await session.request(caller, call);
      return { value, ...(value.kind === 'input_required' && value.parked && { until: value.parked.over }) };
    });
  }

  /** The session for calls without questions: shared by all callers, except clients that have their own session. */
  private shared(holder: CredentialHolder, method: string): Kept {
    const { caller } = holder;
    if (caller.session !== undefined) return this.dedicated(holder);
    return isListMethod(method) && !isEmpty(caller.capabilities)
      ? this.listingFor(holder, caller.capabilities)
      : this.canonical(holder);
  }

  private dedicated(holder: CredentialHolder): Kept {
    if (this.transport === 'sse') return this.canonical(holder);
    const { caller } = holder;
    // The key of the principal is written as JSON. In this form, no key is the beginning of another key.
    const owner = caller.session ?? `principal:${JSON.stringify(caller.principal.key)}`;
    const key = `${owner}|${this.fingerprint(caller.capabilities)}|${holder.key}`;
    // A client with a session declares its capabilities once.
    if (caller.session === undefined && !this.sessions.has(key)) this.makeRoom(`${owner}|`);
    return this.keep(holder, key, () => this.openFor(holder));
  }

  private fingerprint(capabilities: ClientCapabilities): string {
    const text = capabilityFingerprint(capabilities);
    if (text.length <= MOST_CAPABILITIES) return text;
    const message = `The capabilities of the client have ${text.length} characters; at most ${MOST_CAPABILITIES} can be declared to this server`;
    throw new ProtocolError('invalid_params', message, { outcome: 'not_executed' });
  }

  /**
   * If the caller has as many sessions as allowed, closes the one that was unused for longest. Throws if all of them
   * are in use.
   */
  private makeRoom(owner: string): void {
    const own = [...this.sessions].filter(([key]) => key.startsWith(owner));
    if (own.length < MOST_SETS) return;
    let oldest: readonly [key: string, session: LegacySession] | undefined;
    for (const [key, session] of own) {
      if (!(session instanceof LegacySession) || session.inFlight > 0) continue;
      if (!oldest || session.lastUsed < oldest[1].lastUsed) oldest = [key, session];
    }
    if (!oldest || oldest[1].lastUsed > performance.now() - JUST_USED) throw this.tooManySets();
    this.sessions.delete(oldest[0]);
    void oldest[1].close();
  }

  /**
   * If a credential has as many pools as allowed, closes the one that was unused for longest. Throws if all of them are
   * in use. The callers with that credential share its pools.
   */
  private makeRoomForPool({ key: credential }: CredentialHolder): void {
    const same = [...this.pools].filter(([key]) => key.endsWith(`|${credential}`));
    if (same.length < MOST_SETS) return;
    const unused = same.find(([, pool]) => pool.unusedSince(performance.now() - JUST_USED));
    if (!unused) throw this.tooManySets();
    this.pools.delete(unused[0]);
    void unused[1].close();
  }

  private tooManySets(): ProtocolError {
    const { name } = this.options.context;
    const message = `Calls to server "${name}" with ${MOST_SETS} different sets of client capabilities are under way; wait for some to end`;
    return new ProtocolError('overloaded', message, {
      outcome: 'not_executed',
      data: { server: name },
      headers: { 'Retry-After': '1' },
    });
  }

  private openFor(holder: CredentialHolder): Promise<LegacySession> {
    const { caller } = holder;
    const { ask, tell } = caller;
    // A session receives messages outside of its calls if its client has a session of its own, or can answer questions:
    // questions and completions of elicitations may arrive outside of calls.
    const listen = tell !== undefined || isInteractive(caller.capabilities);
    const events: SessionEvents = {
      ...QUIET,
      ...(ask && { unsolicited: ask }),
      ...(tell && { logged: tell }),
      // The client knows these elicitation ids from error -32042.
      ...(tell &&
        caller.revision.expresses.urlElicitationError && {
          completed: (elicitationId: string) =>
            tell({ method: 'notifications/elicitation/complete', params: { elicitationId } }),
        }),
    };
    return this.open(holder, caller.capabilities, listen, events);
  }

  private canonical(holder: CredentialHolder): Kept {
    return this.keep(holder, canonicalKey(holder.key), async () => {
      const watching = this.watchingOf(holder.key);
      const session = await this.open(holder, {}, true, watching);
      watching.begun(session);
      return session;
    });
  }

  private watchingOf(credential: string): SessionWatch {
    const known = this.watching.get(credential);
    if (known) return known;
    const watching = new SessionWatch();
    this.watching.set(credential, watching);
    return watching;
  }

  /** The session for requests of the gateway itself. */
  private async ownSession(): Promise<LegacySession> {
    const holder = await this.holder(GATEWAY);
    this.own = holder.key;
    return this.canonical(holder);
  }

  /** Whether list changes can arrive at the moment, on the session that fetches lists for these capabilities. */
  hears(capabilities: ClientCapabilities): boolean {
    if (this.own === undefined) return false;
    if (isEmpty(capabilities)) return this.watching.get(this.own)?.hears === true;
    return this.listing.get(listingKey(capabilities, this.own))?.hears === true;
  }

  /** The session that fetches lists for clients with capabilities. Servers choose their list items by them. */
  private listingFor(holder: CredentialHolder, given: ClientCapabilities): Kept {
    const capabilities = sharedCapabilities(given);
    const key = listingKey(capabilities, holder.key);
    const tell = (kinds: readonly ListKind[], lapsed: boolean): void => {
      for (const kind of kinds) this.options.overheard({ kind, for: capabilities, ...(lapsed && { lapsed }) });
    };
    return this.keep(holder, key, async () => {
      const session = await this.open(holder, capabilities, true, {
        changed: (event) => {
          if (event.kind !== 'resourceUpdated' && event.kind !== 'task') tell([event.kind], false);
        },
        gap: () => tell(LIST_KINDS, false),
        ended: () => tell(LIST_KINDS, true),
      });
      this.listing.set(key, session);
      return session;
    });
  }

  private keep(holder: CredentialHolder, key: string, open: () => Promise<LegacySession>): Kept {
    const existing = this.sessions.get(key);
    if (existing instanceof LegacySession) {
      if (!existing.ended) {
        existing.admit(holder.caller);
        return existing;
      }
      this.sessions.delete(key);
    } else if (existing) return this.join(existing, holder, key, open);
    const opening = open();
    this.sessions.set(key, opening);
    opening.then(
      (session) => {
        if (this.sessions.get(key) === opening) this.sessions.set(key, session);
      },
      () => {
        if (this.sessions.get(key) === opening) this.sessions.delete(key);
      },
    );
    return opening;
  }

  /** Waits for the session that another caller with the same credential is opening. */
  private async join(
    opening: Promise<LegacySession>,
    holder: CredentialHolder,
    key: string,
    open: () => Promise<LegacySession>,
  ): Promise<LegacySession> {
    const session = await opening.catch((error: unknown) => {
      // The opening caller has lost its credential. This caller may still have a credential.
      if (error instanceof CredentialError) return undefined;
      throw error;
    });
    if (session && !session.ended) {
      session.admit(holder.caller);
      return session;
    }
    if (this.sessions.get(key) === opening) this.sessions.delete(key);
    return this.keep(holder, key, open);
  }

  private async open(
    holder: CredentialHolder,
    capabilities: ClientCapabilities,
    listen: boolean,
    events: SessionEvents,
  ): Promise<LegacySession> {
    const { context, url, offer } = this.options;
    const over = (transport: 'http' | 'sse'): Promise<LegacySession> =>
      LegacySession.open({
        context,
        channel:
          transport === 'http'
            ? new HttpChannel(context, httpTarget(url), holder)
            : new SseChannel(context, url, holder),
        capabilities,
        offer,
        listen,
        events,
      });
    // HTTP+SSE has one stream for all messages, so a new connection waits until the pause after the flood is over.
    const rest = this.transport === 'sse' ? context.traffic.resting : 0;
    if (rest > 0) throw resting(context, rest);
    if (this.transport) return over(this.transport);
    let session: LegacySession;
    try {
      session = await over('http');
      this.found('http');
    } catch (error) {
      if (!maybeSse(error)) throw error;
      session = await over('sse').catch(() => {
        throw error;
      });
      this.found('sse');
    }
    return session;
  }

  /** Continues a stored call. Only calls over Streamable HTTP are stored, because only there a reply can be resumed. */
  adopt(value: JsonValue, caller: Caller): ParkedCall | undefined {
    const record = readPortable(value);
    if (!record) return undefined;
    const { context, url, offer } = this.options;
    const channel = new HttpChannel(context, httpTarget(url), { caller, key: record.credential ?? '' }, record.session);
    const { capabilities } = record;
    return LegacySession.adopt({ context, channel, capabilities, offer, listen: false, events: QUIET }, record);
  }

  private found(transport: 'http' | 'sse'): void {
    this.transport = transport;
    this.options.found(transport);
  }

  async describe(caller?: Caller): Promise<ServerDescription> {
    const session = caller ? await this.canonical(await this.holder(caller)) : await this.ownSession();
    return session.description;
  }

  async listen(
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    lost: (why: string) => void,
    caller: Caller,
    key?: string,
  ): Promise<OpenWatch> {
    const holder = await this.holder(caller);
    if (key !== undefined && holder.key !== key) throw withoutCredential(this.options.context, undefined);
    if (caller === GATEWAY) this.own = holder.key;
    return this.watchingOf(holder.key).listen(await this.canonical(holder), filter, deliver, lost);
  }

  /** Notifies the sessions of a client that its roots changed. */
  rootsChanged(owner: string): void {
    for (const [key, opening] of this.sessions) {
      if (key.startsWith(`${owner}|`))
        void whenOpen(opening, (session) => session.tell('notifications/roots/list_changed'));
    }
  }

  /** Closes the sessions of a client that has ended. */
  release(owner: string): void {
    for (const [key, opening] of this.sessions) {
      if (!key.startsWith(`${owner}|`)) continue;
      this.sessions.delete(key);
      void whenOpen(opening, (session) => session.close());
    }
  }

  private sweep(): void {
    const before = performance.now() - this.options.idle;
    for (const [key, opening] of this.sessions) {
      const shared = sharedBy(key);
      if (shared !== undefined && (shared === this.own || this.watching.get(shared)?.watched)) continue;
      // A session that is being opened counts as in use.
      if (!(opening instanceof LegacySession) || opening.inFlight > 0 || opening.lastUsed > before) continue;
      this.sessions.delete(key);
      this.listing.delete(key);
      void opening.close();
    }
    for (const [credential, watching] of this.watching) {
      if (credential === this.own || watching.watched || this.sessions.has(canonicalKey(credential))) continue;
      this.watching.delete(credential);
    }
    for (const [key, pool] of this.pools) {
      if (key.endsWith(`|${this.own ?? ''}`) || !pool.unusedSince(before)) continue;
      this.pools.delete(key);
      void pool.close();
    }
  }

  async close(): Promise<void> {
    clearInterval(this.sweeper);
    const sessions = [...this.sessions.values()];
    this.sessions.clear();
    await Promise.all([
      ...sessions.map((opening) => whenOpen(opening, (session) => session.close())),
      ...[...this.pools.values()].map((pool) => pool.close()),
    ]);
  }
}

function requestOn(session: Kept, { caller }: CredentialHolder, call: UpstreamCall): Promise<Outcome> {
  if (session instanceof LegacySession) return session.request(caller, call);
  return rejectOnCancel(session, call.cancellation).then((opened) => opened.request(caller, call));
}

/** Runs `work` when the session is open. Does nothing if opening fails. */
async function whenOpen(opening: Kept, work: (session: LegacySession) => void | Promise<void>): Promise<void> {
  try {
    await work(await opening);
  } catch {}
}

/** SSE-04: an endpoint that refuses POST may serve HTTP+SSE. */
function maybeSse(error: unknown): boolean {
  const status =
    error instanceof UpstreamRpcError
      ? error.status
      : error instanceof ProtocolError
        ? error.detail.data?.['status']
        : undefined;
  return status === 400 || status === 404 || status === 405;
}
