import { createHash } from 'node:crypto';
import { sleep, wallMs } from '../clock.js';
import type { Db, Row, Statement } from '../db.js';
import { isStateError, StateError } from '../errors.js';
import { newId } from '../ids.js';

export interface AuditRecord {
  chain: string;
  seq: number;
  at: number;
  value: unknown;
  hash: string;
}

export interface AuditOptions {
  /** Records held while the database is away; past that `write` is refused, and the caller's policy decides. */
  spool?: number;
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

const BATCH = 200;
const PAGE = 500;

function hashOf(chain: string, seq: number, at: number, json: string, prev: string): string {
  return createHash('sha256').update(`${chain}\n${seq}\n${at}\n${prev}\n${json}`).digest('hex');
}

/**
 * Append-only records, each carrying the hash of the one before. Every process writes a chain of its own, so that
 * replicas never wait for each other; a chain begins with the hash of the newest record found at its start, which ties
 * the chains together.
 */
export class Audit {
  readonly #db: Db;
  readonly #spool: number;
  readonly #chain = newId();
  readonly #waiting: Waiting[] = [];
  #seq = 0;
  #prev: string | undefined;
  #writing = false;
  #closed = false;

  constructor(db: Db, options: AuditOptions = {}) {
    this.#db = db;
    this.#spool = options.spool ?? 10_000;
  }

  /** Resolves when the record is durable. While the database is away it waits in the spool. */
  write(value: unknown): Promise<void> {
    if (this.#closed) return Promise.reject(new StateError('closed', 'the audit trail is closed'));
    if (this.#waiting.length >= this.#spool) {
      return Promise.reject(new StateError('overloaded', `${this.#spool} audit records wait for the database`));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ at: wallMs(), json: JSON.stringify(value), resolve, reject });
      if (!this.#writing) void this.#drain();
    });
  }

  /** Records not yet durable. */
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

  /** Reads everything and finds the first record that was changed, removed or put in between. */
  async verify(): Promise<Verification> {
    const hashes = new Set<string>();
    const starts: { chain: string; prev: string }[] = [];
    let last: { chain: string; seq: number; hash: string } = { chain: '', seq: 0, hash: '' };
    let records = 0;
    for (;;) {
      const rows = await this.#db.q<AuditRow>(
        `SELECT chain, seq, at, json, prev, hash FROM audit WHERE (chain, seq) > ($1, $2)
         ORDER BY chain, seq LIMIT ${PAGE}`,
        [last.chain, last.seq],
      );
      for (const { chain, seq, at, json, prev, hash } of rows) {
        const first = chain !== last.chain;
        if (seq !== (first ? 1 : last.seq + 1))
          return { ok: false, chain, seq, reason: 'the record before is missing' };
        if (!first && prev !== last.hash) return { ok: false, chain, seq, reason: 'it does not follow the one before' };
        if (hash !== hashOf(chain, seq, at, json, prev)) return { ok: false, chain, seq, reason: 'it was changed' };
        if (first) starts.push({ chain, prev });
        hashes.add(hash);
        last = { chain, seq, hash };
        records += 1;
      }
      if (rows.length < PAGE) break;
    }
    const loose = starts.find(({ prev }) => prev !== '' && !hashes.has(prev));
    if (loose) return { ok: false, chain: loose.chain, seq: 1, reason: 'the chain before it is missing' };
    return { ok: true, records, chains: starts.length };
  }

  /** Writes what waits, as long as the database answers. */
  async close(): Promise<void> {
    this.#closed = true;
    while (this.#writing) await sleep(10);
  }

  async #drain(): Promise<void> {
    this.#writing = true;
    for (let failures = 0; this.#waiting.length > 0; ) {
      const batch = this.#waiting.slice(0, BATCH);
      try {
        await this.#store(batch);
        failures = 0;
        this.#waiting.splice(0, batch.length);
        for (const { resolve } of batch) resolve();
      } catch (error) {
        failures += 1;
        const away = isStateError(error) && error.retryable;
        if (away && !this.#closed) {
          await sleep(Math.min(2_000, 50 * 2 ** Math.min(failures, 6)));
          continue;
        }
        const reason = isStateError(error) ? error : new StateError('internal', String(error), { cause: error });
        for (const { reject } of this.#waiting.splice(0)) reject(reason);
      }
    }
    this.#writing = false;
  }

  /** The same records get the same numbers and hashes on every attempt, so that one without an answer is repeatable. */
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
