/** One configured server or agent, as the monitor asks for it. Neither question reaches the network. */
export interface Monitored {
  readonly kind: 'server' | 'agent';
  readonly name: string;
  health(): { readonly status: 'unknown' | 'up' | 'down'; readonly detail?: string; readonly cause?: string };
  /** The tools of a server or the skills of an agent: whether they are known, how many they are, why they are not. */
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
  /** Tools of a server, skills of an agent. */
  readonly count?: number;
  /** From the start to the first answer or the first failure, in milliseconds. */
  readonly took?: number;
  /** What is wrong with it, in words that callers may read. */
  readonly problem?: string;
  /** The same for operators, where it is down. */
  readonly cause?: string;
}

export interface StateChange extends UpstreamState {
  readonly before: MonitorState;
  /** How long the state before lasted, in milliseconds. */
  readonly lasted: number;
  /** How long it has been configured, in milliseconds: the time until it is up for the first time. */
  readonly age: number;
  /** Whether it has been up before. */
  readonly recovered: boolean;
}

export interface UpstreamMonitorOptions {
  /** Every server and agent there is at the moment. */
  readonly upstreams: () => readonly Monitored[];
  /** When those that are there at the first look were started; by default at that moment. */
  readonly began?: number;
  readonly now?: () => number;
}

/** How often the states are compared: often while something starts, then rarely enough to cost nothing. */
const STARTING_INTERVAL = 50;
const INTERVAL = 500;
/** A server that has not answered by then no longer keeps the short interval. */
const STARTING_LIMIT = 30_000;

interface Entry {
  state: UpstreamState;
  since: number;
  readonly first: number;
  readonly everUp: boolean;
}

/**
 * Tells which servers and agents are up, and reports every change of that. It samples their health instead of listening
 * to them: a server that fails and recovers many times a second is reported twice a second at most.
 */
export class UpstreamMonitor {
  private entries = new Map<string, Entry>();
  private readonly listeners = new Set<(change: StateChange) => void>();
  private readonly waiting = new Set<() => void>();
  private readonly now: () => number;
  private readonly began: number;
  private timer: NodeJS.Timeout | undefined;
  private looked = false;
  private closed = false;

  constructor(private readonly options: UpstreamMonitorOptions) {
    this.now = options.now ?? (() => performance.now());
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

  /** Resolves when nothing is starting any more, or after so many milliseconds. */
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

  /** Compares every state with the one before. Called by the timer. */
  sample(): void {
    const now = this.now();
    const entries = new Map<string, Entry>();
    const changes: StateChange[] = [];
    for (const upstream of this.options.upstreams()) {
      const key = `${upstream.kind} ${upstream.name}`;
      const before = this.entries.get(key);
      const first = before?.first ?? (this.looked ? now : this.began);
      const state = stateOf(upstream, before?.state, now - first);
      const changed = state.state !== (before?.state.state ?? 'starting');
      const recovered = before?.everUp ?? false;
      const everUp = recovered || state.state === 'up';
      entries.set(key, { state, first, everUp, since: changed ? now : (before?.since ?? first) });
      if (changed) {
        const lasted = now - (before?.since ?? first);
        changes.push({ ...state, before: before?.state.state ?? 'starting', lasted, age: now - first, recovered });
      }
    }
    this.entries = entries;
    this.looked = true;
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

function stateOf(upstream: Monitored, before: UpstreamState | undefined, age: number): UpstreamState {
  const { kind, name } = upstream;
  const { status, detail, cause } = upstream.health();
  const { known, count, problem } = upstream.offer();
  // A server counts as up once its tools are known. After that it is up or down, and starts only once.
  const now: MonitorState = status === 'down' ? 'down' : status === 'up' && known ? 'up' : 'starting';
  const state = now === 'starting' && before !== undefined ? before.state : now;
  const took = before?.took ?? (state === 'starting' ? undefined : age);
  const wrong = state === 'down' ? (detail ?? before?.problem) : state === 'up' ? problem : undefined;
  return {
    kind,
    name,
    state,
    ...(count !== undefined && { count }),
    ...(took !== undefined && { took }),
    ...(wrong !== undefined && { problem: wrong }),
    ...(state === 'down' && cause !== undefined && { cause }),
  };
}

/** A state with the problem as operators may read it. Where callers may too, the problem says it already. */
export function forOperators<S extends UpstreamState>(state: S): S {
  const { problem, cause } = state;
  return cause === undefined || problem?.includes(cause) ? state : { ...state, problem: cause };
}
