/**
 * A cache of recent entries: it keeps at least the latest `most` entries and at most twice as many. Dropping the older
 * half in one step costs nothing per entry, unlike an LRU order.
 */
export class BoundedCache<Key, Value> {
  private young = new Map<Key, Value>();
  private old = new Map<Key, Value>();

  constructor(private readonly most: number) {}

  get(key: Key): Value | undefined {
    return this.young.get(key) ?? this.old.get(key);
  }

  set(key: Key, value: Value): void {
    this.young.set(key, value);
    if (this.young.size < this.most) return;
    this.old = this.young;
    this.young = new Map();
  }
}
