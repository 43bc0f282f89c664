/** The MCP side of the running gateway: composes servers, their catalog, tasks and parked calls. */
import { SharedProcessUpstream } from '../cluster/shared-process/shared-process-upstream.js';
import type { Config, ServerConfig } from '../config/schema.js';
import { readRegistration } from '../config/upstream-entry.js';
import { type Admission, allAdmissions, OpenAdmission } from '../core/admission.js';
import type { AuditTrail } from '../core/audit-trail.js';
import { GATEWAY, ownerOf } from '../core/caller.js';
import { Catalog } from '../core/catalog/catalog.js';
import { Pages } from '../core/catalog/pages.js';
import { ToolRules } from '../core/catalog/tool-rules.js';
import { HostedTasks } from '../core/era-bridge/hosted-tasks.js';
import { ParkedCalls } from '../core/era-bridge/parked-calls.js';
import { REQUEST_BYTES } from '../core/era-bridge/request-byte-limits.js';
import { RequestStates } from '../core/era-bridge/sealed-request-states.js';
import { Forwarder } from '../core/forward.js';
import type { ServerGateway } from '../core/gateway.js';
import { McpDispatcher } from '../core/mcp-dispatcher.js';
import { Pinning } from '../core/pinning/all-pins.js';
import type { Interceptor, Pipeline } from '../core/pipeline.js';
import type { ChoiceLog } from '../core/replica-choice/choice-log.js';
import type { Seal } from '../core/seal.js';
import { Exposure } from '../core/search/exposure.js';
import { SharedLearning } from '../core/search/shared-learning.js';
import { ToolSearch } from '../core/search/tool-search.js';
import type { Upstream } from '../core/upstream.js';
import type { Authenticator } from '../identity/authenticator.js';
import { PolicyAdmission } from '../identity/policy/policy-admission.js';
import { openingSignIns } from '../identity/sign-in-admission.js';
import type { Credentials } from '../identity/upstream-credentials.js';
import { split } from '../identity/upstream-login/connect-links.js';
import type { Logins } from '../identity/upstream-login/login-flow.js';
import type { SessionsOptions } from '../inbound/mcp/session/sessions.js';
import type { CallLog } from '../interceptors/call-log.js';
import { searchOutcomes } from '../interceptors/search-outcomes.js';
import type { Guard } from '../outbound/http/index.js';
import { buildUpstream, type VerdictStore } from '../outbound/mcp/build-upstream.js';
import type { Implementation } from '../protocol/mcp/model.js';
import type { Registry, State } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { ConfiguredViews } from './configured-views.js';
import { pipelineOf } from './interceptor-order.js';
import type { Replica } from './join-replicas.js';
import { parkedRecords, TASK_TTL, taskRecords } from './mcp-records.js';
import type { Overload } from './overload.js';
import type { Plugins } from './plugin-loader.js';
import type { Entry } from './registration-writes.js';
import { Registrations } from './registrations.js';
import { type SearchVectors, searchVectors } from './search-vectors.js';
import { fingerprintOf } from './settings-fingerprint.js';
import type { Telemetry } from './telemetry.js';

/** Time that lists and handshakes wait for a server that has not answered yet, in milliseconds. */
const PATIENCE = 1_000;

/** Polling interval for tasks, in milliseconds. */
const TASK_POLL = 500;
/** Limit on the memory for questions, answers and results of running tasks, in bytes. */
const TASK_BYTES = 128 * 1024 * 1024;
/** The replica that owns a process keeps a question this much longer than the replica that serves the caller. */
const HELD_MARGIN = 60_000;

const FORGETFUL: VerdictStore = { recall: () => undefined, remember: () => {} };

export interface McpRuntimeOptions {
  readonly config: Config;
  /** The configuration in effect; servers registered at run time are checked against it. */
  readonly live: () => Config;
  readonly info: Implementation;
  readonly state: State;
  readonly replica: Replica;
  readonly verdicts: VerdictStore;
  readonly seal: Seal;
  /** Authenticates callers that connect over the network. */
  readonly authenticator: Authenticator;
  /** Limits what callers see and use, besides the configuration of the servers. */
  readonly admissions: readonly Admission[];
  readonly credentials: Credentials;
  readonly overload: Overload;
  readonly audit: AuditTrail;
  /** The rules and the proxy for URLs that callers supply, such as those of registered servers. */
  readonly safeHttp: Guard;
  readonly telemetry: Telemetry;
  /** Stores choices among equivalent servers. */
  readonly choices?: ChoiceLog | undefined;
  readonly plugins: Plugins;
  /** Sign-ins of users at servers and agents. */
  readonly logins: Logins;
  /** Whether callers, and not only operators, see the details of failures. */
  readonly explains: boolean;
  readonly log: Log;
  readonly reporting: Reporting;
}

/** How the gateway reports on calls and servers, apart from its log. */
export interface Reporting {
  /** Receives one line per call. */
  readonly calls?: CallLog;
  /** Additional interceptors around every call. */
  readonly interceptors?: readonly Interceptor[];
  /** The command or setting with which an operator reads the output of a server's process. */
  readonly showsOutput?: (server: string) => string;
  /** True if the only caller is the program that started the gateway: it is the operator and needs no token. */
  readonly private?: boolean;
}

export class McpRuntime {
  /** Decides which servers, agents and tools a caller may see and use. */
  readonly admission: Admission;
  /** The rules of the configuration, which can change while the gateway runs. */
  readonly policy: PolicyAdmission;
  readonly catalog: Catalog;
  /** The configured views; they can change while the gateway runs. */
  readonly views: ConfiguredViews;
  /** The pinned definitions of the servers. */
  readonly pinning: Pinning;
  /** The servers behind the gateway; they can change while it runs. */
  readonly servers: Registrations<'server'>;
  readonly states: RequestStates;
  readonly parking: ParkedCalls;
  readonly tasks: HostedTasks;
  /** What searches learn from calls. */
  readonly learning: SharedLearning;
  readonly tools: ToolSearch;
  /** The vectors of tool search and their client; undefined without an endpoint. */
  readonly vectors: SearchVectors | undefined;
  /** How views list their tools; it can change while the gateway runs. */
  readonly exposure: Exposure;
  /** Whether the pipeline makes spans. */
  readonly traced: boolean;
  /** The interceptors of both protocols. */
  readonly pipeline: Pipeline;
  /** The entry point for every inbound adapter. */
  readonly gateway: ServerGateway;

  constructor(private readonly options: McpRuntimeOptions) {
    const { config, state, replica, seal, authenticator, log, reporting } = options;
    const { naming, bridge, timeouts } = config;
    const { cluster } = replica;
    this.policy = new PolicyAdmission({
      settings: config.policy,
      log,
      someItem: (principal, server, test) => this.catalog.someItem(principal, server, test),
    });
    const { policy } = this;
    const callable = new OpenAdmission((server) => this.servers.get(server)?.invocation !== false);
    // The restrictions of callers and the policy come first, so that a refusal never names a server that the caller may
    // not see.
    const hasLogins = (server: string): boolean => options.logins.get(`server:${server}`) !== undefined;
    this.admission = allAdmissions([
      openingSignIns(allAdmissions([...options.admissions, policy]), hasLogins),
      callable,
    ]);
    const { admission } = this;
    this.pinning = new Pinning({ records: state.pins, audit: options.audit, log });
    const { pinning } = this;
    const patience = Math.min(timeouts.connect, PATIENCE);
    this.catalog = new Catalog({ naming, admission, bridge, pinning, patience, log });
    const { catalog } = this;
    this.views = new ConfiguredViews({ config, catalog, admission });
    const closing = (upstream: Upstream | undefined) => upstream && (() => upstream.close());
    this.servers = new Registrations('server', config.servers, {
      registry: state.registry as Registry<Entry>,
      live: options.live,
      audit: options.audit,
      egress: options.safeHttp.egress,
      fingerprint: fingerprintOf(state),
      log,
      drain: timeouts.drain,
      install: (name, settings, guarded) =>
        closing(
          catalog.put(
            this.upstream(name, settings, guarded),
            new ToolRules({ ...settings.tools, lint: settings.lint }),
            settings.groups,
            settings.pin,
          ),
        ),
      uninstall: (name) => closing(catalog.remove(name)),
    });
    this.parking = new ParkedCalls(
      {
        ttl: bridge.parkTtl,
        inAll: bridge.maxParked,
        perCaller: bridge.maxParkedPerCaller,
        perServer: bridge.maxParkedPerServer,
        bytes: REQUEST_BYTES,
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
        limits: {
          perCaller: bridge.maxTasksPerCaller,
          inAll: bridge.maxTasks,
          bytes: TASK_BYTES,
          requests: REQUEST_BYTES,
        },
      },
      cluster,
    );
    this.states = new RequestStates(seal, bridge.parkTtl);
    const { parking, tasks } = this;
    const { calls, interceptors = [] } = reporting;
    const identified = authenticator.enabled;
    const settings = config.routing;
    this.learning = new SharedLearning({
      ...{ settings, records: state.routingOutcomes, identified, log },
      index: () => this.tools.index,
    });
    this.vectors = searchVectors(config.routing.vectors, timeouts.connect, log);
    this.tools = new ToolSearch(catalog, this.learning, this.vectors?.tools);
    this.exposure = new Exposure(catalog, this.tools, settings);
    this.traced = options.telemetry.tracing !== undefined;
    this.pipeline = pipelineOf({
      ...{ config, state, catalog, admission, policy, replica, identified, calls, interceptors, log },
      validationOf: (server) => this.servers.get(server)?.validation ?? 'off',
      observers: [...options.telemetry.observers(catalog), searchOutcomes(this.learning)],
      tracing: options.telemetry.tracing,
      ...{ overload: options.overload, audit: options.audit, logins: options.logins, plugins: options.plugins },
    });
    this.gateway = new McpDispatcher({
      catalog,
      pages: new Pages(catalog, seal, config.limits.pageSize),
      admission,
      forwarder: new Forwarder({ catalog, parking, tasks, seal, bridge, taskTtl: TASK_TTL }),
      tasks,
      bridge,
      pipeline: this.pipeline,
      exposure: this.exposure,
      ownSchemes: options.plugins.schemes,
    });
  }

  /** A user signed in or out at a server or agent: lists of that user change. */
  loginChanged(upstream: string, owner: string): void {
    const [kind, name] = split(upstream);
    if (kind === 'server') this.catalog.resetPersonal(name, owner);
  }

  /** A server outside of the catalog, to try settings before they are registered. The caller closes it. */
  trial(name: string, written: object): Upstream {
    const { settings } = readRegistration('servers', name, written, { config: this.options.live() });
    // Nothing is learned about a server that is perhaps never registered.
    return this.upstream(name, settings, true, FORGETFUL);
  }

  private upstream(
    name: string,
    settings: ServerConfig,
    guarded: boolean,
    verdicts: VerdictStore = this.options.verdicts,
  ): Upstream {
    const { safeHttp, config, info, log, credentials, explains, reporting, replica, state } = this.options;
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
        routing: { objective: config.routing.objective, choices: this.options.choices },
        ...(guarded && { guard: safeHttp }),
      });
    // The process of a stdio server runs on one replica only. The other replicas reach the server through that replica.
    return !replica.shared || settings.command === undefined
      ? build()
      : new SharedProcessUpstream({
          build,
          cluster: replica.cluster,
          bus: state.bus,
          settings: JSON.stringify(settings),
          heldFor: Math.max(config.bridge.parkTtl, TASK_TTL) + HELD_MARGIN,
        });
  }

  /** Options for the sessions of legacy clients, over any transport. */
  sessionsOptions(): SessionsOptions {
    const { config, info, seal, authenticator, replica } = this.options;
    const { catalog } = this;
    return {
      gateway: this.gateway,
      admission: this.admission,
      tasks: this.tasks,
      inView: (view, server) => catalog.showsTasksOf(view, server),
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
