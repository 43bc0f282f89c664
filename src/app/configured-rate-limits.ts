import type { Config } from '../config/schema.js';
import type { CallContext } from '../core/call.js';
import { Condition } from '../identity/policy/condition.js';
import { Failure } from '../identity/policy/failure.js';
import { Facts, questionOf } from '../identity/policy/policy-question.js';
import type { RateLimit } from '../interceptors/rate-limits.js';
import type { Log } from '../telemetry/log.js';

type WrittenLimit = Config['limits']['rates'][number];

/** A limit of the configuration. A condition that fails counts as true. */
export function rateLimitOf({ when, ...limit }: WrittenLimit): RateLimit {
  if (when === undefined) return limit;
  const condition = Condition.parse(when);
  const applies = (context: CallContext): boolean => {
    const { target } = context;
    const value = condition.evaluate(new Facts(questionOf(context, target)));
    return value === true || value instanceof Failure;
  };
  return { ...limit, applies };
}

/** Time between two log lines about an unavailable counter, in milliseconds. */
const REPORT_EVERY = 60_000;

/** Logs that the shared counter is unavailable, at most once a minute. */
export function awayReport(log: Log): (error: unknown) => void {
  let last = Number.NEGATIVE_INFINITY;
  return (error) => {
    const now = performance.now();
    if (now - last < REPORT_EVERY) return;
    last = now;
    log.warn({ err: error }, 'the shared rate counter is unavailable: this replica counts alone');
  };
}
