import { Quota, type QuotaLimits } from '../../core/quota.js';
import { type Allowance, TokenBucket } from '../../core/token-bucket.js';

/** How much a server may ask and send without being asked. A server that goes beyond it slows everybody down. */
export interface ServerTrafficLimits {
  /** Questions of one call that are not answered yet, or whose answers the server has not taken yet. */
  readonly openPerCall: QuotaLimits;
  /** The same of all calls of one server. */
  readonly openPerServer: QuotaLimits;
  /** Answers of calls that wait for their caller to answer a question. */
  readonly keptAnswers: QuotaLimits;
  /** Questions of one call in all. */
  readonly questions: Allowance;
  /** Messages on the stream of a call that the caller did not ask for. */
  readonly unwantedPerCall: Allowance;
  /** Messages of a server that belong to no call; a long message counts as several. */
  readonly besideCalls: Allowance;
  /** The pause after a flood, in milliseconds. It doubles with every flood that follows soon. */
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

/** The same of all servers together. */
const KEPT_IN_ALL = new Quota({ count: 100_000, bytes: 256 * MIB });

/** What one server sends without being asked, over all its connections. */
export class ServerTraffic {
  /** Questions of the server that wait for an answer, or for the server to take it. */
  readonly questions: Quota;
  /** Answers that came while their callers were asked something, and wait for them to come back. */
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

  /** Counts a message that belongs to no call. False where the server has sent too many: close what brings them. */
  allows(bytes: number): boolean {
    return this.beside.take(1 + bytes / LONG);
  }

  /** The server flooded the gateway. Returns for how many milliseconds it is not listened to. */
  flooded(): number {
    const now = this.now();
    // A server that was quiet for long begins with the shortest pause.
    if (now > this.restsUntil + this.limits.longestPause) this.pause = this.limits.pause;
    if (now >= this.restsUntil) {
      this.restsUntil = now + this.pause;
      this.pause = Math.min(2 * this.pause, this.limits.longestPause);
    }
    return this.restsUntil - now;
  }

  /** For how many milliseconds the server is still not listened to. */
  get resting(): number {
    return Math.max(0, this.restsUntil - this.now());
  }
}

export const FLOODED = 'it sent more messages than anybody waits for';
