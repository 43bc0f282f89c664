/** A tool by its server and its own name there. */
export interface ToolKey {
  readonly server: string;
  readonly name: string;
}

/** The suggestions of earlier calls for a need. */
export interface Suggestion {
  readonly tool: ToolKey;
  /** As a share of the best score that the words of the need give. */
  readonly share: number;
}

/** How much a term distinguishes the tools of the index. No caller can change it. */
export type Rarity = (term: string) => number;

/** Scores from the outcomes of earlier calls, for one caller. */
export interface LearnedScores {
  /** `rarity` says how much a term distinguishes tools. */
  suggestions(terms: readonly string[], rarity: Rarity): readonly Suggestion[];
}
