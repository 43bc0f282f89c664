import { ProtocolError } from '../protocol/errors.js';
import type { Release } from './count-and-byte-limit.js';

/** The most calls in flight at one time; undefined for no limit. */
export interface CallLimits {
  readonly perCaller: number | undefined;
  readonly perSession: number | undefined;
  readonly perServer: number | undefined;
}

/** The counters that a call counts against. */
export interface CallOwner {
  readonly caller: string | undefined;
  readonly session: string | undefined;
  /** The server or agent that receives the call. */
  readonly server: string | undefined;
}

/** Counts the calls in flight per caller, session and server, so that no caller takes the capacity of the others. */
export class CallSlots {
  private readonly callers: Counter;
  private readonly sessions: Counter;
  private readonly servers: Counter;

  constructor(limits: CallLimits) {
    this.callers = new Counter(limits.perCaller);
    this.sessions = new Counter(limits.perSession);
    this.servers = new Counter(limits.perServer);
  }

  /** Throws `overloaded` if no slot is free. Otherwise returns the function that releases the slot. */
  take({ caller, session, server }: CallOwner): Release {
    const ofCaller = this.callers.countOf(caller);
    const ofSession = this.sessions.countOf(session);
    const ofServer = this.servers.countOf(server);
    if (this.callers.full(ofCaller)) throw refusal('Too many of your calls are under way', this.callers);
    if (this.sessions.full(ofSession)) throw refusal('Too many calls of this session are under way', this.sessions);
    if (this.servers.full(ofServer))
      throw refusal(`Too many calls to "${server}" are under way`, this.servers, { server });
    if (ofCaller) ofCaller.calls++;
    if (ofSession) ofSession.calls++;
    if (ofServer) ofServer.calls++;
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      if (ofCaller) ofCaller.calls--;
      if (ofSession) ofSession.calls--;
      if (ofServer) ofServer.calls--;
    };
  }
}

interface Count {
  calls: number;
}

/** The number of counts after which those without calls are removed. */
const MANY = 1_000;

class Counter {
  private readonly counts = new Map<string, Count>();
  private removeAt = MANY;

  constructor(readonly limit: number | undefined) {}

  full(count: Count | undefined): boolean {
    return count !== undefined && count.calls >= this.limit!;
  }

  /** Undefined if nothing is limited. A count without calls stays for a while, because its owner usually calls again. */
  countOf(key: string | undefined): Count | undefined {
    if (key === undefined || this.limit === undefined) return undefined;
    const known = this.counts.get(key);
    if (known) return known;
    if (this.counts.size >= this.removeAt) this.removeIdle();
    const count = { calls: 0 };
    this.counts.set(key, count);
    return count;
  }

  private removeIdle(): void {
    for (const [key, { calls }] of this.counts) if (calls === 0) this.counts.delete(key);
    this.removeAt = Math.max(MANY, 2 * this.counts.size);
  }
}

const refusal = (what: string, { limit }: Counter, data: object = {}): ProtocolError =>
  new ProtocolError('overloaded', `${what} (at most ${limit}); wait for some to end, or cancel them`, {
    outcome: 'not_executed',
    data: { limit, ...data },
    headers: { 'Retry-After': '1' },
  });
