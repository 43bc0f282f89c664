import { wallMs } from '../clock.js';
import type { Db } from '../db.js';

/** A user of the built-in authorization server. */
export interface OAuthUser {
  /** The name of a local user, or `<issuer>#<subject>` for a user of another OpenID provider. */
  readonly id: string;
  /** The OpenID provider that authenticates the user; undefined for a local user. */
  readonly issuer: string | undefined;
  /** The name to show. */
  readonly name: string;
  /** The salted hash of a local user's password. */
  readonly password: string | undefined;
  readonly roles: readonly string[];
  readonly tenant: string | undefined;
  readonly createdAt: number;
  readonly signedInAt: number | undefined;
}

export type NewOAuthUser = Pick<OAuthUser, 'id' | 'issuer' | 'name' | 'password' | 'roles' | 'tenant'>;

type UserRow = {
  id: string;
  issuer: string | null;
  name: string;
  password: string | null;
  roles: string;
  tenant: string | null;
  created_at: number;
  signed_in_at: number | null;
};

const COLUMNS = 'id, issuer, name, password, roles, tenant, created_at, signed_in_at';

export class OAuthUsers {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  async get(id: string): Promise<OAuthUser | undefined> {
    const [row] = await this.#db.q<UserRow>(`SELECT ${COLUMNS} FROM oauth_users WHERE id = $1`, [id]);
    return row && userOf(row);
  }

  /** Users in the order of their ids, after the given one. */
  async list(after: string, limit: number): Promise<OAuthUser[]> {
    const sql = `SELECT ${COLUMNS} FROM oauth_users WHERE id > $1 ORDER BY id LIMIT $2`;
    return (await this.#db.q<UserRow>(sql, [after, limit])).map(userOf);
  }

  /** Returns false if the user exists already. */
  async add(user: NewOAuthUser): Promise<boolean> {
    const now = wallMs();
    const rows = await this.#db.q(
      `INSERT INTO oauth_users (id, issuer, name, password, roles, tenant, created_at, updated_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (id) DO NOTHING RETURNING id`,
      [
        ...[user.id, user.issuer ?? null, user.name, user.password ?? null],
        ...[JSON.stringify(user.roles), user.tenant ?? null, now],
      ],
    );
    return rows.length > 0;
  }

  /** Stores a user of another provider with the roles of this sign-in. */
  async signedInElsewhere(user: NewOAuthUser): Promise<void> {
    const now = wallMs();
    await this.#db.q(
      `INSERT INTO oauth_users (id, issuer, name, roles, tenant, created_at, updated_at, signed_in_at)
       VALUES ($1, $2, $3, $4, $5, $6, $6, $6)
       ON CONFLICT (id) DO UPDATE SET name = excluded.name, roles = excluded.roles, tenant = excluded.tenant,
         updated_at = excluded.updated_at, signed_in_at = excluded.signed_in_at`,
      [user.id, user.issuer ?? null, user.name, JSON.stringify(user.roles), user.tenant ?? null, now],
    );
  }

  async signedIn(id: string): Promise<void> {
    await this.#db.q('UPDATE oauth_users SET signed_in_at = $2 WHERE id = $1', [id, wallMs()]);
  }

  /** Returns false if there is no such user. */
  async setPassword(id: string, password: string): Promise<boolean> {
    const sql = 'UPDATE oauth_users SET password = $2, updated_at = $3 WHERE id = $1 RETURNING id';
    return (await this.#db.q(sql, [id, password, wallMs()])).length > 0;
  }

  /** Returns false if there is no such user. */
  async remove(id: string): Promise<boolean> {
    return (await this.#db.q('DELETE FROM oauth_users WHERE id = $1 RETURNING id', [id])).length > 0;
  }
}

const userOf = (row: UserRow): OAuthUser => ({
  id: row.id,
  issuer: row.issuer ?? undefined,
  name: row.name,
  password: row.password ?? undefined,
  roles: JSON.parse(row.roles) as string[],
  tenant: row.tenant ?? undefined,
  createdAt: row.created_at,
  signedInAt: row.signed_in_at ?? undefined,
});
