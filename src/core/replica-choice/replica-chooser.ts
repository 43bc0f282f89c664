import { type BreakerHealth, type BreakerSettings, CircuitBreaker } from '../circuit-breaker.js';
import { normals, type Random } from './random.js';
import { type ReplicaOutcome, rewardOf } from './reward.js';
import { Estimate } from './reward-estimate.js';

export interface ReplicaChooserOptions {
  readonly replicas: readonly string[];
  /** The latency objective in milliseconds. */
  readonly objective: number;
  readonly random?: Random;
  /** The share of calls that try a replica at random. */
  readonly exploration?: number;
  /** The factor by which one observation reduces the weight of earlier observations. */
  readonly discount?: number;
}

/** A choice, with the data to judge another policy by it later. */
export interface ReplicaChoice {
  readonly replica: string;
  /** The probability with which the replica was chosen; undefined if an affinity decided. */
  readonly propensity: number | undefined;
  readonly explored: boolean;
  readonly requestClass: string;
  /** The replicas that could be chosen, and the calls in flight at each before the choice. */
  readonly among: readonly Load[];
}

export interface Load {
  readonly replica: string;
  readonly inFlight: number;
}

/** The present knowledge about one replica. */
export interface ReplicaState {
  readonly replica: string;
  readonly inFlight: number;
  readonly breaker: BreakerHealth;
  /** The expected reward of a call, from 0 to 1; undefined before the first outcome. */
  readonly expected: number | undefined;
}

interface Replica {
  readonly name: string;
  readonly breaker: CircuitBreaker;
  /** The estimate over all classes. */
  readonly pool: Estimate;
  readonly classes: Map<string, Estimate>;
  inFlight: number;
}

/** A failing replica is tried again after a pause, and each failed trial doubles the pause. */
const BREAKER: BreakerSettings = { failures: 5, pause: 1_000, longestPause: 60_000 };
const EXPLORATION = 0.01;
const DISCOUNT = 0.995;
/** The estimate for a replica without observations. It is rather high, so that a new replica gets calls. */
const PRIOR_MEAN = 0.7;
const PRIOR_STRENGTH = 1;
const PRIOR_VARIANCE = 0.03;
/** The weight of the estimate over all classes, expressed as a number of observations of one class. */
const POOL_STRENGTH = 4;
/** Each call in flight beyond this number lowers the expected reward by `LOAD_SHARE`. */
const FREE_IN_FLIGHT = 4;
const LOAD_SHARE = 0.03;
/** The most joint samples per choice. More samples give finer propensities. */
const MOST_SAMPLES = 12;
const MOST_DRAWS = 100;
/** The most classes that are kept for each replica. */
const MOST_CLASSES = 200;
/** The mean counts as known if its observations have at least this weight. */
const LEAST_KNOWN = 0.5;

/**
 * Chooses among equivalent replicas by discounted Thompson sampling: the probability of a choice is the probability
 * that the replica is the best. The caller of this class keeps sessions and contexts with their replica, and never
 * sends a call again that may have run.
 */
export class ReplicaChooser {
  private readonly replicas: Replica[];
  private readonly random: Random;
  private readonly normal: Random;
  private readonly exploration: number;
  private readonly discount: number;
  /** The number of observations over all replicas. */
  private observed = 0;
  /** The time of the latest method call, for the circuit breakers. */
  private clock = 0;

  constructor(private readonly options: ReplicaChooserOptions) {
    this.random = options.random ?? Math.random;
    this.normal = normals(this.random);
    this.exploration = options.exploration ?? EXPLORATION;
    this.discount = options.discount ?? DISCOUNT;
    this.replicas = options.replicas.map((name) => this.made(name));
  }

  private made(name: string): Replica {
    const breaker = new CircuitBreaker(BREAKER, () => this.clock);
    return { name, breaker, pool: new Estimate(), classes: new Map(), inFlight: 0 };
  }

  /** Adds replicas that are not known yet. */
  know(names: Iterable<string>): void {
    for (const name of names) if (!this.find(name)) this.replicas.push(this.made(name));
  }

  /**
   * Chooses a replica for a call of a class, among the replicas that pass `usable`. After each choice the caller must
   * call `ended`, and then `settled` or `released`. The second call may come later, because an evaluator may take
   * longer than the call.
   */
  choose(requestClass: string, now: number, usable?: (replica: string) => boolean): ReplicaChoice {
    this.clock = now;
    const allowed = usable ? this.replicas.filter(({ name }) => usable(name)) : this.replicas;
    const known = allowed.length > 0 ? allowed : this.replicas;
    const closed = known.filter(({ breaker }) => breaker.allows());
    // If every circuit is open, a call to any replica is better than no call.
    const among = closed.length > 0 ? closed : known;
    const explored = this.random() < this.exploration;
    const wins = this.sampled(among, requestClass);
    const samples = wins.reduce((sum, count) => sum + count, 0);
    const index = explored ? Math.floor(this.random() * among.length) : pick(wins, this.random() * samples);
    const chosen = among[index]!;
    const propensity = this.exploration / among.length + (1 - this.exploration) * (wins[index]! / samples);
    const loads = among.map(({ name, inFlight }) => ({ replica: name, inFlight }));
    return this.begun(chosen, { replica: chosen.name, propensity, explored, requestClass, among: loads });
  }

  /**
   * Registers a call whose replica an affinity decides. The call counts as load, and its outcome changes the estimates.
   */
  assign(name: string, requestClass: string, now: number): ReplicaChoice {
    this.clock = now;
    const choice = { replica: name, propensity: undefined, explored: false, requestClass, among: NOBODY };
    const replica = this.find(name);
    return replica ? this.begun(replica, choice) : choice;
  }

  private begun(replica: Replica, choice: ReplicaChoice): ReplicaChoice {
    replica.inFlight += 1;
    replica.breaker.begin();
    return choice;
  }

  /** Called when the call no longer occupies its replica. */
  ended({ replica: name }: ReplicaChoice): void {
    const replica = this.find(name);
    if (replica) replica.inFlight = Math.max(0, replica.inFlight - 1);
  }

  settled({ replica: name, requestClass }: ReplicaChoice, outcome: ReplicaOutcome, now: number): void {
    this.clock = now;
    const replica = this.find(name);
    if (!replica) return;
    if (outcome.success || outcome.answered) replica.breaker.answered();
    else replica.breaker.failed();
    this.learn(name, requestClass, rewardOf(outcome, this.options.objective));
  }

  /** Takes the reward of a call, without an effect on the circuit breaker. */
  learn(name: string, requestClass: string, reward: number): void {
    const replica = this.find(name);
    if (!replica) return;
    this.observed += 1;
    replica.pool.add(reward, this.observed, this.discount);
    let own = replica.classes.get(requestClass);
    if (!own) {
      own = new Estimate();
      if (replica.classes.size >= MOST_CLASSES) replica.classes.delete(replica.classes.keys().next().value!);
      replica.classes.set(requestClass, own);
    }
    own.add(reward, this.observed, this.discount);
  }

  /** Called when the call ended with an outcome that says nothing about the replica. */
  released({ replica }: ReplicaChoice): void {
    this.find(replica)?.breaker.inconclusive();
  }

  states(now: number): ReplicaState[] {
    this.clock = now;
    return this.replicas.map(({ name, inFlight, breaker, pool }) => {
      pool.fade(this.observed, this.discount);
      const expected = pool.strength < LEAST_KNOWN ? undefined : pool.mean(PRIOR_MEAN, 0);
      return { replica: name, inFlight, breaker: breaker.health(), expected };
    });
  }

  /** For each replica of `among`, with the given loads, the probability that it is chosen for a call of a class. */
  propensities(requestClass: string, among: readonly Load[]): number[] {
    const replicas = among.map(({ replica, inFlight }) => ({
      ...(this.find(replica) ?? this.made(replica)),
      inFlight,
    }));
    const wins = this.sampled(replicas, requestClass, REPLAY_SAMPLES);
    return wins.map((count) => this.exploration / among.length + (1 - this.exploration) * (count / REPLAY_SAMPLES));
  }

  private find(name: string): Replica | undefined {
    return this.replicas.find((replica) => replica.name === name);
  }

  /** For each replica, the number of joint samples in which it is the best. */
  private sampled(among: readonly Replica[], requestClass: string, wanted?: number): number[] {
    const beliefs = among.map((replica) => this.belief(replica, requestClass));
    const wins = among.map(() => 0);
    const samples = wanted ?? Math.max(1, Math.min(MOST_SAMPLES, Math.floor(MOST_DRAWS / among.length)));
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
      // The fewer observations a class has, the more the observations of all classes count.
      mean = own.mean(mean, Math.min(POOL_STRENGTH, strength));
      variance = own.variance(variance, POOL_STRENGTH);
      strength = own.strength + Math.min(POOL_STRENGTH, strength);
    } else strength = Math.min(POOL_STRENGTH, strength);
    const load = 1 / (1 + LOAD_SHARE * Math.max(0, inFlight - FREE_IN_FLIGHT));
    return { mean, deviation: Math.sqrt(variance / (strength + PRIOR_STRENGTH)), load };
  }
}

const NOBODY: readonly Load[] = [];
/** The number of samples in a replay, which has no time limit. */
const REPLAY_SAMPLES = 200;

/** The index at which the running sum of counts passes `at`. */
function pick(counts: readonly number[], at: number): number {
  let sum = 0;
  for (const [index, count] of counts.entries()) {
    sum += count;
    if (at < sum) return index;
  }
  return counts.length - 1;
}
