/** The running gateway without its inbound adapters: every layer behind them, put together. */
import { createHash, randomBytes } from 'node:crypto';
import { Mailbox } from '../cluster/mailbox.js';
import { OwnedUpstream } from '../cluster/owned-upstream.js';
import { PRESENCE, Presence } from '../cluster/presence.js';
import { BusStreams } from '../cluster/shared-streams.js';
import { changedKeys } from '../config/changes.js';
import type { Config, ServerConfig } from '../config/schema.js';
import { OpenAdmission } from '../core/admission.js';
import { Aggregate } from '../core/aggregate.js';
import { Parking } from '../core/bridge/parking.js';
import { States } from '../core/bridge/states.js';
import { HostedTasks } from '../core/bridge/tasks.js';
import { GATEWAY, ownerOf } from '../core/caller.js';
import { Catalog } from '../core/catalog/catalog.js';
import { Pages } from '../core/catalog/pages.js';
import { ToolRules } from '../core/catalog/tool-rules.js';
import { ALONE, type Cluster } from '../core/cluster.js';
import { Forwarder } from '../core/forward.js';
import type { Gateway } from '../core/gateway.js';
import { Seal } from '../core/seal.js';
import type { Upstream } from '../core/upstream.js';
import { withApproval } from '../features/approval.js';
import { type CallLog, withCallLog } from '../features/call-log.js';
import type { Authenticator } from '../identity/authenticator.js';
import type { Credentials } from '../identity/credentials.js';
import type { SessionsOptions } from '../inbound/mcp/session/sessions.js';
import type { SharedStreams } from '../inbound/mcp/session/shared-streams.js';
import { buildUpstream, type VerdictStore } from '../outbound/mcp/build.js';
import { stopAllChildren } from '../outbound/stdio/process.js';
import type { Implementation } from '../protocol/mcp/model.js';
import { openState, Registry, type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { A2aRuntime } from './a2a-runtime.js';
import { authenticatorOf } from './authentication.js';
import { credentialsOf } from './credentials.js';
import { parkedRecords, rememberedVerdicts, TASK_TTL, taskRecords, usedApprovals } from './mcp-records.js';
import { Registrations } from './registrations.js';

/** How long lists and handshakes wait for a server that has not answered yet, in milliseconds. */
const PATIENCE = 1_000;

/** How often a task is worth asking for. */
const TASK_POLL = 500;
/** The owner of a process holds a question a little longer than the replica of its caller does. */
const HELD_MARGIN = 60_000;
const DAY = 24 * 60 * 60 * 1000;

/** Keys that need no restart. */
const RELOADED = /^(servers|agents)(\.|$)|^log\.level$/;

/** What a replica has beside what a single process has. */
interface Replica {
  readonly cluster: Cluster;
  readonly streams: SharedStreams | undefined;
  leave(): Promise<void>;
}

const SINGLE: Replica = { cluster: ALONE, streams: undefined, leave: async () => {} };

/** What the gateway tells beside its log. */
export interface Reporting {
  /** Takes a line for each call. */
  readonly calls?: CallLog;
  /** How an operator reads the output of a server's process, where this gateway can be asked for it. */
  readonly showsOutput?: (server: string) => string;
  /** The one caller started the gateway and is its operator, whatever tokens there are. */
  readonly private?: boolean;
}

export class Runtime {
  /** The configuration that was read last; its servers and agents, and the global keys that apply to them, are in effect. */
  private latest: Config;
  readonly catalog: Catalog;
  /** The servers, which can be changed while the gateway runs. */
  readonly servers: Registrations<'server'>;
  readonly aggregate: Aggregate;
  readonly seal: Seal;
  readonly states: States;
  readonly parking: Parking;
  readonly tasks: HostedTasks;
  /** The core with its features around it: what every door calls. */
  readonly gateway: Gateway;
  /** Everything about agents. */
  readonly a2a: A2aRuntime;
  /** Establishes the callers that come over a network. */
  readonly authenticator: Authenticator;
  /** The credentials of requests to servers and agents. */
  readonly credentials: Credentials;

  private constructor(
    readonly config: Config,
    readonly info: Implementation,
    readonly state: State,
    private readonly replica: Replica,
    private readonly verdicts: VerdictStore,
    readonly log: Log,
    private readonly reporting: Reporting,
  ) {
    this.latest = config;
    this.authenticator = authenticatorOf(config);
    this.credentials = credentialsOf(config);
    this.seal = new Seal(state.keyring, wallMs);
    const { naming, bridge, timeouts } = config;
    this.catalog = new Catalog({ naming, bridge, patience: Math.min(timeouts.connect, PATIENCE), log });
    const closing = (upstream: Upstream | undefined) => upstream && (() => upstream.close());
    this.servers = new Registrations('server', config.servers, {
      registry: new Registry(state.db, state.bus),
      live: () => this.live(),
      audit: state.audit,
      log,
      drain: config.timeouts.drain,
      bring: (name, settings) =>
        closing(this.catalog.put(this.upstream(name, settings), new ToolRules(settings.tools))),
      takeAway: (name) => closing(this.catalog.remove(name)),
    });
    const admission = new OpenAdmission((server) => this.servers.get(server)?.invocation !== false);
    const { cluster } = replica;
    this.parking = new Parking(
      {
        ttl: bridge.parkTtl,
        inAll: bridge.maxParked,
        perCaller: bridge.maxParkedPerCaller,
        perServer: bridge.maxParkedPerServer,
      },
      cluster,
      {
        records: parkedRecords(state, this.seal),
        adopt: (server, call, principal) =>
          this.catalog.upstream(server)?.adopt?.(call, { ...GATEWAY, principal: ownerOf(principal) }),
      },
    );
    this.tasks = new HostedTasks(taskRecords(state), { ttl: TASK_TTL, pollInterval: TASK_POLL }, cluster);
    this.states = new States(this.seal, bridge.parkTtl);
    const { catalog, seal, parking, tasks } = this;
    this.aggregate = new Aggregate({
      catalog,
      pages: new Pages(catalog, admission, seal, config.limits.pageSize),
      admission,
      forwarder: new Forwarder({ catalog, admission, parking, tasks, seal, bridge, taskTtl: TASK_TTL }),
      tasks,
      bridge,
    });
    const approving = withApproval(
      this.aggregate,
      config.policy.approve,
      catalog,
      bridge.parkTtl,
      usedApprovals(state),
    );
    const { calls } = reporting;
    this.gateway = calls ? withCallLog(approving, calls, catalog) : approving;
    const { gateway } = this;
    const shared = replica !== SINGLE;
    const identified = this.authenticator.enabled;
    const { credentials } = this;
    this.a2a = new A2aRuntime({
      ...{ config, info, state, identified, credentials, shared, cluster, seal, admission, catalog, gateway, log },
      live: () => this.live(),
    });
  }

  static async build(config: Config, info: Implementation, log: Log, reporting: Reporting = {}): Promise<Runtime> {
    const { db, bus, keys, retention } = config.state;
    const state = await openState({
      data: config.data,
      log,
      retention: {
        ...(retention.auditDays > 0 && { auditMs: retention.auditDays * DAY }),
        ...(retention.deadDeliveryDays > 0 && { deadDeliveriesMs: retention.deadDeliveryDays * DAY }),
      },
      ...(db !== undefined && { db }),
      ...(bus !== undefined && { bus }),
      ...(keys.length > 0 && { keys: keys.map((key) => ({ id: keyId(key), key: keyText(key) })) }),
    });
    const replica = db === undefined ? SINGLE : await join(state, log);
    const runtime = new Runtime(config, info, state, replica, await rememberedVerdicts(state, log), log, reporting);
    await runtime.servers.start();
    if (config.a2a.enabled) await runtime.a2a.start();
    return runtime;
  }

  /**
   * Applies the servers and agents of a configuration file that was read again; those that did not change keep running.
   * Returns the other keys in which it differs from the running one: they need a restart.
   */
  async reload(next: Config): Promise<readonly string[]> {
    this.latest = next;
    await this.servers.configure(next.servers);
    if (this.config.a2a.enabled) await this.a2a.agents.configure(next.agents);
    return changedKeys(this.config, next).filter((key) => !RELOADED.test(key));
  }

  private live(): Config {
    return { ...this.latest, servers: this.servers.all, agents: this.a2a.agents.all };
  }

  private upstream(name: string, settings: ServerConfig): Upstream {
    const { config, info, log, verdicts, replica, state } = this;
    const build = (): Upstream =>
      buildUpstream(name, settings, {
        limits: config.limits,
        sessionIdle: config.session.idle,
        clientInfo: info,
        log,
        verdicts,
        credentials: this.credentials,
        // Without tokens everybody who can call is on this machine, and an operator.
        explains: this.reporting.private === true || explainsFailures(config, this.authenticator.enabled),
        showsOutput: this.reporting.showsOutput,
      });
    // A process lives on one machine; the replicas share it.
    return replica === SINGLE || settings.command === undefined
      ? build()
      : new OwnedUpstream({
          build,
          cluster: replica.cluster,
          bus: state.bus,
          settings: JSON.stringify(settings),
          heldFor: Math.max(config.bridge.parkTtl, TASK_TTL) + HELD_MARGIN,
        });
  }

  get cluster(): Cluster {
    return this.replica.cluster;
  }

  get streams(): SharedStreams | undefined {
    return this.replica.streams;
  }

  sessionsOptions(): SessionsOptions {
    const { config } = this;
    return {
      gateway: this.gateway,
      describe: (view) => this.aggregate.describe(view),
      tasks: this.tasks,
      cluster: this.cluster,
      identified: this.authenticator.enabled,
      info: this.info,
      seal: this.seal,
      idle: config.session.idle,
      limits: {
        inAll: config.session.max,
        perCaller: this.authenticator.enabled ? config.session.maxPerCaller : undefined,
      },
      answerTime: config.bridge.parkTtl,
      logging: config.bridge.logging,
      strictVersions: config.mcp.versionNegotiation === 'strict',
      rootsChanged: (key) => {
        for (const name of this.catalog.servers) this.catalog.upstream(name)?.rootsChanged(key);
      },
      ended: (key) => {
        for (const name of this.catalog.servers) this.catalog.upstream(name)?.release(key);
      },
    };
  }

  async close(): Promise<void> {
    this.servers.close();
    await this.a2a.close();
    this.parking.close();
    this.tasks.close();
    await this.catalog.close();
    await stopAllChildren();
    await this.replica.leave();
    await this.state.close();
  }
}

/** Enters the company of the replicas that share this state. */
async function join({ bus }: State, log: Log): Promise<Replica> {
  const self = randomBytes(6).toString('hex');
  const presence = await Presence.enter(bus, self, PRESENCE, () => {
    log.warn({ replica: self }, 'this replica was away for longer than its lease; the others went on without it');
  });
  const mailbox = await Mailbox.open(bus, presence, log);
  log.info({ replica: self }, 'joined the replicas that share this state');
  return {
    cluster: mailbox,
    streams: new BusStreams(bus, presence, log),
    leave: async () => {
      mailbox.close();
      await presence.leave();
    },
  };
}

/** Any secret of enough characters serves as a key; which one it is shows in its id, not what it is. */
const keyText = (key: string): string => createHash('sha256').update(`parley key ${key}`).digest('base64');
const keyId = (key: string): string => createHash('sha256').update(`parley id ${key}`).digest('hex').slice(0, 8);

function explainsFailures({ explainFailures }: Config, authenticated: boolean): boolean {
  return explainFailures === 'auto' ? !authenticated : explainFailures === 'always';
}
