import { createHash } from 'node:crypto';
import { Backoff, sleep } from '../../core/timing.js';
import { wallMs } from '../clock.js';
import type { Db, Row, Statement } from '../db.js';
import { isStateError, StateError } from '../errors.js';
import { newId } from '../ids.js';
import type { Expiring } from '../sweeper.js';

export interface AuditRecord {
  chain: string;
  seq: number;
  at: number;
  value: unknown;
  hash: string;
}

export interface AuditOptions {
  /**
   * Limit on records in memory while the database is unavailable; beyond it `write` rejects, and the caller decides.
   */
  spool?: number;
  /** How long a record is kept; default: forever. */
  keepMs?: number;
}

export type Verification =
  | { ok: true; records: number; chains: number }
  | { ok: false; chain: string; seq: number; reason: string };

interface AuditRow extends Row {
  chain: string;
  seq: number;
  at: number;
  json: string;
  prev: string;
  hash: string;
}

interface Waiting {
  at: number;
  json: string;
  resolve(): void;
  reject(error: StateError): void;
}

interface TrimRow extends Row {
  chain: string;
  seq: number;
  hash: string;
}

interface Removed {
  readonly trimmed: ReadonlyMap<string, { readonly seq: number; readonly hash: string }>;
  /** Hashes of removed records that remaining records may refer to. */
  readonly hashes: Set<string>;
  /** Differs after each removal of records. */
  readonly version: string;
}

const KEEP_NEWEST = `INSERT INTO audit_trimmed (chain, seq, hash)
  SELECT chain, seq, hash FROM audit WHERE chain = $1 AND seq = $2
  ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash WHERE audit_trimmed.seq < excluded.seq`;
const KEEP_ANCHORS = `INSERT INTO audit_anchors (hash)
  SELECT a.hash FROM audit a WHERE a.chain = $1 AND a.seq <= $2
    AND EXISTS (SELECT 1 FROM audit s WHERE s.seq = 1 AND s.prev = a.hash)
  ON CONFLICT (hash) DO NOTHING`;
const FORGET_ANCHORS = `DELETE FROM audit_anchors WHERE NOT EXISTS
  (SELECT 1 FROM audit s WHERE s.seq = 1 AND s.prev = audit_anchors.hash)`;

const BATCH = 200;
const PAGE = 500;

function hashOf(chain: string, seq: number, at: number, json: string, prev: string): string {
  return createHash('sha256').update(`${chain}\n${seq}\n${at}\n${prev}\n${json}`).digest('hex');
}

/**
 * Append-only records, each with the hash of the previous record. Every process writes its own chain, so that replicas
 * never wait for each other. The first record of a chain has the hash of the newest record in the database at that
 * time, which links the chains.
 */
export class Audit implements Expiring {
  readonly batch = 500;
  readonly #db: Db;
  readonly #spool: number;
  readonly #keepMs: number;
  readonly #chain = newId();
  readonly #waiting: Waiting[] = [];
  #seq = 0;
  #prev: string | undefined;
  #writing = false;
  #closed = false;

  constructor(db: Db, options: AuditOptions = {}) {
    this.#db = db;
    this.#spool = options.spool ?? 10_000;
    this.#keepMs = options.keepMs ?? Number.POSITIVE_INFINITY;
  }

  /** Resolves when the record is durable. While the database is unavailable, the record waits in memory. */
  write(value: unknown): Promise<void> {
    if (this.#closed) return Promise.reject(new StateError('closed', 'the audit trail is closed'));
    if (this.#waiting.length >= this.#spool) {
      return Promise.reject(new StateError('overloaded', `${this.#spool} audit records already wait for the database`));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ at: wallMs(), json: JSON.stringify(value), resolve, reject });
      if (!this.#writing) void this.#drain();
    });
  }

  /** The number of records that are not durable yet. */
  get waiting(): number {
    return this.#waiting.length;
  }

  async list({ since = 0, limit = 100 }: { since?: number; limit?: number } = {}): Promise<AuditRecord[]> {
    const rows = await this.#db.q<AuditRow>(
      'SELECT chain, seq, at, json, prev, hash FROM audit WHERE at >= $1 ORDER BY at, chain, seq LIMIT $2',
      [since, limit],
    );
    return rows.map(({ chain, seq, at, json, hash }) => ({ chain, seq, at, value: JSON.parse(json), hash }));
  }

  /** Reads all records and finds the first one that was changed, inserted, or removed before its retention ended. */
  async verify(): Promise<Verification> {
    for (;;) {
      const removed = await this.#removed();
      const found = await this.#verify(removed);
      // A concurrent sweep looks like tampering, so verify again if it removed records.
      if (found.ok || (await this.#removed()).version === removed.version) return found;
    }
  }

  async #verify({ trimmed, hashes }: Removed): Promise<Verification> {
    const starts: { chain: string; prev: string }[] = [];
    let last: { chain: string; seq: number; hash: string } = { chain: '', seq: 0, hash: '' };
    let records = 0;
    let chains = 0;
    for (;;) {
      const rows = await this.#db.q<AuditRow>(
        `SELECT chain, seq, at, json, prev, hash FROM audit WHERE (chain, seq) > ($1, $2)
         ORDER BY chain, seq LIMIT ${PAGE}`,
        [last.chain, last.seq],
      );
      for (const { chain, seq, at, json, prev, hash } of rows) {
        const before = chain === last.chain ? last : trimmed.get(chain);
        if (seq !== (before?.seq ?? 0) + 1) return { ok: false, chain, seq, reason: 'the previous record is missing' };
        if (before && prev !== before.hash)
          return { ok: false, chain, seq, reason: 'the record does not have the hash of the previous record' };
        if (hash !== hashOf(chain, seq, at, json, prev))
          return { ok: false, chain, seq, reason: 'the record was changed' };
        if (!before) starts.push({ chain, prev });
        if (chain !== last.chain) chains += 1;
        hashes.add(hash);
        last = { chain, seq, hash };
        records += 1;
      }
      if (rows.length < PAGE) break;
    }
    const loose = starts.find(({ prev }) => prev !== '' && !hashes.has(prev));
    if (loose)
      return { ok: false, chain: loose.chain, seq: 1, reason: 'the record that this chain starts from is missing' };
    return { ok: true, records, chains };
  }

  /** The hashes of records that were removed after their retention. */
  async #removed(): Promise<Removed> {
    const [trims, anchors] = await this.#db.tx([
      ['SELECT chain, seq, hash FROM audit_trimmed', []],
      ['SELECT hash FROM audit_anchors', []],
    ]);
    const trimmed = new Map((trims as TrimRow[]).map(({ chain, seq, hash }) => [chain, { seq, hash }]));
    const hashes = [...trimmed.values(), ...(anchors as { hash: string }[])].map(({ hash }) => hash);
    return { trimmed, hashes: new Set(hashes), version: JSON.stringify([...trimmed].sort()) };
  }

  /**
   * Removes records past their retention, from the start of their chains, and keeps the hashes that the remaining
   * records refer to, so that the rest can still be verified.
   */
  async sweep(now = wallMs()): Promise<number> {
    if (!Number.isFinite(this.#keepMs)) return 0;
    const old = await this.#db.q<{ chain: string; seq: number }>(
      'SELECT chain, seq FROM audit WHERE at <= $1 ORDER BY at, chain, seq LIMIT $2',
      [now - this.#keepMs, this.batch],
    );
    const upTo = new Map<string, number>();
    for (const { chain, seq } of old) upTo.set(chain, Math.max(seq, upTo.get(chain) ?? 0));
    const list = [...upTo].flatMap((range): Statement[] => [
      [KEEP_NEWEST, range],
      [KEEP_ANCHORS, range],
      ['DELETE FROM audit WHERE chain = $1 AND seq <= $2', range],
    ]);
    if (list.length > 0) await this.#db.tx([...list, [FORGET_ANCHORS, []]]);
    return old.length;
  }

  /** Writes the waiting records, as long as the database answers. */
  async close(): Promise<void> {
    this.#closed = true;
    while (this.#writing) await sleep(10);
  }

  async #drain(): Promise<void> {
    this.#writing = true;
    const pauses = new Backoff({ first: 100, longest: 2_000 });
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, BATCH);
      try {
        await this.#store(batch);
        pauses.reset();
        this.#waiting.splice(0, batch.length);
        for (const { resolve } of batch) resolve();
      } catch (error) {
        const away = isStateError(error) && error.retryable;
        if (away && !this.#closed) {
          await sleep(pauses.next());
          continue;
        }
        const reason = isStateError(error) ? error : new StateError('internal', String(error), { cause: error });
        for (const { reject } of this.#waiting.splice(0)) reject(reason);
      }
    }
    this.#writing = false;
  }

  /**
   * The records get the same numbers and hashes at every attempt, so that an attempt without an answer can be repeated.
   */
  async #store(batch: readonly Waiting[]): Promise<void> {
    this.#prev ??= await this.#newest();
    let prev = this.#prev;
    let seq = this.#seq;
    const inserts = batch.map(({ at, json }): Statement => {
      seq += 1;
      const hash = hashOf(this.#chain, seq, at, json, prev);
      const params = [this.#chain, seq, at, json, prev, hash];
      prev = hash;
      return [
        `INSERT INTO audit (chain, seq, at, json, prev, hash) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (chain, seq) DO NOTHING`,
        params,
      ];
    });
    await this.#db.tx(inserts);
    this.#prev = prev;
    this.#seq = seq;
  }

  async #newest(): Promise<string> {
    const [row] = await this.#db.q<{ hash: string }>('SELECT hash FROM audit ORDER BY at DESC, seq DESC LIMIT 1');
    return row?.hash ?? '';
  }
}
