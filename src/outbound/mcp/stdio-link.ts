import { failed, type Outcome } from '../../core/gateway.js';
import type { ListNews, ServerOutput, UpstreamCall, WatchEvent } from '../../core/upstream.js';
import {
  type ClientCapabilities,
  LIST_KINDS,
  type ListKind,
  type Notification,
  type SubscriptionFilter,
} from '../../protocol/mcp/model.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { type Evidence, readProbe } from '../../protocol/mcp/server-version.js';
import type { StdioCommand } from '../stdio/child-process.js';
import { StdioError } from '../stdio/stdio-error.js';
import { Supervisor } from '../stdio/supervisor.js';
import type { Start } from '../stdio/supervisor-types.js';
import { gatewayCall } from './gateway-call.js';
import { ModernPeer, type ModernWire } from './modern-peer.js';
import { ModernStdio } from './modern-stdio.js';
import type { Link, OpenWatch, Peer } from './peer.js';
import { LegacySession } from './session/legacy-session.js';
import type { SessionEvents } from './session/session-options.js';
import { SessionWatch } from './session/session-watch.js';
import { StdioChannel } from './session/stdio-channel.js';
import { asProtocolError } from './session/stdio-error-messages.js';
import { type Lease, leaseFor, type SessionSupervisor } from './session/stdio-lease.js';
import { CANONICAL, StdioSessions, sessionKey } from './session/stdio-sessions.js';
import { ForeignVersions, handshakeFirst, probeVersion } from './stdio-version-probe.js';
import type { UpstreamContext } from './upstream-context.js';

export interface StdioLinkOptions {
  readonly context: UpstreamContext;
  readonly command: StdioCommand;
  readonly maxLine: number;
  /** Maximum number of processes for interactive calls. Each such call has its own process. */
  readonly pool: number;
  readonly idle: number;
  readonly legacyOffer: Revision;
  readonly modernOffer: Revision;
}

const MODERN = 'modern';
/** The key of a process whose era is not known yet. */
const UNKNOWN = 'unknown';
const PROBE_TIMEOUT = 5_000;

/** The link to a server over stdio. Calls share a process or lease one each. Its era is detected when it starts. */
export class StdioLink implements Link {
  private readonly supervisor: SessionSupervisor;
  private readonly watching = new SessionWatch();
  /** Whether the last probed process sent no answer at all. */
  private stayedSilent = false;
  private readonly overhearing: ((event: WatchEvent) => void)[] = [];
  /** The newest session for clients with capabilities, by its key. */
  private readonly running = new Map<string, LegacySession>();
  private modernPipe: ModernStdio | undefined;
  answers = 0;

  constructor(private readonly options: StdioLinkOptions) {
    const { context, command, maxLine, pool, idle } = options;
    this.supervisor = new Supervisor<LegacySession | ModernStdio>({
      name: context.name,
      command,
      child: { maxLine },
      // One shared process per era, in addition to those for interactive calls.
      max: pool + 2,
      maxExclusive: pool,
      idleMs: idle,
      openMs: context.timeouts.connect,
      log: context.log,
      open: async (start, { key, signal, become }) => {
        const session = await this.open(start, key, signal);
        this.answers++;
        if (session instanceof ModernStdio) this.modernPipe = session;
        if (key === UNKNOWN) become(session instanceof ModernStdio ? MODERN : CANONICAL);
        return session;
      },
    });
  }

  private async open(start: Start, key: string, signal: AbortSignal): Promise<ModernStdio | LegacySession> {
    const { context, modernOffer } = this.options;
    if (key === UNKNOWN) return this.openFirst(start, signal);
    if (key !== MODERN) return this.openLegacy(key, new StdioChannel(context, start));
    const pipe = new ModernStdio(context, modernOffer, start);
    await pipe.answers(2 * context.timeouts.connect);
    return pipe;
  }

  private openFirst(start: Start, signal: AbortSignal): Promise<ModernStdio | LegacySession> {
    const { context, modernOffer } = this.options;
    const openLegacy = (channel: StdioChannel): Promise<LegacySession> => this.openLegacy(CANONICAL, channel);
    const options = { context, modernOffer, signal, openLegacy };
    if (this.stayedSilent) {
      // Some servers stop reading after an unknown request, so this process gets the handshake first.
      this.stayedSilent = false;
      return handshakeFirst(start, options);
    }
    signal.addEventListener('abort', () => {
      this.stayedSilent = signal.reason instanceof StdioError && signal.reason.reason === 'timeout';
    });
    return probeVersion(start, options);
  }

  private async openLegacy(key: string, channel: StdioChannel): Promise<LegacySession> {
    const { context, legacyOffer } = this.options;
    const capabilities = JSON.parse(key.slice(key.indexOf('|') + 1)) as ClientCapabilities;
    const events = key === CANONICAL ? this.watching : this.listEvents(key, capabilities);
    const session = await LegacySession.open({
      context,
      channel,
      capabilities,
      offer: legacyOffer,
      // A long time limit, because the supervisor limits the time of a start.
      handshakeTime: 2 * context.timeouts.connect,
      listen: key === CANONICAL,
      events,
    });
    events.begun(session);
    return session;
  }

  /**
   * Probes the first process, which then serves calls in its era. If processes run already, probes an extra process.
   */
  async probe(revision: Revision): Promise<Evidence> {
    const { context } = this.options;
    try {
      const { state } = this.supervisor.health();
      return state === 'running' ? await this.askAnother(revision) : await this.askFirst();
    } catch (error) {
      if (error instanceof ForeignVersions) return error.evidence;
      throw asProtocolError(context, error);
    }
  }

  private async askFirst(): Promise<Evidence> {
    // The time of two starts, because the first process may end because of the probe.
    const signal = AbortSignal.timeout(2 * this.patience);
    const lease = await this.supervisor.acquire({ key: UNKNOWN, signal });
    lease.release();
    const { session } = lease;
    return session instanceof ModernStdio
      ? { kind: 'modern', revision: session.revision, discovered: undefined }
      : { kind: 'legacy' };
  }

  /** Probes a separate process: some servers end at a first message other than the handshake (mcp.md 5.2). */
  private askAnother(revision: Revision): Promise<Evidence> {
    const { context } = this.options;
    const patient = { ...context, timeouts: { ...context.timeouts, call: PROBE_TIMEOUT } };
    return this.supervisor.sibling(async (start) => {
      const outcome = await new ModernStdio(patient, revision, start).send({}, gatewayCall('server/discover'));
      if (outcome.kind === 'complete') return readProbe({ result: outcome.result.value() }, 'legacy');
      return outcome.kind === 'error' ? readProbe({ error: outcome.error }, 'legacy') : { kind: 'none' };
    });
  }

  readonly watchCosts = true;

  overhear(deliver: (event: WatchEvent) => void): void {
    this.watching.overhear(deliver);
    this.overhearing.push(deliver);
  }

  /** Events of a session for clients with capabilities. Such a session has no watches. */
  private listEvents(
    key: string,
    capabilities: ClientCapabilities,
  ): SessionEvents & { begun(session: LegacySession): void } {
    let own: LegacySession | undefined;
    const tell = (kinds: readonly ListKind[], lapsed: boolean): void => {
      for (const kind of kinds)
        for (const deliver of this.overhearing) deliver({ kind, for: capabilities, ...(lapsed && { lapsed }) });
    };
    return {
      begun: (session) => {
        if (session.ended) return;
        own = session;
        this.running.set(key, session);
        // A new process may have other list items.
        tell(LIST_KINDS, true);
      },
      changed: (event) => {
        if (event.kind !== 'resourceUpdated' && event.kind !== 'task') tell([event.kind], false);
      },
      gap: () => tell(LIST_KINDS, false),
      ended: () => {
        if (own && this.running.get(key) === own) this.running.delete(key);
      },
    };
  }

  modern(revision: Revision): Peer {
    const answered = (): void => {
      this.answers++;
    };
    return new ModernPeer(new PipeWire(this.options.context, revision, this.supervisor, this.patience, answered));
  }

  legacy(): Peer {
    return new StdioSessions(this.options.context, this.supervisor, this.watching, this.patience);
  }

  listNews(era: Revision['era'], capabilities: ClientCapabilities): ListNews {
    if (era === 'modern' && this.modernPipe?.isOver === false) return 'polled';
    const key = sessionKey(capabilities);
    if (era === 'legacy' && (key === CANONICAL ? this.watching.hears : this.running.has(key))) return 'pushed';
    const { state } = this.supervisor.health();
    return state === 'failed' || state === 'backoff' ? 'polled' : 'paused';
  }

  /** The longest wait of a call for a process: the time limit of a start or that of a call, whichever is longer. */
  private get patience(): number {
    const { connect, call } = this.options.context.timeouts;
    return Math.max(connect, call);
  }

  health(): { detail: string; cause?: string; down: boolean } {
    const { state, lastError, lastSummary } = this.supervisor.health();
    const told = this.options.context.explains ? lastError : lastSummary;
    const detail = told ? `${state}: ${told}` : state;
    const down = lastError !== undefined && state !== 'running';
    return { detail, down, ...(lastError && { cause: lastError }) };
  }

  output(): Omit<ServerOutput, 'replica'> {
    const { state, lastError } = this.supervisor.health();
    const lines = this.supervisor.output();
    if (lastError === undefined) return { state, lines };
    // The process is idle after a failure: only the next call restarts it.
    return { state: state === 'idle' ? 'stopped' : state, problem: lastError, lines };
  }

  close(): Promise<void> {
    return this.supervisor.close();
  }
}

class PipeWire implements ModernWire {
  constructor(
    private readonly context: UpstreamContext,
    readonly revision: Revision,
    private readonly supervisor: SessionSupervisor,
    private readonly patience: number,
    private readonly answered: () => void,
  ) {}

  get name(): string {
    return this.context.name;
  }

  async send(capabilities: ClientCapabilities, call: UpstreamCall): Promise<Outcome> {
    let lease: Lease;
    try {
      lease = await leaseFor(this.context, this.supervisor, { key: MODERN }, call, this.patience);
    } catch (error) {
      return failed(asProtocolError(this.context, error));
    }
    try {
      const outcome = await pipe(lease).send(capabilities, call);
      if (outcome.kind !== 'error') this.answered();
      return outcome;
    } finally {
      lease.release();
    }
  }

  async listen(
    filter: SubscriptionFilter,
    deliver: (notification: Notification) => void,
    lost: (why: string) => void,
  ): Promise<OpenWatch> {
    const lease = await this.supervisor.acquire({ key: MODERN }).catch((error: unknown) => {
      throw asProtocolError(this.context, error);
    });
    const release = (): void => lease.release();
    try {
      const watch = await pipe(lease).listen(filter, deliver, (why) => {
        release();
        lost(why);
      });
      this.answered();
      return {
        honoured: watch.honoured,
        close: () => {
          watch.close();
          release();
        },
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  async close(): Promise<void> {}
}

function pipe(lease: Lease): ModernStdio {
  if (lease.session instanceof ModernStdio) return lease.session;
  throw new TypeError('expected a modern session, got a legacy one');
}
