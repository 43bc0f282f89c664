export interface BreakerSettings {
  /** The number of failures in a row after which calls are refused. */
  readonly failures: number;
  /** Milliseconds until the next trial. */
  readonly pause: number;
  /** Each failed trial doubles the pause, up to this limit. If absent, the pause stays the same. */
  readonly longestPause?: number;
}

/** `closed`: calls pass. `open`: calls are refused. `half_open`: one call is on trial, and the others are refused. */
export type BreakerState = 'closed' | 'open' | 'half_open';

export interface BreakerHealth {
  readonly state: BreakerState;
  /** Milliseconds until the next trial; 0 during a trial. */
  readonly nextTrialMs: number;
}

export const DEFAULT_BREAKER: BreakerSettings = { failures: 5, pause: 2_000 };

/**
 * Refuses calls to an upstream that failed several times in a row (fault 16). After a pause one call is the trial: if
 * the trial succeeds, calls pass again; if it fails, the next pause begins. The owner decides which failures count: the
 * error of a tool, or the refusal of a caller, is an answer.
 */
export class CircuitBreaker {
  private failures = 0;
  /** The number of pauses since the last answer. */
  private pauses = 0;
  private openUntil = 0;
  /** The start time of the trial. If a trial has no result after one pause, another trial may start. */
  private trialSince: number | undefined;

  constructor(
    private readonly settings: BreakerSettings = DEFAULT_BREAKER,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /**
   * Undefined if a call may pass; otherwise the reason of the refusal. The caller must report the result of a trial.
   */
  enter(): BreakerHealth | undefined {
    if (!this.allows()) return this.health();
    this.begin();
    return undefined;
  }

  /** Whether a call may pass, without sending one. */
  allows(): boolean {
    if (this.failures < this.settings.failures) return true;
    const now = this.now();
    return now >= this.openUntil && (this.trialSince === undefined || now - this.trialSince >= this.settings.pause);
  }

  /**
   * Notes that a call is sent. If the breaker is open, this call is the trial. The caller must report the result of the
   * trial.
   */
  begin(): void {
    if (this.failures >= this.settings.failures) this.trialSince = this.now();
  }

  /** Called when the upstream answered. */
  answered(): void {
    this.failures = 0;
    this.pauses = 0;
    this.trialSince = undefined;
  }

  /** Called when a call failed. */
  failed(): void {
    this.failures++;
    this.trialSince = undefined;
    const now = this.now();
    const { failures, pause, longestPause = pause } = this.settings;
    // The failure of a call that was sent before the pause does not count again.
    if (this.failures < failures || now < this.openUntil) return;
    this.openUntil = now + Math.min(longestPause, pause * 2 ** Math.min(this.pauses, MOST_DOUBLINGS));
    this.pauses++;
  }

  /**
   * Called when a call ended without a result, for example because its client cancelled it. If the call was the trial,
   * the next call is the trial instead.
   */
  inconclusive(): void {
    this.trialSince = undefined;
  }

  health(): BreakerHealth {
    if (this.failures < this.settings.failures) return CLOSED;
    if (this.trialSince !== undefined) return { state: 'half_open', nextTrialMs: 0 };
    return { state: 'open', nextTrialMs: Math.max(0, Math.ceil(this.openUntil - this.now())) };
  }
}

const MOST_DOUBLINGS = 16;
const CLOSED: BreakerHealth = { state: 'closed', nextTrialMs: 0 };
