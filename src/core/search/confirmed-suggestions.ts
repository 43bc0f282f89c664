import type { KeptOutcome } from './outcomes.js';
import type { Suggestion, ToolKey } from './tool-key.js';

/** Amounts are rounded to this step, so that small differences between callers have no effect. */
const STEP = 0.1;

export interface ConfirmedSuggestionsOptions {
  readonly caller: string;
  readonly weight: number;
  readonly confirmations: number;
  /** The most that the outcomes may count for one tool, before the weight is applied. */
  readonly most: number;
}

/** Sums up, for each tool and caller, how much the outcomes of the caller support the tool. */
export class ConfirmedSuggestions {
  private readonly tools = new Map<string, { tool: ToolKey; byCaller: Map<string, number> }>();

  add({ tool, caller }: Pick<KeptOutcome, 'tool' | 'caller'>, amount: number): void {
    const id = `${tool.server}\n${tool.name}`;
    const entry = this.tools.get(id) ?? { tool, byCaller: new Map<string, number>() };
    entry.byCaller.set(caller, (entry.byCaller.get(caller) ?? 0) + amount);
    this.tools.set(id, entry);
  }

  /**
   * The suggestions for a caller. The caller's own outcomes count fully. The outcomes of other callers count only up to
   * the amount that at least `confirmations` of them reach. A single caller therefore adds nothing to the results of
   * others.
   */
  *suggestions({ caller, weight, confirmations, most }: ConfirmedSuggestionsOptions): Generator<Suggestion> {
    for (const { tool, byCaller } of this.tools.values()) {
      const own = byCaller.get(caller) ?? 0;
      const others = [...byCaller].filter(([key]) => key !== caller).map(([, amount]) => amount);
      const agreed = others.sort((a, b) => b - a)[confirmations - 1] ?? 0;
      const amount = Math.min(most, Math.max(own, agreed));
      const share = weight * STEP * Math.round(amount / STEP);
      if (share > 0) yield { tool, share };
    }
  }
}
