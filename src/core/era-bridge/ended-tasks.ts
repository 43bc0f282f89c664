import { BoundedCache } from '../bounded-cache.js';

const MOST_CALLERS = 10_000;

/** Counts the ended tasks of each caller that are still stored: a caller may start many short ones within their lifetime. */
export class EndedTasks {
  /** The times, by `performance.now()`, at which the tasks of a caller are removed. */
  private readonly callers = new BoundedCache<string, number[]>(MOST_CALLERS);

  constructor(private readonly most: number) {}

  /** Whether the caller has as many ended tasks as it may have. */
  full(principal: string): boolean {
    const kept = this.callers.get(principal);
    if (!kept || kept.length < this.most) return false;
    const now = performance.now();
    const left = kept.filter((until) => until > now);
    this.callers.set(principal, left);
    return left.length >= this.most;
  }

  /** Counts a task that is stored until then. */
  add(principal: string, until: number): void {
    const kept = this.callers.get(principal);
    if (kept) kept.push(until);
    else this.callers.set(principal, [until]);
  }
}
