import { RecentMap } from '../../recent-map.js';
import type { ChoiceLog } from '../../replica-choice/choice-log.js';
import { type Judged, judgedError } from '../../replica-choice/judged-outcome.js';
import { type ReplicaChoice, ReplicaChooser } from '../../replica-choice/replica-chooser.js';
import { type QualitySource, rewardOf } from '../../replica-choice/reward.js';
import type { AgentAnswer } from '../gateway.js';

export interface EqualSkillsOptions {
  /** The latency objective in milliseconds. */
  readonly objective: number;
  readonly quality?: QualitySource | undefined;
  readonly choices?: ChoiceLog | undefined;
  readonly random?: () => number;
}

/** The choice of one of several agents with an equal skill. */
export interface SkillChoice {
  readonly agent: string;
  /** Sends the message, and learns from its outcome. */
  run(send: () => Promise<AgentAnswer>): Promise<AgentAnswer>;
}

/** The most skills whose agents are compared. */
const MOST_SKILLS = 1_000;

/**
 * Chooses among agents that offer the same skill, as `ReplicatedUpstream` does among replicas of a server. The router
 * keeps tasks and contexts with their agent. A message goes to the chosen agent only, even if nothing was sent, because
 * the interceptors have admitted the message for that agent.
 */
export class EqualSkills {
  private readonly choosers = new RecentMap<ReplicaChooser>(MOST_SKILLS);

  constructor(private readonly options: EqualSkillsOptions) {}

  /** Chooses one of the agents. `skill` names the skill, `operation` is the class of the request. */
  choose(skill: string, operation: string, agents: readonly string[]): SkillChoice {
    const chooser = this.chooserOf(skill, agents);
    const among = new Set(agents);
    const pool = `skill:${skill.slice(0, 200)}`;
    const sampled = this.options.choices?.wants(pool) === true;
    const choice = chooser.choose(operation, performance.now(), (agent) => among.has(agent));
    // Interceptors may refuse or delay the message, so the message counts as load only once it is sent.
    chooser.ended(choice);
    chooser.released(choice);
    return { agent: choice.replica, run: (send) => this.run(chooser, choice, sampled ? pool : undefined, send) };
  }

  private chooserOf(skill: string, agents: readonly string[]): ReplicaChooser {
    let chooser = this.choosers.get(skill);
    if (!chooser) {
      const { objective, random } = this.options;
      chooser = new ReplicaChooser({ replicas: [], objective, ...(random && { random }) });
      this.choosers.set(skill, chooser);
    }
    chooser.know(agents);
    return chooser;
  }

  /** `pool` is undefined for a choice that is not recorded. */
  private async run(
    chooser: ReplicaChooser,
    choice: ReplicaChoice,
    pool: string | undefined,
    send: () => Promise<AgentAnswer>,
  ): Promise<AgentAnswer> {
    const sent = chooser.assign(choice.replica, choice.requestClass, performance.now());
    const began = performance.now();
    const settle = (found: Judged | undefined): void => {
      chooser.ended(sent);
      if (found) this.settle(chooser, choice, pool, found, performance.now() - began);
      else chooser.released(sent);
    };
    let answer: AgentAnswer;
    try {
      answer = await send();
    } catch (error) {
      settle(judgedError(error));
      throw error;
    }
    settle(hasFailed(answer) ? { success: false, answered: true } : { success: true });
    return answer;
  }

  private settle(
    chooser: ReplicaChooser,
    choice: ReplicaChoice,
    pool: string | undefined,
    found: Judged,
    latency: number,
  ): void {
    const { objective, quality, choices } = this.options;
    const { replica: agent, requestClass, among, propensity } = choice;
    const score = quality?.(agent);
    const outcome = { ...found, latency, ...(score !== undefined && { quality: score }) };
    chooser.settled(choice, outcome, performance.now());
    if (pool === undefined || propensity === undefined || among.length < 2) return;
    choices?.record({
      ...{ at: Date.now(), pool, requestClass, among, chosen: agent, propensity },
      ...{ success: found.success, latency, reward: rewardOf(outcome, objective) },
    });
  }
}

const FAILED: readonly unknown[] = ['TASK_STATE_FAILED', 'TASK_STATE_REJECTED'];

/** Whether the agent answered with a failed task. A stream counts as a success, because its end comes later. */
function hasFailed(answer: AgentAnswer): boolean {
  if (answer.kind !== 'result') return false;
  const { task } = (answer.result.value ?? {}) as {
    readonly task?: { readonly status?: { readonly state?: unknown } };
  };
  return FAILED.includes(task?.status?.state);
}
