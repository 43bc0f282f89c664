/**
 * A discounted estimate of the mean reward of one replica. Older rewards count less: each observation at any replica of
 * the pool reduces the weight of all earlier rewards.
 */
export class Estimate {
  private weight = 0;
  private sum = 0;
  private squares = 0;
  private seen = 0;

  add(reward: number, now: number, discount: number): void {
    this.fade(now, discount);
    this.weight += 1;
    this.sum += reward;
    this.squares += reward * reward;
  }

  /** Reduces the weights to their values at observation number `now`. */
  fade(now: number, discount: number): void {
    if (now === this.seen) return;
    const factor = discount ** (now - this.seen);
    this.weight *= factor;
    this.sum *= factor;
    this.squares *= factor;
    this.seen = now;
  }

  /** The number of observations behind the estimate. Older observations count less. */
  get strength(): number {
    return this.weight;
  }

  /** The mean, combined with a prior mean that has the weight of `strength` observations. */
  mean(prior: number, strength: number): number {
    return (this.sum + prior * strength) / (this.weight + strength);
  }

  /** The variance of single rewards, combined with a prior variance. */
  variance(prior: number, strength: number): number {
    const mean = this.weight > 0 ? this.sum / this.weight : 0;
    const own = Math.max(0, this.squares - this.weight * mean * mean);
    return (own + prior * strength) / (this.weight + strength);
  }
}
