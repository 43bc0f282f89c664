import type { Upstream } from './upstream.js';

export interface HealthProbesOptions {
  /** The upstreams to probe now, by name. */
  readonly upstreams: () => Iterable<Pick<Upstream, 'name' | 'checkHealth'>>;
  /** Runs each probe, for example within a span. */
  readonly around?: (upstream: string, probe: () => Promise<void>) => Promise<void>;
  /** Milliseconds between two probes of one upstream. */
  readonly interval: number;
  readonly now?: () => number;
  /** A source of random numbers from 0 to below 1. */
  readonly random?: () => number;
}

/** The maximum number of probes at one time. */
const AT_ONCE = 8;
/** How often the schedule is read, in milliseconds; less often than the shortest interval. */
const TICK = 1_000;
/** The interval of each probe differs by up to this share, so that probes of many upstreams and replicas spread. */
const JITTER = 0.2;

/**
 * Probes upstreams at intervals, so that the gateway learns the state of unused ones. The first probes are spread over
 * one interval, and few run at a time. Each replica probes for itself: a server that one replica reaches may be cut off
 * from another, and the replica's own calls depend on its own view.
 */
export class HealthProbes {
  private due = new Map<string, number>();
  private readonly running = new Set<string>();
  private timer: NodeJS.Timeout | undefined;
  private readonly now: () => number;
  private readonly random: () => number;

  constructor(private readonly options: HealthProbesOptions) {
    this.now = options.now ?? (() => performance.now());
    this.random = options.random ?? Math.random;
  }

  start(): void {
    this.timer ??= setInterval(() => this.tick(), Math.min(TICK, this.options.interval)).unref();
  }

  close(): void {
    clearInterval(this.timer);
  }

  /** Starts the probes that are due. The timer calls this method. */
  tick(): void {
    const { interval } = this.options;
    const now = this.now();
    const due = new Map<string, number>();
    for (const upstream of this.options.upstreams()) {
      const { name } = upstream;
      if (!upstream.checkHealth) continue;
      const at = this.due.get(name) ?? now + interval * (0.5 + this.random() / 2);
      const ready = at <= now && !this.running.has(name) && this.running.size < AT_ONCE;
      due.set(name, ready ? now + interval * (1 - JITTER + 2 * JITTER * this.random()) : at);
      if (ready) this.run(upstream);
    }
    this.due = due;
  }

  private run({ name, checkHealth }: Pick<Upstream, 'name' | 'checkHealth'>): void {
    this.running.add(name);
    const done = (): void => void this.running.delete(name);
    const { around = (_, probe) => probe() } = this.options;
    around(name, () => checkHealth!(this.options.interval)).then(done, done);
  }
}
