import { BoundedCache } from '../bounded-cache.js';

const MOST_CALLERS = 10_000;

/**
 * Counts the ended tasks of each caller that are still stored, because a caller may start many short tasks within the
 * lifetime of their records.
 */
export class EndedTasks {
  /** The times, by `performance.now()`, at which the tasks of a caller are removed. */
  private readonly callers = new BoundedCache<string, number[]>(MOST_CALLERS);

  constructor(private readonly most: number) {}

  /** Whether the caller has reached its limit of ended tasks. */
  full(principal: string): boolean {
    const kept = this.callers.get(principal);
    if (!kept || kept.length < this.most) return false;
    const now = performance.now();
    const left = kept.filter((until) => until > now);
    this.callers.set(principal, left);
    return left.length >= this.most;
  }

  /** Counts an ended task whose record is stored until the given time. */
  add(principal: string, until: number): void {
    const kept = this.callers.get(principal);
    if (kept) kept.push(until);
    else this.callers.set(principal, [until]);
  }
}
