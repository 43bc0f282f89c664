/** The MCP side of the running gateway: servers, their catalog, and the calls that wait, put together. */
import { OwnedUpstream } from '../cluster/owned-upstream.js';
import type { Config, ServerConfig } from '../config/schema.js';
import { type Admission, OpenAdmission } from '../core/admission.js';
import { Aggregate } from '../core/aggregate.js';
import { GATEWAY, ownerOf } from '../core/caller.js';
import { Catalog } from '../core/catalog/catalog.js';
import { Pages } from '../core/catalog/pages.js';
import { ToolRules } from '../core/catalog/tool-rules.js';
import { HostedTasks } from '../core/era-bridge/hosted-tasks.js';
import { Parking } from '../core/era-bridge/parking.js';
import { RequestStates } from '../core/era-bridge/request-states.js';
import { Forwarder } from '../core/forward.js';
import type { Gateway } from '../core/gateway.js';
import type { Interceptor, Pipeline } from '../core/pipeline.js';
import type { Seal } from '../core/seal.js';
import type { Upstream } from '../core/upstream.js';
import type { Authenticator } from '../identity/authenticator.js';
import type { Credentials } from '../identity/credentials.js';
import type { SessionsOptions } from '../inbound/mcp/session/sessions.js';
import type { CallLog } from '../interceptors/call-log.js';
import { buildUpstream, type VerdictStore } from '../outbound/mcp/build.js';
import type { Implementation } from '../protocol/mcp/model.js';
import type { Registry, State } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { parkedRecords, TASK_TTL, taskRecords } from './mcp-records.js';
import { pipelineOf } from './pipeline.js';
import { type Entry, Registrations } from './registrations.js';
import type { Replica } from './replica.js';

/** How long lists and handshakes wait for a server that has not answered yet, in milliseconds. */
const PATIENCE = 1_000;

/** How often a task is worth asking for. */
const TASK_POLL = 500;
/** Questions, answers and results of running tasks that are in memory, in bytes. */
const TASK_BYTES = 128 * 1024 * 1024;
/** The owner of a process holds a question a little longer than the replica of its caller does. */
const HELD_MARGIN = 60_000;

export interface McpRuntimeOptions {
  readonly config: Config;
  /** The configuration as it is now, for servers that are registered. */
  readonly live: () => Config;
  readonly info: Implementation;
  readonly state: State;
  readonly replica: Replica;
  readonly verdicts: VerdictStore;
  readonly seal: Seal;
  /** Establishes the callers that come over a network. */
  readonly authenticator: Authenticator;
  readonly credentials: Credentials;
  /** Whether callers may read what operators may of failures. */
  readonly explains: boolean;
  readonly log: Log;
  readonly reporting: Reporting;
}

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

export class McpRuntime {
  /** Who may know of what, and use it. */
  readonly admission: Admission;
  readonly catalog: Catalog;
  /** The servers, which can be changed while the gateway runs. */
  readonly servers: Registrations<'server'>;
  readonly states: RequestStates;
  readonly parking: Parking;
  readonly tasks: HostedTasks;
  /** The interceptors of both protocols. */
  readonly pipeline: Pipeline;
  /** What every inbound adapter calls. */
  readonly gateway: Gateway;

  constructor(private readonly options: McpRuntimeOptions) {
    const { config, state, replica, seal, authenticator, log, reporting } = options;
    const { naming, bridge, timeouts } = config;
    const { cluster } = replica;
    this.admission = new OpenAdmission((server) => this.servers.get(server)?.invocation !== false);
    const { admission } = this;
    this.catalog = new Catalog({ naming, admission, bridge, patience: Math.min(timeouts.connect, PATIENCE), log });
    const { catalog } = this;
    const closing = (upstream: Upstream | undefined) => upstream && (() => upstream.close());
    this.servers = new Registrations('server', config.servers, {
      registry: state.registry as Registry<Entry>,
      live: options.live,
      audit: state.audit,
      log,
      drain: timeouts.drain,
      bring: (name, settings) => closing(catalog.put(this.upstream(name, settings), new ToolRules(settings.tools))),
      takeAway: (name) => closing(catalog.remove(name)),
    });
    this.parking = new Parking(
      {
        ttl: bridge.parkTtl,
        inAll: bridge.maxParked,
        perCaller: bridge.maxParkedPerCaller,
        perServer: bridge.maxParkedPerServer,
      },
      cluster,
      {
        records: parkedRecords(state, seal),
        adopt: (server, call, principal) =>
          catalog.upstream(server)?.adopt?.(call, { ...GATEWAY, principal: ownerOf(principal) }),
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
    this.states = new RequestStates(seal, bridge.parkTtl);
    const { parking, tasks } = this;
    const { calls, interceptors = [] } = reporting;
    const identified = authenticator.enabled;
    this.pipeline = pipelineOf({ config, state, catalog, admission, identified, calls, interceptors });
    this.gateway = new Aggregate({
      catalog,
      pages: new Pages(catalog, seal, config.limits.pageSize),
      admission,
      forwarder: new Forwarder({ catalog, parking, tasks, seal, bridge, taskTtl: TASK_TTL }),
      tasks,
      bridge,
      pipeline: this.pipeline,
    });
  }

  private upstream(name: string, settings: ServerConfig): Upstream {
    const { config, info, log, verdicts, credentials, explains, reporting, replica, state } = this.options;
    const build = (): Upstream =>
      buildUpstream(name, settings, {
        limits: config.limits,
        sessionIdle: config.session.idle,
        clientInfo: info,
        log,
        verdicts,
        credentials,
        explains,
        showsOutput: reporting.showsOutput,
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

  /** For the sessions of clients with a handshake, over whichever transport. */
  sessionsOptions(): SessionsOptions {
    const { config, info, seal, authenticator, replica } = this.options;
    const { catalog } = this;
    return {
      gateway: this.gateway,
      admission: this.admission,
      tasks: this.tasks,
      cluster: replica.cluster,
      identified: authenticator.enabled,
      info,
      seal,
      idle: config.session.idle,
      limits: {
        inAll: config.session.max,
        perCaller: authenticator.enabled ? config.session.maxPerCaller : undefined,
      },
      answerTime: config.bridge.parkTtl,
      logging: config.bridge.logging,
      strictVersions: config.mcp.versionNegotiation === 'strict',
      rootsChanged: (key) => {
        for (const name of catalog.servers) catalog.upstream(name)?.rootsChanged(key);
      },
      ended: (key) => {
        for (const name of catalog.servers) catalog.upstream(name)?.release(key);
      },
    };
  }
}
