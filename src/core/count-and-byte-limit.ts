export interface QuotaLimits {
  readonly count: number;
  readonly bytes: number;
}

/** Returns a taken item to its quota. A second call has no effect. */
export type Release = () => void;

/** Bounds the number of items held at the same time, and their total bytes. */
export class Quota {
  private count = 0;
  private bytes = 0;

  constructor(
    private readonly limits: QuotaLimits,
    /** The quota that contains this one. */
    private readonly within?: Quota,
  ) {}

  /** The number of items held. */
  get used(): number {
    return this.count;
  }

  /** Whether this quota has room. Ignores the quota that contains it. An empty quota accepts an item of any size. */
  fits(bytes: number): boolean {
    return this.count < this.limits.count && (this.count === 0 || this.bytes + bytes <= this.limits.bytes);
  }

  /** Returns undefined if the quota is full. */
  take(bytes: number): Release | undefined {
    if (!this.fits(bytes)) return undefined;
    const outer = this.within?.take(bytes);
    if (this.within && !outer) return undefined;
    this.count++;
    this.bytes += bytes;
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      this.count--;
      this.bytes -= bytes;
      outer?.();
    };
  }
}
