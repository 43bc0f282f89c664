import { wallMs } from '../clock.js';
import type { Db, Row, Statement, Value } from '../db.js';
import { newId } from '../ids.js';
import { skipLocked } from '../sql-dialect.js';
import type { Expiring } from '../sweeper.js';
import type { DocumentTable } from './documents.js';

/** A message to be delivered at least once. */
export interface Message {
  /** The same for all attempts; sorts by time. Generated if undefined. */
  id?: string;
  /** Messages of one lane are delivered in the order of their ids, one at a time. */
  lane: string;
  /** The destination; the sender defines its format. */
  target: string;
  value: unknown;
}

export interface Claimed<T> {
  id: string;
  lane: string;
  target: string;
  value: T;
  /** 1 for the first attempt. */
  attempt: number;
  createdAt: number;
  /** Identifies the claim for `fail` and `release`. */
  claim: string;
}

export interface DeadLetter<T> {
  id: string;
  lane: string;
  target: string;
  value: T;
  attempts: number;
  createdAt: number;
  error: string | null;
}

export interface ClaimOptions {
  now?: number;
  /** Limit per target, so that a target with many messages does not starve the others. */
  perTarget?: number;
  /** Targets that cannot receive now: their messages are not claimed, and no attempt is counted. */
  except?: readonly string[];
}

export interface OutboxOptions {
  /** Must exceed the longest attempt: a claim that is not settled by then counts as lost. */
  leaseMs?: number;
  /** A message is dead after this time without a delivery. */
  giveUpMs?: number;
  /** How long a dead message is kept; default: forever. */
  keepDeadMs?: number;
  /** The most messages of an owner, waiting and dead, and their bytes. */
  mostOfOwner?: OwnerLimits;
  random?: () => number;
}

export interface OwnerLimits {
  readonly count: number;
  readonly bytes: number;
}

export interface Dropped {
  readonly waiting: number;
  readonly dead: number;
}

const MOST_OF_OWNER: OwnerLimits = { count: 10_000, bytes: 256 * 1024 * 1024 };
/** The part of the limits that is free after messages were dropped, so that not every new message drops one. */
const FREED_PART = 0.1;

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Delays before attempts 2, 3, 4 …; the last one repeats until the message is dead. */
export const RETRY_DELAYS_MS: readonly number[] = [
  5 * SECOND,
  30 * SECOND,
  2 * MINUTE,
  10 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  6 * HOUR,
  12 * HOUR,
];
export const GIVE_UP_MS = 72 * HOUR;

/** `perTarget` is applied to this many of the oldest messages, which bounds the cost of a claim. */
const FAIR_WINDOW = 1_000;

/** Full jitter: receivers that failed at the same time are retried at different times. */
export function retryDelay(attempts: number, random: () => number = Math.random): number {
  const longest = RETRY_DELAYS_MS[Math.min(attempts, RETRY_DELAYS_MS.length) - 1] ?? 0;
  return Math.round(random() * longest);
}

/** Queues a message inside a transaction; with `when`, only if that document was written with that mark. */
export function messageStatement(
  { id = newId(), lane, target, value }: Message,
  when?: { table: DocumentTable; id: string; mark: string },
): Statement {
  const now = wallMs();
  const params: Value[] = [id, lane, target, JSON.stringify(value), now];
  const condition = when ? `EXISTS (SELECT 1 FROM ${when.table} WHERE id = $6 AND mark = $7)` : '1 = 1';
  if (when) params.push(when.id, when.mark);
  return [
    `INSERT INTO outbox (id, lane, target, json, dead, attempts, due_at, claim, first_at, created_at)
     SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), 0, 0,
       CAST($5 AS BIGINT), '', CAST($5 AS BIGINT), CAST($5 AS BIGINT)
     WHERE ${condition} ON CONFLICT (id) DO NOTHING`,
    params,
  ];
}

interface OutboxRow extends Row {
  id: string;
  lane: string;
  target: string;
  json: string;
  attempts: number;
  created_at: number;
  error: string | null;
}

/**
 * A queue in which the end of a lease *is* the next due time. A claimed message becomes due again when its lease ends,
 * so other workers get the messages of a dead worker.
 */
export class Outbox<T = unknown> implements Expiring {
  readonly batch = 500;
  readonly #db: Db;
  readonly #leaseMs: number;
  readonly #giveUpMs: number;
  readonly #keepDeadMs: number;
  readonly #mostOfOwner: OwnerLimits;
  readonly #random: () => number;

  constructor(db: Db, options: OutboxOptions = {}) {
    this.#db = db;
    this.#leaseMs = options.leaseMs ?? 30 * SECOND;
    this.#giveUpMs = options.giveUpMs ?? GIVE_UP_MS;
    this.#keepDeadMs = options.keepDeadMs ?? Number.POSITIVE_INFINITY;
    this.#mostOfOwner = options.mostOfOwner ?? MOST_OF_OWNER;
    this.#random = options.random ?? Math.random;
  }

  /** The duration of a claim. */
  get leaseMs(): number {
    return this.#leaseMs;
  }

  async put(message: Message): Promise<void> {
    await this.#db.tx([messageStatement(message)]);
  }

  /** Claims due messages that are first in their lane. No other worker gets them until the lease ends. */
  async claim(limit: number, options: number | ClaimOptions = {}): Promise<Claimed<T>[]> {
    const given = typeof options === 'number' ? { now: options } : options;
    const { now = wallMs(), perTarget = limit, except = [] } = given;
    const claim = newId();
    const params: Value[] = [now, limit, now + this.#leaseMs, claim, ...except];
    const others = except.length > 0 ? `AND target NOT IN (${except.map((_, i) => `$${i + 5}`).join(', ')})` : '';
    const first = `dead = 0 AND due_at <= $1 ${others}
      AND NOT EXISTS (SELECT 1 FROM outbox p WHERE p.dead = 0 AND p.lane = o.lane AND p.id < o.id)`;
    let which = first;
    if (perTarget < limit) {
      // Only the oldest messages are divided among the targets, because a scan of all messages takes longer the longer
      // the queue is.
      const seen = params.push(perTarget, FAIR_WINDOW);
      which = `dead = 0 AND due_at <= $1 AND id IN (
        SELECT id FROM (
          SELECT id, ROW_NUMBER() OVER (PARTITION BY target ORDER BY due_at, id) AS place FROM (
            SELECT id, target, due_at FROM outbox o WHERE ${first} ORDER BY due_at LIMIT $${seen}) AS oldest) AS placed
        WHERE place <= $${seen - 1})`;
    }
    const rows = await this.#db.q<OutboxRow>(
      `WITH due AS (SELECT id FROM outbox o WHERE ${which} ORDER BY due_at LIMIT $2 ${skipLocked(this.#db.dialect)})
       UPDATE outbox SET due_at = CAST($3 AS BIGINT), claim = $4, attempts = attempts + 1
       WHERE id IN (SELECT id FROM due)
       RETURNING id, lane, target, json, attempts, created_at`,
      params,
    );
    const claimed = rows.map((row) => ({
      id: row.id,
      lane: row.lane,
      target: row.target,
      value: JSON.parse(row.json) as T,
      attempt: row.attempts,
      createdAt: row.created_at,
      claim,
    }));
    return claimed.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Removes a delivered message, even after the end of the lease, because the receiver has it. */
  async ack(id: string): Promise<boolean> {
    return (await this.#db.q('DELETE FROM outbox WHERE id = $1 RETURNING id', [id])).length > 0;
  }

  /**
   * Records a failed attempt. The message is due again by the schedule, at the earliest after `retryAfterMs`, until
   * `giveUpMs` has passed. Returns the new state of the message; `lost` if this worker no longer held the claim.
   */
  async fail(
    { id, claim, attempt }: Pick<Claimed<T>, 'id' | 'claim' | 'attempt'>,
    { error, retryAfterMs = 0, now = wallMs() }: { error: string; retryAfterMs?: number; now?: number },
  ): Promise<'retry' | 'dead' | 'lost'> {
    const due = now + Math.max(retryAfterMs, retryDelay(attempt, this.#random));
    const [row] = await this.#db.q<{ dead: number }>(
      `UPDATE outbox SET error = $3, claim = '', due_at = CAST($4 AS BIGINT),
         dead = CASE WHEN CAST($5 AS BIGINT) - first_at >= CAST($6 AS BIGINT) THEN 1 ELSE 0 END
       WHERE id = $1 AND claim = $2 RETURNING dead`,
      [id, claim, error.slice(0, 500), due, now, this.#giveUpMs],
    );
    if (!row) return 'lost';
    return row.dead === 1 ? 'dead' : 'retry';
  }

  /** Releases a claim without an attempt: the message is due again at `due`, as if it had never been claimed. */
  async release({ id, claim }: Pick<Claimed<T>, 'id' | 'claim'>, due = wallMs()): Promise<boolean> {
    const sql = `UPDATE outbox SET claim = '', attempts = attempts - 1, due_at = $3
      WHERE id = $1 AND claim = $2 RETURNING id`;
    return (await this.#db.q(sql, [id, claim, due])).length > 0;
  }

  /**
   * Makes a message dead at once, because the receiver will never accept it. Its lane continues with the next message.
   */
  async giveUp(id: string, error: string): Promise<boolean> {
    const sql = `UPDATE outbox SET dead = 1, claim = '', error = $2 WHERE id = $1 AND dead = 0 RETURNING id`;
    return (await this.#db.q(sql, [id, error.slice(0, 500)])).length > 0;
  }

  /**
   * Drops the oldest messages of an owner with too many, dead ones first. Returns their numbers; undefined if none had
   * to be dropped.
   */
  async trim(owner: string): Promise<Dropped | undefined> {
    const { count, bytes } = this.#mostOfOwner;
    const [held] = await this.#db.q<{ count: number; bytes: number }>(
      'SELECT COUNT(*) AS count, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes FROM outbox WHERE owner = $1',
      [owner],
    );
    if (!held || (held.count <= count && held.bytes <= bytes)) return undefined;
    const dropped = { waiting: 0, dead: 0 };
    for (;;) {
      const found = await this.#db.q<{ id: string; bytes: number; dead: number }>(
        `SELECT id, bytes, dead FROM outbox WHERE owner = $1 ORDER BY dead DESC, created_at, id LIMIT $2`,
        [owner, this.batch],
      );
      const surplus: string[] = [];
      for (const row of found) {
        if (held.count <= count * (1 - FREED_PART) && held.bytes <= bytes * (1 - FREED_PART)) break;
        // The newest message stays, however large it is.
        if (held.count === 1) break;
        held.count -= 1;
        held.bytes -= row.bytes;
        surplus.push(row.id);
      }
      if (surplus.length === 0) return dropped;
      const gone = await this.#db.q<{ dead: number }>(
        `DELETE FROM outbox WHERE id IN (${surplus.map((_, i) => `$${i + 1}`).join(', ')}) RETURNING dead`,
        surplus,
      );
      for (const { dead } of gone) dropped[dead === 1 ? 'dead' : 'waiting'] += 1;
    }
  }

  /** The dead messages, or the one with this id. */
  async dead({
    after = '',
    limit = 100,
    id,
  }: {
    after?: string;
    limit?: number;
    id?: string;
  } = {}): Promise<DeadLetter<T>[]> {
    const rows = await this.#db.q<OutboxRow>(
      `SELECT id, lane, target, json, attempts, created_at, error FROM outbox
       WHERE dead = 1 AND ${id === undefined ? 'id > $1' : 'id = $1'} ORDER BY id LIMIT $2`,
      [id ?? after, limit],
    );
    return rows.map(({ id, lane, target, json, attempts, created_at: createdAt, error }) => {
      return { id, lane, target, value: JSON.parse(json) as T, attempts, createdAt, error };
    });
  }

  /** Puts a dead message back into the queue, with the same id and a new schedule. */
  async replay(id: string, now = wallMs()): Promise<boolean> {
    const sql = `UPDATE outbox SET dead = 0, attempts = 0, error = NULL, due_at = $2, first_at = $2
      WHERE id = $1 AND dead = 1 RETURNING id`;
    return (await this.#db.q(sql, [id, now])).length > 0;
  }

  /** Removes dead messages past their retention, which counts from `due_at`: about the time of their last attempt. */
  async sweep(now = wallMs()): Promise<number> {
    if (!Number.isFinite(this.#keepDeadMs)) return 0;
    const sql = `DELETE FROM outbox WHERE dead = 1 AND id IN
      (SELECT id FROM outbox WHERE dead = 1 AND due_at <= $1 ORDER BY due_at LIMIT $2) RETURNING id`;
    return (await this.#db.q(sql, [now - this.#keepDeadMs, this.batch])).length;
  }

  /** The number of waiting and dead messages, and the time of the oldest waiting one. */
  async depth(): Promise<{ waiting: number; dead: number; oldestAt: number | null }> {
    const [row] = await this.#db.q<{ waiting: number; dead: number; oldest: number | null }>(
      `SELECT COALESCE(SUM(1 - dead), 0) AS waiting, COALESCE(SUM(dead), 0) AS dead,
         MIN(CASE WHEN dead = 0 THEN created_at END) AS oldest FROM outbox`,
    );
    return { waiting: row?.waiting ?? 0, dead: row?.dead ?? 0, oldestAt: row?.oldest ?? null };
  }
}
