/** The part of `node:sqlite` that is used here; `@photostructure/sqlite` has the same shape on Node 20. */
export interface Prepared {
  all(...params: (string | number | null)[]): unknown[];
}

export interface Connection {
  exec(sql: string): void;
  prepare(sql: string): Prepared;
  function(name: string, fn: () => number): void;
  close(): void;
}

export interface Driver {
  DatabaseSync: new (path: string) => Connection;
}

const BUILT_IN = 'node:sqlite';
const ADDED = '@photostructure/sqlite';

export async function loadDriver(): Promise<Driver> {
  try {
    return (await import(BUILT_IN)) as Driver;
  } catch {
    // Node 20 has none.
  }
  try {
    return (await import(ADDED)) as Driver;
  } catch (cause) {
    throw new Error(`no SQLite: Node ${process.version} has no node:sqlite and ${ADDED} is not installed`, { cause });
  }
}

/** SQLite's own words for the codes that are decided by. */
const WORDS: readonly [RegExp, number][] = [
  [/constraint failed/, 19],
  [/database is locked/, 5],
  [/table is locked/, 6],
  [/out of memory/, 7],
  [/readonly database/, 8],
  [/^interrupted/, 9],
  [/disk I\/O error/, 10],
  [/malformed/, 11],
  [/disk is full/, 13],
  [/unable to open/, 14],
  [/locking protocol/, 15],
  [/not a database/, 26],
];

/** The primary result code, 0 where there is none. The Node 20 driver drops it from errors of `all`: hence the words. */
export function primaryCode(error: unknown): number {
  const { errcode, message } = (error ?? {}) as { errcode?: unknown; message?: unknown };
  if (typeof errcode === 'number') return errcode & 0xff;
  return WORDS.find(([words]) => words.test(String(message)))?.[1] ?? 0;
}
