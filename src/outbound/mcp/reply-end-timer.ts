import type { Abortable } from '../http/index.js';

const GRACE = 1_000;

/**
 * The moment a streamed reply has to end once its answer has come. One that ends leaves its connection to the next request; one
 * that does not would keep it forever.
 */
export class ReplyEndTimer {
  private timer: NodeJS.Timeout | undefined;
  private over = false;

  constructor(private readonly reply: Abortable) {
    // Mostly the end comes with the same read.
    process.nextTick(() => this.begin());
  }

  private begin(): void {
    if (!this.over) this.timer = setTimeout(() => this.reply.abort(), GRACE).unref();
  }

  end(): void {
    this.over = true;
    clearTimeout(this.timer);
  }
}
