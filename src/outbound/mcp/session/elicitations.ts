import type { Cancellation } from '../../../core/caller.js';

/** How long a call waits for word of what it was told to finish first; then it is made, and the server decides. */
const PATIENCE = 20_000;
const REMEMBERED = 1_000;

/** Elicitations in URL mode that the server said are complete: the word to go on (mcp.md 4.5). */
export class Elicitations {
  private readonly done = new Set<string>();
  private readonly waiting = new Set<() => void>();

  complete(id: unknown): void {
    if (typeof id !== 'string') return;
    if (this.done.size >= REMEMBERED) this.done.clear();
    this.done.add(id);
    for (const check of [...this.waiting]) check();
  }

  /** Resolves when all are complete, or when waiting is no use any more. */
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
