import { randomUUID } from 'node:crypto';
import type { HostedTasks } from '../../../core/bridge/tasks.js';
import type { Principal } from '../../../core/caller.js';
import type { Gateway, View } from '../../../core/gateway.js';
import { type Seal, SealBroken } from '../../../core/seal.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import { type Implementation, isObject, type ServerCapabilities } from '../../../protocol/mcp/model.js';
import { decodeClientCapabilities, encodeServerCapabilities } from '../../../protocol/mcp/project/capabilities.js';
import { projectImplementation } from '../../../protocol/mcp/project/items.js';
import {
  isRevisionDate,
  LEGACY,
  NEWEST_LEGACY,
  type Revision,
  revisionOf,
} from '../../../protocol/mcp/revisions/index.js';
import { ClientSession } from './client-session.js';
import { SessionTasks } from './session-tasks.js';

export interface SessionsOptions {
  readonly gateway: Gateway;
  readonly describe: (view: View) => Promise<{ capabilities: ServerCapabilities; instructions: string | undefined }>;
  readonly info: Implementation;
  readonly seal: Seal;
  readonly idle: number;
  readonly answerTime: number;
  readonly logging: boolean;
  readonly tasks: HostedTasks;
  /** Whether callers are told apart. */
  readonly identified: boolean;
  /** Refuse an unknown revision instead of answering with another (C-02). */
  readonly strictVersions: boolean;
  /** The roots of a client changed. */
  rootsChanged(key: string): void;
  /** A session is over; what was dedicated to it upstream can go. */
  ended(key: string): void;
}

/** How the messages that belong to no request reach the client. */
export interface Carrier {
  readonly reachable: boolean;
  unsolicited(message: Buffer): void;
  /** The session is over. */
  ended(): void;
}

interface Entry<C extends Carrier> {
  readonly session: ClientSession;
  readonly carrier: C;
}

const SEALED_FOR = 30 * 24 * 60 * 60 * 1000;

/** The sessions of clients of the handshake era. Ids are minted here only, sealed to their principal (C-04, HL-18). */
export class Sessions<C extends Carrier> {
  private readonly entries = new Map<string, Entry<C>>();
  private readonly sweeper: NodeJS.Timeout;

  constructor(private readonly options: SessionsOptions) {
    this.sweeper = setInterval(() => this.sweep(), Math.min(60_000, Math.max(1_000, options.idle / 4)));
    this.sweeper.unref();
  }

  get size(): number {
    return this.entries.size;
  }

  /** Shakes hands: settles the revision, opens a session and says what the gateway is. */
  async open(
    principal: Principal,
    view: View,
    params: RawObject,
    carrierFor: (revision: Revision) => C,
  ): Promise<{ id: string; session: ClientSession; carrier: C; result: JsonObject }> {
    const revision = this.negotiate(params.get('protocolVersion'));
    const { capabilities, instructions } = await this.options.describe(view);
    const carrier = carrierFor(revision);
    const clientInfo = params.get('clientInfo');
    const { gateway, info, answerTime, logging } = this.options;
    const tasks = new SessionTasks(this.options.tasks, principal.name, this.options.identified);
    const session = new ClientSession({
      tasks,
      rootsChanged: () => this.options.rootsChanged(session.key),
      key: randomUUID(),
      principal,
      view,
      revision,
      capabilities: decodeClientCapabilities(params.get('capabilities'), revision),
      clientInfo: isObject(clientInfo) ? (clientInfo as Implementation) : undefined,
      gateway,
      info,
      logging,
      answerTime,
      reachable: carrier.reachable,
      unsolicited: (message) => carrier.unsolicited(message),
    });
    this.entries.set(session.key, { session, carrier });
    return {
      id: this.options.seal.close('session', principal.name, session.key, SEALED_FOR),
      session,
      carrier,
      result: {
        protocolVersion: revision.date,
        capabilities: {
          ...encodeServerCapabilities(capabilities, revision),
          ...(revision.expresses.tasks === 'core' && { tasks: tasks.capability() }),
        },
        serverInfo: projectImplementation(info, revision.expresses),
        ...(instructions !== undefined && { instructions }),
      },
    };
  }

  private negotiate(requested: unknown): Revision {
    const revision = revisionOf(requested);
    if (revision?.era === 'legacy') return revision;
    if (isRevisionDate(requested) && !this.options.strictVersions) return NEWEST_LEGACY;
    throw new ProtocolError(
      'version_negotiation',
      `Unsupported protocol version ${JSON.stringify(requested ?? null)}`,
      {
        data: { supported: LEGACY.map(({ date }) => date), requested: requested ?? null },
      },
    );
  }

  /** The session behind an id, for the principal it was given to; for everybody else it does not exist. */
  find(id: string, principal: Principal, view?: View): Entry<C> {
    let key: unknown;
    try {
      key = this.options.seal.open('session', principal.name, id);
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
    }
    const entry = typeof key === 'string' ? this.entries.get(key) : undefined;
    if (!entry || (view && entry.session.view.server !== view.server)) {
      throw new ProtocolError('session_not_found', 'Session not found; initialize again');
    }
    entry.session.lastUsed = Date.now();
    return entry;
  }

  end(session: ClientSession, reason: string): void {
    const entry = this.entries.get(session.key);
    if (!entry) return;
    this.entries.delete(session.key);
    session.close(reason);
    entry.carrier.ended();
    this.options.ended(session.key);
  }

  private sweep(): void {
    const before = Date.now() - this.options.idle;
    for (const { session } of this.entries.values()) {
      if (session.lastUsed < before && session.busy === 0) this.end(session, 'The session expired');
    }
  }

  all(): Entry<C>[] {
    return [...this.entries.values()];
  }

  close(): void {
    clearInterval(this.sweeper);
    for (const { session } of this.entries.values()) this.end(session, 'The gateway is stopping');
  }
}
