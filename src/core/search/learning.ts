import { LearnedTerms } from './learned-terms.js';
import { Outcomes, type OutcomesOptions, type SearchOutcome } from './outcomes.js';
import { OutcomesByTerm, type Reader } from './outcomes-by-term.js';
import { PastQueries } from './past-queries.js';
import type { LearnedScores, Rarity, Suggestion } from './tool-key.js';
import type { ToolRanking } from './tool-ranking.js';

/** Weights that a replay chooses from. 0 switches a part off. */
const WEIGHTS = [0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8];
const REPLAYED = 400;
/** The longest slice of a replay, in milliseconds. */
const SLICE = 2;
/** The share of one need's best score that learning adds to a tool at most, before its weight. */
const MOST_SHARE = 1.5;
/** A higher weight must improve the replay by this much, in mean reciprocal rank. */
const IMPROVEMENT = 0.002;

export interface LearningOptions extends OutcomesOptions {
  /** The number of callers that must agree before their outcomes count for others; with 1 every caller is trusted. */
  readonly confirmations?: number;
}

export interface Weights {
  readonly terms: number;
  readonly votes: number;
}

export const NO_WEIGHTS: Weights = { terms: 0, votes: 0 };

/**
 * Learns from outcomes: terms of successful searches become a field of their tool, and the nearest past searches vote.
 * Both weights begin at 0 and rise only while a replay of the last outcomes improves, so learning that does not help
 * changes nothing.
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

  /** Search learns from authenticated callers only: `caller` is undefined for any other. */
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

  /** Uses weights that another replay chose. */
  use(weights: Weights): void {
    this.chosen = weights;
  }

  /** Chooses the weights: repeats the searches of the last outcomes, each without its own contribution. */
  replay(index: ToolRanking): Weights {
    const steps = this.replaySteps(index);
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) return step.value;
    }
  }

  /** The same in slices of a few milliseconds: calls go on between them. */
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

  /** A replay that pauses after every search. */
  private *replaySteps(index: ToolRanking): Generator<undefined, Weights> {
    // Terms first: votes often say the same, but move the best result away more often.
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

/** The mean improvement of callers, without the two that would move it most: no single caller sets the weights. */
function improvement(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): number {
  const changes = [...after]
    .map(([caller, quality]) => quality - (before.get(caller) ?? quality))
    .sort((a, b) => a - b);
  if (changes.length === 0) return 0;
  return meanOf(changes.length < 3 ? changes : changes.slice(1, -1));
}
