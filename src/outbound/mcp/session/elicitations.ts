import type { Cancellation } from '../../../core/caller.js';

/**
 * Milliseconds that a repeated call waits for its elicitations. After this time the call is sent, and the server
 * decides.
 */
const PATIENCE = 20_000;
const REMEMBERED = 1_000;
/** Maximum number of characters of an id that is remembered. A server may send very long ids that nobody waits for. */
const LONGEST_ID = 1_000;

/** Completed elicitations in URL mode. A call that depends on one continues after its completion (mcp.md 4.5). */
export class Elicitations {
  private readonly done = new Set<string>();
  private readonly waiting = new Set<() => void>();

  complete(id: unknown): void {
    if (typeof id !== 'string' || id.length > LONGEST_ID) return;
    if (this.done.size >= REMEMBERED) this.done.clear();
    this.done.add(id);
    for (const check of [...this.waiting]) check();
  }

  /** Resolves when all elicitations are complete, when the call is cancelled, or after a time limit. */
  completed(ids: readonly string[], cancellation: Cancellation): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        stop();
        this.waiting.delete(check);
        resolve();
      };
      const check = (): void => {
        if (ids.every((id) => this.done.has(id))) finish();
      };
      let stop = (): void => {};
      const timer = setTimeout(finish, PATIENCE);
      stop = cancellation.onCancel(finish);
      this.waiting.add(check);
      check();
    });
  }
}
