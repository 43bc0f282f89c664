/** Identifies a tool by its server and by the name that the server gives the tool. */
export interface ToolKey {
  readonly server: string;
  readonly name: string;
}

/** A tool that the outcomes of earlier calls suggest for a need. */
export interface Suggestion {
  readonly tool: ToolKey;
  /** The amount to add to the tool's score, as a share of the best score from words alone. */
  readonly share: number;
}

/** How much a term distinguishes the tools of the index. No caller can change it. */
export type Rarity = (term: string) => number;

/** Scores from the outcomes of earlier calls, for one caller. */
export interface LearnedScores {
  /** `rarity` says how much a term distinguishes tools. */
  suggestions(terms: readonly string[], rarity: Rarity): readonly Suggestion[];
}
