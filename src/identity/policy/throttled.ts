/** Time between two reports of the same key, in milliseconds. */
const EVERY = 60_000;
/** Limit on the remembered keys. Beyond the limit the oldest is forgotten, and may be reported again. */
const MOST_KEYS = 5_000;

/** Limits reports that callers cause: each key is reported at most once a minute. */
export class Throttled {
  private readonly reported = new Map<string, number>();

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Whether to report this key now. */
  due(key: string): boolean {
    const now = this.now();
    const last = this.reported.get(key);
    if (last !== undefined && now - last < EVERY) return false;
    this.reported.delete(key);
    if (this.reported.size >= MOST_KEYS) this.reported.delete(this.reported.keys().next().value!);
    this.reported.set(key, now);
    return true;
  }
}
