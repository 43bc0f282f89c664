/**
 * The stored pins, as the catalog needs them. If several replicas see a new item at the same time, the database decides
 * which definition is pinned.
 */
export interface PinKey {
  readonly server: string;
  /** The kind of the item, one of `PinKind`. */
  readonly kind: string;
  readonly name: string;
}

/** A pin without the texts of its definitions. */
export interface Pin extends PinKey {
  /** The approved hash; empty if no definition of the item was approved yet. */
  readonly hash: string;
  /** Hashes that were approved before, newest first. */
  readonly earlier: readonly string[];
  /** The hash of the approved definition without its name; empty if the rest is too short to recognise the item. */
  readonly body: string;
  /** The hash that was seen last, if the item needs an approval. */
  readonly seen: string | undefined;
  /** Why the item needs an approval. */
  readonly reason: string;
  /** Flags of the text that was seen last. */
  readonly flags: readonly string[];
}

/** A definition to store. */
export interface SeenPin extends PinKey {
  readonly hash: string;
  readonly body: string;
  /** The canonical JSON of the definition. */
  readonly definition: string;
  readonly reason: string;
  readonly flags: readonly string[];
}

export interface PinRecords {
  /** The pins that changed after the given version, and the present version. For version 0, all pins. */
  since(version: number): Promise<{ readonly version: number; readonly pins: Pin[]; readonly all: boolean }>;
  /** Pins new items. An item with a reason waits for an approval. Returns the items that were not pinned yet. */
  insert(pins: readonly SeenPin[]): Promise<PinKey[]>;
  /**
   * Stores a definition that differs from the pin. Returns the approved hash, or undefined if another replica stored it
   * before.
   */
  change(pin: SeenPin): Promise<string | undefined>;
  /** Calls `fn` after every change by any process. Returns a function that stops the watch. */
  watch(fn: () => void): () => void;
}

/** The key of an item among those of its server. */
export const pinKey = (kind: string, name: string): string => `${kind} ${name}`;
