/**
 * Rows that must outlive a process. One SQL text serves both engines, so it keeps to what they share:
 * `$1` placeholders; TEXT, BIGINT and INTEGER; JSON as TEXT; booleans as 0 and 1; times as epoch milliseconds passed
 * in, never `now()`; ids minted here, lower case and of fixed length, so that both engines sort them alike; casts
 * written as `CAST($1 AS BIGINT)` where a parameter stands alone. What the engines cannot share is in `dialect.ts`.
 */

export type Value = string | number | null;
export type Row = Record<string, Value>;
export type Statement = readonly [sql: string, params: readonly Value[]];
export type Dialect = 'sqlite' | 'postgres';

export interface Db {
  readonly dialect: Dialect;

  /** One statement, a transaction of its own. A write is durable when the promise resolves. */
  q<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R[]>;

  /**
   * All statements or none, durable when the promise resolves. It takes a list and never a callback: that is what lets
   * the embedded engine commit many callers' work with one fsync, and PostgreSQL repeat a deadlocked transaction.
   * Conditions therefore live in the SQL (`ON CONFLICT … WHERE`, `WHERE rev = $n`, `RETURNING`).
   */
  tx(statements: readonly Statement[]): Promise<Row[][]>;

  close(): Promise<void>;
}
