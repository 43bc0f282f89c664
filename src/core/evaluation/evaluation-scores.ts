import { BoundedCache } from '../bounded-cache.js';

/** A score that one evaluator gave one call. */
export interface CallScore {
  readonly evaluator: string;
  /** `upstream` is the server or agent. `target` is the tool; for a message to an agent it is the agent itself. */
  readonly upstream: string;
  readonly target: string;
  readonly score: number;
  readonly requestId: string;
}

/** The scores of one target in one hour. Scores are whole thousandths, so that sums are exact. */
export interface ScoreSum {
  readonly evaluator: string;
  readonly upstream: string;
  readonly target: string;
  /** The beginning of the hour, in milliseconds since 1970. */
  readonly since: number;
  readonly count: number;
  readonly total: number;
  readonly lowest: number;
  /** The id of the request with the lowest score, to find the request in the log and the audit trail. */
  readonly lowestRequest: string;
}

/** The recent quality of a target, over all evaluators and replicas. */
export interface Quality {
  /** The mean score, from 0 to 1. */
  readonly mean: number;
  /** The number of scores. */
  readonly count: number;
}

/** The interface through which routing reads scores. */
export interface ScoreReader {
  /** Undefined if no call of the target was scored in the last day. */
  qualityOf(upstream: string, target: string): Quality | undefined;
  /** Calls the listener with each score of this process. Returns the function that removes the listener. */
  onScore(listener: (score: CallScore) => void): () => void;
}

/** The store of scores, shared by all replicas. */
export interface ScoreRecords {
  add(sums: readonly ScoreSum[]): Promise<void>;
  /** The sums of the hours that begin at `since` or later. */
  recent(since: number): Promise<readonly ScoreSum[]>;
}

export interface ScoresOptions {
  readonly records: ScoreRecords;
  readonly now: () => number;
  failed(error: unknown): void;
}

const HOUR = 3_600_000;
const RECENT = 24 * HOUR;
/** How often new scores are stored, and how often those of other replicas are read, in milliseconds. */
const STORE_EVERY = 1_000;
const READ_EVERY = 30_000;
/** The most sums that wait to be stored, because a server can invent any number of tools. */
const MOST_WAITING = 500;
const MOST_TARGETS = 10_000;
/** Scores of targets beyond the limit count for this target. */
const OTHER = 'other';

/** Collects the scores of this process and stores their sums. Also knows the recent scores of all replicas. */
export class Scores implements ScoreReader {
  private readonly listeners = new Set<(score: CallScore) => void>();
  private waiting = new Map<string, ScoreSum>();
  private known = new BoundedCache<string, { count: number; total: number }>(MOST_TARGETS);
  private readonly timers: NodeJS.Timeout[] = [];
  private storing: Promise<void> | undefined;

  constructor(private readonly options: ScoresOptions) {}

  /** Reads the scores of all replicas now, and then reads and stores at intervals. */
  async start(): Promise<void> {
    await this.read();
    this.timers.push(
      setInterval(() => void this.store(), STORE_EVERY).unref(),
      setInterval(() => void this.read(), READ_EVERY).unref(),
    );
  }

  add(score: CallScore): void {
    const { evaluator, upstream, requestId } = score;
    const since = Math.floor(this.options.now() / HOUR) * HOUR;
    const thousandths = Math.round(score.score * 1_000);
    const one = { count: 1, total: thousandths, lowest: thousandths, lowestRequest: requestId };
    const keyFor = (target: string): string => JSON.stringify([evaluator, upstream, target, since]);
    const full = this.waiting.size >= MOST_WAITING && !this.waiting.has(keyFor(score.target));
    const target = full ? OTHER : score.target;
    const key = keyFor(target);
    // Each evaluator and upstream has one sum for all targets beyond the limit.
    if (!full || this.waiting.has(key) || this.waiting.size < 2 * MOST_WAITING)
      this.waiting.set(key, merged(this.waiting.get(key), { evaluator, upstream, target, since, ...one }));
    this.learn({ upstream, target: score.target, ...one });
    for (const listener of this.listeners) listener(score);
  }

  qualityOf(upstream: string, target: string): Quality | undefined {
    const found = this.known.get(nameOf(upstream, target));
    return found && { mean: found.total / found.count / 1_000, count: found.count };
  }

  onScore(listener: (score: CallScore) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Stores the waiting sums. If that fails, the sums are lost, because a second attempt could count them twice. */
  store(): Promise<void> {
    this.storing ??= this.storeAll().finally(() => {
      this.storing = undefined;
    });
    return this.storing;
  }

  async close(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer);
    await this.storing;
    await this.store();
  }

  private async storeAll(): Promise<void> {
    if (this.waiting.size === 0) return;
    const sums = [...this.waiting.values()];
    this.waiting = new Map();
    try {
      await this.options.records.add(sums);
    } catch (error) {
      this.options.failed(error);
    }
  }

  private async read(): Promise<void> {
    await this.store();
    try {
      const sums = await this.options.records.recent(this.options.now() - RECENT);
      this.known = new BoundedCache(MOST_TARGETS);
      for (const sum of [...sums, ...this.waiting.values()]) this.learn(sum);
    } catch (error) {
      this.options.failed(error);
    }
  }

  private learn({ upstream, target, count, total }: Pick<ScoreSum, 'upstream' | 'target' | 'count' | 'total'>): void {
    const name = nameOf(upstream, target);
    const before = this.known.get(name);
    this.known.set(name, { count: (before?.count ?? 0) + count, total: (before?.total ?? 0) + total });
  }
}

const nameOf = (upstream: string, target: string): string => `${upstream}\n${target}`;

function merged(before: ScoreSum | undefined, sum: ScoreSum): ScoreSum {
  if (!before) return sum;
  const lower = sum.lowest < before.lowest ? sum : before;
  return {
    ...before,
    count: before.count + sum.count,
    total: before.total + sum.total,
    lowest: lower.lowest,
    lowestRequest: lower.lowestRequest,
  };
}
