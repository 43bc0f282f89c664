import { wallMs } from '../clock.js';
import type { Db, Row } from '../db.js';
import type { Envelope } from '../envelope-encryption.js';
import type { Expiring } from '../sweeper.js';

/** Maximum number of sign-ins that one caller has under way; a new one replaces the oldest. */
const MOST_PER_OWNER = 20;

const rowOf = (id: string): readonly string[] => ['upstream_logins', id];

/** Sign-ins of users at upstreams that wait for the answer of the authorization server. Each can be taken once. */
export class UpstreamLogins implements Expiring {
  readonly batch = 1_000;
  readonly #db: Db;
  readonly #envelope: Envelope;

  constructor(db: Db, envelope: Envelope) {
    this.#db = db;
    this.#envelope = envelope;
  }

  /** `id` is a digest of the `state` parameter, so that the database contains no usable state. */
  async put(id: string, owner: string, login: object, ttlMs: number): Promise<void> {
    const sealed = this.#envelope.seal(rowOf(id), JSON.stringify(login));
    await this.#db.tx([
      [
        'INSERT INTO upstream_logins (id, owner, secret, expires_at) VALUES ($1, $2, $3, $4)',
        [id, owner, sealed, wallMs() + ttlMs],
      ],
      [
        `DELETE FROM upstream_logins WHERE id IN
           (SELECT id FROM upstream_logins WHERE owner = $1 ORDER BY expires_at DESC, id LIMIT 1000 OFFSET ${MOST_PER_OWNER})`,
        [owner],
      ],
    ]);
  }

  /** Removes and returns a sign-in; undefined if it does not exist, has expired or was taken before. */
  async take<T>(id: string): Promise<T | undefined> {
    const [row] = await this.#db.q<Row & { secret: string; expires_at: number }>(
      'DELETE FROM upstream_logins WHERE id = $1 RETURNING secret, expires_at',
      [id],
    );
    if (!row || row.expires_at <= wallMs()) return undefined;
    return JSON.parse(this.#envelope.open(rowOf(id), row.secret).text) as T;
  }

  async sweep(): Promise<number> {
    const sql = `DELETE FROM upstream_logins WHERE id IN
      (SELECT id FROM upstream_logins WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) RETURNING id`;
    return (await this.#db.q(sql, [wallMs(), this.batch])).length;
  }
}
