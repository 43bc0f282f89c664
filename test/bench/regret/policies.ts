/** Policies that choose a replica: ours, and those of usual load balancers. */
import type { Random } from '../../../src/core/replica-choice/random.js';
import { type ReplicaChoice, ReplicaChooser } from '../../../src/core/replica-choice/replica-chooser.js';
import type { ReplicaOutcome } from '../../../src/core/replica-choice/reward.js';

export interface Policy {
  /** Returns the number of the replica, and a token for `settled`. */
  choose(requestClass: string, now: number): readonly [replica: number, token: unknown];
  /** Called when the call no longer occupies its replica. */
  ended(replica: number, token: unknown): void;
  /** Called when the outcome is known: at the end of the call, or later. */
  settled(replica: number, outcome: ReplicaOutcome, now: number, token: unknown): void;
}

/** `expected` gives the true expected reward of a replica for the oracle. */
export type MakePolicy = (
  replicas: number,
  random: Random,
  objective: number,
  expected: (replica: number, requestClass: string, now: number) => number,
) => Policy;

const ignore = (): void => {};

const roundRobin: MakePolicy = (replicas) => {
  let next = 0;
  return {
    choose: () => {
      next = (next + 1) % replicas;
      return [next, undefined];
    },
    ended: ignore,
    settled: ignore,
  };
};

const leastRequest: MakePolicy = (replicas, random) => {
  const inFlight = Array<number>(replicas).fill(0);
  return {
    choose: () => {
      const fewest = Math.min(...inFlight);
      const free = inFlight.flatMap((count, replica) => (count === fewest ? [replica] : []));
      const chosen = free[Math.floor(random() * free.length)]!;
      inFlight[chosen]! += 1;
      return [chosen, undefined];
    },
    ended: (replica) => {
      inFlight[replica]! -= 1;
    },
    settled: ignore,
  };
};

/** The better of two random replicas by peak-sensitive mean latency times load (Finagle). */
const peakEwma: MakePolicy = (replicas, random) => {
  const cost = Array<number>(replicas).fill(1);
  const stamp = Array<number>(replicas).fill(0);
  const inFlight = Array<number>(replicas).fill(0);
  const DECAY = 10_000;
  return {
    choose: () => {
      const one = Math.floor(random() * replicas);
      const other = (one + 1 + Math.floor(random() * (replicas - 1))) % replicas;
      const load = (replica: number): number => cost[replica]! * (inFlight[replica]! + 1);
      const chosen = load(one) <= load(other) ? one : other;
      inFlight[chosen]! += 1;
      return [chosen, undefined];
    },
    ended: (replica) => {
      inFlight[replica]! -= 1;
    },
    settled: (replica, { latency }, now) => {
      const weight = Math.exp(-(now - stamp[replica]!) / DECAY);
      cost[replica] = latency > cost[replica]! ? latency : cost[replica]! * weight + latency * (1 - weight);
      stamp[replica] = now;
    },
  };
};

const learned: MakePolicy = (replicas, random, objective) => {
  const names = Array.from({ length: replicas }, (_, number) => String(number));
  const chooser = new ReplicaChooser({ replicas: names, objective, random });
  return {
    choose: (requestClass, now) => {
      const choice = chooser.choose(requestClass, now);
      return [Number(choice.replica), choice];
    },
    ended: (_, choice) => chooser.ended(choice as ReplicaChoice),
    settled: (_, outcome, now, choice) => chooser.settled(choice as ReplicaChoice, outcome, now),
  };
};

const oracle: MakePolicy = (replicas, _random, _objective, expected) => ({
  choose: (requestClass, now) => {
    let best = 0;
    for (let replica = 1; replica < replicas; replica += 1) {
      if (expected(replica, requestClass, now) > expected(best, requestClass, now)) best = replica;
    }
    return [best, undefined];
  },
  ended: ignore,
  settled: ignore,
});

export const POLICIES = {
  'round robin': roundRobin,
  'least request': leastRequest,
  'P2C peak-EWMA': peakEwma,
  learned,
  oracle,
};
export type PolicyName = keyof typeof POLICIES;
