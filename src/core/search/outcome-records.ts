import type { Weights } from './learning.js';
import type { KeptOutcome } from './outcomes.js';

/** An outcome that all replicas share. */
export interface SharedOutcome extends KeptOutcome {
  /** The words of the search, if the operator allows the gateway to keep them. */
  readonly text?: string | undefined;
}

/**
 * Selects the outcomes that a command removes: the outcomes that match every given member, or all outcomes if no member
 * is given.
 */
export interface ForgetFilter {
  /** The key of a caller, as `callerKey` makes it. */
  readonly caller?: string | undefined;
  readonly server?: string | undefined;
  /** The tool's name as its server offers it. */
  readonly tool?: string | undefined;
}

/** The changes since a version. */
export interface OutcomeChanges {
  readonly version: number;
  /** The outcomes, in the order in which they were stored. */
  readonly outcomes: readonly SharedOutcome[];
  /** Whether `outcomes` are all outcomes that exist; any other outcome was removed. */
  readonly all: boolean;
  /** The weights that a replay chose last. */
  readonly weights: Weights;
  /** The number of the replay. Each replay increases it. */
  readonly replay: number;
}

/**
 * The stored outcomes. The database limits their number in total and per caller. Every replica keeps a copy in memory.
 */
export interface OutcomeRecords {
  since(version: number): Promise<OutcomeChanges>;
  add(outcomes: readonly SharedOutcome[]): Promise<void>;
  /** Stores the weights that a replay of this replica chose. */
  choose(weights: Weights): Promise<void>;
  /** Calls `fn` after every change by any process, and at intervals. Returns a function that stops the watch. */
  watch(fn: () => void): () => void;
}
