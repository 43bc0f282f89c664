import type { Weights } from './learning.js';
import type { KeptOutcome } from './outcomes.js';

/** An outcome as all replicas share it. */
export interface SharedOutcome extends KeptOutcome {
  /** The words of the search, if the operator allows to keep them. */
  readonly text?: string | undefined;
}

/**
 * Selects the outcomes that a command removes: those that match every given member. If no member is given, all
 * outcomes.
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
  /** In the order in which they were stored. */
  readonly outcomes: readonly SharedOutcome[];
  /** Whether `outcomes` are all outcomes that exist; any other outcome was removed. */
  readonly all: boolean;
  /** The weights that a replay chose last. */
  readonly weights: Weights;
  /** Rises with every replay. */
  readonly replay: number;
}

/** The stored outcomes. The database limits them in all and per caller, and every replica mirrors it. */
export interface OutcomeRecords {
  since(version: number): Promise<OutcomeChanges>;
  add(outcomes: readonly SharedOutcome[]): Promise<void>;
  /** Stores the weights that a replay of this replica chose. */
  choose(weights: Weights): Promise<void>;
  /** Calls `fn` after every change by any process, and at intervals. Returns a function that stops the watch. */
  watch(fn: () => void): () => void;
}
