/** The part of the `node:sqlite` API that the gateway uses. On Node 20, `@photostructure/sqlite` has the same API. */
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
    // Node 20 has no node:sqlite.
  }
  try {
    return (await import(ADDED)) as Driver;
  } catch (cause) {
    throw new Error(
      `SQLite is not available: Node ${process.version} has no node:sqlite and ${ADDED} is not installed`,
      { cause },
    );
  }
}

/** SQLite's messages for the result codes that this code distinguishes. */
const MESSAGES: readonly [RegExp, number][] = [
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

/**
 * The primary result code; 0 if unknown. Found by message too, because errors of the method `all` lack the code on Node
 * 20.
 */
export function primaryCode(error: unknown): number {
  const { errcode, message } = (error ?? {}) as { errcode?: unknown; message?: unknown };
  if (typeof errcode === 'number') return errcode & 0xff;
  return MESSAGES.find(([words]) => words.test(String(message)))?.[1] ?? 0;
}
