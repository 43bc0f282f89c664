import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import { type Glob, globOf } from './catalog/glob.js';
import { ALONE, type Cluster } from './cluster.js';

/** The log line of one call. */
export type TailLine = Readonly<Record<string, unknown>>;

/** Conditions on lines. Names are patterns in which `*` matches any characters. */
export interface TailFilter {
  /** A server or an agent. */
  readonly server?: string | undefined;
  readonly tool?: string | undefined;
  readonly caller?: string | undefined;
  readonly outcome?: string | undefined;
  /** The only caller whose calls the follower may see; undefined for an administrator, who sees all. */
  readonly only?: string | undefined;
  /** The beginning of the keys of all callers of a tenant, for an administrator of that tenant only. */
  readonly tenant?: string | undefined;
  /** Whether the follower may know of a server or an agent. */
  readonly reaches?: ((upstream: string) => boolean) | undefined;
}

export interface TailReader {
  /** Takes a line, and the number of lines missed before it; returns false if there is no room. */
  take(line: TailLine, missed: number): boolean;
}

interface Following {
  readonly reader: TailReader;
  readonly matches: (line: TailLine) => boolean;
  /** Whether the follower may know of the calls of this caller, and of their number. */
  readonly knows: (caller: string) => boolean;
  missed: number;
}

/** The lines of another replica, and the numbers of lines that it dropped, by caller. */
interface Told {
  readonly from: string;
  readonly lines: readonly TailLine[];
  readonly missed: number | readonly (readonly [caller: string, count: number])[];
}

/**
 * The key for the dropped lines of callers that are not counted separately. No caller has this key, so only
 * administrators learn of these lines.
 */
const OTHERS = '';
const WANTED = 'tail.wanted';
const LINES = 'tail.lines';
/**
 * How long a replica sends its lines after another replica asked for them, and how often a replica with followers asks
 * again, both in milliseconds.
 */
const WANTED_FOR = 30_000;
const ASK_EVERY = 10_000;
/** Lines are collected for this long before they go to other replicas. */
const COLLECT = 200;
/** The most lines that are collected; the rest is dropped and counted. */
const MOST_COLLECTED = 500;
/** The most followers of one process, and the most followers of one caller. */
const MOST_FOLLOWERS = 100;

/** Passes the log lines of calls on all replicas to followers. A slow follower misses lines and delays nothing. */
export class LiveTail {
  private readonly followings = new Set<Following>();
  private wantedUntil = Number.NEGATIVE_INFINITY;
  private collected: TailLine[] = [];
  /** The number of dropped lines by caller. */
  private overflow = new Map<string, number>();
  private sending: NodeJS.Timeout | undefined;
  private asking: NodeJS.Timeout | undefined;
  private readonly forget: readonly (() => void)[];
  /** All lines that followers missed. */
  droppedInAll = 0;

  constructor(private readonly cluster: Cluster = ALONE) {
    this.forget = [
      cluster.onTold(WANTED, () => {
        this.wantedUntil = performance.now() + WANTED_FOR;
      }),
      cluster.onTold(LINES, (payload) => this.told(payload)),
    ];
  }

  get size(): number {
    return this.followings.size;
  }

  /** Whether there is a follower. Without one, calls cost nothing extra. */
  active(): boolean {
    return this.followings.size > 0 || performance.now() < this.wantedUntil;
  }

  /** Returns the function that removes the follower, or undefined if there are too many followers. */
  follow(filter: TailFilter, reader: TailReader): (() => void) | undefined {
    if (this.followings.size >= MOST_FOLLOWERS) return undefined;
    const { only, tenant = '' } = filter;
    const knows = (caller: string): boolean => (only === undefined || caller === only) && caller.startsWith(tenant);
    const following: Following = { reader, matches: matcherOf(filter), knows, missed: 0 };
    this.followings.add(following);
    if (this.followings.size === 1) this.ask();
    return () => {
      if (!this.followings.delete(following) || this.followings.size > 0) return;
      clearInterval(this.asking);
      this.asking = undefined;
      this.cluster.unfollow(LINES);
    };
  }

  /** Takes the line of a call of this process. */
  publish(line: TailLine): void {
    this.deliver(line);
    if (performance.now() >= this.wantedUntil) return;
    if (this.collected.length < MOST_COLLECTED) this.collected.push(line);
    else this.drop(String(line['caller']));
    this.sending ??= setTimeout(() => this.send(), COLLECT).unref();
  }

  close(): void {
    clearInterval(this.asking);
    clearTimeout(this.sending);
    for (const forget of this.forget) forget();
    this.followings.clear();
  }

  private deliver(line: TailLine): void {
    for (const following of this.followings) {
      const { reader, matches } = following;
      if (!matches(line)) continue;
      if (reader.take(line, following.missed)) following.missed = 0;
      else this.missed(following, 1);
    }
  }

  private drop(caller: string): void {
    const { overflow } = this;
    const counted = overflow.size < MOST_COLLECTED || overflow.has(caller) ? caller : OTHERS;
    overflow.set(counted, (overflow.get(counted) ?? 0) + 1);
  }

  private missed(following: Following, count: number): void {
    following.missed += count;
    this.droppedInAll += count;
  }

  private ask(): void {
    const { cluster } = this;
    if (cluster === ALONE) return;
    const tell = (): void => void cluster.tell(WANTED, { from: cluster.self }).catch(() => {});
    void cluster.follow(LINES).catch(() => {});
    tell();
    this.asking = setInterval(tell, ASK_EVERY).unref();
  }

  private send(): void {
    this.sending = undefined;
    const payload = { from: this.cluster.self, lines: this.collected, missed: [...this.overflow] };
    this.collected = [];
    this.overflow = new Map();
    this.cluster.tell(LINES, payload as unknown as JsonValue, LINES).catch(() => {
      // The bus is unavailable: followers on other replicas miss these lines.
    });
  }

  private told(payload: JsonValue): void {
    const { from, lines, missed } = payload as unknown as Told;
    for (const line of lines) this.deliver({ ...line, replica: from });
    // A replica of an older version sends one number for all callers.
    for (const [caller, count] of typeof missed === 'number' ? [[OTHERS, missed] as const] : missed)
      for (const following of this.followings) if (following.knows(caller)) this.missed(following, count);
  }
}

/** Returns the function that tests whether a line matches the filter. */
export function matcherOf({
  server,
  tool,
  caller,
  outcome,
  only,
  tenant,
  reaches,
}: TailFilter): (line: TailLine) => boolean {
  const conditions: ((line: TailLine) => boolean)[] = [];
  const add = (pattern: string | undefined, read: (line: TailLine) => unknown): void => {
    if (pattern === undefined) return;
    const glob: Glob = globOf(pattern);
    conditions.push((line) => {
      const value = read(line);
      return typeof value === 'string' && glob.test(value);
    });
  };
  if (only !== undefined) conditions.push((line) => line['caller'] === only);
  if (tenant !== undefined) conditions.push((line) => String(line['caller']).startsWith(tenant));
  if (reaches)
    conditions.push((line) => {
      const upstream = line['server'] ?? line['agent'];
      return typeof upstream !== 'string' || reaches(upstream);
    });
  add(server, (line) => line['server'] ?? line['agent']);
  add(tool, (line) => line['tool']);
  add(caller, (line) => line['caller']);
  add(outcome, (line) => line['outcome']);
  return (line) => conditions.every((holds) => holds(line));
}
