export interface QuotaLimits {
  readonly count: number;
  readonly bytes: number;
}

/** Gives back what was taken; a second call changes nothing. */
export type Release = () => void;

/** A number of things and their bytes that are held at the same time. */
export class Quota {
  private count = 0;
  private bytes = 0;

  constructor(
    private readonly limits: QuotaLimits,
    /** A quota that this one is a part of. */
    private readonly within?: Quota,
  ) {}

  /** How many are held. */
  get used(): number {
    return this.count;
  }

  /** Undefined where the quota is used up. The first of all is taken, whatever its size. */
  take(bytes: number): Release | undefined {
    if (this.count >= this.limits.count || (this.count > 0 && this.bytes + bytes > this.limits.bytes)) return undefined;
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
