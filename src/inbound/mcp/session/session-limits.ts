import { ProtocolError } from '../../../protocol/errors.js';

export interface SessionLimits {
  /** The maximum number of sessions per caller; undefined if callers are not identified. */
  readonly perCaller: number | undefined;
  readonly inAll: number;
}

/** A session that may be evicted. */
export interface Evictable {
  readonly principal: string;
  readonly lastUsed: number;
  /** Whether a call is running, or the client has an open connection. */
  readonly inUse: boolean;
}

/**
 * The session to evict for a new session of `principal`. If the caller has too many sessions, this is the longest idle
 * session of the caller, otherwise the longest idle session of all. Undefined below the limits. Throws if every
 * candidate is in use.
 */
export function sessionToEvict<S extends Evictable>(
  sessions: Iterable<S>,
  principal: string,
  { perCaller, inAll }: SessionLimits,
): S | undefined {
  let own = 0;
  let total = 0;
  let oldest: S | undefined;
  let oldestOwn: S | undefined;
  for (const session of sessions) {
    total++;
    const isOwn = session.principal === principal;
    if (isOwn) own++;
    if (session.inUse) continue;
    if (!oldest || session.lastUsed < oldest.lastUsed) oldest = session;
    if (isOwn && (!oldestOwn || session.lastUsed < oldestOwn.lastUsed)) oldestOwn = session;
  }
  if (perCaller !== undefined && own >= perCaller) return oldestOwn ?? full(`this caller has ${own} sessions in use`);
  if (total >= inAll) return oldest ?? full(`all ${total} sessions of the gateway are in use`);
  return undefined;
}

function full(why: string): never {
  throw new ProtocolError('rate_limited', `No session can be opened: ${why}; end one or try again later`, {
    outcome: 'not_executed',
    headers: { 'Retry-After': '10' },
  });
}
