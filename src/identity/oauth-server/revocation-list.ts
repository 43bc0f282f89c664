import type { OAuthRevocations } from '../../state/index.js';
import type { Log } from '../../telemetry/log.js';

/** No access token lives longer than a day, and a clock may be wrong by minutes. */
export const LONGEST_ACCESS_TOKEN = 24 * 3_600_000;
export const REVOCATION_LIFE = LONGEST_ACCESS_TOKEN + 3_600_000;

/** Polling interval. With the time of a query, a revocation takes effect within a second. */
const POLL = 400;
/** A list that is older than this is read again before a decision. */
const STALE = 900;
const FORGET_EVERY = 600_000;

export const grantRevocation = (grant: string): string => `grant ${grant}`;
export const tokenRevocation = (jti: string): string => `token ${jti}`;
export const userRevocation = (id: string): string => `user ${id}`;

export interface RevocableToken {
  readonly jti: string;
  readonly grant: string;
  readonly user: string;
  /** Epoch milliseconds. */
  readonly issuedAt: number;
}

/**
 * A copy of the revoked access tokens in memory, so that a call needs no query. If the database does not answer, the
 * decision waits for it and fails with it: a token is never accepted on the basis of an old list.
 */
export class RevocationList {
  private readonly revoked = new Map<string, number>();
  private seq = -1;
  private readAt = Number.NEGATIVE_INFINITY;
  private reading: Promise<void> | undefined;
  private readonly timer: NodeJS.Timeout;
  private forgotAt = performance.now();
  /** Whether the last read failed. Only the first failure in a row is logged. */
  private failing = false;

  constructor(
    private readonly store: Pick<OAuthRevocations, 'after'>,
    private readonly log: Log,
  ) {
    this.timer = setInterval(() => this.poll(), POLL).unref();
  }

  /** Whether the token was revoked. The result is a promise only if the list has to be read first. */
  covers(token: RevocableToken): boolean | Promise<boolean> {
    if (performance.now() - this.readAt <= STALE) return this.has(token);
    return this.refresh().then(() => this.has(token));
  }

  /** Reads the list at once, for a revocation by this process. */
  refresh(): Promise<void> {
    this.reading ??= this.read().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  close(): void {
    clearInterval(this.timer);
  }

  private has({ jti, grant, user, issuedAt }: RevocableToken): boolean {
    if (this.revoked.size === 0) return false;
    if (this.revoked.has(tokenRevocation(jti)) || this.revoked.has(grantRevocation(grant))) return true;
    const at = this.revoked.get(userRevocation(user));
    // The time in a token has whole seconds, so a token of the same second may be older than the revocation.
    return at !== undefined && issuedAt <= at;
  }

  private poll(): void {
    this.refresh().catch((error: unknown) => {
      if (this.failing) return;
      this.failing = true;
      const reason = error instanceof Error ? error.message : String(error);
      this.log.warn({ reason }, 'cannot read revoked tokens; access tokens wait until the database answers');
    });
  }

  private async read(): Promise<void> {
    const began = performance.now();
    const { seq, revocations } = await this.store.after(this.seq);
    for (const { id, at } of revocations) this.revoked.set(id, at);
    this.seq = seq;
    this.readAt = began;
    this.failing = false;
    if (began - this.forgotAt > FORGET_EVERY) this.forget();
  }

  /** Drops entries whose tokens have expired. */
  private forget(): void {
    this.forgotAt = performance.now();
    const end = Date.now() - REVOCATION_LIFE;
    for (const [id, at] of this.revoked) if (at < end) this.revoked.delete(id);
  }
}
