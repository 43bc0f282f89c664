import type { Bus } from '../bus.js';
import { wallMs } from '../clock.js';
import type { Db, Row, Statement, Value } from '../db.js';

export interface PinKey {
  readonly server: string;
  readonly kind: string;
  readonly name: string;
}

/** A pin without the texts of its definitions. */
export interface Pin extends PinKey {
  /** The approved hash; empty if no definition of the item was approved yet. */
  readonly hash: string;
  /** Hashes that were approved before, newest first. */
  readonly earlier: readonly string[];
  /** The hash of the approved definition without its name. */
  readonly body: string;
  /** The hash that was seen last, if the item needs an approval. */
  readonly seen: string | undefined;
  /** Why the item needs an approval. */
  readonly reason: string;
  readonly flags: readonly string[];
}

/** A definition to store. */
export interface SeenPin extends PinKey {
  readonly hash: string;
  readonly body: string;
  readonly definition: string;
  readonly reason: string;
  readonly flags: readonly string[];
}

/** A pin with the texts of its definitions, for operators. */
export interface PinDetail extends Pin {
  /** The approved definition, as canonical JSON. */
  readonly definition: string;
  /** The definition that was seen last, if the item needs an approval. */
  readonly seenDefinition: string | undefined;
  readonly firstAt: number;
  readonly changedAt: number | undefined;
  readonly approvedAt: number | undefined;
}

interface PinRow extends Row {
  server: string;
  kind: string;
  name: string;
  hash: string;
  earlier: string;
  body: string;
  seen_hash: string | null;
  reason: string;
  flags: string;
}

interface DetailRow extends PinRow {
  definition: string;
  seen_definition: string | null;
  first_at: number;
  changed_at: number | null;
  approved_at: number | null;
}

const TOPIC = 'pins';
const POLL_MS = 500;
const COLUMNS = 'server, kind, name, hash, earlier, body, seen_hash, reason, flags';
const DETAILS = `${COLUMNS}, definition, seen_definition, first_at, changed_at, approved_at`;
/** Maximum number of rows per transaction. */
const CHUNK = 200;
/** Approved hashes that stay valid after a newer approval. */
const MOST_EARLIER = 8;

// The version increases in the same transaction as the pins, so that a replica that misses the hint sees the change.
const RAISE = `INSERT INTO meta (key, value) VALUES ('pins', 1)
  ON CONFLICT (key) DO UPDATE SET value = meta.value + 1`;
const RAISE_REMOVED = `INSERT INTO meta (key, value) SELECT 'pins.removed', value FROM meta WHERE key = 'pins'
  ON CONFLICT (key) DO UPDATE SET value = excluded.value`;
const VERSION = `(SELECT value FROM meta WHERE key = 'pins')`;

/** The pinned definitions of the items of all servers. */
export class Pins {
  readonly #db: Db;
  readonly #bus: Bus;
  readonly #pollMs: number;

  constructor(db: Db, bus: Bus, { pollMs = POLL_MS }: { pollMs?: number } = {}) {
    this.#db = db;
    this.#bus = bus;
    this.#pollMs = pollMs;
  }

  /** The pins that changed after a version; all pins for version 0 and after a removal. */
  async since(version: number): Promise<{ version: number; pins: Pin[]; all: boolean }> {
    const { newest, removed } = await this.#versions();
    // After a removal, all pins that are left are read.
    const all = version === 0 || removed > version;
    if (newest === version) return { version, pins: [], all: false };
    const rows = await this.#db.q<PinRow>(`SELECT ${COLUMNS} FROM pins WHERE rev > $1`, [all ? 0 : version]);
    return { version: newest, pins: rows.map(pinOf), all };
  }

  async #versions(): Promise<{ newest: number; removed: number }> {
    const sql = `SELECT key, value FROM meta WHERE key = 'pins' OR key = 'pins.removed'`;
    const rows = await this.#db.q<{ key: string; value: number }>(sql);
    const value = (key: string): number => rows.find((row) => row.key === key)?.value ?? 0;
    return { newest: value('pins'), removed: value('pins.removed') };
  }

  /**
   * Pins items on first sight; an item with a reason waits for an approval. Returns those that were not pinned yet: if
   * several replicas see an item at the same time, only one of them pins it.
   */
  async insert(pins: readonly SeenPin[]): Promise<PinKey[]> {
    const inserted: PinKey[] = [];
    for (let i = 0; i < pins.length; i += CHUNK) {
      const chunk = pins.slice(i, i + CHUNK);
      const results = await this.#db.tx([[RAISE, []], ...chunk.map(insertion)]);
      for (const [index, { server, kind, name }] of chunk.entries())
        if (results[index + 1]!.length > 0) inserted.push({ server, kind, name });
    }
    if (inserted.length > 0) this.#bus.hint(TOPIC);
    return inserted;
  }

  /**
   * Stores a definition that differs from the approved one. Returns the approved hash; undefined if another replica has
   * stored the definition before.
   */
  async change({ server, kind, name, hash, body, definition, reason, flags }: SeenPin): Promise<string | undefined> {
    const params: Value[] = [server, kind, name, hash, body, definition, reason, JSON.stringify(flags), wallMs()];
    const results = await this.#db.tx([
      [RAISE, []],
      [
        `UPDATE pins SET seen_hash = $4, seen_body = $5, seen_definition = $6, reason = $7, flags = $8,
           changed_at = $9, rev = ${VERSION}
         WHERE server = $1 AND kind = $2 AND name = $3
           AND COALESCE(seen_hash, hash) <> $4 RETURNING hash`,
        params,
      ],
    ]);
    const from = results[1]?.[0]?.['hash'] as string | undefined;
    if (from !== undefined) this.#bus.hint(TOPIC);
    return from;
  }

  /** The pins of a server, or of an item of it, with their definitions; sorted. */
  async list(server?: string, name?: string): Promise<PinDetail[]> {
    const params: Value[] = [server ?? null, name ?? null];
    const rows = await this.#db.q<DetailRow>(
      `SELECT ${DETAILS} FROM pins WHERE (CAST($1 AS TEXT) IS NULL OR server = $1)
         AND (CAST($2 AS TEXT) IS NULL OR name = $2)`,
      params,
    );
    // Sorted here, because the collations of the engines differ.
    return rows.map(detailOf).sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
  }

  /**
   * Approves the definition that was seen last, if it is still the one of `pin`. Returns false if the item has changed
   * since, or needs no approval.
   */
  async approve({ server, kind, name, hash, earlier, seen }: Pin): Promise<boolean> {
    if (seen === undefined) return false;
    const kept = [hash, ...earlier].filter((each) => each !== '' && each !== seen).slice(0, MOST_EARLIER);
    const results = await this.#db.tx([
      [RAISE, []],
      [
        `UPDATE pins SET hash = seen_hash, body = seen_body, definition = seen_definition, earlier = $5,
           seen_hash = NULL, seen_body = NULL, seen_definition = NULL, reason = '', approved_at = $6, rev = ${VERSION}
         WHERE server = $1 AND kind = $2 AND name = $3 AND seen_hash = $4 AND hash = $7 RETURNING name`,
        [server, kind, name, seen, JSON.stringify(kept), wallMs(), hash],
      ],
    ]);
    const approved = (results[1]?.length ?? 0) > 0;
    if (approved) this.#bus.hint(TOPIC);
    return approved;
  }

  /** Removes pins, so that the next definition is pinned as on first sight. */
  async forget(server: string, name?: string): Promise<number> {
    const results = await this.#db.tx([
      [RAISE, []],
      [RAISE_REMOVED, []],
      [
        'DELETE FROM pins WHERE server = $1 AND (CAST($2 AS TEXT) IS NULL OR name = $2) RETURNING name',
        [server, name ?? null],
      ],
    ]);
    this.#bus.hint(TOPIC);
    return results[2]!.length;
  }

  /** Calls `fn` on changes by any process, and at intervals. Returns a function that stops the watch. */
  watch(fn: () => void): () => void {
    const off = this.#bus.onHint(TOPIC, fn);
    const timer = setInterval(fn, this.#pollMs).unref();
    return () => {
      off();
      clearInterval(timer);
    };
  }
}

/** An item with a reason has no approved definition yet: its definition waits. */
function insertion({ server, kind, name, hash, body, definition, reason, flags }: SeenPin): Statement {
  const waits = reason !== '';
  const approved = waits ? ['', '', ''] : [hash, body, definition];
  const seen = waits ? [hash, body, definition] : [null, null, null];
  return [
    `INSERT INTO pins (server, kind, name, hash, body, definition, seen_hash, seen_body, seen_definition, earlier, reason,
       flags, first_at, rev)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '[]', $10, $11, $12, ${VERSION})
     ON CONFLICT (server, kind, name) DO NOTHING RETURNING name`,
    [server, kind, name, ...approved, ...seen, reason, JSON.stringify(flags), wallMs()] as Value[],
  ];
}

function pinOf({ server, kind, name, hash, earlier, body, seen_hash: seen, reason, flags }: PinRow): Pin {
  return {
    server,
    kind,
    name,
    hash,
    earlier: JSON.parse(earlier) as string[],
    body,
    seen: seen ?? undefined,
    reason,
    flags: JSON.parse(flags) as string[],
  };
}

const detailOf = (row: DetailRow): PinDetail => ({
  ...pinOf(row),
  definition: row.definition,
  seenDefinition: row.seen_definition ?? undefined,
  firstAt: row.first_at,
  changedAt: row.changed_at ?? undefined,
  approvedAt: row.approved_at ?? undefined,
});

const sortKey = ({ server, kind, name }: PinKey): string => `${server}\0${kind}\0${name}`;
