import type { Config } from '../config/schema.js';
import type { Admission } from '../core/admission.js';
import type { Catalog } from '../core/catalog/catalog.js';
import { CallSlots } from '../core/concurrent-calls.js';
import { type Interceptor, Pipeline } from '../core/pipeline.js';
import { admitting } from '../interceptors/admission.js';
import { approval } from '../interceptors/approval.js';
import { type CallLog, callLog } from '../interceptors/call-log.js';
import { callLimits } from '../interceptors/concurrent-calls.js';
import type { State } from '../state/index.js';
import { usedApprovals } from './mcp-records.js';

export interface PipelineOptions {
  readonly config: Config;
  readonly state: State;
  readonly catalog: Catalog;
  readonly admission: Admission;
  /** Whether callers are identified. */
  readonly identified: boolean;
  /** Receives one line per call. */
  readonly calls: CallLog | undefined;
  /** Additional interceptors around every call. */
  readonly interceptors: readonly Interceptor[];
}

/** The interceptors of both protocols, in the order in which a call passes them. */
export function pipelineOf(options: PipelineOptions): Pipeline {
  const { config, state, catalog, admission, identified, calls, interceptors: added } = options;
  const { callsPerCaller, callsPerSession: perSession, callsPerServer: perServer } = config.limits;
  // Without authentication all callers look the same and would share one limit.
  const perCaller = identified ? callsPerCaller : undefined;
  // After admission, so that a refusal never names a server that the caller may not see.
  const limits = callLimits(new CallSlots({ perCaller, perSession, perServer }));
  const approving = approval(config.policy.approve, config.bridge.parkTtl, usedApprovals(state));
  return new Pipeline([callLog(calls, catalog), ...added, admitting(admission), limits, approving]);
}
