import { createHash } from 'node:crypto';
import { wallMs } from '../clock.js';
import type { Db, Row } from '../db.js';
import { type Envelope, keyIdOf } from '../envelope-encryption.js';

/** Identifies a registration of the gateway as an OAuth client. A client of one issuer is never used at another. */
export interface UpstreamClientKey {
  readonly issuer: string;
  readonly upstream: string;
  readonly redirectUri: string;
}

const idOf = ({ issuer, upstream, redirectUri }: UpstreamClientKey): string =>
  createHash('sha256')
    .update(JSON.stringify([issuer, upstream, redirectUri]))
    .digest('hex');

/**
 * Maximum number of registrations per upstream; the oldest are removed. A server could otherwise name a new issuer each
 * time and fill the table.
 */
const MOST_PER_UPSTREAM = 20;

const rowOf = (id: string): readonly string[] => ['upstream_clients', id];

/** The gateway's registrations as an OAuth client at authorization servers, encrypted at rest (S18). */
export class UpstreamClients {
  readonly #db: Db;
  readonly #envelope: Envelope;

  constructor(db: Db, envelope: Envelope) {
    this.#db = db;
    this.#envelope = envelope;
  }

  async get<T>(key: UpstreamClientKey): Promise<T | undefined> {
    const id = idOf(key);
    const [row] = await this.#db.q<Row & { secret: string }>('SELECT secret FROM upstream_clients WHERE id = $1', [id]);
    return row && (JSON.parse(this.#envelope.open(rowOf(id), row.secret).text) as T);
  }

  /**
   * Stores a client unless one is stored already. Returns the stored client: if two replicas register at the same time,
   * both use the first client.
   */
  async add<T extends object>(key: UpstreamClientKey, client: T): Promise<T> {
    const id = idOf(key);
    await this.#db.tx([
      [
        `INSERT INTO upstream_clients (id, issuer, upstream, secret, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO NOTHING`,
        [id, key.issuer, key.upstream, this.#envelope.seal(rowOf(id), JSON.stringify(client)), wallMs()],
      ],
      [
        `DELETE FROM upstream_clients WHERE id IN (SELECT id FROM upstream_clients WHERE upstream = $1
           ORDER BY created_at DESC, id LIMIT 1000 OFFSET ${MOST_PER_UPSTREAM})`,
        [key.upstream],
      ],
    ]);
    return (await this.get<T>(key)) ?? client;
  }

  async remove(key: UpstreamClientKey): Promise<void> {
    await this.#db.q('DELETE FROM upstream_clients WHERE id = $1', [idOf(key)]);
  }

  /** Encrypts the rows under an old key again. Returns the number of these rows, and the number of unreadable rows. */
  async rotate(): Promise<{ rewritten: number; failed: number }> {
    const result = { rewritten: 0, failed: 0 };
    for (const { id, secret } of await this.#db.q<{ id: string; secret: string }>(
      'SELECT id, secret FROM upstream_clients',
    )) {
      if (keyIdOf(secret) === this.#envelope.keyId) continue;
      try {
        const sealed = this.#envelope.seal(rowOf(id), this.#envelope.open(rowOf(id), secret).text);
        const sql = 'UPDATE upstream_clients SET secret = $3 WHERE id = $1 AND secret = $2 RETURNING id';
        if ((await this.#db.q(sql, [id, secret, sealed])).length > 0) result.rewritten++;
      } catch {
        result.failed++;
      }
    }
    return result;
  }
}
