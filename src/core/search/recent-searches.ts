import { BoundedCache } from '../bounded-cache.js';
import type { ToolKey } from './tool-key.js';

/** A search, and the tools among its results that the caller may call. */
export interface Searched {
  /** The text of the search; empty if the operator does not allow the gateway to keep texts. */
  readonly text: string;
  readonly terms: readonly string[];
  /** The tools that the caller saw, best first. */
  readonly shown: readonly ToolKey[];
  /**
   * The ranking by words alone, and the ranking that also uses learned suggestions; undefined if nothing was learned
   * for this search.
   */
  readonly plain: readonly ToolKey[];
  readonly learned: readonly ToolKey[] | undefined;
}

interface Kept extends Searched {
  readonly at: number;
  /** The tools whose calls were already counted for this search. */
  readonly taught: Set<string>;
}

/** The most callers whose searches are kept, and the most searches of one caller. */
const MOST_CALLERS = 2_000;
const MOST_SEARCHES = 8;
/** A call counts as the outcome of a search for this long after the search, in milliseconds. */
const LONGEST_WAIT = 10 * 60_000;

/** The last searches of each caller, to find the search that a successful call follows. */
export class RecentSearches {
  private readonly byCaller = new BoundedCache<string, Kept[]>(MOST_CALLERS);

  constructor(private readonly now: () => number = () => performance.now()) {}

  add(caller: string, search: Searched): void {
    const kept = { ...search, at: this.now(), taught: new Set<string>() };
    this.byCaller.set(caller, [...(this.byCaller.get(caller) ?? []).slice(1 - MOST_SEARCHES), kept]);
  }

  /**
   * The newest search that showed this tool, if the call succeeded. A search counts once for each of its tools; a
   * second call of the tool does not count. `succeeded` is called only if a search showed the tool, because it may have
   * to parse the result.
   */
  take(caller: string, { server, name }: ToolKey, succeeded: () => boolean): Searched | undefined {
    const since = this.now() - LONGEST_WAIT;
    const found = this.byCaller
      .get(caller)
      ?.findLast(({ at, shown }) => at >= since && shown.some((tool) => tool.server === server && tool.name === name));
    const id = `${server}\n${name}`;
    if (!found || found.taught.has(id) || !succeeded()) return undefined;
    found.taught.add(id);
    return found;
  }
}
