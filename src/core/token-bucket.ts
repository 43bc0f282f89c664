/** The size of a burst, and the amount added every second. */
export interface Allowance {
  readonly burst: number;
  readonly second: number;
}

/** A token bucket. A request may take more than remains if at least one unit remains. */
export class TokenBucket {
  private level: number;
  /** The time of the last `take`. Before the first `take` the bucket is full. */
  private at: number | undefined;

  constructor(private readonly allowance: Allowance) {
    this.level = allowance.burst;
  }

  take(amount: number): boolean {
    const now = performance.now();
    const { burst, second } = this.allowance;
    this.level = Math.min(burst, this.level + ((now - (this.at ?? now)) / 1_000) * second);
    this.at = now;
    if (this.level < Math.min(1, amount)) return false;
    this.level -= amount;
    return true;
  }
}
