import { ProtocolError } from '../protocol/errors.js';
import type { Release } from './count-and-byte-limit.js';

/** The most calls in flight at one time; undefined for no limit. */
export interface CallLimits {
  readonly perCaller: number | undefined;
  readonly perSession: number | undefined;
  readonly perServer: number | undefined;
  /** The most bytes of the requests in flight of one caller; applies with `perCaller`. */
  readonly bytesPerCaller: number;
  /** The most bytes of the requests in flight of all callers. */
  readonly bytes: number;
}

/** The caller, the session and the server whose limits apply to a call. */
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
  /** The bytes of all requests in flight. */
  private bytes = 0;

  constructor(private readonly limits: CallLimits) {
    this.callers = new Counter(limits.perCaller);
    this.sessions = new Counter(limits.perSession);
    this.servers = new Counter(limits.perServer);
  }

  /**
   * Throws `overloaded` if no slot is free. Otherwise returns the function that releases the slot. `bytes` is the size
   * of the request, which stays in memory until the call is answered.
   */
  take({ caller, session, server }: CallOwner, bytes = 0): Release {
    const ofCaller = this.callers.countOf(caller);
    const ofSession = this.sessions.countOf(session);
    const ofServer = this.servers.countOf(server);
    if (this.callers.full(ofCaller)) throw refusal('Too many of your calls are under way', this.callers);
    if (this.sessions.full(ofSession)) throw refusal('Too many calls of this session are under way', this.sessions);
    if (this.servers.full(ofServer))
      throw refusal(`Too many calls to "${server}" are under way`, this.servers, { server });
    const { bytesPerCaller } = this.limits;
    // A single request may have any size that the gateway accepts.
    if (ofCaller && ofCaller.bytes > 0 && ofCaller.bytes + bytes > bytesPerCaller)
      throw tooMuch('The requests of your calls under way', bytesPerCaller);
    if (this.bytes > 0 && this.bytes + bytes > this.limits.bytes)
      throw tooMuch('The requests of all calls under way', this.limits.bytes);
    this.bytes += bytes;
    if (ofCaller) {
      ofCaller.calls++;
      ofCaller.bytes += bytes;
    }
    if (ofSession) ofSession.calls++;
    if (ofServer) ofServer.calls++;
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      this.bytes -= bytes;
      if (ofCaller) {
        ofCaller.calls--;
        ofCaller.bytes -= bytes;
      }
      if (ofSession) ofSession.calls--;
      if (ofServer) ofServer.calls--;
    };
  }
}

interface Count {
  calls: number;
  /** The bytes of the requests of these calls. */
  bytes: number;
}

/** Counts without calls are removed once the number of counts reaches this limit. */
const MANY = 1_000;

class Counter {
  private readonly counts = new Map<string, Count>();
  private removeAt = MANY;

  constructor(readonly limit: number | undefined) {}

  full(count: Count | undefined): boolean {
    return count !== undefined && count.calls >= this.limit!;
  }

  /**
   * Undefined if nothing is limited. A count without calls stays for a while, because its owner usually calls again.
   */
  countOf(key: string | undefined): Count | undefined {
    if (key === undefined || this.limit === undefined) return undefined;
    const known = this.counts.get(key);
    if (known) return known;
    if (this.counts.size >= this.removeAt) this.removeIdle();
    const count = { calls: 0, bytes: 0 };
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

const tooMuch = (what: string, limit: number): ProtocolError =>
  new ProtocolError('overloaded', `${what} hold too much data (at most ${limit} bytes); wait for some to end`, {
    outcome: 'not_executed',
    data: { limit },
    headers: { 'Retry-After': '1' },
  });
