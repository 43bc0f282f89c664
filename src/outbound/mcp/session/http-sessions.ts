import type { Caller } from '../../../core/caller.js';
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
import { capabilityFingerprint, sharedCapabilities } from '../../../protocol/mcp/project/capabilities.js';
import { isInteractive } from '../../../protocol/mcp/project/input.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';
import { httpTarget } from '../../http/index.js';
import { resting, type UpstreamContext } from '../context.js';
import type { OpenWatch, Peer } from '../peer.js';
import { HttpChannel } from './http-channel.js';
import { LeasePool } from './lease-pool.js';
import { readPortable } from './portable.js';
import { LegacySession } from './session.js';
import { SessionExpired } from './session-errors.js';
import type { SessionEvents } from './session-options.js';
import { SseChannel } from './sse-channel.js';
import { Watching } from './watching.js';

export interface HttpSessionsOptions {
  readonly context: UpstreamContext;
  readonly url: string;
  readonly offer: Revision;
  /** The transport to use; found out by trying where undefined. */
  readonly transport: 'http' | 'sse' | undefined;
  /** How many sessions are lent to interactive calls where the transport does not tell requests apart. */
  readonly pool: number;
  readonly idle: number;
  found(transport: 'http' | 'sse'): void;
  /** A list of clients with some capabilities changed. */
  overheard(event: WatchEvent): void;
}

const listingKey = (capabilities: ClientCapabilities): string => `lists|${capabilityFingerprint(capabilities)}`;

const QUIET: SessionEvents = { changed: () => {}, gap: () => {}, ended: () => {} };

/** The sessions with one server of the handshake era over HTTP. */
export class HttpSessions implements Peer {
  private transport: 'http' | 'sse' | undefined;
  private readonly sessions = new Map<string, Promise<LegacySession>>();
  private readonly pools = new Map<string, LeasePool>();
  private readonly watching = new Watching();
  /** The sessions that list for clients with capabilities, once they are open. */
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
      // The server said it never took the request, so a new session may carry it (HLC-02).
      return await this.requestOnce(caller, call);
    } catch (error) {
      if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return failed(error);
      throw error;
    }
  }

  private async requestOnce(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const interactive = isInteractive(caller.capabilities) && INTERACTIVE_METHODS.includes(call.method);
    if (!interactive) return (await this.shared(caller, call.method)).request(caller, call);
    if (this.transport === undefined) await this.canonical();
    if (this.transport === 'sse') return this.lease(caller, call);
    return (await this.dedicated(caller)).request(caller, call);
  }

  private lease(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const capabilities = sharedCapabilities(caller.capabilities);
    const key = capabilityFingerprint(capabilities);
    let pool = this.pools.get(key);
    if (!pool) {
      pool = new LeasePool(this.options.pool, () => this.open(capabilities, false, QUIET));
      this.pools.set(key, pool);
    }
    return pool.use(async (session) => {
      const value = await session.request(caller, call);
      return { value, ...(value.kind === 'input_required' && value.parked && { until: value.parked.over }) };
    });
  }

  /** The session of calls that cannot be asked anything: one for all, but a client with a session keeps its own. */
  private shared(caller: Caller, method: string): Promise<LegacySession> {
    if (caller.session !== undefined) return this.dedicated(caller);
    return isListMethod(method) && !isEmpty(caller.capabilities)
      ? this.listingFor(caller.capabilities)
      : this.canonical();
  }

  private dedicated(caller: Caller): Promise<LegacySession> {
    if (this.transport === 'sse') return this.canonical();
    const owner = caller.session ?? `principal:${caller.principal.name}`;
    const key = `${owner}|${capabilityFingerprint(caller.capabilities)}`;
    return this.keep(key, () => this.openFor(caller));
  }

  private openFor(caller: Caller): Promise<LegacySession> {
    const { ask, tell } = caller;
    // A client with a session of its own hears what the server says beside its calls. For others, questions and word that
    // an elicitation is complete come that way.
    const listen = tell !== undefined || isInteractive(caller.capabilities);
    const events: SessionEvents = {
      ...QUIET,
      ...(ask && { unsolicited: ask }),
      ...(tell && { logged: tell }),
      // A client that was given the ids with -32042 is told under them.
      ...(tell &&
        caller.revision.expresses.urlElicitationError && {
          completed: (elicitationId: string) =>
            tell({ method: 'notifications/elicitation/complete', params: { elicitationId } }),
        }),
    };
    return this.open(caller.capabilities, listen, events);
  }

  private canonical(): Promise<LegacySession> {
    return this.keep('', async () => {
      const session = await this.open({}, true, this.watching);
      this.watching.begun(session);
      return session;
    });
  }

  /** Whether the server can tell of changed lists at the moment, on the session that lists for these capabilities. */
  hears(capabilities: ClientCapabilities): boolean {
    if (isEmpty(capabilities)) return this.watching.hears;
    return this.listing.get(listingKey(capabilities))?.hears === true;
  }

  /** The session that lists for clients with capabilities: servers choose by them what they show. */
  private listingFor(given: ClientCapabilities): Promise<LegacySession> {
    const capabilities = sharedCapabilities(given);
    const key = listingKey(capabilities);
    const tell = (kinds: readonly ListKind[], lapsed: boolean): void => {
      for (const kind of kinds) this.options.overheard({ kind, for: capabilities, ...(lapsed && { lapsed }) });
    };
    return this.keep(key, async () => {
      const session = await this.open(capabilities, true, {
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

  private async keep(key: string, open: () => Promise<LegacySession>): Promise<LegacySession> {
    const existing = this.sessions.get(key);
    if (existing) {
      const session = await existing;
      if (!session.ended) return session;
      if (this.sessions.get(key) === existing) this.sessions.delete(key);
      return this.keep(key, open);
    }
    const opening = open();
    this.sessions.set(key, opening);
    opening.catch(() => {
      if (this.sessions.get(key) === opening) this.sessions.delete(key);
    });
    return opening;
  }

  private async open(capabilities: ClientCapabilities, listen: boolean, events: SessionEvents): Promise<LegacySession> {
    const { context, url, offer } = this.options;
    const over = (transport: 'http' | 'sse'): Promise<LegacySession> =>
      LegacySession.open({
        context,
        channel: transport === 'http' ? new HttpChannel(context, httpTarget(url)) : new SseChannel(context, url),
        capabilities,
        offer,
        listen,
        events,
      });
    // Over the older transport every message comes on the one stream that the flood came on.
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

  /** Only Streamable HTTP can resume a reply, so only there a call was written down. */
  adopt(value: JsonValue): ParkedCall | undefined {
    const record = readPortable(value);
    if (!record) return undefined;
    const { context, url, offer } = this.options;
    const channel = new HttpChannel(context, httpTarget(url), record.session);
    const { capabilities } = record;
    return LegacySession.adopt({ context, channel, capabilities, offer, listen: false, events: QUIET }, record);
  }

  private found(transport: 'http' | 'sse'): void {
    this.transport = transport;
    this.options.found(transport);
  }

  async describe(): Promise<ServerDescription> {
    return (await this.canonical()).description;
  }

  async listen(
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    lost: (why: string) => void,
  ): Promise<OpenWatch> {
    return this.watching.listen(await this.canonical(), filter, deliver, lost);
  }

  /** A client's roots changed: the sessions that are its own are told. */
  rootsChanged(owner: string): void {
    for (const [key, opening] of this.sessions) {
      if (key.startsWith(`${owner}|`))
        opening.then((session) => session.tell('notifications/roots/list_changed')).catch(() => {});
    }
  }

  /** The client whose session this was is gone. */
  release(owner: string): void {
    for (const [key, opening] of this.sessions) {
      if (!key.startsWith(`${owner}|`)) continue;
      this.sessions.delete(key);
      opening.then((session) => session.close()).catch(() => {});
    }
  }

  private sweep(): void {
    const before = performance.now() - this.options.idle;
    for (const [key, opening] of this.sessions) {
      if (key === '') continue;
      opening
        .then((session) => {
          if (session.inFlight > 0 || session.lastUsed > before) return;
          this.sessions.delete(key);
          this.listing.delete(key);
          void session.close();
        })
        .catch(() => {});
    }
  }

  async close(): Promise<void> {
    clearInterval(this.sweeper);
    const sessions = [...this.sessions.values()];
    this.sessions.clear();
    await Promise.all([
      ...sessions.map((opening) => opening.then((session) => session.close()).catch(() => {})),
      ...[...this.pools.values()].map((pool) => pool.close()),
    ]);
  }
}

/** SSE-04: an endpoint that does not take a POST may be the older transport's. */
function maybeSse(error: unknown): boolean {
  const status =
    error instanceof UpstreamRpcError
      ? error.status
      : error instanceof ProtocolError
        ? error.detail.data?.['status']
        : undefined;
  return status === 400 || status === 404 || status === 405;
}
