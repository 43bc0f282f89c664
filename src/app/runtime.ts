/** The running gateway without its inbound adapters: starts its parts in order and stops them in reverse order. */
import { changedKeys } from '../config/changed-keys.js';
import { needsRestart } from '../config/keys-that-need-a-restart.js';
import type { Config } from '../config/schema.js';
import { type AuditActor, type AuditTrail, OPERATOR } from '../core/audit-trail.js';
import { Seal } from '../core/seal.js';
import type { UpstreamRegistry } from '../core/upstream-registry.js';
import { AuditedRefusals, type Refusals } from '../identity/audited-refusals.js';
import type { Authenticator } from '../identity/authenticator.js';
import { HoldingAuthenticator } from '../identity/caller-request.js';
import type { BrowserIdentity } from '../inbound/upstream-login/connect-endpoint.js';
import type { VerdictStore } from '../outbound/mcp/build-upstream.js';
import type { SafeHttp } from '../outbound/safe-http.js';
import { stopAllChildren } from '../outbound/stdio/child-process.js';
import type { Implementation } from '../protocol/mcp/model.js';
import { type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import type { OtlpTracing } from '../telemetry/tracing/otlp.js';
import { A2aRuntime } from './a2a-runtime.js';
import { auditTrailOf } from './audit-writer.js';
import { Authentication } from './authentication.js';
import { keepMemoryOutOfDumps } from './core-dumps.js';
import { type CredentialServices, credentialServices, credentialsOf } from './credential-order.js';
import { Evaluators } from './evaluators.js';
import { joinReplicas, type Replica } from './join-replicas.js';
import { Lifecycle } from './lifecycle.js';
import { rememberedVerdicts } from './mcp-records.js';
import { McpRuntime, type Reporting } from './mcp-runtime.js';
import { type BuiltinServer, startOAuthServer } from './oauth-server.js';
import { safeHttpOf } from './outbound-urls.js';
import { Overload } from './overload.js';
import { Plugins } from './plugin-loader.js';
import type { RegistrationAssessment } from './registration-assessment.js';
import { choiceLogOf, type StoredChoices } from './replica-choice-log.js';
import { fingerprintOf } from './settings-fingerprint.js';
import { openStorage } from './storage.js';
import { Telemetry, tracingOf } from './telemetry.js';
import { UpstreamLoginRuntime } from './upstream-logins.js';
import { RegistryService } from './upstream-registry.js';

/** Limit on the changed keys that an audit record names. */
const MOST_KEYS = 100;

const POLICY = /^policy\.(rules|mode|proposed)$/;

export class Runtime {
  /** The configuration that was read last. Its servers and agents are in effect, with the global keys for them. */
  private latest: Config;
  /** Authenticates callers that connect over the network. */
  readonly authenticator: Authenticator;
  readonly authentication: Authentication;
  /** Identifies browsers, if the built-in authorization server signs users in. */
  readonly browser: BrowserIdentity | undefined;
  readonly seal: Seal;
  /** Whether the process can keep up with its calls. */
  readonly overload: Overload;
  /** The HTTP client for every URL that a caller, a server or an agent supplies. */
  readonly safeHttp: SafeHttp;
  readonly audit: AuditTrail;
  /** Receives requests whose caller is unknown, or whose caller may not use the route. */
  readonly refusals: Refusals;
  /** Metrics, traces and live tail. */
  readonly telemetry: Telemetry;
  /** Evaluators of finished calls; routing reads their scores. */
  readonly evaluators: Evaluators;
  readonly plugins: Plugins;
  /** Sign-ins of users at servers and agents. */
  readonly upstreamLogins: UpstreamLoginRuntime;
  /** Stores choices among equivalent servers and agents. */
  readonly choices: StoredChoices | undefined;
  readonly mcp: McpRuntime;
  readonly a2a: A2aRuntime;
  /** The servers and agents as data, for adapters that list or change them. */
  readonly registry: UpstreamRegistry;

  private constructor(
    readonly config: Config,
    readonly info: Implementation,
    readonly state: State,
    readonly replica: Replica,
    readonly credentialServices: CredentialServices,
    verdicts: VerdictStore,
    log: Log,
    reporting: Reporting,
    identity: {
      readonly seal: Seal;
      readonly audit: AuditTrail;
      readonly refusals: AuditedRefusals;
      readonly builtin: BuiltinServer | undefined;
      readonly tracing: OtlpTracing | undefined;
      readonly plugins: Plugins;
    },
    private readonly lifecycle: Lifecycle,
  ) {
    this.latest = config;
    const { seal, builtin } = identity;
    this.plugins = identity.plugins;
    this.browser = builtin?.browser;
    this.authentication = new Authentication({ config, state, log, builtin });
    const { authentication } = this;
    this.authenticator = new HoldingAuthenticator(authentication.authenticator, credentialServices.requests);
    this.seal = seal;
    this.audit = identity.audit;
    this.refusals = identity.refusals;
    this.overload = new Overload({ ...config.limits.overload, log });
    this.safeHttp = safeHttpOf(config);
    const { authenticator, audit, overload, safeHttp } = this;
    const live = (): Config => this.live();
    this.upstreamLogins = new UpstreamLoginRuntime({
      config,
      live,
      state,
      seal,
      audit,
      safeHttp,
      parts: credentialServices,
      needsCode: (principal) => authenticator.enabled && builtin?.browser.knows(principal) !== true,
      cluster: replica.cluster,
      changed: (upstream, owner) => this.mcp.loginChanged(upstream, owner),
      log,
    });
    const { logins } = this.upstreamLogins;
    const credentials = credentialsOf(credentialServices, [logins.factory]);
    const explains = reporting.private === true || explainsFailures(config, authenticator.enabled);
    const storage = { state, replica, seal, audit };
    this.choices = choiceLogOf(config, state, log);
    const { choices } = this;
    const shared = {
      config,
      live,
      info,
      ...storage,
      authenticator,
      credentials,
      overload,
      logins,
      explains,
      choices,
      log,
    };
    const { admissions } = authentication;
    const { plugins } = this;
    const { tracing } = identity;
    this.evaluators = new Evaluators({ config, state, tracing, log });
    const { evaluators } = this;
    this.telemetry = new Telemetry(config, replica.cluster, tracing, reporting.private === true, evaluators);
    const { telemetry } = this;
    this.mcp = new McpRuntime({ ...shared, admissions, verdicts, reporting, safeHttp, telemetry, plugins });
    const quality = (agent: string): number | undefined => evaluators.scores.qualityOf(agent, agent)?.mean;
    this.a2a = new A2aRuntime({ ...shared, mcp: this.mcp, safeHttp, plugins, quality });
    const { mcp, a2a } = this;
    let assessment: RegistrationAssessment | undefined;
    this.registry = new RegistryService({
      servers: mcp.servers,
      agents: a2a.agents,
      fingerprint: fingerprintOf(state),
      tracing,
      examine: async (...registration) => {
        if (live().assess.onRegister === 'off') return;
        const { RegistrationAssessment } = await import('./registration-assessment.js');
        assessment ??= new RegistrationAssessment({ live, safeHttp, log });
        await assessment.check(...registration);
      },
    });
  }

  /** Builds and starts the parts of the gateway. They stop in reverse order. */
  static build(config: Config, info: Implementation, log: Log, reporting: Reporting = {}): Promise<Runtime> {
    const lifecycle = new Lifecycle(log);
    keepMemoryOutOfDumps(log);
    return lifecycle.start(async () => {
      const state = lifecycle.add('state', await openStorage(config, log), (part) => part.close());
      const replica = lifecycle.add('replica', await joinReplicas(config, state, log), (part) => part.leave());
      lifecycle.add('child processes', undefined, stopAllChildren);
      const parts = lifecycle.add('credentials', credentialServices(state, log), (part) => part.close());
      const verdicts = await rememberedVerdicts(state, log);
      const seal = new Seal(state.keyring, wallMs);
      const plugins = await Plugins.load({
        ...{ config, seal, cluster: replica.cluster, log },
        accountOf: (principal) => parts.requests.accountOf(principal),
      });
      lifecycle.add('plugins', plugins, (part) => part.close());
      const audit = auditTrailOf(config, state, log, plugins.auditing);
      const refusals = new AuditedRefusals(audit);
      // A program that starts the gateway over stdio needs no token.
      const oauth = { config, state, seal, audit, refusals, log };
      const builtin = reporting.private === true ? undefined : await startOAuthServer(oauth);
      const tracing = await tracingOf(config, log);
      const identity = { seal, audit, refusals, builtin, tracing, plugins };
      const runtime = new Runtime(config, info, state, replica, parts, verdicts, log, reporting, identity, lifecycle);
      const { mcp, a2a, overload } = runtime;
      lifecycle.add('authentication', runtime.authentication, (part) => part.close());
      lifecycle.add('telemetry', runtime.telemetry, (part) => part.close());
      lifecycle.add('evaluators', runtime.evaluators, (part) => part.close());
      await runtime.evaluators.start();
      overload.start();
      lifecycle.add('overload', overload, (part) => part.stop());
      lifecycle.add('recorded choices', runtime.choices, (part) => part?.flush());
      lifecycle.add('client for supplied URLs', runtime.safeHttp, (part) => part.close());
      lifecycle.add('sign-ins at upstreams', runtime.upstreamLogins, (part) => part.close());
      lifecycle.add('catalog', mcp.catalog, (part) => part.close());
      lifecycle.add('tasks', mcp.tasks, (part) => part.close());
      lifecycle.add('parked calls', mcp.parking, (part) => part.close());
      lifecycle.add('agents', a2a, (part) => part.close());
      lifecycle.add('server registrations', mcp.servers, (part) => part.close());
      lifecycle.add('pins', mcp.pinning, (part) => part.close());
      lifecycle.add('vectors of searches', mcp.vectors, (part) => part?.close());
      lifecycle.add('learned searches', mcp.learning, (part) => part.close());
      await mcp.pinning.start();
      await mcp.learning.start();
      await mcp.servers.start();
      if (config.a2a.enabled) await a2a.start();
      return runtime;
    });
  }

  /**
   * Applies the servers, agents and policy of a reloaded configuration. Unchanged servers and agents keep running.
   * Returns the other changed keys, which need a restart.
   */
  async reload(next: Config, by: AuditActor = OPERATOR): Promise<readonly string[]> {
    const keys = changedKeys(this.latest, next);
    const record = {
      ...by,
      action: 'configuration.reload',
      details: { keys: keys.slice(0, MOST_KEYS) },
    } as const;
    await this.audit.change(record, async () => {
      if (keys.some((key) => POLICY.test(key))) await this.reloadPolicy(next, by);
      this.latest = next;
      if (keys.some((key) => /^views(\.|$)/.test(key)))
        this.mcp.views.configure({ views: next.views, naming: this.config.naming });
      if (keys.some((key) => /^routing\./.test(key))) {
        this.mcp.exposure.configure(next.routing);
        await this.mcp.learning.configure(next.routing);
      }
      await this.mcp.servers.configure(next.servers);
      if (this.config.a2a.enabled) await this.a2a.agents.configure(next.agents);
    });
    return changedKeys(this.config, next).filter(needsRestart);
  }

  private async reloadPolicy({ policy }: Config, by: AuditActor): Promise<void> {
    const { rules, mode, proposed } = policy;
    const details = { mode, rules: rules.length, proposed: proposed.length };
    await this.audit.change({ ...by, action: 'policy.reload', details }, () => {
      this.mcp.policy.configure(policy);
      this.mcp.catalog.visibilityChanged();
    });
  }

  /** The configuration in effect: the configuration that was read last, with the servers and agents that run. */
  live(): Config {
    return { ...this.latest, servers: this.mcp.servers.all, agents: this.a2a.agents.all };
  }

  close(): Promise<void> {
    return this.lifecycle.stop();
  }
}

/** Without authentication only programs on this machine can call, and they count as operators. */
function explainsFailures({ explainFailures }: Config, authenticated: boolean): boolean {
  return explainFailures === 'auto' ? !authenticated : explainFailures === 'always';
}
