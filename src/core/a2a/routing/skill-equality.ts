import type { AgentSkill } from '../../../protocol/a2a/model.js';

/** A skill of an agent, as far as clients read it. */
export interface OfferedSkill {
  readonly agent: string;
  /** The skill's id at its agent. */
  readonly ownId: string;
  readonly skill: AgentSkill;
  readonly inputModes: readonly string[];
  readonly outputModes: readonly string[];
}

/** The equal skills among some, with the skill itself. */
export const twinsOf = <S extends OfferedSkill>(skill: S, among: readonly S[]): S[] =>
  among.filter((other) => isEqual(skill, other));

/** The first of each group of equal skills. */
export function withoutTwins<S extends OfferedSkill>(skills: readonly S[]): S[] {
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
