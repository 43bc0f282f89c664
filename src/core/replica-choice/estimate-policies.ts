import type { RecordedChoice } from './choice-log.js';
import { seeded } from './random.js';
import { type Load, ReplicaChooser } from './replica-chooser.js';

/** The value of a policy, estimated from the choices of another policy. */
export interface PolicyEstimate {
  readonly policy: string;
  /** The estimated mean reward of a call, from 0 to 1. */
  readonly reward: number;
  /** The 95 % interval of the estimate. */
  readonly from: number;
  readonly to: number;
  /** The estimated share of calls that succeed. */
  readonly success: number;
  readonly choices: number;
  /**
   * The effective number of choices behind the estimate. The number is small if the policy would mostly have chosen
   * other replicas.
   */
  readonly effective: number;
}

/** A policy. `propensities` returns the probabilities with which it chooses; `learn` takes the recorded outcomes. */
interface JudgedPolicy {
  readonly name: string;
  propensities(choice: RecordedChoice): readonly number[];
  learn?(choice: RecordedChoice): void;
}

/** The limits for the number of resamples of the interval, and for the work of all resamples together. */
const MOST_RESAMPLES = 400;
const LEAST_RESAMPLES = 100;
const MOST_WORK = 4_000_000;
/** The share outside of the interval on each side. */
const TAIL = 0.025;
/** The time constant of the mean latency, in milliseconds. */
const DECAY = 10_000;

/**
 * Estimates the value of policies from recorded choices, by inverse propensity scoring with normalised weights. A
 * choice counts twice if the policy would have made it with twice the recorded probability. The first estimate is for
 * the recorded policy itself.
 */
export function replay(choices: readonly RecordedChoice[], objective: number): PolicyEstimate[] {
  const usable = choices.filter(isUsable);
  const policies: JudgedPolicy[] = [recorded, roundRobin, leastRequest, peakEwma(), learned(objective)];
  return policies.map((policy) => {
    const weights = usable.map((choice) => {
      const index = choice.among.findIndex(({ replica }) => replica === choice.chosen);
      const weight = (policy.propensities(choice)[index] ?? 0) / choice.propensity;
      policy.learn?.(choice);
      return weight;
    });
    return estimate(policy.name, usable, weights);
  });
}

const isUsable = ({ propensity, among, chosen, reward }: RecordedChoice): boolean =>
  propensity > 0 && propensity <= 1 && Number.isFinite(reward) && among.some(({ replica }) => replica === chosen);

function estimate(policy: string, choices: readonly RecordedChoice[], weights: readonly number[]): PolicyEstimate {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const squares = weights.reduce((total, weight) => total + weight * weight, 0);
  const mean = (value: (choice: RecordedChoice) => number): number =>
    sum === 0 ? 0 : choices.reduce((total, choice, index) => total + weights[index]! * value(choice), 0) / sum;
  const reward = mean((choice) => choice.reward);
  const [from, to] = interval(choices, weights);
  return {
    policy,
    reward,
    from,
    to,
    success: mean((choice) => (choice.success ? 1 : 0)),
    choices: choices.length,
    effective: squares === 0 ? 0 : (sum * sum) / squares,
  };
}

/**
 * The interval of the weighted mean. Computed by resampling, because a few choices with a small probability have a
 * large weight and make the error asymmetric.
 */
function interval(choices: readonly RecordedChoice[], weights: readonly number[]): [from: number, to: number] {
  const count = choices.length;
  const random = seeded(count);
  const resamples = Math.max(LEAST_RESAMPLES, Math.min(MOST_RESAMPLES, Math.floor(MOST_WORK / Math.max(1, count))));
  const means: number[] = [];
  for (let resample = 0; resample < resamples; resample += 1) {
    let sum = 0;
    let total = 0;
    for (let draw = 0; draw < count; draw += 1) {
      const index = Math.floor(random() * count);
      sum += weights[index]!;
      total += weights[index]! * choices[index]!.reward;
    }
    if (sum > 0) means.push(total / sum);
  }
  if (means.length === 0) return [0, 1];
  means.sort((a, b) => a - b);
  const at = (share: number): number => means[Math.min(means.length - 1, Math.floor(share * means.length))]!;
  return [at(TAIL), at(1 - TAIL)];
}

const recorded: JudgedPolicy = {
  name: 'recorded',
  propensities: ({ among, chosen, propensity }) => among.map(({ replica }) => (replica === chosen ? propensity : 0)),
};

/** The recorded choices do not tell whose turn it was, so each replica is equally likely. */
const roundRobin: JudgedPolicy = {
  name: 'round robin',
  propensities: ({ among }) => among.map(() => 1 / among.length),
};

/** Uses the recorded loads, although the choices of this policy would have led to other loads. */
const leastRequest: JudgedPolicy = {
  name: 'least request',
  propensities: ({ among }) => {
    const fewest = Math.min(...among.map(({ inFlight }) => inFlight));
    const free = among.filter(({ inFlight }) => inFlight === fewest).length;
    return among.map(({ inFlight }) => (inFlight === fewest ? 1 / free : 0));
  },
};

/** Of two random replicas, chooses the replica with the lower product of peak-sensitive mean latency and load. */
function peakEwma(): JudgedPolicy {
  const costs = new Map<string, { cost: number; at: number }>();
  const load = ({ replica, inFlight }: Load): number => (costs.get(replica)?.cost ?? 1) * (inFlight + 1);
  return {
    name: 'P2C',
    propensities: ({ among }) => {
      if (among.length === 1) return [1];
      const loads = among.map(load);
      const pairs = among.length * (among.length - 1);
      // In each ordered pair, the first replica wins a tie.
      return loads.map((own, index) => {
        const wins = loads.filter((other, at) => at !== index && own <= other).length;
        const strict = loads.filter((other, at) => at !== index && own < other).length;
        return (wins + strict) / pairs;
      });
    },
    learn: ({ chosen, latency, at }) => {
      const known = costs.get(chosen) ?? { cost: 1, at };
      const weight = Math.exp(-Math.max(0, at - known.at) / DECAY);
      const cost = latency > known.cost ? latency : known.cost * weight + latency * (1 - weight);
      costs.set(chosen, { cost, at });
    },
  };
}

/** The policy of the gateway, starting without observations. The seed makes a replay repeatable. */
function learned(objective: number): JudgedPolicy {
  const chooser = new ReplicaChooser({ replicas: [], objective, random: seeded(1) });
  return {
    name: 'learned',
    propensities: ({ requestClass, among }) => {
      chooser.know(among.map(({ replica }) => replica));
      return chooser.propensities(requestClass, among);
    },
    learn: ({ chosen, requestClass, reward }) => chooser.learn(chosen, requestClass, reward),
  };
}
