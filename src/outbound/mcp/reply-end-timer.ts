import type { Abortable } from '../http/index.js';

const GRACE = 1_000;

/**
 * Closes a reply stream that the server does not end soon after its answer. The connection of an ended stream can carry
 * the next request. A stream that stays open would occupy its connection without end.
 */
export class ReplyEndTimer {
  private timer: NodeJS.Timeout | undefined;
  private over = false;

  constructor(private readonly reply: Abortable) {
    // In most cases the end of the stream arrives in the same read, and no timer is needed.
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
