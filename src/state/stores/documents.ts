import { wallMs } from '../clock.js';
import type { Db, Row, Statement, Value } from '../db.js';
import { newId } from '../ids.js';
import type { Expiring } from '../sweeper.js';

export type DocumentTable = 'sessions' | 'parked_calls' | 'tasks';

export interface Document<T> {
  id: string;
  /** The principal that owns the document. Compare it with the caller before any action on the document. */
  principal: string;
  /** The replica that holds the related connection or process; '' if any replica can use the document. */
  owner: string;
  value: T;
  /** Increases with every write. `update` requires it, so that no write overwrites an unseen one. */
  rev: number;
  createdAt: number;
  updatedAt: number;
  expiresAt: number | null;
}

export interface NewDocument<T> {
  id: string;
  principal: string;
  owner?: string;
  value: T;
  expiresAt?: number | null;
}

export interface Change<T> {
  id: string;
  /** The revision that was read; the update is refused if it is no longer the newest. */
  rev: number;
  value: T;
  /** `owner` and `expiresAt` are unchanged if undefined. */
  owner?: string;
  expiresAt?: number | null;
}

export interface Page {
  after?: string;
  limit?: number;
}

interface DocumentRow extends Row {
  id: string;
  principal: string;
  owner: string;
  json: string;
  rev: number;
  created_at: number;
  updated_at: number;
  expires_at: number | null;
}

const COLUMNS = 'id, principal, owner, json, rev, created_at, updated_at, expires_at';

/** JSON values with a principal, an owner and an expiry. An expired document counts as deleted. */
export class Documents<T> implements Expiring {
  readonly batch = 1_000;
  protected readonly db: Db;
  readonly #table: DocumentTable;

  constructor(db: Db, table: DocumentTable) {
    this.db = db;
    this.#table = table;
  }

  /** Returns false if the id is taken. */
  async create(doc: NewDocument<T>): Promise<boolean> {
    return (await this.db.q(...this.createStatement(doc))).length > 0;
  }

  async get(id: string): Promise<Document<T> | undefined> {
    const sql = `SELECT ${COLUMNS} FROM ${this.#table} WHERE id = $1 AND (expires_at IS NULL OR expires_at > $2)`;
    const [row] = await this.db.q<DocumentRow>(sql, [id, wallMs()]);
    return row && document<T>(row);
  }

  /** Returns the new revision, or undefined if another write came first or the document is gone. */
  async update(change: Change<T>): Promise<number | undefined> {
    const [row] = await this.db.q<{ rev: number }>(...this.updateStatement(change));
    return row?.rev;
  }

  /** Extends the expiry without a new revision, so that concurrent updates are not refused. */
  async touch(id: string, expiresAt: number): Promise<boolean> {
    const now = wallMs();
    const sql = `UPDATE ${this.#table} SET expires_at = $2 WHERE id = $1
      AND (expires_at IS NULL OR expires_at > $3) RETURNING id`;
    return (await this.db.q(sql, [id, expiresAt, now])).length > 0;
  }

  async remove(id: string): Promise<boolean> {
    return (await this.db.q(`DELETE FROM ${this.#table} WHERE id = $1 RETURNING id`, [id])).length > 0;
  }

  async listByPrincipal(principal: string, { after = '', limit = 100 }: Page = {}): Promise<Document<T>[]> {
    const sql = `SELECT ${COLUMNS} FROM ${this.#table} WHERE principal = $1 AND id > $2
      AND (expires_at IS NULL OR expires_at > $3) ORDER BY id LIMIT $4`;
    const rows = await this.db.q<DocumentRow>(sql, [principal, after, wallMs(), limit]);
    return rows.map((row) => document<T>(row));
  }

  /** The documents of all principals, for operators. */
  async listAll({ after = '', limit = 100 }: Page = {}): Promise<Document<T>[]> {
    const sql = `SELECT ${COLUMNS} FROM ${this.#table} WHERE id > $1
      AND (expires_at IS NULL OR expires_at > $2) ORDER BY id LIMIT $3`;
    return (await this.db.q<DocumentRow>(sql, [after, wallMs(), limit])).map((row) => document<T>(row));
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM ${this.#table} WHERE id IN
      (SELECT id FROM ${this.#table} WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) RETURNING id`;
    return (await this.db.q(sql, [wallMs(), this.batch])).length;
  }

  /**
   * For a transaction with other writes. Returns a row if the document was created; an expired document is replaced.
   */
  createStatement(doc: NewDocument<T>, mark = newId()): Statement {
    const { id, principal, owner = '', value, expiresAt = null } = doc;
    const now = wallMs();
    return [
      `INSERT INTO ${this.#table} (id, principal, owner, json, rev, mark, created_at, updated_at, expires_at)
       VALUES ($1, $2, $3, $4, 1, $5, $6, $6, CAST($7 AS BIGINT))
       ON CONFLICT (id) DO UPDATE SET principal = excluded.principal, owner = excluded.owner, json = excluded.json,
         rev = ${this.#table}.rev + 1, mark = excluded.mark, created_at = excluded.created_at,
         updated_at = excluded.updated_at, expires_at = excluded.expires_at
       WHERE ${this.#table}.expires_at <= excluded.created_at
       RETURNING rev`,
      [id, principal, owner, JSON.stringify(value), mark, now, expiresAt],
    ];
  }

  /** For a transaction with other writes. Their condition can be `mark`, which shows that the document was written. */
  updateStatement({ id, rev, value, owner, expiresAt }: Change<T>, mark = newId()): Statement {
    const params: Value[] = [id, rev, JSON.stringify(value), mark, wallMs()];
    let set = 'json = $3, mark = $4, updated_at = $5, rev = rev + 1';
    if (owner !== undefined) set += `, owner = $${params.push(owner)}`;
    if (expiresAt !== undefined) set += `, expires_at = CAST($${params.push(expiresAt)} AS BIGINT)`;
    const sql = `UPDATE ${this.#table} SET ${set} WHERE id = $1 AND rev = $2
      AND (expires_at IS NULL OR expires_at > $5) RETURNING rev`;
    return [sql, params];
  }
}

function document<T>(row: DocumentRow): Document<T> {
  return {
    id: row.id,
    principal: row.principal,
    owner: row.owner,
    value: JSON.parse(row.json) as T,
    rev: row.rev,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    expiresAt: row.expires_at,
  };
}
