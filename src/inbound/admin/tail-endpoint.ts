import { isAdmin, type Principal } from '../../core/caller.js';
import type { LiveTail, TailLine } from '../../core/live-tail.js';
import { ProtocolError } from '../../protocol/errors.js';
import { writeEvent } from '../../protocol/sse/writer.js';
import { EventResponse, STREAM_AGE } from '../http/event-stream-response.js';
import type { ErrorFormat, Query, RequestContext, Route } from '../http/route.js';

const PATH = '/api/v1/tail';
export const TAIL_FILTERS: readonly string[] = ['server', 'tool', 'caller', 'outcome'];
const MOST_PATTERN = 200;
/** Limit on the bytes that wait for a slow follower. Beyond the limit, lines are dropped and counted. */
const MOST_WAITING = 256 * 1024;
/** Limit on the streams of one caller. */
const MOST_PER_CALLER = 10;

/**
 * Serves the lines of calls as they end. An administrator sees all calls, or all calls of its tenant. Any other caller
 * sees its own calls.
 */
export class TailEndpoint {
  private readonly open = new Map<string, number>();
  private readonly streams = new Set<EventResponse>();

  constructor(
    private readonly tail: LiveTail,
    /** Whether the credential of a caller is for this server or agent. */
    private readonly reaches: (principal: Principal, upstream: string) => boolean,
  ) {}

  routes(errors: ErrorFormat): Route[] {
    const description = 'The calls of the gateway as they end, as an event stream';
    return [
      { method: 'GET', path: PATH, access: 'user', errors, description, handle: (context) => this.follow(context) },
    ];
  }

  /** Ends all streams, because the gateway stops. */
  endStreams(): void {
    for (const stream of this.streams) stream.end();
  }

  private follow({ req, res, headers, query, principal }: RequestContext): void {
    const filter = filterOf(query, TAIL_FILTERS);
    const { key } = principal;
    const count = this.open.get(key) ?? 0;
    if (count >= MOST_PER_CALLER) throw tooMany(`at most ${MOST_PER_CALLER} per caller`);
    let stream: EventResponse | undefined;
    const unfollow = this.tail.follow(
      {
        ...filter,
        reaches: (upstream) => this.reaches(principal, upstream),
        // A caller with a restricted credential sees only its own calls, even if it is an administrator, because lines
        // of other callers name servers and tools outside of the credential.
        ...((!isAdmin(principal) || principal.restriction !== undefined) && { only: key }),
        ...(principal.tenant !== undefined && { tenant: key.slice(0, key.indexOf('#') + 1) }),
      },
      {
        take: (line: TailLine, missed) => {
          if (!stream || res.unread > MOST_WAITING) return false;
          if (missed > 0) stream.write(event('dropped', { lines: missed }));
          stream.write(event('call', { time: new Date().toISOString(), ...line }));
          return true;
        },
      },
    );
    if (!unfollow) throw tooMany('of all callers');
    this.open.set(key, count + 1);
    req.listens = true;
    stream = new EventResponse(res, headers, { maxAge: STREAM_AGE });
    const opened = stream;
    this.streams.add(opened);
    opened.write(event('following', filter));
    res.onClose(() => {
      unfollow();
      this.streams.delete(opened);
      const left = (this.open.get(key) ?? 1) - 1;
      if (left > 0) this.open.set(key, left);
      else this.open.delete(key);
    });
  }
}

const event = (name: string, data: object): Buffer[] =>
  writeEvent([Buffer.from(JSON.stringify(data))], { event: name });

const tooMany = (which: string): ProtocolError =>
  new ProtocolError('rate_limited', `Too many followers of the live tail are open (${which}); close some first`, {
    headers: { 'Retry-After': '10' },
  });

/** The parameters of a request, each of which must be known. */
export function filterOf(query: Query, known: readonly string[]): Record<string, string> {
  const filter: Record<string, string> = {};
  for (const [name, value] of query) {
    if (!known.includes(name))
      throw new ProtocolError('invalid_params', `Unknown filter "${name.slice(0, 50)}"; use ${known.join(', ')}`);
    if (value.length > MOST_PATTERN)
      throw new ProtocolError('invalid_params', `The filter "${name}" is longer than ${MOST_PATTERN} characters`);
    if (value !== '') filter[name] = value;
  }
  return filter;
}
