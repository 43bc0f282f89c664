import { hash } from 'node:crypto';
import type { Db, Row, Statement, Value } from '../db.js';
import { GROUP_MS, type Group } from './audit-queue.js';

/**
 * One record, or a block of records that were written together. A block takes less than a third of the time of its
 * records in rows of their own. The first row of a chain has one record: queries find it by its number.
 */
export interface AuditRow extends Row {
  chain: string;
  /** The number of the record; of a block that of its last record. */
  seq: number;
  /** The time of the record; of a block that of its last record. */
  at: number;
  /** The record. Empty in the row of a block. */
  json: string;
  prev: string;
  hash: string;
  /** The number of records of a block; otherwise null. */
  records: number | null;
}

/** The columns of `AuditRow`. The text of a block is long, and is read by itself. */
export const ROW_COLUMNS = 'chain, seq, at, json, prev, hash, records';

/** One record of a row. */
export interface AuditEntry {
  readonly chain: string;
  readonly seq: number;
  readonly at: number;
  readonly json: string;
  /** The hash of the row. */
  readonly hash: string;
}

/** The hash of a row. It covers the hash of the previous row of the chain. `text` is the record, or the block. */
export const hashOf = (chain: string, seq: number, at: number, text: string, prev: string): string =>
  hash('sha256', `${chain}\n${seq}\n${at}\n${prev}\n${text}`, 'hex');

/** The fewest records of a block: each record of a smaller group has its own row, and a verification can name it. */
const LEAST_IN_BLOCK = 32;
/** The rows of one chain that follow each other. The first follows the row `after` with the hash `prev`. */
export interface AuditRows {
  readonly chain: string;
  readonly after: number;
  readonly prev: string;
  readonly rows: readonly NewRow[];
}

type NewRow = Pick<AuditRow, 'seq' | 'at' | 'json' | 'hash' | 'records'> & { readonly block: string | null };

/** The rows for these groups of records. */
export function rowsOf(chain: string, after: number, before: string, groups: readonly Group[]): AuditRows {
  const rows: NewRow[] = [];
  let seq = after;
  let prev = before;
  const single = (line: string, first: number): void => {
    const at = first + offsetOf(line);
    const json = recordOf(line);
    seq += 1;
    prev = hashOf(chain, seq, at, json, prev);
    rows.push({ seq, at, json, hash: prev, records: null, block: null });
  };
  for (const { text, records, first, last } of groups) {
    if (records < LEAST_IN_BLOCK) {
      for (const line of text.split('\n')) single(line, first);
      continue;
    }
    const own = seq === 0 ? text.indexOf('\n') : -1;
    if (own > 0) single(text.slice(0, own), first);
    const block = text.slice(own + 1);
    const count = own > 0 ? records - 1 : records;
    seq += count;
    prev = hashOf(chain, seq, last, block, prev);
    rows.push({ seq, at: last, json: '', hash: prev, records: count, block });
  }
  return { chain, after, prev: before, rows };
}

const offsetOf = (line: string): number => Number(line.slice(0, line.indexOf(' ')));
const recordOf = (line: string): string => line.slice(line.indexOf(' ') + 1);

/** The records of a block; undefined if the text does not have the number of records that its row names. */
export function entriesOf({ chain, seq, at, hash, records }: AuditRow, block: string): AuditEntry[] | undefined {
  const lines = block.split('\n');
  if (lines.length !== records) return undefined;
  const firstAt = at - offsetOf(lines.at(-1)!);
  const firstSeq = seq - lines.length + 1;
  return lines.map((line, index) => ({
    ...{ chain, seq: firstSeq + index, at: firstAt + offsetOf(line), json: recordOf(line), hash },
  }));
}

/** The text of a block; undefined if its row is gone. */
export async function blockOf(db: Db, { chain, seq }: AuditRow): Promise<string | undefined> {
  const [row] = await db.q<{ block: string | null }>('SELECT block FROM audit WHERE chain = $1 AND seq = $2', [
    chain,
    seq,
  ]);
  return row?.block ?? undefined;
}

/** Numbers of rows of one INSERT: few different texts, because each text is prepared once. */
const SIZES = [64, 16, 4, 1] as const;
/** Parameters of all rows of one INSERT: the chain, the hash of the row before. */
const SHARED = 2;
/** Parameters of one row. Each value is copied to the thread of the database. */
const COLUMNS = 6;
const texts = new Map<number, string>();

function insertText(rows: number): string {
  let text = texts.get(rows);
  if (text === undefined) {
    const row = (i: number): string => {
      const first = SHARED + i * COLUMNS + 1;
      const [seq, at, json, records, block, own] = Array.from({ length: COLUMNS }, (_, k) => `$${first + k}`);
      const prev = i === 0 ? SHARED : first - 1;
      return `($1, ${seq}, ${at}, ${json}, $${prev}, ${own}, ${records}, ${block})`;
    };
    const values = Array.from({ length: rows }, (_, i) => row(i)).join(', ');
    text = `INSERT INTO audit (chain, seq, at, json, prev, hash, records, block) VALUES ${values}
      ON CONFLICT (chain, seq) DO NOTHING`;
    texts.set(rows, text);
  }
  return text;
}

/** Statements that insert the rows. They can be repeated: existing rows stay as they are. */
export function insertRows({ chain, prev: before, rows }: AuditRows): Statement[] {
  const statements: Statement[] = [];
  let prev = before;
  for (let from = 0; from < rows.length; ) {
    const size = SIZES.find((each) => each <= rows.length - from)!;
    const params: Value[] = [chain, prev];
    for (let i = from; i < from + size; i++) {
      const { seq, at, json, records, block, hash } = rows[i]!;
      params.push(seq, at, json, records, block, hash);
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
/** Records that are sorted together. */
const SORTED = 1_000;

/**
 * Reads records in the order of their times, one page of rows at a time. Records of all chains are in one order: blocks
 * of several chains cover the same time, so their records are sorted.
 */
export async function* readEntries(db: Db, range: AuditRange): AsyncGenerator<AuditEntry> {
  const { since = 0, until = Number.MAX_SAFE_INTEGER, newestFirst = false } = range;
  let held: AuditEntry[] = [];
  let added = 0;
  for await (const row of readRows(db, { since, until, newestFirst })) {
    for (const entry of await entriesIn(db, row)) {
      if (entry.at < since || entry.at >= until) continue;
      held.push(entry);
      added += 1;
    }
    if (added < SORTED) continue;
    added = 0;
    held.sort(newestFirst ? (a, b) => order(b, a) : order);
    // Records of later rows come after these.
    const sure = newestFirst ? (at: number) => at >= row.at : (at: number) => at < row.at - GROUP_MS;
    const end = held.findIndex(({ at }) => !sure(at));
    const given = end < 0 ? held : held.slice(0, end);
    held = end < 0 ? [] : held.slice(end);
    yield* given;
  }
  yield* held.sort(newestFirst ? (a, b) => order(b, a) : order);
}

const order = (a: AuditEntry, b: AuditEntry): number =>
  a.at - b.at || (a.chain < b.chain ? -1 : a.chain > b.chain ? 1 : a.seq - b.seq);

async function entriesIn(db: Db, row: AuditRow): Promise<readonly AuditEntry[]> {
  if (row.records === null) return [row];
  const block = await blockOf(db, row);
  // Removed meanwhile, or changed: a verification tells.
  return block === undefined ? [] : (entriesOf(row, block) ?? []);
}

async function* readRows(db: Db, { since, until, newestFirst }: Required<AuditRange>): AsyncGenerator<AuditRow> {
  const [beyond, order] = newestFirst ? ['<', 'DESC'] : ['>', 'ASC'];
  let at = newestFirst ? Number.MAX_SAFE_INTEGER : -1;
  let chain = '';
  let seq = 0;
  for (;;) {
    const rows = await db.q<AuditRow>(
      `SELECT ${ROW_COLUMNS} FROM audit
       WHERE at >= $4 AND at < $5 AND (at, chain, seq) ${beyond} ($1, $2, $3)
       ORDER BY at ${order}, chain ${order}, seq ${order} LIMIT ${PAGE}`,
      [at, chain, seq, since, Math.min(until + GROUP_MS, Number.MAX_SAFE_INTEGER)],
    );
    yield* rows;
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return;
    ({ at, chain, seq } = last);
  }
}
