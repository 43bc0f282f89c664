import { CircuitBreaker } from './circuit-breaker.js';
import { Estimate } from './estimate.js';
import { normals, type Random } from './random.js';
import { type ReplicaOutcome, rewardOf } from './reward.js';

export interface ReplicaChooserOptions {
  readonly replicas: readonly string[];
  /** The latency objective in milliseconds. */
  readonly objective: number;
  readonly random?: Random;
  /** The share of calls that try a replica at random. */
  readonly exploration?: number;
  /** The factor by which one observation reduces the weight of earlier ones. */
  readonly discount?: number;
}

/** A choice, with what is needed to judge another policy by it later. */
export interface ReplicaChoice {
  readonly replica: string;
  /** The probability with which the replica was chosen. */
  readonly propensity: number;
  readonly explored: boolean;
  readonly requestClass: string;
}

interface Replica {
  readonly name: string;
  readonly breaker: CircuitBreaker;
  /** Over all classes. */
  readonly pool: Estimate;
  readonly classes: Map<string, Estimate>;
  inFlight: number;
}

const EXPLORATION = 0.01;
const DISCOUNT = 0.995;
/** The estimate for a replica without observations: rather good, so that a new replica is tried. */
const PRIOR_MEAN = 0.7;
const PRIOR_STRENGTH = 1;
const PRIOR_VARIANCE = 0.03;
/** The pool counts like so many observations of a class. */
const POOL_STRENGTH = 4;
/** Each call in flight beyond this number lowers the expected reward by a share. */
const FREE_IN_FLIGHT = 4;
const LOAD_SHARE = 0.03;
/** Samples of all replicas that one choice draws: more make propensities finer. */
const MOST_SAMPLES = 12;
const MOST_DRAWS = 100;
/** Classes that are kept for each replica. */
const MOST_CLASSES = 200;

/**
 * Chooses among equivalent replicas by discounted Thompson sampling: each replica is chosen as often as it is probably
 * the best. The caller keeps sessions and contexts with their replica and never sends again what may have run.
 */
export class ReplicaChooser {
  private readonly replicas: Replica[];
  private readonly random: Random;
  private readonly normal: Random;
  private readonly exploration: number;
  private readonly discount: number;
  /** Observations so far, over all replicas. */
  private observed = 0;

  constructor(private readonly options: ReplicaChooserOptions) {
    this.random = options.random ?? Math.random;
    this.normal = normals(this.random);
    this.exploration = options.exploration ?? EXPLORATION;
    this.discount = options.discount ?? DISCOUNT;
    this.replicas = options.replicas.map((name) => ({
      name,
      breaker: new CircuitBreaker(),
      pool: new Estimate(),
      classes: new Map(),
      inFlight: 0,
    }));
  }

  /**
   * Chooses a replica for a call of a class. Each choice is followed by `ended`, and by `settled` or `released` at the
   * same time or later: an evaluator may take longer than the call.
   */
  choose(requestClass: string, now: number): ReplicaChoice {
    const closed = this.replicas.filter(({ breaker }) => breaker.allows(now));
    // With every circuit open, any replica is better than none.
    const usable = closed.length > 0 ? closed : this.replicas;
    const explored = this.random() < this.exploration;
    const wins = this.sampled(usable, requestClass);
    const samples = wins.reduce((sum, count) => sum + count, 0);
    const index = explored ? Math.floor(this.random() * usable.length) : pick(wins, this.random() * samples);
    const chosen = usable[index]!;
    chosen.inFlight += 1;
    chosen.breaker.sent();
    const propensity = this.exploration / usable.length + (1 - this.exploration) * (wins[index]! / samples);
    return { replica: chosen.name, propensity, explored, requestClass };
  }

  /** The call no longer occupies its replica. */
  ended(choice: ReplicaChoice): void {
    const replica = this.find(choice);
    if (replica) replica.inFlight = Math.max(0, replica.inFlight - 1);
  }

  settled(choice: ReplicaChoice, outcome: ReplicaOutcome, now: number): void {
    const replica = this.find(choice);
    if (!replica) return;
    replica.breaker.settled(outcome.success, now);
    const reward = rewardOf(outcome, this.options.objective);
    this.observed += 1;
    replica.pool.add(reward, this.observed, this.discount);
    let own = replica.classes.get(choice.requestClass);
    if (!own) {
      own = new Estimate();
      if (replica.classes.size >= MOST_CLASSES) replica.classes.delete(replica.classes.keys().next().value!);
      replica.classes.set(choice.requestClass, own);
    }
    own.add(reward, this.observed, this.discount);
  }

  /** The call ended without an outcome that says anything about the replica. */
  released(choice: ReplicaChoice): void {
    this.find(choice)?.breaker.released();
  }

  private find({ replica }: ReplicaChoice): Replica | undefined {
    return this.replicas.find(({ name }) => name === replica);
  }

  /** How often each replica is the best in a number of joint samples. */
  private sampled(usable: readonly Replica[], requestClass: string): number[] {
    const beliefs = usable.map((replica) => this.belief(replica, requestClass));
    const wins = usable.map(() => 0);
    const samples = Math.max(1, Math.min(MOST_SAMPLES, Math.floor(MOST_DRAWS / usable.length)));
    for (let sample = 0; sample < samples; sample += 1) {
      let best = 0;
      let highest = Number.NEGATIVE_INFINITY;
      for (const [index, { mean, deviation, load }] of beliefs.entries()) {
        const value = (mean + deviation * this.normal()) * load;
        if (value > highest) {
          highest = value;
          best = index;
        }
      }
      wins[best]! += 1;
    }
    return wins;
  }

  private belief(replica: Replica, requestClass: string): { mean: number; deviation: number; load: number } {
    const { pool, classes, inFlight } = replica;
    pool.fade(this.observed, this.discount);
    let mean = pool.mean(PRIOR_MEAN, PRIOR_STRENGTH);
    let variance = pool.variance(PRIOR_VARIANCE, PRIOR_STRENGTH);
    let strength = pool.strength;
    const own = classes.get(requestClass);
    if (own) {
      own.fade(this.observed, this.discount);
      // The less a class has been seen, the more the pool stands in for it.
      mean = own.mean(mean, Math.min(POOL_STRENGTH, strength));
      variance = own.variance(variance, POOL_STRENGTH);
      strength = own.strength + Math.min(POOL_STRENGTH, strength);
    } else strength = Math.min(POOL_STRENGTH, strength);
    const load = 1 / (1 + LOAD_SHARE * Math.max(0, inFlight - FREE_IN_FLIGHT));
    return { mean, deviation: Math.sqrt(variance / (strength + PRIOR_STRENGTH)), load };
  }
}

/** The index at which the running sum of counts passes `at`. */
function pick(counts: readonly number[], at: number): number {
  let sum = 0;
  for (const [index, count] of counts.entries()) {
    sum += count;
    if (at < sum) return index;
  }
  return counts.length - 1;
}
