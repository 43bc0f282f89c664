import { describe, expect, it } from 'vitest';
import { seeded } from './random.js';
import { ReplicaChooser } from './replica-chooser.js';
import { type ReplicaOutcome, rewardOf } from './reward.js';

/** Runs calls in sequence, one each 100 ms, and counts the choices of the last half. */
function run(behave: (replica: string, call: number, requestClass: string) => ReplicaOutcome, classes = ['any']) {
  const chooser = new ReplicaChooser({ replicas: ['a', 'b', 'c'], objective: 100, random: seeded(5) });
  const counts = new Map<string, number>();
  const propensities: number[] = [];
  for (let call = 0; call < 2_000; call += 1) {
    const requestClass = classes[call % classes.length]!;
    const choice = chooser.choose(requestClass, call * 100);
    propensities.push(choice.propensity!);
    chooser.ended(choice);
    chooser.settled(choice, behave(choice.replica, call, requestClass), call * 100);
    const key = `${choice.replica}:${requestClass}`;
    if (call >= 1_000) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return { counts, propensities };
}

describe('ReplicaChooser', () => {
  it('prefers the replica with the better latency, and still tries the others', () => {
    const { counts } = run((replica) => ({ success: true, latency: replica === 'b' ? 40 : 120 }));
    expect(counts.get('b:any')).toBeGreaterThan(900);
    expect((counts.get('a:any') ?? 0) + (counts.get('c:any') ?? 0)).toBeGreaterThan(0);
  });

  it('does not prefer a replica that fails fast', () => {
    const { counts } = run((replica) =>
      replica === 'a' ? { success: false, latency: 1 } : { success: true, latency: 80 },
    );
    expect(counts.get('a:any') ?? 0).toBeLessThan(30);
  });

  it('prefers the replica with the higher quality if all else is equal', () => {
    const { counts } = run((replica) => ({ success: true, latency: 50, quality: replica === 'c' ? 0.9 : 0.5 }));
    expect(counts.get('c:any')).toBeGreaterThan(900);
  });

  it('learns separately for each class', () => {
    const good = (replica: string, requestClass: string): boolean => replica === (requestClass === 'x' ? 'a' : 'b');
    const { counts } = run(
      (replica, _, kind) => ({ success: true, latency: good(replica, kind) ? 30 : 200 }),
      ['x', 'y'],
    );
    expect(counts.get('a:x')).toBeGreaterThan(400);
    expect(counts.get('b:y')).toBeGreaterThan(400);
  });

  it('notices a replica that becomes worse', () => {
    const { counts } = run((replica, call) => ({
      success: true,
      latency: replica === 'b' && call < 800 ? 20 : replica === 'b' ? 400 : 60,
    }));
    expect(counts.get('b:any') ?? 0).toBeLessThan(100);
  });

  it('records propensities of at least the exploration share', () => {
    const { propensities } = run(() => ({ success: true, latency: 50 }));
    expect(Math.min(...propensities)).toBeGreaterThan(0.003);
    expect(Math.max(...propensities)).toBeLessThanOrEqual(1);
  });

  it('propensities are unbiased: the sum of 1/p over the choices of one replica is near the number of calls', () => {
    const chooser = new ReplicaChooser({
      replicas: ['a', 'b', 'c'],
      objective: 100,
      random: seeded(9),
      exploration: 0.1,
    });
    const sums = new Map<string, number>();
    const calls = 20_000;
    for (let call = 0; call < calls; call += 1) {
      const choice = chooser.choose('any', call);
      chooser.ended(choice);
      chooser.settled(choice, { success: true, latency: choice.replica === 'a' ? 80 : 90 }, call);
      sums.set(choice.replica, (sums.get(choice.replica) ?? 0) + 1 / choice.propensity!);
    }
    for (const sum of sums.values()) expect(sum / calls).toBeCloseTo(1, 0.5);
  });

  it('spreads calls when the best replica is loaded', () => {
    const chooser = new ReplicaChooser({ replicas: ['a', 'b'], objective: 100, random: seeded(2) });
    const chosen = new Set<string>();
    for (let call = 0; call < 200; call += 1) chosen.add(chooser.choose('any', call).replica);
    expect(chosen.size).toBe(2);
  });

  it('opens the circuit of a failing replica, and sends one trial call after a pause', () => {
    const chooser = new ReplicaChooser({ replicas: ['a', 'b'], objective: 100, random: seeded(3), exploration: 1 });
    let failures = 0;
    while (failures < 5) {
      const choice = chooser.choose('any', 0);
      chooser.ended(choice);
      const success = choice.replica === 'b';
      if (!success) failures += 1;
      chooser.settled(choice, { success, latency: 10 }, 0);
    }
    const chosen = (now: number): string[] => Array.from({ length: 50 }, () => chooser.choose('any', now).replica);
    expect(chosen(500)).not.toContain('a');
    expect(chosen(1_500).filter((replica) => replica === 'a')).toHaveLength(1);
  });

  it('chooses a replica even if every circuit is open', () => {
    const chooser = new ReplicaChooser({ replicas: ['a'], objective: 100 });
    for (let call = 0; call < 20; call += 1) {
      const choice = chooser.choose('any', call);
      chooser.ended(choice);
      chooser.settled(choice, { success: false, latency: 1 }, call);
    }
    expect(chooser.choose('any', 21).replica).toBe('a');
  });
});

describe('S1-77: on seeded simulations with the success rates 0.95, 0.80 and 0.50', () => {
  const RATES: Readonly<Record<string, number>> = { a: 0.95, b: 0.8, c: 0.5 };
  const NAMES = Object.keys(RATES);
  const SEEDS = Array.from({ length: 10 }, (_, index) => index + 1);

  /** The share of calls that the best replica got, and the share of calls that succeeded. */
  interface Shares {
    readonly best: number;
    readonly success: number;
  }

  /** Runs calls one after the other, with a policy that sees each outcome. */
  function simulation(seed: number, policy: 'learned' | 'round robin') {
    const chooser = new ReplicaChooser({ replicas: NAMES, objective: 100, random: seeded(seed) });
    const world = seeded(seed + 100);
    let now = 0;
    return (calls: number, rates = RATES): Shares => {
      let [best, successes] = [0, 0];
      for (let call = 0; call < calls; call += 1) {
        now += 100;
        const choice = policy === 'learned' ? chooser.choose('any', now) : undefined;
        const replica = choice?.replica ?? NAMES[call % NAMES.length]!;
        const success = world() < rates[replica]!;
        if (choice) {
          chooser.ended(choice);
          chooser.settled(choice, { success, latency: 50 }, now);
        }
        if (replica === 'a') best += 1;
        if (success) successes += 1;
      }
      return { best: best / calls, success: successes / calls };
    };
  }

  it('gives the best replica most calls, and has more successes than round robin', () => {
    const lines = SEEDS.map((seed) => {
      const [learned, roundRobin] = [simulation(seed, 'learned'), simulation(seed, 'round robin')];
      const first = [learned(1_000).success, roundRobin(1_000).success] as const;
      expect(first[0]).toBeGreaterThan(first[1] + 0.1);
      const later = learned(500);
      expect(later.best).toBeGreaterThanOrEqual(0.85);
      return `${first[0]} against ${first[1]}`;
    });
    console.log(`successes, learned against round robin: ${lines.join(', ')}`);
  });

  it('avoids the best replica when that replica begins to fail, and prefers it again when it works', () => {
    for (const seed of SEEDS) {
      const learned = simulation(seed, 'learned');
      learned(1_000);
      expect(learned(100, { ...RATES, a: 0 }).best).toBeLessThan(0.2);
      learned(1_000);
      expect(learned(1_000).best).toBeGreaterThan(0.5);
    }
  });
});

it('the reward is 0 for a failure and half for a latency at the objective, and quality scales the reward', () => {
  expect(rewardOf({ success: false, latency: 0 }, 100)).toBe(0);
  expect(rewardOf({ success: true, latency: 100 }, 100)).toBe(0.5);
  expect(rewardOf({ success: true, latency: 0, quality: 0.4 }, 100)).toBe(0.4);
});
