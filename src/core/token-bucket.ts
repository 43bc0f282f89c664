/** The size of a burst, and the amount added every second. */
export interface Allowance {
  readonly burst: number;
  readonly second: number;
}

/** A token bucket. The last request before the bucket is empty may take more than remains. */
export class TokenBucket {
  private level: number;
  /** When the bucket was last looked at; it is full before. */
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
