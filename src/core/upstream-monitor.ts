import type { ReplicaHealth, UpstreamStatus } from './upstream.js';

/** One configured server or agent. The monitor calls both methods often; neither uses the network. */
export interface Monitored {
  readonly kind: 'server' | 'agent';
  readonly name: string;
  /**
   * The server or agent itself. After a change of its settings this is another object, whose state is not known yet.
   */
  readonly upstream: object;
  health(): {
    readonly status: UpstreamStatus;
    readonly detail?: string;
    readonly cause?: string;
    readonly warning?: string;
    readonly replicas?: readonly ReplicaHealth[];
  };
  /**
   * The tools of a server or the skills of an agent: whether the list is known, its length, or why it cannot be read.
   */
  offer(): Offer;
}

export interface Offer {
  readonly known: boolean;
  readonly count?: number;
  readonly problem?: string;
}

export type MonitorState = 'starting' | 'up' | 'down';

export interface UpstreamState {
  readonly kind: Monitored['kind'];
  readonly name: string;
  readonly state: MonitorState;
  /** The time of the change to this state, in milliseconds since 1970. */
  readonly since: number;
  /** The number of tools of a server, or of skills of an agent. */
  readonly count?: number;
  /** The time from the start to the first answer or the first failure, in milliseconds. */
  readonly took?: number;
  /** The problem, in a text that callers may read. */
  readonly problem?: string;
  /** The problem, in a text for operators only; present while the upstream is down. */
  readonly cause?: string;
  /** The equivalent servers behind this one, for operators only. */
  readonly replicas?: readonly ReplicaHealth[];
  /** Violations of the protocol in sampled calls; absent without samples. */
  readonly violations?: UpstreamViolations;
}

export interface UpstreamViolations {
  /** The number of calls that were examined. */
  readonly sampled: number;
  /** The number of violations by kind. */
  readonly kinds: Readonly<Record<string, number>>;
}

export interface StateChange extends UpstreamState {
  readonly before: MonitorState;
  /** The duration of the previous state, in milliseconds. */
  readonly lasted: number;
  /**
   * The time since the upstream was configured, in milliseconds. For the first change to `up` this is the start time.
   */
  readonly age: number;
  /** Whether the upstream was up at an earlier time. */
  readonly recovered: boolean;
}

export interface UpstreamMonitorOptions {
  /** All configured servers and agents. */
  readonly upstreams: () => readonly Monitored[];
  /** The start time of the upstreams that exist at the first sample; by default the time of construction. */
  readonly began?: number;
  /** A monotonic clock for durations, in milliseconds. */
  readonly now?: () => number;
  /** The time of day, in milliseconds since 1970. */
  readonly wall?: () => number;
}

/** Sampling intervals: short while an upstream starts, then long enough to cost nothing. */
const STARTING_INTERVAL = 50;
const INTERVAL = 500;
/** An upstream that is still starting after this time no longer causes the short interval. */
const STARTING_LIMIT = 30_000;

interface Entry {
  readonly upstream: object;
  state: UpstreamState;
  since: number;
  readonly first: number;
  readonly everUp: boolean;
}

/**
 * Reports which servers and agents are up, and every change. It samples their health instead of listening for events,
 * so an upstream that fails and recovers many times a second causes at most two reports a second.
 */
export class UpstreamMonitor {
  private entries = new Map<string, Entry>();
  private readonly listeners = new Set<(change: StateChange) => void>();
  private readonly waiting = new Set<() => void>();
  private readonly now: () => number;
  private readonly wall: () => number;
  private readonly began: number;
  private timer: NodeJS.Timeout | undefined;
  private looked = false;
  private closed = false;

  constructor(private readonly options: UpstreamMonitorOptions) {
    this.now = options.now ?? (() => performance.now());
    this.wall = options.wall ?? Date.now;
    this.began = options.began ?? this.now();
  }

  start(): void {
    if (this.closed) return;
    this.sample();
    const wait = this.hurried ? STARTING_INTERVAL : INTERVAL;
    this.timer = setTimeout(() => this.start(), wait).unref();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    for (const done of this.waiting) done();
    this.listeners.clear();
  }

  states(): readonly UpstreamState[] {
    return [...this.entries.values()].map(({ state }) => state);
  }

  onChange(listener: (change: StateChange) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Resolves when no upstream is starting any more, or after the given milliseconds. */
  settled(milliseconds: number): Promise<void> {
    this.sample();
    if (!this.startsSomething) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      this.waiting.add(done);
    });
  }

  /** Compares every state with the previous one. The timer calls this method. */
  sample(): void {
    const now = this.now();
    const entries = new Map<string, Entry>();
    const changes: StateChange[] = [];
    for (const upstream of this.options.upstreams()) entries.set(keyOf(upstream), this.look(upstream, now, changes));
    this.entries = entries;
    this.looked = true;
    this.report(changes);
  }

  /** The state of one upstream now. Does not look at the others. */
  stateOf(upstream: Monitored): UpstreamState {
    const changes: StateChange[] = [];
    const entry = this.look(upstream, this.now(), changes);
    this.entries.set(keyOf(upstream), entry);
    if (changes.length > 0) this.report(changes);
    return entry.state;
  }

  private look(upstream: Monitored, now: number, changes: StateChange[]): Entry {
    const known = this.entries.get(keyOf(upstream));
    const before = known?.upstream === upstream.upstream ? known : undefined;
    const first = before?.first ?? (this.looked ? now : this.began);
    const found = stateOf(upstream, before?.state, now - first);
    const changed = found.state !== (before?.state.state ?? 'starting');
    const state = { ...found, since: changed || !before ? this.wall() : before.state.since };
    const recovered = before?.everUp ?? false;
    if (changed) {
      const lasted = now - (before?.since ?? first);
      changes.push({ ...state, before: before?.state.state ?? 'starting', lasted, age: now - first, recovered });
    }
    return {
      ...{ upstream: upstream.upstream, state, first, everUp: recovered || state.state === 'up' },
      since: changed ? now : (before?.since ?? first),
    };
  }

  private report(changes: readonly StateChange[]): void {
    for (const change of changes) for (const listener of [...this.listeners]) listener(change);
    if (!this.startsSomething) for (const done of [...this.waiting]) done();
  }

  private get startsSomething(): boolean {
    for (const { state } of this.entries.values()) if (state.state === 'starting') return true;
    return false;
  }

  private get hurried(): boolean {
    return this.startsSomething && this.now() - this.began < STARTING_LIMIT;
  }
}

const keyOf = ({ kind, name }: Monitored): string => `${kind} ${name}`;

function stateOf(upstream: Monitored, before: UpstreamState | undefined, age: number): Omit<UpstreamState, 'since'> {
  const { kind, name } = upstream;
  const { status, detail, cause, warning, replicas } = upstream.health();
  const { known, count, problem } = upstream.offer();
  // A server is up once its tools are known. After that its state is only `up` or `down`.
  const waits = status === 'login_required';
  const now: MonitorState = status === 'down' ? 'down' : waits || (status === 'up' && known) ? 'up' : 'starting';
  const state = now === 'starting' && before !== undefined ? before.state : now;
  const took = before?.took ?? (state === 'starting' ? undefined : age);
  const wrong =
    state === 'down'
      ? (detail ?? before?.problem)
      : state === 'up'
        ? (problem ?? (waits ? 'no user has signed in at it yet' : warning))
        : undefined;
  return {
    kind,
    name,
    state,
    ...(count !== undefined && { count }),
    ...(took !== undefined && { took }),
    ...(wrong !== undefined && { problem: wrong }),
    ...(state === 'down' && cause !== undefined && { cause }),
    ...(replicas && { replicas }),
  };
}

/** A state whose problem is the text for operators, unless the text for callers already contains it. */
export function forOperators<S extends UpstreamState>(state: S): S {
  const { problem, cause } = state;
  return cause === undefined || problem?.includes(cause) ? state : { ...state, problem: cause };
}
