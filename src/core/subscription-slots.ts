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
  /** The most characters in the names of these resources and tasks. */
  readonly charactersPerCaller: number;
}

const LIMITS: SubscriptionLimits = {
  entries: 1_000,
  perCaller: 5_000,
  entriesPerCaller: 5_000,
  charactersPerCaller: 1024 * 1024,
};

/** The open subscriptions of one caller. */
interface Held {
  /** Counts the subscriptions. Its bytes are the number of names in them. */
  readonly subscriptions: Quota;
  readonly characters: Quota;
}

/** Limits open subscriptions and the names in them, because each resource costs memory and a request to its server. */
export class SubscriptionSlots {
  private readonly callers = new Map<string, Held>();

  constructor(private readonly limits: SubscriptionLimits = LIMITS) {}

  /** Throws if the caller has too many. Otherwise returns the function that releases the subscription. */
  take({ principal }: Caller, { resourceSubscriptions = [], taskIds = [] }: SubscriptionFilter): Release {
    const { entries, perCaller, entriesPerCaller, charactersPerCaller } = this.limits;
    const names = [...resourceSubscriptions, ...taskIds];
    if (names.length > entries)
      throw new ProtocolError('invalid_params', `A subscription names at most ${entries} resources and tasks`, {
        outcome: 'not_executed',
      });
    // The gateway's own subscriptions serve the sessions of all callers.
    if (principal === GATEWAY.principal) return () => {};
    const held = this.callers.get(principal.key) ?? {
      subscriptions: new Quota({ count: perCaller, bytes: entriesPerCaller }),
      characters: new Quota({ count: Number.POSITIVE_INFINITY, bytes: charactersPerCaller }),
    };
    const { subscriptions, characters } = held;
    const releaseNames = characters.take(names.reduce((sum, { length }) => sum + length, 0));
    if (!releaseNames) throw tooMany('The names in the open subscriptions of this caller are too long in all');
    const release = subscriptions.take(names.length);
    if (!release) {
      releaseNames();
      throw tooMany('Too many subscriptions of this caller are open');
    }
    this.callers.set(principal.key, held);
    return () => {
      release();
      releaseNames();
      if (subscriptions.used === 0 && this.callers.get(principal.key) === held) this.callers.delete(principal.key);
    };
  }
}

const tooMany = (what: string): ProtocolError =>
  new ProtocolError('rate_limited', `${what}; close some first`, {
    outcome: 'not_executed',
    headers: { 'Retry-After': '1' },
  });
