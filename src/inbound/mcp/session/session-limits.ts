import { ProtocolError } from '../../../protocol/errors.js';

export interface SessionLimits {
  /** Sessions of one caller; undefined where callers are not told apart. */
  readonly perCaller: number | undefined;
  readonly inAll: number;
}

/** What is asked of a session that may have to give way. */
export interface Evictable {
  readonly principal: string;
  readonly lastUsed: number;
  /** A call is under way, or the client holds a connection open. */
  readonly inUse: boolean;
}

/**
 * The session that gives way to a new one of `principal`: the one that was idle for longest, of the caller's own where the
 * caller has too many, else of all. Undefined while there is room; throws where every candidate is in use.
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
