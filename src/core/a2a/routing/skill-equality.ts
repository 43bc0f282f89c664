import type { AgentSkill } from '../../../protocol/a2a/model.js';

/** The parts of an agent's skill that clients read. */
export interface OfferedSkill {
  readonly agent: string;
  /** The id that the agent gives the skill. */
  readonly ownId: string;
  readonly skill: AgentSkill;
  readonly inputModes: readonly string[];
  readonly outputModes: readonly string[];
}

/** The skills of the list that equal the given skill, including that skill. */
export const equalSkillsOf = <S extends OfferedSkill>(skill: S, among: readonly S[]): S[] =>
  among.filter((other) => isEqual(skill, other));

/** The first of each group of equal skills. */
export function withoutEqualSkills<S extends OfferedSkill>(skills: readonly S[]): S[] {
  const kept = new Map<string, S[]>();
  return skills.filter((skill) => {
    const others = kept.get(skill.ownId) ?? [];
    if (others.some((other) => isEqual(skill, other))) return false;
    kept.set(skill.ownId, [...others, skill]);
    return true;
  });
}

/** Whether two agents offer the same skill: equal in all parts that clients read. */
export function isEqual(one: OfferedSkill, other: OfferedSkill): boolean {
  if (one === other) return true;
  // The card of the routing agent adds the name of each agent to the tags of its skills.
  const names = [one.agent, other.agent];
  return one.ownId === other.ownId && meaningOf(one, names) === meaningOf(other, names);
}

function meaningOf({ skill, inputModes, outputModes }: OfferedSkill, names: readonly string[]): string {
  const { name, description, tags, examples = [] } = skill;
  return JSON.stringify([
    name,
    description,
    tags.filter((tag) => !names.includes(tag)),
    examples,
    inputModes,
    outputModes,
  ]);
}
