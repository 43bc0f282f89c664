import type { Registry, RegistryRow } from './registry.js';

/**
 * The entries of one kind in memory. An update reads and decrypts only the entries that changed since the previous
 * one, so the cost of a change does not grow with the number of entries.
 */
export class RegistryCopy<T> {
  readonly #registry: Pick<Registry<T>, 'changes' | 'names'>;
  readonly #kind: string;
  readonly #rows = new Map<string, RegistryRow<T>>();
  /** The newest revision that was read. 0 reads all entries. */
  #newest = 0;

  constructor(registry: Pick<Registry<T>, 'changes' | 'names'>, kind: string) {
    this.#registry = registry;
    this.#kind = kind;
  }

  /** The entries as they are stored now, by name. */
  async update(): Promise<ReadonlyMap<string, RegistryRow<T>>> {
    const changes = await this.#registry.changes(this.#kind, this.#newest);
    if (changes.version < this.#newest) {
      // An older state of the database was restored.
      this.#rows.clear();
      this.#newest = 0;
      return this.update();
    }
    for (const row of changes.rows) {
      this.#rows.set(row.name, row);
      this.#newest = Math.max(this.#newest, row.rev);
    }
    for (const { name } of changes.unreadable) this.#rows.delete(name);
    // The next update reads these entries again: their key may be configured by then, or another replica may have
    // encrypted them again.
    this.#newest = Math.min(this.#newest, ...changes.unreadable.map(({ rev }) => rev - 1));
    // A new entry is always among the changed entries. The numbers therefore differ only if entries were removed or are
    // unreadable.
    if (this.#rows.size !== changes.total) {
      const names = await this.#registry.names(this.#kind);
      for (const name of this.#rows.keys()) if (!names.has(name)) this.#rows.delete(name);
    }
    return this.#rows;
  }
}
