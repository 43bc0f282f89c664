import type { Cancellation } from '../../../core/caller.js';
import { ProtocolError } from '../../../protocol/errors.js';
import { rejectOnCancel } from '../reject-on-cancel.js';
import { CredentialError } from '../server-errors.js';
import type { LegacySession } from './legacy-session.js';

/** The members of a session that a pool uses. */
export type Leased = Pick<LegacySession, 'ended' | 'quiet' | 'close' | 'lastUsed'>;

export interface LeasePoolOptions {
  /** The name of the server, for errors. */
  readonly name: string;
  /** Maximum number of sessions. */
  readonly max: number;
  /** Maximum number of calls that wait for a session. */
  readonly maxWaiting: number;
  /** How long a call waits for a session, in milliseconds. */
  readonly patience: number;
}

interface Waiter<S> {
  /** Whether the call was cancelled or its waiting time is over. */
  left: boolean;
  /** Opens a session for this call. */
  readonly open: () => Promise<S>;
  resolve(session: S): void;
  reject(error: unknown): void;
}

/**
 * Sessions leased to one call at a time, for transports whose messages do not show the request they belong to: a
 * question on such a session can only belong to the call that holds it. Sessions stay open between calls.
 */
export class LeasePool<S extends Leased = LegacySession> {
  private readonly idle: S[] = [];
  /** Waiting calls, in order of arrival. */
  private readonly waiters = new Set<Waiter<S>>();
  private size = 0;
  private closed = false;

  constructor(private readonly options: LeasePoolOptions) {}

  get waiting(): number {
    return this.waiters.size;
  }

  /** Runs a call on a leased session. If no session is idle, `open` opens one for this call. */
  async use<R>(
    cancellation: Cancellation,
    open: () => Promise<S>,
    run: (session: S) => Promise<{ readonly value: R; readonly until?: Promise<void> }>,
  ): Promise<R> {
    const session = await this.acquire(cancellation, open);
    let released = false;
    const release = (): void => {
      if (released) return;
      released = true;
      // Closes a session on which a cancelled call still runs: its messages look like those of the next call (BR-17).
      void session
        .quiet()
        .then(async (quiet) => {
          if (!quiet && !session.ended) await session.close();
        })
        .catch(() => {})
        .then(() => this.release(session));
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

  private acquire(cancellation: Cancellation, open: () => Promise<S>): Promise<S> {
    if (this.closed) return Promise.reject(this.refusal('upstream_unavailable', 'is no longer served'));
    for (let session = this.idle.shift(); session; session = this.idle.shift()) {
      if (!session.ended) return Promise.resolve(session);
      this.size--;
    }
    if (this.size < this.options.max) return this.openFor(cancellation, open);
    if (this.waiters.size >= this.options.maxWaiting)
      return Promise.reject(this.refusal('overloaded', 'has too many calls waiting for a session; try again later'));
    return this.wait(cancellation, open);
  }

  private async open(open: () => Promise<S>): Promise<S> {
    this.size++;
    try {
      const session = await open();
      if (!this.closed) return session;
      await session.close();
      throw this.refusal('upstream_unavailable', 'is no longer served');
    } catch (error) {
      this.size--;
      // Other waiting calls may have a credential.
      if (error instanceof CredentialError) this.openForNext();
      throw error;
    }
  }

  private openFor(cancellation: Cancellation, open: () => Promise<S>): Promise<S> {
    const opening = this.open(open);
    return rejectOnCancel(opening, cancellation).catch((error: unknown) => {
      // The call was cancelled while its session opened: the next call gets the session.
      opening.then((session) => this.release(session)).catch(() => {});
      throw error;
    });
  }

  private wait(cancellation: Cancellation, open: () => Promise<S>): Promise<S> {
    const { patience } = this.options;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        waiter.left = true;
        this.waiters.delete(waiter);
        clearTimeout(timer);
        stop();
      };
      const waiter: Waiter<S> = {
        left: false,
        open,
        resolve: (session) => {
          leave();
          resolve(session);
        },
        reject: (error) => {
          leave();
          reject(error);
        },
      };
      const timer = setTimeout(
        () => waiter.reject(this.refusal('upstream_timeout', `had no free session within ${patience / 1_000} s`)),
        patience,
      );
      this.waiters.add(waiter);
      let stop = (): void => {};
      stop = cancellation.onCancel(() =>
        waiter.reject(new ProtocolError('cancelled', 'The request was cancelled', { outcome: 'not_executed' })),
      );
    });
  }

  /** Whether no session was leased since `before`, a time of `performance.now()`. */
  unusedSince(before: number): boolean {
    if (this.size > this.idle.length || this.waiters.size > 0) return false;
    return this.idle.every(({ lastUsed }) => lastUsed <= before);
  }

  private refusal(reason: 'overloaded' | 'upstream_timeout' | 'upstream_unavailable', why: string): ProtocolError {
    const { name } = this.options;
    return new ProtocolError(reason, `Server "${name}" ${why}`, { outcome: 'not_executed', data: { server: name } });
  }

  private release(session: S): void {
    if (this.closed) {
      void session.close().catch(() => {});
      return;
    }
    const [waiter] = this.waiters;
    if (!session.ended) {
      if (waiter) waiter.resolve(session);
      else this.idle.unshift(session);
      return;
    }
    this.size--;
    this.openForNext();
  }

  private openForNext(): void {
    const [waiter] = this.waiters;
    if (!waiter) return;
    // The call no longer counts as waiting. If it is cancelled now, the next call gets the session.
    this.waiters.delete(waiter);
    this.open(waiter.open).then((opened) => {
      if (waiter.left) this.release(opened);
      else waiter.resolve(opened);
    }, waiter.reject);
  }

  /** Ends idle sessions and rejects waiting calls. A session in use ends with its call. */
  async close(): Promise<void> {
    this.closed = true;
    for (const waiter of [...this.waiters]) waiter.reject(this.refusal('upstream_unavailable', 'is no longer served'));
    await Promise.all(this.idle.splice(0).map((session) => session.close()));
  }
}
