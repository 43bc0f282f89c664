import { LearnedTerms } from './learned-terms.js';
import { Outcomes, type OutcomesOptions, type SearchOutcome } from './outcomes.js';
import { OutcomesByTerm, type Reader } from './outcomes-by-term.js';
import { PastQueries } from './past-queries.js';
import type { LearnedScores, Rarity, Suggestion } from './tool-key.js';
import type { ToolRanking } from './tool-ranking.js';

/** The weights that a replay can choose. 0 switches a part off. */
const WEIGHTS = [0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8];
const REPLAYED = 400;
/** The longest slice of a replay, in milliseconds, before other work runs. */
const SLICE = 2;
/**
 * The most that learning adds to a tool's score, as a share of the best score for the need, before the weight is
 * applied.
 */
const MOST_SHARE = 1.5;
/** A higher weight must improve the replay by this much, in mean reciprocal rank. */
const IMPROVEMENT = 0.002;

export interface LearningOptions extends OutcomesOptions {
  /**
   * The number of callers that must have the same outcome before it counts for other callers. With 1, each outcome
   * counts for all callers.
   */
  readonly confirmations?: number;
}

export interface Weights {
  readonly terms: number;
  readonly votes: number;
}

export const NO_WEIGHTS: Weights = { terms: 0, votes: 0 };

/**
 * Learns from outcomes in two ways: terms of successful searches become a field of the tool, and the most similar past
 * searches vote for tools. Both weights begin at 0 and rise only while a replay of the last outcomes improves. Learning
 * that does not help therefore changes nothing.
 */
export class Learning {
  private readonly byTerm = new OutcomesByTerm();
  private readonly terms = new LearnedTerms(this.byTerm);
  private readonly past = new PastQueries(this.byTerm);
  readonly outcomes: Outcomes;
  private chosen = NO_WEIGHTS;

  private readonly confirmations: number;

  constructor(options: LearningOptions = {}) {
    this.confirmations = options.confirmations ?? 3;
    this.outcomes = new Outcomes(this.byTerm, options);
  }

  get weights(): Weights {
    return this.chosen;
  }

  /**
   * Records an outcome. `caller` is undefined for a caller that is not authenticated; search does not learn from that
   * caller.
   */
  record(outcome: Omit<SearchOutcome, 'caller'> & { readonly caller: string | undefined }): void {
    const { caller } = outcome;
    if (caller !== undefined) this.outcomes.add({ ...outcome, caller });
  }

  /** The learned terms and votes for one caller. */
  for(caller: string | undefined, weights = this.chosen, except?: number): LearnedScores | undefined {
    if (weights.terms === 0 && weights.votes === 0) return undefined;
    return {
      suggestions: (terms, rarity) => this.suggestions({ caller: caller ?? '', terms, rarity, weights, except }),
    };
  }

  /** Uses weights that the replay of another replica chose. */
  use(weights: Weights): void {
    this.chosen = weights;
  }

  /**
   * Chooses the weights: repeats the searches of the last outcomes. Each repeated search ignores what was learned from
   * itself.
   */
  replay(index: ToolRanking): Weights {
    const steps = this.replaySteps(index);
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) return step.value;
    }
  }

  /** Like `replay`, but in slices of a few milliseconds, so that calls continue in between. */
  async replayInSlices(index: ToolRanking): Promise<Weights> {
    const steps = this.replaySteps(index);
    for (let began = performance.now(); ; ) {
      const step = steps.next();
      if (step.done === true) return step.value;
      if (performance.now() - began < SLICE) continue;
      await new Promise((resolve) => setImmediate(resolve));
      began = performance.now();
    }
  }

  /** A replay that yields before every search. */
  private *replaySteps(index: ToolRanking): Generator<undefined, Weights> {
    // Chooses the weight of terms first. Votes often suggest the same tools, but they displace the best result more
    // often.
    const terms = yield* this.climb(index, NO_WEIGHTS, 'terms');
    this.chosen = yield* this.climb(index, terms, 'votes');
    return this.chosen;
  }

  forget(caller?: string): void {
    this.outcomes.forget(caller);
    if (this.outcomes.size === 0) this.chosen = NO_WEIGHTS;
  }

  private *climb(index: ToolRanking, from: Weights, part: keyof Weights): Generator<undefined, Weights> {
    let best: Weights = { ...from, [part]: 0 };
    let reached = yield* this.quality(index, best);
    let idle = 0;
    for (const weight of WEIGHTS.slice(1)) {
      const weights = { ...from, [part]: weight };
      const quality = yield* this.quality(index, weights);
      if (improvement(reached, quality) < IMPROVEMENT) {
        // One step may be too small to change a rank; two steps without improvement end the climb.
        idle += 1;
        if (idle > 1) break;
        continue;
      }
      idle = 0;
      best = weights;
      reached = quality;
    }
    return best;
  }

  /** For each caller the mean reciprocal rank of the tools of its last outcomes, within five results. */
  private *quality(index: ToolRanking, weights: Weights): Generator<undefined, Map<string, number>> {
    const ranks = new Map<string, number[]>();
    for (const { caller, terms, tool, query } of this.outcomes.latest(REPLAYED)) {
      yield;
      const hits = index.search(terms, { limit: 5, learned: this.for(caller, weights, query) });
      const rank = hits.findIndex(({ server, name }) => server === tool.server && name === tool.name);
      const all = ranks.get(caller) ?? [];
      all.push(rank < 0 ? 0 : 1 / (rank + 1));
      ranks.set(caller, all);
    }
    return new Map([...ranks].map(([caller, all]) => [caller, meanOf(all)]));
  }

  private suggestions({ caller, terms, rarity, weights, except }: Request): Suggestion[] {
    const found: Suggestion[] = [];
    const { confirmations, outcomes } = this;
    const reader: Reader = { caller, counts: (key) => !outcomes.isLoud(key) };
    const options = { caller, confirmations, most: MOST_SHARE };
    if (weights.votes > 0) {
      const support = this.past.support(terms, rarity, reader, except);
      found.push(...support.suggestions({ ...options, weight: weights.votes }));
    }
    if (weights.terms > 0) {
      const support = this.terms.support(terms, rarity, reader, except);
      found.push(...support.suggestions({ ...options, weight: weights.terms }));
    }
    return found;
  }
}

interface Request {
  readonly caller: string;
  readonly terms: readonly string[];
  readonly rarity: Rarity;
  readonly weights: Weights;
  readonly except: number | undefined;
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * The mean improvement over callers. Ignores the two callers that change the mean most, so that no single caller
 * decides about the weights.
 */
function improvement(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): number {
  const changes = [...after]
    .map(([caller, quality]) => quality - (before.get(caller) ?? quality))
    .sort((a, b) => a - b);
  if (changes.length === 0) return 0;
  return meanOf(changes.length < 3 ? changes : changes.slice(1, -1));
}
