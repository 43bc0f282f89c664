import type { Db, Row } from '../db.js';
import { type AuditRow, blockOf, entriesOf, hashOf, ROW_COLUMNS } from './audit-rows.js';
import type { AuditSignatures, SignedKind, SignedPlace, StoredSignature } from './audit-signatures.js';

export type Verification =
  | {
      ok: true;
      records: number;
      chains: number;
      /** The signed head of every chain. A later verification can require that they are still there. */
      heads: SignedPlace[];
    }
  | { ok: false; chain: string; seq: number; reason: string };

/** A record that lists the heads of other chains. It proves that the records of those chains existed. */
export interface Checkpoint {
  readonly kind: 'checkpoint';
  readonly heads: readonly SignedPlace[];
}

const CHECKPOINT_START = '{"kind":"checkpoint"';

interface PlaceRow extends Row {
  chain: string;
  seq: number;
  hash: string;
  key: string | null;
  mac: string | null;
}

type Broken = Extract<Verification, { ok: false }>;

interface Trims {
  readonly trimmed: ReadonlyMap<string, SignedPlace>;
  /** Hashes of removed records that remaining records may refer to. */
  readonly hashes: Set<string>;
  readonly broken: Broken | undefined;
  /** Differs after each removal of records. */
  readonly version: string;
}

const PAGE = 500;
const broken = (chain: string, seq: number, reason: string): Broken => ({ ok: false, chain, seq, reason });

/**
 * Reads all records and finds the first one that was changed, inserted, moved, or removed before its retention ended.
 * Gateways may write and remove expired records meanwhile.
 */
export class AuditVerifier {
  readonly #db: Db;
  readonly #signatures: AuditSignatures;

  constructor(db: Db, signatures: AuditSignatures) {
    this.#db = db;
    this.#signatures = signatures;
  }

  /** `expected` are heads that an earlier verification found. */
  async verify(expected: readonly SignedPlace[] = []): Promise<Verification> {
    for (;;) {
      const trims = await this.#trims();
      const found = trims.broken ?? (await this.#verify(trims, expected));
      // A concurrent removal of expired records looks like tampering, so verify again after one.
      if (found.ok || (await this.#trims()).version === trims.version) return found;
    }
  }

  async #verify({ trimmed, hashes }: Trims, expected: readonly SignedPlace[]): Promise<Verification> {
    const heads = new Map<string, SignedPlace>();
    for (const row of await this.#places('audit_heads')) {
      const problem = this.#problem('head', row);
      if (problem) return problem;
      heads.set(row.chain, row);
    }
    const claims = new Map<string, SignedPlace>();
    const claim = (place: SignedPlace): void => {
      if (place.seq > (claims.get(place.chain)?.seq ?? 0)) claims.set(place.chain, place);
    };
    const starts: { chain: string; prev: string }[] = [];
    const seen = new Set<string>();
    let last: SignedPlace = { chain: '', seq: 0, hash: '' };
    let records = 0;
    for (;;) {
      const rows = await this.#db.q<AuditRow>(
        `SELECT ${ROW_COLUMNS} FROM audit WHERE (chain, seq) > ($1, $2)
         ORDER BY chain, seq LIMIT ${PAGE}`,
        [last.chain, last.seq],
      );
      for (const row of rows) {
        const { chain, seq, prev, hash } = row;
        const first = seq - (row.records ?? 1) + 1;
        if (chain !== last.chain) {
          const problem = await this.#end(last, heads);
          if (problem) return problem;
          seen.add(chain);
        }
        const before = chain === last.chain ? last : trimmed.get(chain);
        const block = row.records === null ? undefined : await blockOf(this.#db, row);
        const problem = rowProblem(row, block, before, heads.get(chain));
        if (problem) return broken(chain, first, problem);
        if (!before) starts.push({ chain, prev });
        for (const json of block?.includes(CHECKPOINT_START) ? entriesOf(row, block)!.map((e) => e.json) : [row.json])
          if (json.startsWith(CHECKPOINT_START))
            for (const place of (JSON.parse(json) as Checkpoint).heads) claim(place);
        hashes.add(hash);
        last = { chain, seq, hash };
        records += row.records ?? 1;
      }
      if (rows.length < PAGE) break;
    }
    const ended = await this.#end(last, heads);
    if (ended) return ended;
    const loose = starts.find(({ prev }) => prev !== '' && !hashes.has(prev));
    if (loose) return broken(loose.chain, 1, 'the record that this chain starts from is missing');
    for (const place of [...expected, ...heads.values()]) claim(place);
    const missing = await this.#missing(claims.values(), trimmed);
    if (missing) return missing;
    return { ok: true, records, chains: seen.size, heads: [...heads.values()].map(bare) };
  }

  /** Checks the end of a chain. A chain that grew since its head was read has a newer head. */
  async #end(last: SignedPlace, heads: Map<string, SignedPlace>): Promise<Broken | undefined> {
    if (last.chain === '' || heads.get(last.chain)?.seq === last.seq) return undefined;
    const known = heads.get(last.chain);
    if (known && known.seq > last.seq) {
      return broken(
        last.chain,
        last.seq + 1,
        `the end of the chain is missing: its signed head is record ${known.seq}`,
      );
    }
    const [row] = await this.#db.q<PlaceRow>('SELECT chain, seq, hash, key, mac FROM audit_heads WHERE chain = $1', [
      last.chain,
    ]);
    if (!row) return broken(last.chain, last.seq, 'the chain has no signed head');
    const problem = this.#problem('head', row);
    if (problem) return problem;
    if (row.seq < last.seq)
      return broken(last.chain, row.seq + 1, 'the record comes after the signed head of its chain');
    heads.set(row.chain, row);
    return undefined;
  }

  /** The first place that has neither its record nor an expired one. */
  async #missing(claims: Iterable<SignedPlace>, trimmed: Trims['trimmed']): Promise<Broken | undefined> {
    for (const { chain, seq, hash } of claims) {
      if ((trimmed.get(chain)?.seq ?? 0) >= seq) continue;
      const [row] = await this.#db.q<{ hash: string }>('SELECT hash FROM audit WHERE chain = $1 AND seq = $2', [
        chain,
        seq,
      ]);
      if (!row) return broken(chain, seq, 'the record is missing, although a signature or another chain names it');
      if (row.hash !== hash) return broken(chain, seq, 'the record differs from the one that another chain names');
    }
    return undefined;
  }

  async #trims(): Promise<Trims> {
    const trims = await this.#places('audit_trimmed');
    const anchors = await this.#db.q<StoredSignature & { hash: string } & Row>(
      'SELECT hash, key, mac FROM audit_anchors',
    );
    const trimmed = new Map(trims.map((row) => [row.chain, bare(row)]));
    let problem: Broken | undefined;
    for (const row of trims) problem ??= this.#problem('trim', row);
    for (const { hash, key, mac } of anchors) {
      problem ??= this.#problem('anchor', { chain: '', seq: 0, hash, key, mac });
    }
    return {
      trimmed,
      hashes: new Set([...trims, ...anchors].map(({ hash }) => hash)),
      broken: problem,
      version: JSON.stringify([...trimmed].sort()),
    };
  }

  #places(table: 'audit_heads' | 'audit_trimmed'): Promise<PlaceRow[]> {
    return this.#db.q<PlaceRow>(`SELECT chain, seq, hash, key, mac FROM ${table} ORDER BY chain`);
  }

  #problem(kind: SignedKind, row: SignedPlace & StoredSignature): Broken | undefined {
    const problem = this.#signatures.problem(kind, row, row);
    return problem === undefined ? undefined : broken(row.chain, row.seq, `${WHAT[kind]} ${problem}`);
  }
}

const WHAT: Readonly<Record<SignedKind, string>> = {
  head: 'the head of the chain',
  trim: 'the mark of the last expired record',
  anchor: 'the mark of an expired record that another chain starts from',
};

const bare = ({ chain, seq, hash }: SignedPlace): SignedPlace => ({ chain, seq, hash });

function rowProblem(
  row: AuditRow,
  block: string | undefined,
  before: SignedPlace | undefined,
  head: SignedPlace | undefined,
): string | undefined {
  const { chain, seq, at, json, prev, hash, records } = row;
  const changed = records === null ? 'the record was changed' : `a record up to ${seq} was changed`;
  if (records !== null && (block === undefined || json !== '' || !entriesOf(row, block))) return changed;
  if (seq - (records ?? 1) !== (before?.seq ?? 0)) return 'the previous record is missing';
  if (before && prev !== before.hash) return 'the record does not have the hash of the previous record';
  if (hash !== hashOf(chain, seq, at, block ?? json, prev)) return changed;
  if (head?.seq === seq && head.hash !== hash) return `${changed}: it differs from the signed head`;
  return undefined;
}
