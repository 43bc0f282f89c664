import type { Log } from '../../telemetry/log.js';
import type { Bus } from '../bus.js';
import { wallMs } from '../clock.js';
import type { Db, Row, Value } from '../db.js';
import { type Envelope, isEnvelope, keyIdOf } from '../envelope-encryption.js';

export interface RegistryRow<T> {
  kind: string;
  name: string;
  value: T;
  /** The version of the registry at the last write of this entry. */
  rev: number;
  updatedAt: number;
}

interface EntryRow extends Row {
  kind: string;
  name: string;
  json: string;
  rev: number;
  updated_at: number;
}

const TOPIC = 'registry';
const COLUMNS = 'kind, name, json, rev, updated_at';

// The version increases in the same transaction as the entry, so that a replica that misses the hint sees the change.
const RAISE = `INSERT INTO meta (key, value) VALUES ('registry', 1)
  ON CONFLICT (key) DO UPDATE SET value = meta.value + 1`;
const VERSION = `SELECT value FROM meta WHERE key = 'registry'`;

// One statement, so that the number of entries belongs to the same state as the changed ones.
const CHANGES = `SELECT now.total, now.version, r.kind, r.name, r.json, r.rev, r.updated_at
  FROM (SELECT (SELECT COUNT(*) FROM registry WHERE kind = CAST($1 AS TEXT)) AS total,
    COALESCE((${VERSION}), 0) AS version) AS now
  LEFT JOIN registry r ON r.kind = CAST($1 AS TEXT) AND r.rev > CAST($2 AS BIGINT)`;

/** A replica reads the version also without a hint, because hints may be lost. */
const POLL_MS = 2_000;

/** The entries of a kind that were written after a revision. */
export interface RegistryChanges<T> {
  readonly rows: readonly RegistryRow<T>[];
  /** Entries that cannot be decrypted. */
  readonly unreadable: readonly { readonly name: string; readonly rev: number }[];
  /** The number of stored entries of the kind. */
  readonly total: number;
  /** The version of the registry. */
  readonly version: number;
}

export interface RegistryOptions {
  /** Encrypts the entries: the settings of a server contain secrets (S18). */
  envelope: Envelope;
  /** Polling interval of watchers, in milliseconds. */
  pollMs?: number;
  log?: Log | undefined;
}

/**
 * Registered servers and agents. All entries are read at the start, and later only the entries that change. Entries are
 * encrypted. Rows of earlier versions are plain JSON; they are read, and written again encrypted.
 */
export class Registry<T = unknown> {
  readonly #db: Db;
  readonly #bus: Bus;
  readonly #pollMs: number;
  readonly #envelope: Envelope;
  readonly #log: Log | undefined;

  constructor(db: Db, bus: Bus, options: RegistryOptions) {
    this.#db = db;
    this.#bus = bus;
    this.#pollMs = options.pollMs ?? POLL_MS;
    this.#envelope = options.envelope;
    this.#log = options.log;
  }

  async list(kind?: string): Promise<RegistryRow<T>[]> {
    const rows = await (kind === undefined
      ? this.#db.q<EntryRow>(`SELECT ${COLUMNS} FROM registry`)
      : this.#db.q<EntryRow>(`SELECT ${COLUMNS} FROM registry WHERE kind = $1`, [kind]));
    // Sorted here, because the collations of the engines differ.
    return rows.flatMap((row) => this.#readable(row)).sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
  }

  /** The entries of a kind that were written after revision `after`; 0 reads all. */
  async changes(kind: string, after: number): Promise<RegistryChanges<T>> {
    type Found = EntryRow & { total: number; version: number };
    const found = await this.#db.q<Found | (Found & { name: null })>(CHANGES, [kind, after]);
    const changed = found.filter((row): row is Found => row.name !== null);
    const rows = changed.flatMap((row) => this.#readable(row)).sort((a, b) => (a.name < b.name ? -1 : 1));
    const readable = new Set(rows.map(({ name }) => name));
    const unreadable = changed.filter(({ name }) => !readable.has(name));
    return { rows, unreadable, total: found[0]!.total, version: found[0]!.version };
  }

  /** The names of all entries of a kind. */
  async names(kind: string): Promise<ReadonlySet<string>> {
    const rows = await this.#db.q<{ name: string }>('SELECT name FROM registry WHERE kind = $1', [kind]);
    return new Set(rows.map(({ name }) => name));
  }

  async get(kind: string, name: string): Promise<RegistryRow<T> | undefined> {
    const sql = `SELECT ${COLUMNS} FROM registry WHERE kind = $1 AND name = $2`;
    const [row] = await this.#db.q<EntryRow>(sql, [kind, name]);
    return row && this.#entry(row);
  }

  /**
   * Writes an entry and returns its new revision. With `rev`, writes only over that revision (0: only if there is no
   * entry), and returns undefined if the stored revision differs.
   */
  async put(kind: string, name: string, value: T, rev?: number): Promise<number | undefined> {
    const sealed = this.#envelope.seal(rowOf(kind, name), JSON.stringify(value));
    const params: Value[] = [kind, name, sealed, wallMs(), rev ?? null];
    const results = await this.#db.tx([
      [RAISE, []],
      [
        `INSERT INTO registry (kind, name, json, rev, updated_at)
         SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), (${VERSION}), CAST($4 AS BIGINT)
         WHERE COALESCE(CAST($5 AS BIGINT), 0) = 0
           OR EXISTS (SELECT 1 FROM registry WHERE kind = CAST($1 AS TEXT) AND name = CAST($2 AS TEXT))
         ON CONFLICT (kind, name) DO UPDATE SET json = excluded.json, rev = excluded.rev,
           updated_at = excluded.updated_at
         WHERE CAST($5 AS BIGINT) IS NULL OR registry.rev = CAST($5 AS BIGINT)
         RETURNING rev`,
        params,
      ],
    ]);
    const written = results[1]?.[0]?.['rev'] as number | undefined;
    if (written !== undefined) this.#announce();
    return written;
  }

  async remove(kind: string, name: string, rev?: number): Promise<boolean> {
    const results = await this.#db.tx([
      [RAISE, []],
      [
        `DELETE FROM registry WHERE kind = $1 AND name = $2
         AND (CAST($3 AS BIGINT) IS NULL OR rev = CAST($3 AS BIGINT)) RETURNING rev`,
        [kind, name, rev ?? null],
      ],
    ]);
    const removed = (results[1]?.length ?? 0) > 0;
    if (removed) this.#announce();
    return removed;
  }

  /**
   * Encrypts the rows that are plain or under an old key. Returns the number of these rows, and the number of
   * unreadable rows.
   */
  async rotate(): Promise<{ rewritten: number; failed: number }> {
    const result = { rewritten: 0, failed: 0 };
    for (const row of await this.#db.q<EntryRow>(`SELECT ${COLUMNS} FROM registry`)) {
      if (isEnvelope(row.json) && keyIdOf(row.json) === this.#envelope.keyId) continue;
      try {
        if (await this.#rewrite(row, this.#open(row).text)) result.rewritten++;
      } catch {
        result.failed++;
      }
    }
    return result;
  }

  /** The version; it increases with every change by any replica. */
  async version(): Promise<number> {
    const [row] = await this.#db.q<{ value: number }>(VERSION);
    return row?.value ?? 0;
  }

  /** Calls `fn` after every change by any replica after version `from`. Returns a function that stops the watch. */
  watch(from: number, fn: (version: number) => void): () => void {
    let seen = from;
    let looking = false;
    let again = false;
    const look = async (): Promise<void> => {
      again = looking;
      if (looking) return;
      looking = true;
      do {
        again = false;
        const version = await this.version().catch(() => seen);
        if (version === seen) continue;
        seen = version;
        try {
          fn(version);
        } catch {
          // An exception of the callback must not end the watch.
        }
      } while (again);
      looking = false;
    };
    const off = this.#bus.onHint(TOPIC, () => void look());
    const timer = setInterval(() => void look(), this.#pollMs).unref();
    return () => {
      off();
      clearInterval(timer);
    };
  }

  /** An entry that cannot be decrypted must not make the other entries unusable. */
  #readable(row: EntryRow): RegistryRow<T>[] {
    try {
      return [this.#entry(row)];
    } catch (error) {
      const { kind, name } = row;
      this.#log?.error({ kind, name, why: (error as Error).message }, 'ignored a registered entry: it cannot be read');
      return [];
    }
  }

  #entry(row: EntryRow): RegistryRow<T> {
    const { kind, name, rev, updated_at: updatedAt } = row;
    const { text, stale } = this.#open(row);
    // The value can be read in any case, so a failed write only postpones the encryption.
    if (stale) void this.#rewrite(row, text).catch(() => {});
    return { kind, name, value: JSON.parse(text) as T, rev, updatedAt };
  }

  #open({ kind, name, json }: EntryRow): { readonly text: string; readonly stale: boolean } {
    return isEnvelope(json) ? this.#envelope.open(rowOf(kind, name), json) : { text: json, stale: true };
  }

  /** The version stays: the value is the same, and no replica needs to apply it again. */
  async #rewrite({ kind, name, json }: EntryRow, text: string): Promise<boolean> {
    const sql = 'UPDATE registry SET json = $4 WHERE kind = $1 AND name = $2 AND json = $3 RETURNING rev';
    const sealed = this.#envelope.seal(rowOf(kind, name), text);
    return (await this.#db.q(sql, [kind, name, json, sealed])).length > 0;
  }

  /** Only a hint: the change is already durable, and watchers compare versions. */
  #announce(): void {
    this.#bus.hint(TOPIC);
  }
}

function sortKey({ kind, name }: { kind: string; name: string }): string {
  return `${kind}\0${name}`;
}

const rowOf = (kind: string, name: string): readonly string[] => ['registry', kind, name];
