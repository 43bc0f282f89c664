import { Quota, type QuotaLimits } from '../../core/count-and-byte-limit.js';
import { type Allowance, TokenBucket } from '../../core/token-bucket.js';

/**
 * Limits on a server's questions and on messages that no call waits for. A server that exceeded them would slow down
 * all calls.
 */
export interface ServerTrafficLimits {
  /** Questions of one call that have no answer yet, or whose answer the server has not accepted yet. */
  readonly openPerCall: QuotaLimits;
  /** Questions of all calls of one server that have no answer yet, or whose answer the server has not accepted yet. */
  readonly openPerServer: QuotaLimits;
  /** Answers to parked calls, kept until the caller asks for them. */
  readonly keptAnswers: QuotaLimits;
  /** Questions of one call in total, answered questions included. */
  readonly questions: Allowance;
  /** Messages on the stream of a call that the caller did not ask for. */
  readonly unwantedPerCall: Allowance;
  /** Messages of a server that belong to no call. A long message counts as several. */
  readonly besideCalls: Allowance;
  /** The pause after a flood, in milliseconds. Each further flood soon after doubles it. */
  readonly pause: number;
  readonly longestPause: number;
}

const MIB = 1024 * 1024;

export const SERVER_TRAFFIC_LIMITS: ServerTrafficLimits = {
  openPerCall: { count: 100, bytes: 8 * MIB },
  openPerServer: { count: 1_000, bytes: 32 * MIB },
  keptAnswers: { count: 10_000, bytes: 64 * MIB },
  questions: { burst: 1_000, second: 50 },
  unwantedPerCall: { burst: 20_000, second: 1_000 },
  besideCalls: { burst: 10_000, second: 200 },
  pause: 5_000,
  longestPause: 5 * 60_000,
};

/** A message of this many bytes counts as two. */
const LONG = 4_096;

/** Kept answers of all servers together. */
const KEPT_IN_ALL = new Quota({ count: 100_000, bytes: 256 * MIB });

/** Counts the questions and unrequested messages of one server, over all its connections. */
export class ServerTraffic {
  /** The server's questions that have no answer yet, or whose answer the server has not accepted yet. */
  readonly questions: Quota;
  /** Answers to parked calls, kept until their callers ask for them. */
  readonly keptAnswers: Quota;
  private readonly beside: TokenBucket;
  private pause: number;
  private restsUntil = 0;

  constructor(
    readonly limits: ServerTrafficLimits = SERVER_TRAFFIC_LIMITS,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.questions = new Quota(limits.openPerServer);
    this.keptAnswers = new Quota(limits.keptAnswers, KEPT_IN_ALL);
    this.beside = new TokenBucket(limits.besideCalls);
    this.pause = limits.pause;
  }

  /**
   * Counts a message that belongs to no call. Returns false if the server has sent too many of them: the connection
   * must then be closed.
   */
  allows(bytes: number): boolean {
    return this.beside.take(1 + bytes / LONG);
  }

  /** Starts the pause after a flood. Returns its length in milliseconds. */
  flooded(): number {
    const now = this.now();
    // After a long time without a flood, the first pause is the shortest again.
    if (now > this.restsUntil + this.limits.longestPause) this.pause = this.limits.pause;
    if (now >= this.restsUntil) {
      this.restsUntil = now + this.pause;
      this.pause = Math.min(2 * this.pause, this.limits.longestPause);
    }
    return this.restsUntil - now;
  }

  /** The rest of the pause in milliseconds. */
  get resting(): number {
    return Math.max(0, this.restsUntil - this.now());
  }
}

export const FLOODED = 'it sent too many messages that no call waits for';
