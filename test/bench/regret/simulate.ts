/** Runs one policy in one scenario. Calls arrive at random times, and each outcome is known when its call has ended. */
import { normals, seeded } from '../../../src/core/replica-choice/random.js';
import { type ReplicaOutcome, rewardOf } from '../../../src/core/replica-choice/reward.js';
import type { MakePolicy } from './policies.js';
import type { Behaviour, Scenario } from './scenarios.js';

export const OBJECTIVE = 150;
/** Mean milliseconds between two calls. */
const INTERVAL = 25;
const SPREAD = 0.25;

/** The mean reward over all calls. */
export function simulate(scenario: Scenario, make: MakePolicy, seed: number): number {
  const world = seeded(seed);
  const normal = normals(world);
  const duration = scenario.calls * INTERVAL;
  const behaviour = (replica: number, requestClass: string, now: number): Behaviour =>
    scenario.at(replica, now / duration, requestClass);
  const expected = (replica: number, requestClass: string, now: number): number => {
    const { success, latency, quality } = behaviour(replica, requestClass, now);
    return success * rewardOf({ success: true, latency, ...(quality !== undefined && { quality }) }, OBJECTIVE);
  };
  const policy = make(scenario.replicas, seeded(seed + 7_919), OBJECTIVE, expected);
  const open: { at: number; work: () => void }[] = [];
  let now = 0;
  let sum = 0;
  for (let call = 0; call < scenario.calls; call += 1) {
    now += -Math.log(1 - world()) * INTERVAL;
    open.sort((a, b) => a.at - b.at);
    while (open[0] && open[0].at <= now) {
      open.shift()!.work();
    }
    const requestClass = scenario.classes[Math.floor(world() * scenario.classes.length)]!;
    const [replica, token] = policy.choose(requestClass, now);
    const outcome = drawn(behaviour(replica, requestClass, now), world(), normal());
    sum += rewardOf(outcome, OBJECTIVE);
    const end = now + outcome.latency;
    const known = end + scenario.delay;
    open.push({ at: end, work: () => policy.ended(replica, token) });
    open.push({ at: known, work: () => policy.settled(replica, outcome, known, token) });
  }
  return sum / scenario.calls;
}

function drawn({ success, latency, failureLatency, quality }: Behaviour, luck: number, noise: number): ReplicaOutcome {
  const succeeded = luck < success;
  const median = succeeded ? latency : (failureLatency ?? latency);
  const time = median * Math.exp(SPREAD * noise);
  return { success: succeeded, latency: time, ...(quality !== undefined && { quality }) };
}
