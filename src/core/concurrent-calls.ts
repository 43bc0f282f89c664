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
    if (this.callers.full(caller)) throw refusal('Too many of your calls are under way', this.callers);
    if (this.sessions.full(session)) throw refusal('Too many calls of this session are under way', this.sessions);
    if (this.servers.full(server))
      throw refusal(`Too many calls to "${server}" are under way`, this.servers, { server });
    this.callers.add(caller);
    this.sessions.add(session);
    this.servers.add(server);
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      this.callers.remove(caller);
      this.sessions.remove(session);
      this.servers.remove(server);
    };
  }
}

class Counter {
  private readonly counts = new Map<string, number>();

  constructor(readonly limit: number | undefined) {}

  full(key: string | undefined): boolean {
    return key !== undefined && this.limit !== undefined && (this.counts.get(key) ?? 0) >= this.limit;
  }

  add(key: string | undefined): void {
    if (key !== undefined && this.limit !== undefined) this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
  }

  remove(key: string | undefined): void {
    if (key === undefined || this.limit === undefined) return;
    const left = (this.counts.get(key) ?? 0) - 1;
    if (left > 0) this.counts.set(key, left);
    else this.counts.delete(key);
  }
}

const refusal = (what: string, { limit }: Counter, data: object = {}): ProtocolError =>
  new ProtocolError('overloaded', `${what} (at most ${limit}); wait for some to end, or cancel them`, {
    outcome: 'not_executed',
    data: { limit, ...data },
    headers: { 'Retry-After': '1' },
  });
