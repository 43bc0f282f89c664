import { randomUUID } from 'node:crypto';
import type { Admission } from '../../../core/admission.js';
import type { Caller, Principal } from '../../../core/caller.js';
import { ALONE, type Cluster } from '../../../core/cluster.js';
import type { HostedTasks } from '../../../core/era-bridge/hosted-tasks.js';
import { ALL_SERVERS, type Call, type Gateway, oneServer, plainCall, View } from '../../../core/gateway.js';
import { metaOf } from '../../../core/mcp-dispatcher.js';
import { type Seal, SealBroken } from '../../../core/seal.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Id, RpcErrorObject, RpcNotification, RpcResponse } from '../../../protocol/jsonrpc/message.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import { negotiateRevision } from '../../../protocol/mcp/client-version.js';
import { type Implementation, isObject } from '../../../protocol/mcp/model.js';
import { type Revision, revisionOf } from '../../../protocol/mcp/revisions/index.js';
import { decodeClientCapabilities, encodeServerCapabilities } from '../../../protocol/mcp/translate/capabilities.js';
import { translateImplementation } from '../../../protocol/mcp/translate/list-items.js';
import type { Refused } from '../reply-channel.js';
import { checkCapabilities, keptClientInfo } from './client-description.js';
import { ClientSession } from './client-session.js';
import { ListChanges } from './list-changes.js';
import { type Evictable, type SessionLimits, sessionToEvict } from './session-limits.js';
import type { SessionProgress, SessionRecord, SessionRecords } from './session-record.js';
import { SessionTasks } from './session-tasks.js';

export interface SessionsOptions {
  readonly gateway: Gateway;
  readonly admission: Pick<Admission, 'sees'>;
  readonly info: Implementation;
  readonly seal: Seal;
  readonly idle: number;
  readonly limits: SessionLimits;
  readonly answerTime: number;
  readonly logging: boolean;
  readonly tasks: HostedTasks;
  /** Whether a view has the server of a task; absent if every view shows all tasks of the caller. */
  inView?(view: View, server: string): boolean;
  /** The replicas that a client may reach. */
  readonly cluster?: Cluster;
  /** Absent if a session cannot outlive its connection. */
  readonly records?: SessionRecords;
  /** Whether callers are identified. */
  readonly identified: boolean;
  /** Whether an unknown revision is refused instead of negotiated (C-02). */
  readonly strictVersions: boolean;
  readonly refused?: Refused | undefined;
  /** Called when the roots of a client changed. */
  rootsChanged(key: string): void;
  /** Called when a session has ended, so that its dedicated upstream sessions can be closed. */
  ended(key: string): void;
}

/** Carries messages without a request to the client. */
export interface Carrier {
  readonly reachable: boolean;
  /** Whether the client has an open connection of the session, even if no messages are sent on it. */
  readonly connected: boolean;
  unsolicited(message: Buffer): void;
  /** Called when the process is about to stop. The client may reconnect to another replica, or after a restart. */
  requestReconnect?(): void;
  /** Called when the client reads a stream of the session at another replica. */
  followed?(stream: string): void;
  /** Called when the session has ended. */
  ended(): void;
}

class Entry<C extends Carrier> implements Evictable {
  /** When the session's record was last extended. */
  touched = performance.now();
  /** The sealed id, once its client has sent it. */
  id?: string;

  constructor(
    readonly session: ClientSession,
    readonly carrier: C,
  ) {}

  get principal(): string {
    return this.session.owner;
  }

  get lastUsed(): number {
    return this.session.lastUsed;
  }

  get inUse(): boolean {
    return this.carrier.connected || this.session.busy > 0;
  }
}

/** A new session, and the result of its handshake. */
interface Opened<C extends Carrier> {
  readonly id: string;
  readonly session: ClientSession;
  readonly carrier: C;
  readonly result: JsonObject;
}

/** A client's message about a request that runs at another replica. */
const MESSAGE = 'session:message';
/** A client reads a stream here that another replica produces. */
const FOLLOWED = 'session:followed';

function writeMessage(message: RpcResponse | RpcNotification): JsonObject {
  if (message.kind === 'notification') return { method: message.method, params: message.params.value() };
  const { id, result, error } = message;
  return {
    id: id ?? null,
    ...(result && { result: result.value() }),
    ...(error && { error: error as unknown as JsonObject }),
  };
}

function readMessage(value: JsonObject): RpcResponse | RpcNotification {
  const { method, params, id, result, error } = value;
  if (typeof method === 'string')
    return { kind: 'notification', method, params: RawObject.from((params ?? {}) as JsonObject) };
  return {
    kind: 'response',
    id: id as Id,
    ...(isObject(result) && { result: RawObject.from(result) }),
    ...(isObject(error) && { error: error as unknown as RpcErrorObject }),
  };
}

/** A session that an older version of the gateway stored names one server, or no server. */
const viewOf = ({ view, server }: SessionRecord): View =>
  view ? new View(view) : server === undefined ? ALL_SERVERS : oneServer(server);

const SEALED_FOR = 30 * 24 * 60 * 60 * 1000;

/**
 * The sessions of clients of the legacy era. Only this class creates ids, sealed to their principal (C-04, HL-18).
 */
export class Sessions<C extends Carrier> {
  private readonly entries = new Map<string, Entry<C>>();
  /** The sessions by ids that were already unsealed. An id proves nothing, so the principal is still compared. */
  private readonly opened = new Map<string, Entry<C>>();
  private readonly sweeper: NodeJS.Timeout;
  private readonly cluster: Cluster;
  private readonly lists: ListChanges;
  /** Sessions that are being opened, which already count. */
  private readonly opening = new Set<Evictable>();

  constructor(private readonly options: SessionsOptions) {
    this.cluster = options.cluster ?? ALONE;
    this.lists = new ListChanges(options.gateway, options.admission);
    this.cluster.onTold(MESSAGE, (payload) => {
      const { key, message } = payload as JsonObject;
      this.entries.get(String(key))?.session.overhear(readMessage(message as JsonObject));
    });
    this.cluster.onTold(FOLLOWED, (payload) => {
      const { key, stream } = payload as JsonObject;
      this.entries.get(String(key))?.carrier.followed?.(String(stream));
    });
    this.sweeper = setInterval(() => this.sweep(), Math.min(60_000, Math.max(1_000, options.idle / 4)));
    this.sweeper.unref();
    options.records?.onRemoved((key) => this.leave(key, 'The session was ended'));
    options.records?.onProgress((key, progress) => void this.entries.get(key)?.session.restore(progress));
  }

  get size(): number {
    return this.entries.size;
  }

  /** The number of sessions of one caller. */
  sizeFor(owner: string): number {
    let count = 0;
    for (const { session } of this.entries.values()) if (session.owner === owner) count++;
    return count;
  }

  /** Performs the handshake: negotiates the revision, opens a session and describes the gateway. */
  async open(
    principal: Principal,
    view: View,
    params: RawObject,
    carrierFor: (key: string) => C,
    about: Pick<Call, 'requestId' | 'address' | 'id'> = {},
  ): Promise<Opened<C>> {
    try {
      return await this.handshake(principal, view, params, carrierFor, about);
    } catch (error) {
      if (error instanceof ProtocolError) this.options.refused?.(error);
      throw error;
    }
  }

  private async handshake(
    principal: Principal,
    view: View,
    params: RawObject,
    carrierFor: (key: string) => C,
    about: Pick<Call, 'requestId' | 'address' | 'id'>,
  ): Promise<Opened<C>> {
    const revision = negotiateRevision(params.get('protocolVersion'), this.options.strictVersions);
    checkCapabilities(params.raw('capabilities')?.length ?? 0);
    const caller: Caller = {
      principal,
      revision,
      capabilities: decodeClientCapabilities(params.get('capabilities'), revision),
      clientInfo: keptClientInfo(params.get('clientInfo')),
      session: undefined,
    };
    const described = await this.options.gateway.describe(caller, plainCall('initialize', params, view, about));
    const { capabilities, instructions, missing } = described;
    const room = await this.makeRoom(principal);
    const record: SessionRecord = {
      key: randomUUID(),
      principal: { name: principal.key },
      view: view.name === undefined ? view.selection : { name: view.name },
      ...(view.only !== undefined && { server: view.only }),
      revision: revision.date,
      capabilities: caller.capabilities,
      clientInfo: caller.clientInfo,
      progress: { initialized: false, level: undefined, resources: [] },
    };
    const { session, carrier } = await this.created(record)
      .then(() => this.begin(record, principal, view, revision, carrierFor))
      .finally(() => {
        room();
        this.cluster.unfollow(record.key);
      });
    const tasks = revision.expresses.tasks === 'core' && { tasks: this.tasksOf(principal, view).capability() };
    return {
      id: this.options.seal.close('session', principal.key, session.key, SEALED_FOR),
      session,
      carrier,
      result: {
        protocolVersion: revision.date,
        capabilities: { ...encodeServerCapabilities(capabilities, revision), ...tasks },
        serverInfo: translateImplementation(this.options.info, revision.expresses),
        ...(instructions !== undefined && { instructions }),
        ...metaOf(missing),
      },
    };
  }

  /**
   * Stores the session and subscribes to its changes before the client knows the session id, because the client may
   * then use the session at other replicas at once.
   */
  private async created(record: SessionRecord): Promise<void> {
    await Promise.all([this.cluster.follow(record.key), this.options.records?.create(record, this.options.idle)]);
  }

  /**
   * Ends the longest idle session if a new session would exceed the limit. The new session counts until the returned
   * function is called.
   */
  private async makeRoom(principal: Principal): Promise<() => void> {
    const opening: Evictable = { principal: principal.key, lastUsed: performance.now(), inUse: true };
    const oldest = sessionToEvict(this.candidates(), principal.key, this.options.limits);
    this.opening.add(opening);
    const done = (): void => void this.opening.delete(opening);
    if (oldest instanceof Entry) {
      await this.end(oldest.session, 'The session was replaced by a newer session').catch((error: unknown) => {
        done();
        throw error;
      });
    }
    return done;
  }

  private *candidates(): Generator<Evictable> {
    yield* this.opening;
    yield* this.entries.values();
  }

  private tasksOf({ key }: Principal, view: View): SessionTasks {
    const { tasks, identified, seal, admission, inView } = this.options;
    return new SessionTasks(tasks, key, identified, seal, admission, (server) => inView?.(view, server) ?? true);
  }

  private begin(
    record: SessionRecord,
    principal: Principal,
    view: View,
    revision: Revision,
    carrierFor: (key: string) => C,
  ): Entry<C> {
    const { gateway, info, answerTime, logging, records, refused } = this.options;
    const { key, capabilities, clientInfo } = record;
    const carrier = carrierFor(key);
    const session = new ClientSession({
      key,
      principal,
      view,
      revision,
      capabilities,
      clientInfo,
      gateway,
      info,
      logging,
      answerTime,
      tasks: this.tasksOf(principal, view),
      lists: this.lists,
      questionPrefix: this.cluster === ALONE ? 'parley-' : `parley-${this.cluster.self}-`,
      elsewhere: (message) => this.cluster.tell(MESSAGE, { key, message: writeMessage(message) }, key),
      reachable: carrier.reachable,
      refused,
      rootsChanged: () => this.options.rootsChanged(key),
      unsolicited: (message) => carrier.unsolicited(message),
      ...(records && { progressed: (progress: SessionProgress) => records.update(key, progress) }),
    });
    const entry = new Entry(session, carrier);
    this.entries.set(key, entry);
    void this.cluster.follow(key);
    return entry;
  }

  /** The session for an id, if it belongs to this principal; other principals get the error for an unknown session. */
  async find(id: string, principal: Principal, view: View, carrierFor: (key: string) => C): Promise<Entry<C>> {
    const entry = this.opened.get(id) ?? (await this.unseal(id, principal, view, carrierFor));
    if (!entry || entry.session.owner !== principal.key || entry.session.view.key !== view.key) {
      throw new ProtocolError('session_not_found', 'Session not found; initialize again');
    }
    this.touch(entry);
    return entry;
  }

  /** Unseals an id that is new to this replica and remembers its session. */
  private async unseal(
    id: string,
    principal: Principal,
    view: View,
    carrierFor: (key: string) => C,
  ): Promise<Entry<C> | undefined> {
    const key = this.keyOf(id, principal);
    const entry =
      key === undefined
        ? undefined
        : (this.entries.get(key) ?? (await this.restoreSession(key, principal, view, carrierFor)));
    if (entry && entry.id === undefined) {
      this.opened.set(id, entry);
      entry.id = id;
    }
    return entry;
  }

  private keyOf(id: string, principal: Principal): string | undefined {
    try {
      return String(this.options.seal.open('session', principal.key, id));
    } catch (error) {
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
  }

  /**
   * Continues a session that was opened at another replica or before a restart, with its caller's current permissions.
   */
  private async restoreSession(
    key: string,
    principal: Principal,
    view: View,
    carrierFor: (key: string) => C,
  ): Promise<Entry<C> | undefined> {
    // Subscribes before the record is read, so that no end of the session between the two is missed.
    await this.cluster.follow(key);
    try {
      const record = await this.options.records?.load(key);
      const revision = revisionOf(record?.revision);
      if (!record || !revision || record.principal.name !== principal.key) return undefined;
      // The request's own view, because a configured view may have changed since the session was stored.
      if (viewOf(record).key !== view.key) return undefined;
      const room = await this.makeRoom(principal);
      room();
      // Of two concurrent requests, the other may have created the entry in the meantime.
      const entry = this.entries.get(key) ?? this.begin(record, principal, view, revision, carrierFor);
      void entry.session.restore(record.progress);
      return entry;
    } finally {
      this.cluster.unfollow(key);
    }
  }

  private touch(entry: Entry<C>): void {
    const now = performance.now();
    entry.session.lastUsed = now;
    if (now - entry.touched < this.options.idle / 4) return;
    entry.touched = now;
    const { key } = entry.session;
    void this.options.records?.touch(key, this.options.idle).then(
      (there) => !there && this.leave(key, 'The session was ended'),
      () => {},
    );
  }

  /** The carrier of a session that is in use at this replica. */
  carrierOf(key: string): C | undefined {
    return this.entries.get(key)?.carrier;
  }

  /** Informs the replica that produces a stream that its client reads it here. */
  follow({ key }: ClientSession, stream: string): void {
    this.cluster.tell(FOLLOWED, { key, stream }, key).catch(() => {});
  }

  /** Ends a session at every replica. The session need not be in use at this replica. */
  async end({ key }: Pick<ClientSession, 'key'>, reason: string): Promise<void> {
    this.leave(key, reason);
    await this.options.records?.remove(key);
    // A request may have restored the session in the meantime.
    this.leave(key, reason);
  }

  /** Removes a session from this replica. A session with a record can continue at another replica. */
  private leave(key: string, reason: string): void {
    const entry = this.entries.get(key);
    if (!entry) return;
    this.entries.delete(key);
    this.cluster.unfollow(key);
    if (entry.id !== undefined) this.opened.delete(entry.id);
    entry.session.close(reason);
    entry.carrier.ended();
    this.options.ended(key);
  }

  private sweep(): void {
    const before = performance.now() - this.options.idle;
    for (const entry of [...this.entries.values()]) {
      const { session } = entry;
      if (entry.inUse) this.touch(entry);
      else if (session.lastUsed < before) this.leave(session.key, 'The session expired');
    }
  }

  /** The number of running calls in all sessions. */
  /** The number of sessions whose client has a stream open for messages. */
  get connected(): number {
    let connected = 0;
    for (const { carrier } of this.entries.values()) if (carrier.connected) connected++;
    return connected;
  }

  get busy(): number {
    let busy = 0;
    for (const { session } of this.entries.values()) busy += session.busy;
    return busy;
  }

  /** Closes the streams without a running call, so that their clients reconnect to another replica. */
  requestReconnect(): void {
    for (const { carrier } of this.entries.values()) carrier.requestReconnect?.();
  }

  close(): void {
    clearInterval(this.sweeper);
    for (const key of [...this.entries.keys()]) this.leave(key, 'The gateway is stopping');
  }
}
