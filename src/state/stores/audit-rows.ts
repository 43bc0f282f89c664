import { hash } from 'node:crypto';
import type { Db, Row, Statement, Value } from '../db.js';

export interface AuditRow extends Row {
  chain: string;
  seq: number;
  at: number;
  json: string;
  prev: string;
  hash: string;
}

/** The hash of a record. It covers the hash of the previous record of the chain. */
export const hashOf = (chain: string, seq: number, at: number, json: string, prev: string): string =>
  hash('sha256', `${chain}\n${seq}\n${at}\n${prev}\n${json}`, 'hex');

/** Numbers of rows of one INSERT: few different texts, because each text is prepared once. */
const SIZES = [64, 16, 4, 1] as const;
/** Parameters of all rows of one INSERT: the chain, the number of the row before, the hash of the row before. */
const SHARED = 3;
/** Parameters of one row: its time, its record, its hash. Each value is copied to the thread of the database. */
const COLUMNS = 3;
const texts = new Map<number, string>();

function insertText(rows: number): string {
  let text = texts.get(rows);
  if (text === undefined) {
    const row = (i: number): string => {
      const first = SHARED + i * COLUMNS + 1;
      const prev = i === 0 ? SHARED : first - 1;
      return `($1, CAST($2 AS BIGINT) + ${i + 1}, $${first}, $${first + 1}, $${prev}, $${first + 2})`;
    };
    const values = Array.from({ length: rows }, (_, i) => row(i)).join(', ');
    text = `INSERT INTO audit (chain, seq, at, json, prev, hash) VALUES ${values} ON CONFLICT (chain, seq) DO NOTHING`;
    texts.set(rows, text);
  }
  return text;
}

/** The rows of one chain that follow each other. The first follows the row `after` with the hash `prev`. */
export interface AuditRows {
  readonly chain: string;
  readonly after: number;
  readonly prev: string;
  readonly rows: readonly Pick<AuditRow, 'at' | 'json' | 'hash'>[];
}

/** Statements that insert the rows. They can be repeated: existing rows stay as they are. */
export function insertRows({ chain, after, prev: before, rows }: AuditRows): Statement[] {
  const statements: Statement[] = [];
  let prev = before;
  for (let from = 0; from < rows.length; ) {
    const size = SIZES.find((each) => each <= rows.length - from)!;
    const params: Value[] = [chain, after + from, prev];
    for (let i = from; i < from + size; i++) {
      const { at, json, hash } = rows[i]!;
      params.push(at, json, hash);
      prev = hash;
    }
    statements.push([insertText(size), params]);
    from += size;
  }
  return statements;
}

export interface AuditRange {
  /** Inclusive, epoch milliseconds. */
  readonly since?: number;
  /** Exclusive, epoch milliseconds. */
  readonly until?: number;
  /** Newest records first. */
  readonly newestFirst?: boolean;
}

const PAGE = 500;

/** Reads records in the order of their times, one page at a time. Records of all chains are in one order. */
export async function* readRows(
  db: Db,
  { since = 0, until = Number.MAX_SAFE_INTEGER, newestFirst = false }: AuditRange,
): AsyncGenerator<AuditRow> {
  const [beyond, order] = newestFirst ? ['<', 'DESC'] : ['>', 'ASC'];
  let at = newestFirst ? Number.MAX_SAFE_INTEGER : -1;
  let chain = '';
  let seq = 0;
  for (;;) {
    const rows = await db.q<AuditRow>(
      `SELECT chain, seq, at, json, prev, hash FROM audit
       WHERE at >= $4 AND at < $5 AND (at, chain, seq) ${beyond} ($1, $2, $3)
       ORDER BY at ${order}, chain ${order}, seq ${order} LIMIT ${PAGE}`,
      [at, chain, seq, since, until],
    );
    yield* rows;
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return;
    ({ at, chain, seq } = last);
  }
}
