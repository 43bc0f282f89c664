import type { LegacySession } from './session.js';

interface Waiter {
  resolve(session: LegacySession): void;
  reject(error: unknown): void;
}

/**
 * Sessions lent to one call at a time, for transports whose messages do not say which request they belong to: a question
 * on such a session can only come from the call that holds it. They stay warm between calls.
 */
export class LeasePool {
  private readonly idle: LegacySession[] = [];
  private readonly waiters: Waiter[] = [];
  private size = 0;

  constructor(
    private readonly max: number,
    private readonly open: () => Promise<LegacySession>,
  ) {}

  async use<R>(
    run: (session: LegacySession) => Promise<{ readonly value: R; readonly until?: Promise<void> }>,
  ): Promise<R> {
    const session = await this.acquire();
    let released = false;
    const release = (): void => {
      if (released) return;
      released = true;
      // The next call could not be told from one that goes on although it was cancelled (BR-17).
      void session.quiet().then(async (quiet) => {
        if (!quiet && !session.ended) await session.close();
        this.release(session);
      });
    };
    try {
      const { value, until } = await run(session);
      if (until) void until.then(release, release);
      else release();
      return value;
    } catch (error) {
      release();
      throw error;
    }
  }

  private async acquire(): Promise<LegacySession> {
    for (let session = this.idle.shift(); session; session = this.idle.shift()) {
      if (!session.ended) return session;
      this.size--;
    }
    if (this.size >= this.max) return new Promise((resolve, reject) => this.waiters.push({ resolve, reject }));
    this.size++;
    try {
      return await this.open();
    } catch (error) {
      this.size--;
      throw error;
    }
  }

  private release(session: LegacySession): void {
    if (session.ended) {
      this.size--;
      const waiter = this.waiters.shift();
      if (waiter) this.acquire().then(waiter.resolve, waiter.reject);
      return;
    }
    const waiter = this.waiters.shift();
    if (waiter) waiter.resolve(session);
    else this.idle.unshift(session);
  }

  /** Whether no session was lent since a moment of `performance.now()`. */
  unusedSince(before: number): boolean {
    if (this.size > this.idle.length || this.waiters.length > 0) return false;
    return this.idle.every(({ lastUsed }) => lastUsed <= before);
  }

  async close(): Promise<void> {
    await Promise.all(this.idle.splice(0).map((session) => session.close()));
  }
}
