export interface CircuitBreakerOptions {
  /** Failures in a row that open the circuit. */
  readonly failures: number;
  /** The first pause and the longest one, in milliseconds. Each failed trial doubles the pause. */
  readonly pause: number;
  readonly longestPause: number;
}

export const BREAKER: CircuitBreakerOptions = { failures: 5, pause: 1_000, longestPause: 60_000 };

/** Keeps calls from a replica that fails: after a pause one call may try it again. */
export class CircuitBreaker {
  private inRow = 0;
  private opened = 0;
  private until = 0;
  private trial = false;

  constructor(private readonly options: CircuitBreakerOptions = BREAKER) {}

  /** Whether a call may be sent now. */
  allows(now: number): boolean {
    return this.opened === 0 || (now >= this.until && !this.trial);
  }

  /** The replica was chosen. */
  sent(): void {
    if (this.opened > 0) this.trial = true;
  }

  settled(success: boolean, now: number): void {
    this.trial = false;
    if (success) {
      this.inRow = 0;
      this.opened = 0;
      return;
    }
    this.inRow += 1;
    if (this.inRow < this.options.failures || now < this.until) return;
    const { pause, longestPause } = this.options;
    this.until = now + Math.min(longestPause, pause * 2 ** this.opened);
    this.opened = Math.min(this.opened + 1, 16);
  }

  /** The call ended without an outcome, for instance because the client cancelled it. */
  released(): void {
    this.trial = false;
  }
}
