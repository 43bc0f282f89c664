import type { Db, Row, Statement } from '../db.js';
import type { AuditSignatures, SignedKind, SignedPlace, StoredSignature } from './audit-signatures.js';

interface SignedRow extends Row {
  chain: string;
  seq: number;
  hash: string;
  key: string | null;
  mac: string | null;
}

const KEEP_NEWEST = `INSERT INTO audit_trimmed (chain, seq, hash, key, mac) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, key = excluded.key, mac = excluded.mac
  WHERE audit_trimmed.seq < excluded.seq`;
const STARTED_FROM = `SELECT a.hash FROM audit a WHERE a.chain = $1 AND a.seq <= $2
  AND EXISTS (SELECT 1 FROM audit s WHERE s.seq = 1 AND s.prev = a.hash)`;
const KEEP_ANCHOR = 'INSERT INTO audit_anchors (hash, key, mac) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING';
const FORGET_ANCHORS = `DELETE FROM audit_anchors WHERE NOT EXISTS
  (SELECT 1 FROM audit s WHERE s.seq = 1 AND s.prev = audit_anchors.hash)`;

/** The tables with signatures: how their rows are read and written again. */
const SIGNED: readonly { kind: SignedKind; table: string; columns: string; row: string }[] = [
  { kind: 'head', table: 'audit_heads', columns: 'chain, seq, hash', row: 'chain = $3 AND seq = $4 AND hash = $5' },
  { kind: 'trim', table: 'audit_trimmed', columns: 'chain, seq, hash', row: 'chain = $3 AND seq = $4 AND hash = $5' },
  {
    kind: 'anchor',
    table: 'audit_anchors',
    columns: `'' AS chain, 0 AS seq, hash`,
    row: `'' = $3 AND CAST($4 AS INTEGER) = 0 AND hash = $5`,
  },
];

const RESIGNED = 500;

/**
 * Removes records past their retention, from the start of their chains, and keeps signed hashes that the remaining
 * records refer to, so that the rest can still be verified.
 */
export class AuditRetention {
  readonly batch = 500;
  readonly #db: Db;
  readonly #signatures: AuditSignatures;
  readonly #keepMs: number;

  constructor(db: Db, signatures: AuditSignatures, keepMs = Number.POSITIVE_INFINITY) {
    this.#db = db;
    this.#signatures = signatures;
    this.#keepMs = keepMs;
  }

  async sweep(now: number): Promise<number> {
    await this.#renewSignatures();
    if (!Number.isFinite(this.#keepMs)) return 0;
    const old = await this.#db.q<SignedPlace & { records: number | null } & Row>(
      'SELECT chain, seq, hash, records FROM audit WHERE at <= $1 ORDER BY at, chain, seq LIMIT $2',
      [now - this.#keepMs, this.batch],
    );
    const upTo = new Map<string, SignedPlace>();
    let removed = 0;
    for (const place of old) {
      if (place.seq > (upTo.get(place.chain)?.seq ?? 0)) upTo.set(place.chain, place);
      removed += place.records ?? 1;
      if (removed >= this.batch) break;
    }
    const list: Statement[] = [];
    for (const place of upTo.values()) list.push(...(await this.#removal(place)));
    if (list.length > 0) await this.#db.tx([...list, [FORGET_ANCHORS, []]]);
    return removed;
  }

  async #removal(place: SignedPlace): Promise<Statement[]> {
    const { chain, seq, hash } = place;
    const { key, mac } = this.#signatures.sign('trim', place);
    const anchors = await this.#db.q<{ hash: string }>(STARTED_FROM, [chain, seq]);
    return [
      [KEEP_NEWEST, [chain, seq, hash, key, mac]],
      ...anchors.map((anchor): Statement => {
        const signed = this.#signatures.sign('anchor', { chain: '', seq: 0, hash: anchor.hash });
        return [KEEP_ANCHOR, [anchor.hash, signed.key, signed.mac]];
      }),
      ['DELETE FROM audit WHERE chain = $1 AND seq <= $2', [chain, seq]],
      ['DELETE FROM audit_heads WHERE chain = $1 AND seq <= $2', [chain, seq]],
    ];
  }

  /** Signs the marks of a version that did not sign. */
  async adopt(): Promise<void> {
    await this.#signAgain('key IS NULL', [], () => true);
  }

  /**
   * Signs valid rows with the key that is active now, so that a replaced key can be removed. An invalid signature stays,
   * and a verification reports it.
   */
  async #renewSignatures(): Promise<void> {
    const { key } = this.#signatures;
    await this.#signAgain(
      'key <> $1',
      [key],
      (kind, row) => this.#signatures.problem(kind, row, row as StoredSignature) === undefined,
    );
  }

  async #signAgain(
    which: string,
    params: readonly string[],
    valid: (kind: SignedKind, row: SignedRow) => boolean,
  ): Promise<void> {
    for (const { kind, table, columns, row: matches } of SIGNED) {
      const rows = await this.#db.q<SignedRow>(
        `SELECT ${columns}, key, mac FROM ${table} WHERE ${which} LIMIT ${RESIGNED}`,
        params,
      );
      const updates = rows
        .filter((row) => valid(kind, row))
        .map((row): Statement => {
          const { key, mac } = this.#signatures.sign(kind, row);
          return [`UPDATE ${table} SET key = $1, mac = $2 WHERE ${matches}`, [key, mac, row.chain, row.seq, row.hash]];
        });
      if (updates.length > 0) await this.#db.tx(updates);
    }
  }
}
