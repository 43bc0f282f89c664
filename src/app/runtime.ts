/** The running gateway without its inbound adapters: every layer behind them, put together. */
import { OwnedUpstream } from '../cluster/owned-upstream.js';
import { changedKeys } from '../config/changes.js';
import type { Config, ServerConfig } from '../config/schema.js';
import { type Admission, OpenAdmission } from '../core/admission.js';
import { Aggregate } from '../core/aggregate.js';
import { Parking } from '../core/bridge/parking.js';
import { States } from '../core/bridge/states.js';
import { HostedTasks } from '../core/bridge/tasks.js';
import { CallSlots } from '../core/call-slots.js';
import { GATEWAY, ownerOf } from '../core/caller.js';
import { Catalog } from '../core/catalog/catalog.js';
import { Pages } from '../core/catalog/pages.js';
import { ToolRules } from '../core/catalog/tool-rules.js';
import type { Cluster } from '../core/cluster.js';
import { Forwarder } from '../core/forward.js';
import type { Gateway } from '../core/gateway.js';
import { type Interceptor, Pipeline } from '../core/pipeline.js';
import { Seal } from '../core/seal.js';
import type { Upstream } from '../core/upstream.js';
import type { Authenticator } from '../identity/authenticator.js';
import type { Credentials } from '../identity/credentials.js';
import type { SessionsOptions } from '../inbound/mcp/session/sessions.js';
import type { SharedStreams } from '../inbound/mcp/session/shared-streams.js';
import { admitting } from '../interceptors/admission.js';
import { approval } from '../interceptors/approval.js';
import { callLimits } from '../interceptors/call-limits.js';
import { type CallLog, callLog } from '../interceptors/call-log.js';
import { buildUpstream, type VerdictStore } from '../outbound/mcp/build.js';
import { stopAllChildren } from '../outbound/stdio/process.js';
import type { Implementation } from '../protocol/mcp/model.js';
import { Registry, type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { A2aRuntime } from './a2a-runtime.js';
import { authenticatorOf } from './authentication.js';
import { credentialsOf } from './credentials.js';
import { Lifecycle } from './lifecycle.js';
import { parkedRecords, rememberedVerdicts, TASK_TTL, taskRecords, usedApprovals } from './mcp-records.js';
import { Registrations } from './registrations.js';
import { joinReplicas, type Replica } from './replica.js';
import { openStorage } from './storage.js';

/** How long lists and handshakes wait for a server that has not answered yet, in milliseconds. */
const PATIENCE = 1_000;

/** How often a task is worth asking for. */
const TASK_POLL = 500;
/** Questions, answers and results of running tasks that are in memory, in bytes. */
const TASK_BYTES = 128 * 1024 * 1024;
/** The owner of a process holds a question a little longer than the replica of its caller does. */
const HELD_MARGIN = 60_000;

/** Keys that need no restart. */
const RELOADED = /^(servers|agents)(\.|$)|^log\.level$/;

/** What the gateway tells beside its log. */
export interface Reporting {
  /** Takes a line for each call. */
  readonly calls?: CallLog;
  /** Steps around every call, beside those of the gateway. */
  readonly interceptors?: readonly Interceptor[];
  /** How an operator reads the output of a server's process, where this gateway can be asked for it. */
  readonly showsOutput?: (server: string) => string;
  /** The one caller started the gateway and is its operator, whatever tokens there are. */
  readonly private?: boolean;
}

export class Runtime {
  /** The configuration that was read last; its servers and agents, and the global keys that apply to them, are in effect. */
  private latest: Config;
  /** Who may know of what, and use it. */
  readonly admission: Admission;
  readonly catalog: Catalog;
  /** The servers, which can be changed while the gateway runs. */
  readonly servers: Registrations<'server'>;
  readonly seal: Seal;
  readonly states: States;
  readonly parking: Parking;
  readonly tasks: HostedTasks;
  /** MCP: what every door calls. */
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
    private readonly lifecycle: Lifecycle,
  ) {
    this.latest = config;
    this.authenticator = authenticatorOf(config);
    this.credentials = credentialsOf(config);
    this.seal = new Seal(state.keyring, wallMs);
    const { naming, bridge, timeouts } = config;
    this.admission = new OpenAdmission((server) => this.servers.get(server)?.invocation !== false);
    const { admission } = this;
    this.catalog = new Catalog({ naming, admission, bridge, patience: Math.min(timeouts.connect, PATIENCE), log });
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
    this.tasks = new HostedTasks(
      taskRecords(state),
      {
        ttl: TASK_TTL,
        pollInterval: TASK_POLL,
        limits: { perCaller: bridge.maxTasksPerCaller, inAll: bridge.maxTasks, bytes: TASK_BYTES },
      },
      cluster,
    );
    this.states = new States(this.seal, bridge.parkTtl);
    const { catalog, seal, parking, tasks } = this;
    const { calls, interceptors: added = [] } = reporting;
    const { approve } = config.policy;
    const approving = approval(approve, bridge.parkTtl, usedApprovals(state));
    const { callsPerCaller, callsPerSession: perSession, callsPerServer: perServer } = config.limits;
    // Without authentication nobody is told apart, and everybody would share one limit.
    const perCaller = this.authenticator.enabled ? callsPerCaller : undefined;
    // Behind admission: a refusal names no server that its caller may not know of.
    const limits = callLimits(new CallSlots({ perCaller, perSession, perServer }));
    // The order in which every call of both protocols passes the interceptors.
    const pipeline = new Pipeline([callLog(calls, catalog), ...added, admitting(admission), limits, approving]);
    this.gateway = new Aggregate({
      catalog,
      pages: new Pages(catalog, seal, config.limits.pageSize),
      admission,
      forwarder: new Forwarder({ catalog, parking, tasks, seal, bridge, taskTtl: TASK_TTL }),
      tasks,
      bridge,
      pipeline,
    });
    const { gateway } = this;
    const { shared } = replica;
    const identified = this.authenticator.enabled;
    const { credentials } = this;
    this.a2a = new A2aRuntime({
      ...{ config, info, state, identified, credentials, shared, cluster, seal, log },
      ...{ admission, pipeline, catalog, gateway },
      explains: this.explains(config),
      live: () => this.live(),
    });
  }

  /** Makes and starts the parts of the gateway; they stop in the reverse order. */
  static build(config: Config, info: Implementation, log: Log, reporting: Reporting = {}): Promise<Runtime> {
    const lifecycle = new Lifecycle(log);
    return lifecycle.start(async () => {
      const state = lifecycle.add('state', await openStorage(config, log), (part) => part.close());
      const replica = lifecycle.add('replica', await joinReplicas(config, state, log), (part) => part.leave());
      lifecycle.add('child processes', undefined, stopAllChildren);
      const verdicts = await rememberedVerdicts(state, log);
      const runtime = new Runtime(config, info, state, replica, verdicts, log, reporting, lifecycle);
      lifecycle.add('catalogue', runtime.catalog, (part) => part.close());
      lifecycle.add('tasks', runtime.tasks, (part) => part.close());
      lifecycle.add('parked calls', runtime.parking, (part) => part.close());
      lifecycle.add('agents', runtime.a2a, (part) => part.close());
      lifecycle.add('registrations of servers', runtime.servers, (part) => part.close());
      await runtime.servers.start();
      if (config.a2a.enabled) await runtime.a2a.start();
      return runtime;
    });
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
        explains: this.explains(config),
        showsOutput: this.reporting.showsOutput,
      });
    // A process lives on one machine; the replicas share it.
    return !replica.shared || settings.command === undefined
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

  /** Whether callers may read what operators may of failures. */
  private explains({ explainFailures }: Config): boolean {
    if (this.reporting.private === true) return true;
    return explainFailures === 'auto' ? !this.authenticator.enabled : explainFailures === 'always';
  }

  close(): Promise<void> {
    return this.lifecycle.stop();
  }
}
