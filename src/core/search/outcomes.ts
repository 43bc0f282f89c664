import { hashOf } from './tokenize.js';
import type { ToolKey } from './tool-key.js';

/** A call that succeeded after a search. It contains the stems of the search's words, not the text. */
export interface SearchOutcome {
  /** A stable key of the authenticated caller. */
  readonly caller: string;
  readonly terms: readonly string[];
  readonly tool: ToolKey;
}

/** An outcome in its stored form. */
export interface KeptOutcome extends SearchOutcome {
  /** A hash of the search, equal for equal searches, so that a repeated search counts once. */
  readonly query: number;
}

export interface OutcomesOptions {
  /** The most outcomes of all callers. */
  readonly most?: number;
  /** The most outcomes of one caller, so that no caller displaces the outcomes of all others. */
  readonly mostPerCaller?: number;
}

/** Is notified of added and removed outcomes. */
export interface OutcomeListener {
  added(outcome: KeptOutcome): void;
  removed(outcome: KeptOutcome): void;
}

const MOST_TERMS = 32;
/**
 * A caller is loud if it has more outcomes than `LOUD_FACTOR` times the median of all callers, and at least
 * `LOUD_FROM`.
 */
const LOUD_FACTOR = 3;
const LOUD_FROM = 50;
const CHANGES_PER_MEDIAN = 50;

/** The outcome in its stored form, or undefined if its search has no terms. */
export function keptOf({ caller, terms: all, tool }: SearchOutcome): KeptOutcome | undefined {
  const terms = [...new Set(all)].slice(0, MOST_TERMS);
  if (terms.length === 0) return undefined;
  return { caller, terms, tool, query: hashOf([...terms].sort().join(' ')) };
}

/** Identifies an outcome among those of its caller. */
export const idOf = ({ query, tool }: Pick<KeptOutcome, 'query' | 'tool'>): string =>
  JSON.stringify([query, tool.server, tool.name]);

/** The last successful calls after searches, limited in total and per caller. The oldest outcomes are removed first. */
export class Outcomes {
  private readonly kept = new Set<KeptOutcome>();
  private readonly byCaller = new Map<string, Map<string, KeptOutcome>>();
  /** The outcomes of a caller with more outcomes than this count for that caller only. */
  private loudness = Number.POSITIVE_INFINITY;
  private changes = 0;
  private readonly most: number;
  private readonly mostPerCaller: number;

  constructor(
    private readonly listener: OutcomeListener,
    { most = 5_000, mostPerCaller = 1_000 }: OutcomesOptions = {},
  ) {
    this.most = most;
    this.mostPerCaller = mostPerCaller;
  }

  get size(): number {
    return this.kept.size;
  }

  add(given: SearchOutcome): void {
    const outcome = keptOf(given);
    if (outcome) this.keep(outcome);
  }

  has(outcome: KeptOutcome): boolean {
    return this.byCaller.get(outcome.caller)?.has(idOf(outcome)) === true;
  }

  /** Adds an outcome that was made with `keptOf`. */
  keep(outcome: KeptOutcome): void {
    const { caller } = outcome;
    const id = idOf(outcome);
    const own = this.byCaller.get(caller) ?? new Map<string, KeptOutcome>();
    const same = own.get(id);
    if (same) this.remove(same, id);
    else if (own.size >= this.mostPerCaller) this.removeOldest(own);
    else if (this.kept.size >= this.most) this.removeOldest(this.largest());
    this.kept.add(outcome);
    own.set(id, outcome);
    this.byCaller.set(caller, own);
    this.listener.added(outcome);
    this.changes += 1;
    if (this.changes % CHANGES_PER_MEDIAN === 0) this.measureLoudness();
  }

  /**
   * Whether a caller has far more outcomes than most callers. The outcomes of such a caller may be false, so they count
   * for that caller only.
   */
  isLoud(caller: string): boolean {
    return (this.byCaller.get(caller)?.size ?? 0) > this.loudness;
  }

  /** Computes the limit above which a caller is loud again. Replicas with equal outcomes get equal limits. */
  measureLoudness(): void {
    const sizes = [...this.byCaller.values()].map(({ size }) => size).sort((a, b) => a - b);
    const median = sizes[Math.floor((sizes.length - 1) / 2)] ?? 0;
    this.loudness = Math.max(LOUD_FROM, LOUD_FACTOR * median);
  }

  /**
   * The last outcomes of each caller, one caller after the other in rounds, so that no caller fills the result while
   * others have outcomes. The callers with the latest outcomes come first, so that an old burst of many callers does
   * not fill the result either.
   */
  latest(count: number): KeptOutcome[] {
    const queues = new Map<string, KeptOutcome[]>();
    for (const outcome of [...this.kept].reverse()) {
      const queue = queues.get(outcome.caller);
      if (!queue) queues.set(outcome.caller, [outcome]);
      else if (queue.length < count) queue.push(outcome);
    }
    const found: KeptOutcome[] = [];
    for (let round = 0; found.length < count; round += 1) {
      const before = found.length;
      for (const queue of queues.values()) {
        const outcome = queue[round];
        if (outcome && found.length < count) found.push(outcome);
      }
      if (found.length === before) break;
    }
    return found;
  }

  /** The number of callers with outcomes, and the number of callers from whose outcomes no other caller learns. */
  get callers(): { readonly all: number; readonly loud: number } {
    const keys = [...this.byCaller.keys()];
    return { all: keys.length, loud: keys.filter((key) => this.isLoud(key)).length };
  }

  [Symbol.iterator](): IterableIterator<KeptOutcome> {
    return this.kept.values();
  }

  /** Forgets all outcomes, or those of one caller. */
  forget(caller?: string): void {
    const callers = caller === undefined ? [...this.byCaller.keys()] : [caller];
    for (const key of callers) {
      for (const [id, outcome] of this.byCaller.get(key) ?? []) this.remove(outcome, id);
    }
  }

  /**
   * The outcomes of the caller with the most outcomes. The oldest of them is removed, so that a caller with many
   * outcomes displaces only its own.
   */
  private largest(): Map<string, KeptOutcome> {
    let found = new Map<string, KeptOutcome>();
    for (const own of this.byCaller.values()) if (own.size > found.size) found = own;
    return found;
  }

  private removeOldest(own: Map<string, KeptOutcome>): void {
    for (const [id, outcome] of own) {
      this.remove(outcome, id);
      return;
    }
  }

  private remove(outcome: KeptOutcome, id: string): void {
    this.kept.delete(outcome);
    const own = this.byCaller.get(outcome.caller);
    own?.delete(id);
    if (own?.size === 0) this.byCaller.delete(outcome.caller);
    this.listener.removed(outcome);
  }
}
