/** Microseconds per decision of a policy with 50 rules: `npm run bench:policy`. */
import { principalOf } from '../../src/core/caller.js';
import { type Effect, Policy } from '../../src/identity/policy/policy.js';
import type { Question } from '../../src/identity/policy/policy-question.js';
import { rulesOf, type WrittenRule } from '../../src/identity/policy/policy-rule.js';

const RULES = 50;
const DECISIONS = 100_000;
const ROUNDS = 7;

const ada = principalOf({ subject: 'ada', roles: ['staff'], groups: ['eng'] });
const args = { path: '/workspace/a.txt', amount: 3 };
const calling = (tool = 'write'): Question => ({
  ...{ principal: ada, protocol: 'mcp', method: 'tools/call', subject: { kind: 'tool', server: 'files', name: tool } },
  arguments: () => args,
});

const policyOf = (when: (index: number) => string): Policy => {
  const rules = Array.from({ length: RULES }, (_, index): WrittenRule => {
    const effect: Effect = index === RULES - 1 ? 'allow' : index % 2 ? 'deny' : 'approve';
    return { name: `rule ${index}`, effect, when: index === RULES - 1 ? 'args.amount < 100' : when(index) };
  });
  return new Policy(rulesOf(rules));
};

const CASES: readonly (readonly [name: string, policy: Policy, question: () => Question])[] = [
  [
    'rules about callers, servers, tools and arguments',
    policyOf((i) => `server == "s${i}" && "role${i}" in caller.roles && tool.startsWith("t") && args.amount > ${i}`),
    () => calling(),
  ],
  ['rules about arguments only, all of them evaluated', policyOf((i) => `args.amount > ${1_000 + i}`), () => calling()],
  [
    'rules with patterns about arguments, all of them evaluated',
    policyOf((i) => `args.path.matches("^/etc/.*${i}$")`),
    () => calling(),
  ],
  [
    'rules with patterns for any place in arguments, all of them evaluated',
    policyOf((i) => `args.path.matches("secret[0-9]*-${i}")`),
    () => calling(),
  ],
  [
    'rules with patterns whose start matches, all of them evaluated',
    policyOf((i) => `args.path.matches("^/work.*/secret-${i}$")`),
    () => calling(),
  ],
];

/** CPU time of the best of several rounds, because other programs share the machine. */
function microseconds(policy: Policy, question: () => Question): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const began = process.cpuUsage();
    for (let i = 0; i < DECISIONS / 10; i++) policy.decide(question());
    const { user, system } = process.cpuUsage(began);
    best = Math.min(best, user + system);
  }
  return best / (DECISIONS / 10);
}

console.log(`CPU microseconds for each decision, ${RULES} rules`);
for (const [name, policy, question] of CASES) {
  let tools = 0;
  const first = microseconds(policy, () => calling(`tool${tools++ % 100_000}`));
  console.log(`${name}: ${microseconds(policy, question).toFixed(2)} (first call to a target: ${first.toFixed(1)})`);
}
