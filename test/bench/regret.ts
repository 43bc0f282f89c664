/**
 * Measures how much of the gap between round robin and an oracle each policy closes when replicas differ and change.
 * The oracle knows every replica's behaviour at every moment.
 *
 *   npm run bench:regret [-- --seeds 30] [--first 1000]
 */
import { parseArgs } from 'node:util';
import { seeded } from '../../src/core/replica-choice/random.js';
import { ReplicaChooser } from '../../src/core/replica-choice/replica-chooser.js';
import { POLICIES, type PolicyName } from './regret/policies.js';
import { SCENARIOS, type Scenario } from './regret/scenarios.js';
import { OBJECTIVE, simulate } from './regret/simulate.js';

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '30' }, first: { type: 'string', default: '1000' } },
});
const seeds = Array.from({ length: Number(values.seeds) }, (_, index) => Number(values.first) + index);
const shown: readonly PolicyName[] = ['least request', 'P2C peak-EWMA', 'learned'];

const meanOf = (all: readonly number[]): number => all.reduce((sum, value) => sum + value, 0) / all.length;

/** Half of the width of the 95 % interval of a mean. */
function halfWidth(all: readonly number[]): number {
  const mean = meanOf(all);
  const variance = all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(1, all.length - 1);
  return 1.96 * Math.sqrt(variance / all.length);
}

/** The percentage of the gap that a policy closes, for each seed. */
function closed(scenario: Scenario, policy: PolicyName): number[] {
  return seeds.map((seed) => {
    const floor = simulate(scenario, POLICIES['round robin'], seed);
    const ceiling = simulate(scenario, POLICIES.oracle, seed);
    return (100 * (simulate(scenario, POLICIES[policy], seed) - floor)) / (ceiling - floor);
  });
}

/** Microseconds of one choice and its outcome. */
function decisionTime(replicas: number): number {
  const names = Array.from({ length: replicas }, (_, index) => String(index));
  const chooser = new ReplicaChooser({ replicas: names, objective: OBJECTIVE, random: seeded(1) });
  const run = (count: number): void => {
    for (let call = 0; call < count; call += 1) {
      const choice = chooser.choose('any', call);
      chooser.ended(choice);
      chooser.settled(choice, { success: call % 50 !== 0, latency: 50 + 3 * Number(choice.replica) }, call);
    }
  };
  run(20_000);
  // Processor time, so that other programs of a busy machine do not count.
  const began = process.cpuUsage();
  run(50_000);
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 50_000;
}

console.log(`gap closed between round robin (0 %) and the oracle (100 %), ${seeds.length} seeds, 95 % intervals\n`);
console.log(`${'scenario'.padEnd(20)}${shown.map((name) => name.padStart(18)).join('')}`);
const learned: number[] = [];
for (const scenario of SCENARIOS) {
  const cells = shown.map((policy) => {
    const all = closed(scenario, policy);
    if (policy === 'learned') learned.push(meanOf(all));
    return `${meanOf(all).toFixed(1)} ± ${halfWidth(all).toFixed(1)}`.padStart(18);
  });
  console.log(`${scenario.name.padEnd(20)}${cells.join('')}`);
}
console.log(`\nlearned: mean ${meanOf(learned).toFixed(1)} %, worst ${Math.min(...learned).toFixed(1)} %`);
console.log(
  `decision and outcome: ${decisionTime(5).toFixed(1)} µs with 5 replicas, ${decisionTime(50).toFixed(1)} µs with 50`,
);
