import type { Config } from '../config/schema.js';
import { type Admission, sees } from '../core/admission.js';
import type { AuditTrail } from '../core/audit-trail.js';
import { CallSlots } from '../core/call-slots.js';
import type { Catalog } from '../core/catalog/catalog.js';
import { Resolver } from '../core/catalog/owner-resolver.js';
import { type Interceptor, Pipeline } from '../core/pipeline.js';
import type { PolicyAdmission } from '../identity/policy/policy-admission.js';
import type { Logins } from '../identity/upstream-login/login-flow.js';
import { admitting } from '../interceptors/admission.js';
import { approval } from '../interceptors/approval.js';
import { argumentValidation, type ValidationMode } from '../interceptors/argument-validation.js';
import { callAudit } from '../interceptors/audit.js';
import { type CallLog, callLog } from '../interceptors/call-log.js';
import { clientSpans, serverSpans } from '../interceptors/call-spans.js';
import { callLimits } from '../interceptors/concurrent-call-limits.js';
import { type CallObserver, observed } from '../interceptors/observed-calls.js';
import { pluginStep } from '../interceptors/plugins.js';
import { rateLimits } from '../interceptors/rate-limits.js';
import { accountsBy, upstreamLogin } from '../interceptors/upstream-login.js';
import { type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import type { Tracing } from '../telemetry/tracing/finished-span.js';
import { callAuditOf } from './audit-writer.js';
import { awayReport, rateLimitOf } from './configured-rate-limits.js';
import type { Replica } from './join-replicas.js';
import { usedApprovals } from './mcp-records.js';
import type { Overload } from './overload.js';
import type { Plugins } from './plugin-loader.js';

export interface PipelineOptions {
  readonly config: Config;
  readonly state: State;
  readonly catalog: Catalog;
  readonly admission: Admission;
  readonly policy: Pick<PolicyAdmission, 'approvalRule'>;
  readonly replica: Pick<Replica, 'replicas'>;
  readonly overload: Pick<Overload, 'refusal'>;
  /** How the arguments of calls to a server are checked. */
  readonly validationOf: (server: string) => ValidationMode;
  readonly log: Log;
  readonly audit: AuditTrail;
  /** Sign-ins of users at servers and agents. */
  readonly logins: Logins;
  /** Whether callers are identified. */
  readonly identified: boolean;
  /** Receives one line per call. */
  readonly calls: CallLog | undefined;
  /** Observers of every call besides the log: metrics, live tail. */
  readonly observers: readonly (CallObserver | undefined)[];
  /** Receives the spans of calls; undefined without traces. */
  readonly tracing: Tracing | undefined;
  readonly plugins: Pick<Plugins, 'all' | 'accountOf'>;
  /** Additional interceptors around every call. */
  readonly interceptors: readonly Interceptor[];
}

/** The interceptors of both protocols, in the order in which a call passes them. */
export function pipelineOf(options: PipelineOptions): Pipeline {
  const {
    config,
    state,
    catalog,
    admission,
    audit,
    policy,
    logins,
    replica,
    overload,
    log,
    identified,
    calls,
    interceptors: added,
    observers,
    tracing,
  } = options;
  const { callsPerCaller, callsPerSession: perSession, callsPerServer: perServer } = config.limits;
  const { callBytes: bytes, callBytesPerCaller: bytesPerCaller } = config.limits;
  // Without authentication all callers look the same and would share one limit, so there is no limit for each caller.
  const perCaller = identified ? callsPerCaller : undefined;
  // This step comes before admission, so that a flood of calls costs little. A target that the caller may not see is
  // not resolved, so no counter reveals that it exists.
  const limited = rateLimits({
    limits: config.limits.rates.map(rateLimitOf),
    counter: state.bus,
    now: wallMs,
    replicas: replica.replicas,
    overloaded: overload.refusal,
    away: awayReport(log),
  });
  // This step comes after admission, so that a refusal never names a server that the caller may not see.
  const limits = callLimits(new CallSlots({ perCaller, perSession, perServer, bytesPerCaller, bytes }));
  const approving = approval(
    { ...config.policy.approve, required: (context) => policy.approvalRule(context) },
    config.bridge.parkTtl,
    usedApprovals(state),
  );
  const isPersonal = (upstream: string): boolean => logins.get(upstream) !== undefined;
  const login = upstreamLogin({
    isPersonal,
    check: (caller, upstream) => logins.check(caller, upstream),
    arrival: (...waiting) => logins.arrival(...waiting),
  });
  // This step comes before approval, so that no person is asked about a call that cannot pass.
  const valid = argumentValidation({ modeOf: options.validationOf, log });
  // This step comes before the steps that refuse calls, so that refusals are recorded.
  const audited = callAudit(callAuditOf(config, state, audit, identified));
  const resolver = new Resolver(catalog);
  // This step comes after approval. If a plugin changes the parameters, they are validated again.
  const plugins = pluginStep({
    plugins: options.plugins.all,
    ownerOf: ({ call }, method, name) => resolver.named(call.view, name, method),
    accountOf: accountsBy({ isPersonal }, options.plugins.accountOf),
    sees: (caller, target) => sees(admission, caller, target),
    validate: valid,
  });
  const watched = observed([callLog(calls, catalog), ...observers]);
  return new Pipeline([
    ...[serverSpans(tracing), watched, audited, limited],
    ...added,
    ...[admitting(admission), limits, valid, approving, login],
    plugins,
    // This step is the last before the upstream, so that the span contains the time of the upstream only.
    clientSpans(tracing),
  ]);
}
