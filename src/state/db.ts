/**
 * Rows that must outlive a process. The same SQL runs on both engines, so it uses only their common subset:
 * `$1` placeholders; TEXT, BIGINT and INTEGER; JSON as TEXT; booleans as 0 and 1; times as epoch milliseconds passed
 * in, never `now()`; ids generated here, lower case and of fixed length, so that both engines sort them alike; casts
 * written as `CAST($1 AS BIGINT)` if a parameter stands alone. SQL that differs between the engines is in `sql-dialect.ts`.
 */

export type Value = string | number | null;
export type Row = Record<string, Value>;
export type Statement = readonly [sql: string, params: readonly Value[]];
export type Dialect = 'sqlite' | 'postgres';

export interface Db {
  readonly dialect: Dialect;
  /** A callback for metrics: gets the number of transactions in each commit. Only the embedded engine calls it. */
  committed?: ((transactions: number) => void) | undefined;

  /** Runs one statement in its own transaction. A write is durable when the promise resolves. */
  q<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R[]>;

  /**
   * Runs all statements or none, durable when the promise resolves. The argument is a list and not a callback, so that
   * the embedded engine can commit the work of many callers with one fsync and PostgreSQL can repeat a deadlocked
   * transaction. Conditions are therefore part of the SQL (`ON CONFLICT … WHERE`, `WHERE rev = $n`, `RETURNING`).
   */
  tx(statements: readonly Statement[]): Promise<Row[][]>;

  close(): Promise<void>;
}
