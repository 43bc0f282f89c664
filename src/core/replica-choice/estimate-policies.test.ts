import { describe, expect, it } from 'vitest';
import type { RecordedChoice } from './choice-log.js';
import { replay } from './estimate-policies.js';
import { seeded } from './random.js';
import { ReplicaChooser } from './replica-chooser.js';
import { rewardOf } from './reward.js';

const OBJECTIVE = 100;
const LATENCY: Readonly<Record<string, number>> = { a: 40, b: 100, c: 300 };

/** Simulates three different replicas, and returns the choices of a chooser that explores often. */
function recordedIn(calls: number, exploration: number): RecordedChoice[] {
  const random = seeded(11);
  const chooser = new ReplicaChooser({ replicas: Object.keys(LATENCY), objective: OBJECTIVE, random, exploration });
  return Array.from({ length: calls }, (_, call): RecordedChoice => {
    const choice = chooser.choose('any', call);
    const outcome = { success: random() < 0.95, latency: LATENCY[choice.replica]! };
    chooser.ended(choice);
    chooser.settled(choice, outcome, call);
    const { requestClass, among, replica: chosen, propensity } = choice;
    const reward = rewardOf(outcome, OBJECTIVE);
    return {
      ...{ at: call * 100, pool: 'server:x', requestClass, among, chosen },
      propensity: propensity!,
      ...outcome,
      reward,
    };
  });
}

const truth = (replica: string): number => 0.95 * rewardOf({ success: true, latency: LATENCY[replica]! }, OBJECTIVE);

describe('replay', () => {
  const estimates = new Map(replay(recordedIn(6_000, 0.2), OBJECTIVE).map((each) => [each.policy, each]));

  it('estimates round robin from the choices of another policy, with the true value in the interval', () => {
    const { reward, from, to, effective, choices } = estimates.get('round robin')!;
    const real = (truth('a') + truth('b') + truth('c')) / 3;
    expect(from).toBeLessThan(real);
    expect(to).toBeGreaterThan(real);
    expect(Math.abs(reward - real)).toBeLessThan(0.05);
    expect(effective).toBeLessThan(choices);
  });

  it('estimates the learned policy highest, and uses all choices for the recorded policy', () => {
    const rewards = [...estimates.values()].map(({ reward }) => reward);
    expect(estimates.get('learned')!.reward).toBe(Math.max(...rewards));
    expect(estimates.get('learned')!.reward).toBeGreaterThan(0.9 * truth('a'));
    expect(estimates.get('recorded')).toMatchObject({ choices: 6_000, effective: 6_000 });
    expect(estimates.get('P2C')!.reward).toBeGreaterThan(estimates.get('round robin')!.reward);
    expect([...estimates.keys()]).toEqual(['recorded', 'round robin', 'least request', 'P2C', 'learned']);
  });

  it('estimates the success rate that all replicas have for every policy', () => {
    for (const { success } of estimates.values()) expect(success).toBeCloseTo(0.95, 1);
  });

  it('leaves out unusable rows; without usable rows the interval is from 0 to 1', () => {
    const [row] = recordedIn(1, 0.5);
    const broken = [
      { ...row!, propensity: 0 },
      { ...row!, chosen: 'gone' },
      { ...row!, reward: Number.NaN },
    ];
    for (const { choices, from, to, effective } of replay(broken, OBJECTIVE)) {
      expect({ choices, from, to, effective }).toEqual({ choices: 0, from: 0, to: 1, effective: 0 });
    }
  });
});
