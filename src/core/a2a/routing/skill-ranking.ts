import type { AgentCard, AgentSkill } from '../../../protocol/a2a/model.js';
import { type ExplainedHit, type Explanation, explain } from '../../search/explanation.js';
import { TOOL_SHARES, ToolRanking } from '../../search/tool-ranking.js';
import type { SearchDocument } from '../../search/weighted-fields.js';

/** A skill that a message may be for. */
export interface RankableSkill {
  readonly agent: string;
  readonly title: string;
  readonly about: string;
  readonly skillId: string;
  readonly skill: AgentSkill;
  /** The card with the skill. When the card of an agent changes, the index of that agent is built again. */
  readonly card: AgentCard;
}

/** An agent with the score of its skills. */
export interface RankedAgent {
  readonly agent: string;
  /** The skill with the highest score. */
  readonly skillId: string;
  /** The score relative to the best agent, whose score is 1. */
  readonly score: number;
  /** The terms of the message that the skill has. */
  readonly matched: readonly string[];
  /** Whether the best skill has nearly the same text as a skill of a better agent. */
  readonly equivalent: boolean;
}

/** A part of a message with the agent that fits it best. */
export interface RankedNeed {
  readonly need: string;
  readonly agent: string;
  readonly skillId: string;
}

export interface AgentRanking {
  /** The agents with a matching skill, best first. */
  readonly agents: readonly RankedAgent[];
  /**
   * The sum of the weights of the message's terms in the best skill. One matching word of a description gives about
   * 0.5.
   */
  readonly strength: number;
  /** If the message has several needs: the needs that a skill fits. */
  readonly needs: readonly RankedNeed[];
}

const MOST_HITS = 50;
const MOST_MATCHED = 8;
const LONGEST_NEED = 120;
/** The rarity of a term that two thirds of the skills have. */
const RARE = 0.4;
/** The most agents that stay in the index although the current caller does not see them. */
const MOST_OTHERS = 1_000;
/**
 * Words that occur in requests of any kind. They say nothing about the skill, although descriptions of skills contain
 * them.
 */
const REQUEST_WORDS = /\b(?:tell|show|give|get|make|help|use|using|one|something|thing|now|no|not)\b/gi;

/** Ranks the skills of agents for a message with `ToolRanking`. An agent gets the scores of its skills. */
export class SkillRanking {
  private readonly index = new ToolRanking();
  private readonly cards = new Map<string, AgentCard>();

  /**
   * Ranks the agents of `fitting` for a text. `all` are the skills that the caller sees. `enough` is the least strength
   * of a need that counts.
   */
  rank(all: readonly RankableSkill[], fitting: readonly RankableSkill[], text: string, enough: number): AgentRanking {
    this.update(all);
    const hidden = hiddenSkills(all, fitting);
    const visible = { hiddenOf: (agent: string) => hidden.get(agent) };
    const find = (query: string): Explanation =>
      explain(this.index, query.replace(REQUEST_WORDS, ' '), { limit: MOST_HITS, visible });
    const { hits, needs } = find(text);
    return {
      agents: agentsOf(hits),
      strength: this.strengthOf(hits[0]),
      needs: needs.flatMap((need): RankedNeed[] => {
        const [best] = find(need).hits;
        if (!best || this.strengthOf(best) < enough) return [];
        return [{ need: need.trim().slice(0, LONGEST_NEED), agent: best.server, skillId: best.name }];
      }),
    };
  }

  /**
   * How well a skill matches the words of the message. A term that most skills have gets a small weight. The cap at 1
   * gives a term of a few equal agents the same weight as a term of a single agent.
   */
  private strengthOf(hit: ExplainedHit | undefined): number {
    const words = hit?.terms.filter(({ term }) => !term.includes(' ')) ?? [];
    return words.reduce(
      (sum, { term, synonym, weight }) => sum + weight * Math.min(1, this.index.rarity(synonym ?? term) / RARE),
      0,
    );
  }

  private update(all: readonly RankableSkill[]): void {
    const byAgent = new Map<string, RankableSkill[]>();
    for (const skill of all) {
      const own = byAgent.get(skill.agent);
      if (own) own.push(skill);
      else byAgent.set(skill.agent, [skill]);
    }
    for (const [agent, skills] of byAgent) {
      const { card, title, about } = skills[0]!;
      if (this.cards.get(agent) === card) continue;
      this.cards.set(agent, card);
      this.index.set({ name: agent, title: `${agent} ${title}`, description: about }, skills.map(documentOf));
    }
    if (this.cards.size <= byAgent.size + MOST_OTHERS) return;
    for (const agent of [...this.cards.keys()].filter((name) => !byAgent.has(name))) {
      this.cards.delete(agent);
      this.index.delete(agent);
    }
  }
}

/** For each agent of `fitting`, its skills that do not fit. These skills must not change a score. */
function hiddenSkills(
  all: readonly RankableSkill[],
  fitting: readonly RankableSkill[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const fits = new Set(fitting.map(({ agent, skillId }) => `${agent}\n${skillId}`));
  const hidden = new Map(fitting.map(({ agent }) => [agent, new Set<string>()]));
  for (const { agent, skillId } of all) if (!fits.has(`${agent}\n${skillId}`)) hidden.get(agent)?.add(skillId);
  return hidden;
}

const documentOf = ({ skillId, skill }: RankableSkill): SearchDocument => ({
  key: skillId,
  name: skill.name,
  description: skill.description,
  tags: skill.tags,
  examples: skill.examples ?? [],
});

/** The agents with the scores of their best skills, computed like the scores of servers from their tools. */
function agentsOf(hits: readonly ExplainedHit[]): RankedAgent[] {
  const found = new Map<
    string,
    { best: ExplainedHit; skillId: string; score: number; count: number; equal: boolean }
  >();
  const add = (agent: string, skillId: string, best: ExplainedHit, equal: boolean): void => {
    const known = found.get(agent);
    const share = (TOOL_SHARES[known?.count ?? 0] ?? 0) * best.score;
    if (known) {
      known.count += 1;
      known.score += share;
    } else found.set(agent, { best, skillId, score: share, count: 1, equal });
  };
  for (const hit of hits) {
    add(hit.server, hit.name, hit, false);
    for (const { server, name } of hit.duplicates) add(server, name, hit, true);
  }
  const highest = Math.max(0, ...[...found.values()].map(({ score }) => score));
  return [...found]
    .map(([agent, { best, skillId, score, equal }]) => ({
      ...{ agent, skillId, score: score / highest, equivalent: equal },
      matched: [...new Set(best.terms.map(({ term }) => term))]
        .filter((term) => !term.includes(' '))
        .slice(0, MOST_MATCHED),
    }))
    .sort((a, b) => b.score - a.score);
}
