import { ProtocolError } from '../protocol/errors.js';
import type { SubscriptionFilter } from '../protocol/mcp/model.js';
import { type Caller, GATEWAY } from './caller.js';
import { Quota, type Release } from './count-and-byte-limit.js';

export interface SubscriptionLimits {
  /** The most resources and tasks of one subscription. */
  readonly entries: number;
  /** The most open subscriptions of a caller. */
  readonly perCaller: number;
  /** The most resources and tasks in all subscriptions of a caller. */
  readonly entriesPerCaller: number;
}

const LIMITS: SubscriptionLimits = { entries: 1_000, perCaller: 5_000, entriesPerCaller: 5_000 };

/** Counts open subscriptions and what they name, because each resource costs a request to its server, and memory. */
export class SubscriptionSlots {
  private readonly callers = new Map<string, Quota>();

  constructor(private readonly limits: SubscriptionLimits = LIMITS) {}

  /** Throws if the caller has too many. Otherwise returns the function that releases the subscription. */
  take({ principal }: Caller, { resourceSubscriptions = [], taskIds = [] }: SubscriptionFilter): Release {
    const { entries, perCaller, entriesPerCaller } = this.limits;
    const named = resourceSubscriptions.length + taskIds.length;
    if (named > entries)
      throw new ProtocolError('invalid_params', `A subscription names at most ${entries} resources and tasks`, {
        outcome: 'not_executed',
      });
    // The gateway's own subscriptions serve the sessions of all callers.
    if (principal === GATEWAY.principal) return () => {};
    const quota = this.callers.get(principal.key) ?? new Quota({ count: perCaller, bytes: entriesPerCaller });
    const release = quota.take(named);
    if (!release)
      throw new ProtocolError('rate_limited', 'Too many subscriptions of this caller are open; close some first', {
        outcome: 'not_executed',
        headers: { 'Retry-After': '1' },
      });
    this.callers.set(principal.key, quota);
    return () => {
      release();
      if (quota.used === 0 && this.callers.get(principal.key) === quota) this.callers.delete(principal.key);
    };
  }
}
