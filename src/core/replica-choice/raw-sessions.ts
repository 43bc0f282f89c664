import type { Caller } from '../caller.js';
import { RecentMap } from '../recent-map.js';
import type { RawRequest } from '../upstream.js';

const SESSION_HEADER = 'mcp-session-id';
const MOST_SESSIONS = 5_000;

/**
 * Remembers which replica opened each session of raw requests, so that later raw requests of the session go to that
 * replica.
 */
export class RawSessions {
  private readonly replicas = new RecentMap<string>(MOST_SESSIONS);

  /** The id of the replica that opened the session of a request. */
  replicaOf(caller: Caller, { headers }: RawRequest): string | undefined {
    const session = sessionIn(headers);
    return session === undefined ? undefined : this.replicas.get(keyOf(caller, session));
  }

  /** The same request. If its reply opens a session, the session is remembered for the replica. */
  noting(caller: Caller, request: RawRequest, replica: string): RawRequest {
    return {
      ...request,
      start: (status, headers, flow) => {
        const session = sessionIn(headers);
        if (session !== undefined) this.replicas.set(keyOf(caller, session), replica);
        request.start(status, headers, flow);
      },
      data: (chunk) => request.data(chunk),
    };
  }
}

/** Two callers may have sessions with the same id. */
const keyOf = (caller: Caller, session: string): string => `${caller.principal.key}\n${session}`;

/** The session in headers, which are flat pairs. */
function sessionIn(headers: readonly string[]): string | undefined {
  for (let index = 0; index + 1 < headers.length; index += 2)
    if (headers[index]!.toLowerCase() === SESSION_HEADER) return headers[index + 1]!.slice(0, 200);
  return undefined;
}
