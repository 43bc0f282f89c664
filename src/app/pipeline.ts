import type { Config } from '../config/schema.js';
import type { Admission } from '../core/admission.js';
import { CallSlots } from '../core/call-slots.js';
import type { Catalog } from '../core/catalog/catalog.js';
import { type Interceptor, Pipeline } from '../core/pipeline.js';
import { admitting } from '../interceptors/admission.js';
import { approval } from '../interceptors/approval.js';
import { callLimits } from '../interceptors/call-limits.js';
import { type CallLog, callLog } from '../interceptors/call-log.js';
import type { State } from '../state/index.js';
import { usedApprovals } from './mcp-records.js';

export interface PipelineOptions {
  readonly config: Config;
  readonly state: State;
  readonly catalog: Catalog;
  readonly admission: Admission;
  /** Whether callers are told apart. */
  readonly identified: boolean;
  /** Takes a line for each call. */
  readonly calls: CallLog | undefined;
  /** Steps around every call, beside those of the gateway. */
  readonly interceptors: readonly Interceptor[];
}

/** The interceptors in the order in which every call of both protocols passes them. */
export function pipelineOf(options: PipelineOptions): Pipeline {
  const { config, state, catalog, admission, identified, calls, interceptors: added } = options;
  const { callsPerCaller, callsPerSession: perSession, callsPerServer: perServer } = config.limits;
  // Without authentication nobody is told apart, and everybody would share one limit.
  const perCaller = identified ? callsPerCaller : undefined;
  // Behind admission: a refusal names no server that its caller may not know of.
  const limits = callLimits(new CallSlots({ perCaller, perSession, perServer }));
  const approving = approval(config.policy.approve, config.bridge.parkTtl, usedApprovals(state));
  return new Pipeline([callLog(calls, catalog), ...added, admitting(admission), limits, approving]);
}
