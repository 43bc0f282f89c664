import { Backoff, sleep, within } from '../../core/timing.js';
import { wallMs } from '../clock.js';
import type { Db, Row, Statement } from '../db.js';
import { isStateError, StateError } from '../errors.js';
import { newId } from '../ids.js';
import type { Keyring } from '../keyring.js';
import type { Expiring } from '../sweeper.js';
import { AuditQueue, type Group, type Waiter } from './audit-queue.js';
import { AuditRetention } from './audit-retention.js';
import { type AuditRange, insertRows, readEntries, rowsOf } from './audit-rows.js';
import { AuditSignatures, type SignedPlace } from './audit-signatures.js';
import { AuditVerifier, type Checkpoint, type Verification } from './audit-verifier.js';

export interface StoredAuditRecord {
  chain: string;
  seq: number;
  at: number;
  value: unknown;
  /** The hash of its row: records that were written together share one. */
  hash: string;
}

export interface AuditOptions {
  /**
   * Limit on records in memory while the database is unavailable; beyond it records are refused, and the caller decides.
   */
  spool?: number;
  /** How long a record is kept; default: forever. */
  keepMs?: number;
  /** Time for which records are collected before they are written together, if no caller waits for them. */
  collectMs?: number;
  /** Interval between two checkpoints; default: none. */
  checkpointMs?: number;
}

/** One transaction that stores the oldest waiting records. */
interface Attempt {
  readonly groups: readonly Group[];
  readonly statements: readonly Statement[];
  /** What is true of the chain afterwards. */
  readonly seq: number;
  readonly prev: string;
  readonly recordedAt: number;
}

const BATCH = 1_024;
/** Limit on the heads in one checkpoint. */
const MAX_HEADS = 500;
/** A head is named again if it is this much older than the last checkpoint: clocks of replicas differ. */
const CLOCK_MARGIN_MS = 10_000;

const SET_HEAD = `INSERT INTO audit_heads (chain, seq, hash, at, key, mac) VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, at = excluded.at, key = excluded.key,
    mac = excluded.mac WHERE audit_heads.seq < excluded.seq`;

/**
 * Append-only records, each with the hash of the previous record. Every process writes its own chain, so that replicas
 * never wait for each other. The first record of a chain has the hash of the newest record in the database at that
 * time, and checkpoints name the heads of other chains, which links the chains. Every transaction also signs the new
 * head of the chain.
 */
export class Audit implements Expiring {
  readonly batch: number;
  readonly #db: Db;
  readonly #signatures: AuditSignatures;
  readonly #retention: AuditRetention;
  readonly #options: Required<Omit<AuditOptions, 'keepMs'>>;
  readonly #chain = newId();
  readonly #queue = new AuditQueue();
  readonly #timer: NodeJS.Timeout | undefined;
  #seq = 0;
  #prev: string | undefined;
  /** The time of the newest record that is not a checkpoint. */
  #recordedAt = 0;
  #checkpointAt = 0;
  /** The chains of the last checkpoint with the times of their newest records. */
  #named: ReadonlyMap<string, number> = new Map();
  #writing = false;
  #collecting: (() => void) | undefined;
  /** Repeated as it is until it succeeds: an attempt without an answer may have been executed. */
  #attempt: Attempt | undefined;
  #closed = false;
  #lost = 0;

  constructor(db: Db, keyring: Keyring, options: AuditOptions = {}) {
    const { keepMs, spool = 10_000, collectMs = 100, checkpointMs = 0 } = options;
    this.#db = db;
    this.#signatures = new AuditSignatures(keyring);
    this.#retention = new AuditRetention(db, this.#signatures, keepMs);
    this.batch = this.#retention.batch;
    this.#options = { spool, collectMs, checkpointMs };
    if (checkpointMs > 0) this.#timer = setInterval(() => void this.checkpoint().catch(() => {}), checkpointMs).unref();
  }

  /** Resolves when the record is durable. While the database is unavailable, the record waits in memory. */
  write(value: unknown): Promise<void> {
    return this.#promised(value, false);
  }

  /** Resolves when the record is durable, and rejects as soon as an attempt to write it fails. */
  writeNow(value: unknown): Promise<void> {
    return this.#promised(value, true);
  }

  /** Adds a record without waiting for it. Returns false if too many records already wait. */
  add(value: unknown): boolean {
    return this.addText(JSON.stringify(value) ?? 'null');
  }

  /** Like `add`, for the JSON of a record that is not a checkpoint. */
  addText(json: string): boolean {
    if (this.#closed || this.#queue.size >= this.#options.spool) return false;
    this.#queue.add(wallMs(), json, false);
    if (!this.#writing) void this.#drain();
    return true;
  }

  /** The number of records that are not durable yet. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** The number of accepted records that could not be written. */
  get lost(): number {
    return this.#lost;
  }

  /** The records in the order of their times. */
  async *read(range: AuditRange = {}): AsyncGenerator<StoredAuditRecord> {
    for await (const { chain, seq, at, json, hash } of readEntries(this.#db, range))
      yield { chain, seq, at, value: JSON.parse(json), hash };
  }

  async list({ since = 0, limit = 100 }: { since?: number; limit?: number } = {}): Promise<StoredAuditRecord[]> {
    const found: StoredAuditRecord[] = [];
    if (limit <= 0) return found;
    for await (const record of this.read({ since })) if (found.push(record) >= limit) break;
    return found;
  }

  /** `expected` are heads that an earlier verification found. */
  verify(expected?: readonly SignedPlace[]): Promise<Verification> {
    return new AuditVerifier(this.#db, this.#signatures).verify(expected);
  }

  /** Removes records past their retention, and signs rows of older keys again with the newest key. */
  sweep(now = wallMs()): Promise<number> {
    return this.#retention.sweep(now);
  }

  /**
   * Writes a record with the heads of the chains that have new records, so that a cut in any chain is noticed in this
   * one. Resolves when it is durable.
   */
  async checkpoint(): Promise<void> {
    const began = wallMs();
    const heads = await this.#db.q<SignedPlace & { at: number } & Row>(
      `SELECT chain, seq, hash, at FROM audit_heads WHERE at >= $1 AND chain <> $2 ORDER BY at DESC LIMIT ${MAX_HEADS}`,
      [this.#checkpointAt - CLOCK_MARGIN_MS, this.#chain],
    );
    const named = this.#named;
    // By time and not by number: checkpoints of two idle replicas must not cause each other.
    const fresh = heads.filter(({ chain, at }) => (named.get(chain) ?? 0) < at);
    this.#checkpointAt = began;
    this.#named = new Map(heads.map(({ chain, at }) => [chain, at]));
    if (fresh.length === 0 || this.#closed) return;
    const record: Checkpoint = {
      kind: 'checkpoint',
      heads: fresh.map(({ chain, seq, hash }) => ({ chain, seq, hash })),
    };
    await this.write(record);
  }

  /** Writes the waiting records, as long as the database answers. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#collecting?.();
    if (this.#recordedAt > 0 && this.#options.checkpointMs > 0) await this.checkpoint().catch(() => {});
    this.#closed = true;
    while (this.#writing) await sleep(10);
  }

  #promised(value: unknown, impatient: boolean): Promise<void> {
    if (this.#closed) return Promise.reject(new StateError('closed', 'the audit trail is closed'));
    const { spool } = this.#options;
    if (this.#queue.size >= spool)
      return Promise.reject(new StateError('overloaded', `${spool} audit records already wait for the database`));
    return new Promise((resolve, reject) => {
      this.#enqueue(value, { settle: (error) => (error ? reject(error) : resolve()), impatient });
      this.#collecting?.();
      if (!this.#writing) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#writing = true;
    const pauses = new Backoff({ first: 100, longest: 2_000 });
    while (this.#queue.size > 0) {
      await this.#collect();
      try {
        const stored = await this.#store();
        pauses.reset();
        this.#queue.remove(stored);
        for (const { waiters } of stored) for (const { settle } of waiters) settle();
      } catch (error) {
        const reason = isStateError(error) ? error : new StateError('internal', String(error), { cause: error });
        if (reason.retryable && !this.#closed) {
          // These stay in the queue: the failed attempt may have been executed, and its numbers are taken.
          this.#queue.failImpatient(reason);
          await sleep(pauses.next());
          continue;
        }
        this.#attempt = undefined;
        for (const { records, waiters } of this.#queue.clear()) {
          this.#lost += records;
          for (const { settle } of waiters) settle(reason);
        }
      }
    }
    this.#writing = false;
  }

  /** Waits for more records if no caller waits for those in the queue. */
  async #collect(): Promise<void> {
    const { collectMs } = this.#options;
    if (this.#closed || this.#queue.size >= BATCH || this.#queue.awaited) return;
    await within(new Promise<void>((resolve) => (this.#collecting = resolve)), collectMs);
    this.#collecting = undefined;
  }

  /** The record becomes text at once: it is as it was now. */
  #enqueue(value: unknown, waiter?: Waiter): void {
    const checkpoint = (value as Partial<Checkpoint> | null)?.kind === 'checkpoint';
    this.#queue.add(wallMs(), JSON.stringify(value) ?? 'null', checkpoint, waiter);
  }

  /** Stores the oldest waiting records, and returns them. */
  async #store(): Promise<readonly Group[]> {
    this.#attempt ??= await this.#next();
    const { groups, statements, seq, prev, recordedAt } = this.#attempt;
    await this.#db.tx(statements);
    this.#attempt = undefined;
    this.#prev = prev;
    this.#seq = seq;
    this.#recordedAt = recordedAt;
    return groups;
  }

  async #next(): Promise<Attempt> {
    this.#prev ??= await this.#start();
    const chain = this.#chain;
    const groups = this.#queue.oldest(BATCH);
    const added = rowsOf(chain, this.#seq, this.#prev, groups);
    const { seq, hash } = added.rows.at(-1)!;
    const recordedAt = Math.max(this.#recordedAt, ...groups.map((group) => group.recordedAt));
    const statements = [...insertRows(added), this.#head({ chain, seq, hash }, recordedAt)];
    return { groups, statements, seq, prev: hash, recordedAt };
  }

  #head(place: SignedPlace, at: number): Statement {
    const { key, mac } = this.#signatures.sign('head', place);
    return [SET_HEAD, [place.chain, place.seq, place.hash, at, key, mac]];
  }

  /** The hash that the chain starts from. */
  async #start(): Promise<string> {
    const [signed] = await this.#db.q('SELECT 1 AS one FROM audit_heads LIMIT 1');
    if (!signed) await this.#adopt();
    const [row] = await this.#db.q<{ hash: string }>('SELECT hash FROM audit ORDER BY at DESC, seq DESC LIMIT 1');
    return row?.hash ?? '';
  }

  /** Signs the chains of a version that did not sign: once, when no chain has a signature yet. */
  async #adopt(): Promise<void> {
    const statements: Statement[] = [];
    for (let chain = ''; ; ) {
      const [next] = await this.#db.q<SignedPlace & Row>(
        `SELECT chain, seq, hash FROM audit WHERE chain = (SELECT MIN(chain) FROM audit WHERE chain > $1)
         ORDER BY seq DESC LIMIT 1`,
        [chain],
      );
      if (!next) break;
      statements.push(this.#head(next, 0));
      chain = next.chain;
    }
    await this.#retention.adopt();
    if (statements.length > 0) await this.#db.tx(statements);
  }
}
