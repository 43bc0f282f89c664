import { wallMs } from '../clock.js';
import type { Db, Row, Statement } from '../db.js';

/** The scope of an API key: the identity of its caller, and what this caller may see and use. */
export interface ApiKeyScope {
  readonly roles: readonly string[];
  readonly servers: readonly string[];
  readonly tools: readonly string[];
}

export interface ApiKey extends ApiKeyScope {
  /** The public id. */
  readonly id: string;
  /** The name of the caller. */
  readonly name: string;
  readonly tenant: string | undefined;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly lastUsedAt: number | undefined;
  readonly revokedAt: number | undefined;
}

/** An API key with the digest to compare with. */
export interface StoredApiKey extends ApiKey {
  /** Base64url. */
  readonly digest: string;
  /** The id of the keyring's key that made the digest. */
  readonly keyedBy: string;
}

interface KeyRow extends Row {
  id: string;
  name: string;
  tenant: string | null;
  scope: string;
  digest: string;
  keyed_by: string;
  created_at: number;
  expires_at: number | null;
  last_used_at: number | null;
  revoked_at: number | null;
}

const COLUMNS = 'id, name, tenant, scope, digest, keyed_by, created_at, expires_at, last_used_at, revoked_at';
const ORDER = 'ORDER BY created_at DESC, id';

// The version increases in the transaction of the change, so that every replica notices it with one small query.
const RAISE: Statement = [
  `INSERT INTO meta (key, value) VALUES ('api_keys', 1) ON CONFLICT (key) DO UPDATE SET value = meta.value + 1`,
  [],
];
const VERSION = `SELECT value FROM meta WHERE key = 'api_keys'`;

/** Maximum number of keys in one list. */
const PAGE = 10_000;

/** API keys: their scopes and digests, never the keys themselves (S17). */
export class ApiKeys {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** The version; it increases with every key that is created or revoked, by any process. */
  async version(): Promise<number> {
    const [row] = await this.#db.q<{ value: number }>(VERSION);
    return row?.value ?? 0;
  }

  async create(key: Omit<StoredApiKey, 'createdAt' | 'lastUsedAt' | 'revokedAt'>): Promise<ApiKey> {
    const { id, name, tenant, roles, servers, tools, digest, keyedBy, expiresAt } = key;
    const createdAt = wallMs();
    const scope: ApiKeyScope = { roles, servers, tools };
    await this.#db.tx([
      RAISE,
      [
        `INSERT INTO api_keys (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, NULL)`,
        [id, name, tenant ?? null, JSON.stringify(scope), digest, keyedBy, createdAt, expiresAt ?? null],
      ],
    ]);
    return { id, name, tenant, ...scope, createdAt, expiresAt, lastUsedAt: undefined, revokedAt: undefined };
  }

  async find(id: string): Promise<StoredApiKey | undefined> {
    const [row] = await this.#db.q<KeyRow>(`SELECT ${COLUMNS} FROM api_keys WHERE id = $1`, [id]);
    return row && { ...keyOf(row), digest: row.digest, keyedBy: row.keyed_by };
  }

  /** The keys, newest first; with `name`, those of one caller. */
  async list(name?: string): Promise<ApiKey[]> {
    const rows = await (name === undefined
      ? this.#db.q<KeyRow>(`SELECT ${COLUMNS} FROM api_keys ${ORDER} LIMIT $1`, [PAGE])
      : this.#db.q<KeyRow>(`SELECT ${COLUMNS} FROM api_keys WHERE name = $2 ${ORDER} LIMIT $1`, [PAGE, name]));
    return rows.map(keyOf);
  }

  /** Revokes the key of this id, or all keys of this name. Returns the ids that were not revoked before. */
  async revoke(idOrName: string): Promise<string[]> {
    const sql = `UPDATE api_keys SET revoked_at = $1
      WHERE revoked_at IS NULL AND (id = $2 OR name = $2) RETURNING id`;
    const [, revoked] = await this.#db.tx([RAISE, [sql, [wallMs(), idOrName]]]);
    return (revoked ?? []).map((row) => String(row['id']));
  }

  /** Notes the use of a key. Two replicas may note it at the same time; the later time stays. */
  async used(id: string, at: number): Promise<void> {
    await this.#db.q(
      'UPDATE api_keys SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)',
      [id, at],
    );
  }

  /** Stores a digest by a newer key of the keyring, so that the older one can be dropped. */
  async rekey(id: string, digest: string, keyedBy: string): Promise<void> {
    await this.#db.q('UPDATE api_keys SET digest = $2, keyed_by = $3 WHERE id = $1', [id, digest, keyedBy]);
  }
}

function keyOf(row: KeyRow): ApiKey {
  const { roles, servers, tools } = JSON.parse(row.scope) as ApiKeyScope;
  return {
    id: row.id,
    name: row.name,
    tenant: row.tenant ?? undefined,
    roles,
    servers,
    tools,
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}
